"""Write a folder of this version for the tests of later ones, which must open it.

    python tests/folders/write.py langchain|llama_index|core

writes ``tests/folders/FRAMEWORK-VERSION.zip``: the folder, with an index and two changes, and the answers to expect.
Run it for every release, and for every change of the format; never write an archive of another version anew.
Write the archives ``FRAMEWORK-VERSION-chroma.zip`` with the lowest Chroma that the bounds allow, because a Chroma opens
no folder of a newer one.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUITES: dict[str, tuple[str | None, str]] = {
    "langchain": ("langchain-phasegraph", "TestLangChain"),
    "llama_index": ("llama-index-retrievers-phasegraph", "TestLlamaIndex"),
    "core": (None, "CoreFolder"),
}


def suite_of(framework: str) -> Any:
    """The tests of a framework's retrievers."""
    package, name = SUITES[framework]
    tests = ROOT / "tests" / "retrieval" if package is None else ROOT / "integrations" / package / "tests"
    sys.path[:0] = [str(ROOT), str(tests)]
    file = "test_passage_folder.py" if package is None else "test_corpus.py"
    spec = importlib.util.spec_from_file_location("suite", tests / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)()


def main() -> None:
    """Write the archive."""
    framework = sys.argv[1]
    suite, place = suite_of(framework), Path(tempfile.mkdtemp())
    suite.write_folder(place / "corpus")
    retriever = suite.opened(place / "corpus")
    expected = {"ids": retriever.ids(), "answers": suite.names_of(suite.answers(retriever))}
    (place / "expected.json").write_text(json.dumps(expected, indent=1))
    to = ROOT / "tests" / "folders" / f"{framework}-{version('phasegraph')}"
    print(shutil.make_archive(str(to), "zip", place))
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
