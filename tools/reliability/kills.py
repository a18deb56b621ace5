"""Kill a process within a sync, a watch, a merge, a deletion or an embedding anew, before any of its writes to disk.

    python tools/reliability/kills.py [--kills 200] [--command sync ...]

Each kill takes a copy of a folder, forks, and ends the child before the n-th file is replaced, removed or synced to
disk: as a power cut or `kill -9` would. The folder must then open as it was before the command or after it, and the
same command must complete it. The kills are spread over the writes of each command. Prints how many left the old and
the new folder; an error ends with code 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import PhasegraphWarning
from phasegraph.graph.corpus.corpus import Folder
from phasegraph.retrieval.passage_folder import PassageFolder

CALLS = ("replace", "unlink", "rmdir", "fsync")
"""Functions of ``os`` before which a process is killed."""
KILLED = 9


def model(name: str) -> EmbeddingModel:
    """A model whose vectors are its own."""
    turn = sum(name.encode())

    def vector(text: str) -> list[float]:
        return np.random.default_rng((turn, *text.encode())).standard_normal(8).tolist()

    return EmbeddingModel(
        SimpleNamespace(model_name=name), vector, lambda records: [vector(one.content) for one in records]
    )


def pages(*numbers: int, said: str = "met") -> list[dict[str, Any]]:
    """Passages of documents."""
    return [
        {"id": f"p{n}", "title": f"Ada {n}", "text": f"Ada {said} Bo {n}.", "metadata": {"source": f"{n}.md"}}
        for n in numbers
    ]


def sync(place: Path) -> None:
    """New, changed and deleted documents in one sync."""
    PassageFolder.open(place / "folder", model("one")).sync([*pages(1, 2), *pages(3, 9, said="saw")], full=True)


def watch(place: Path) -> None:
    """What a watch does after a change of files."""
    from phasegraph.apps.cli.syncing import FileSync

    FileSync(place / "files", place / "folder", model("one"), None).sync()


def merge(place: Path) -> None:
    """Merge the changes of the folder into its index."""
    Folder(place / "folder").merge(1)


def delete(place: Path) -> None:
    """Delete a document."""
    PassageFolder.open(place / "folder").delete(where={"source": "2.md"})


def reembed(place: Path) -> None:
    """Embed all passages anew."""
    PassageFolder.open(place / "folder").reembed(model("two"), progress=False)


COMMANDS: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (sync, watch, merge, delete, reembed)
}  # fmt: skip


def prepare(place: Path) -> None:
    """A folder with a change beside its index, and files that differ from it."""
    PassageFolder.create(place / "folder", pages(*range(5)), model("one"), progress=False)
    PassageFolder.open(place / "folder", model("one")).sync(pages(5))
    (place / "files").mkdir()
    for number in (1, 7):
        (place / "files" / f"{number}.md").write_text(f"# Ada {number}\n\nAda met Bo {number} again.")


def state_of(place: Path) -> tuple[Any, ...]:
    """Everything that a folder says: passages, vectors and model."""
    index, _ = Folder(place / "folder").load()
    folder = Folder(place / "folder")
    folder.load()
    texts = tuple((name, one.text) for name, one in index.records.items())
    return texts, np.asarray(index.graph.embeddings).tobytes(), str(folder.settings.get("model"))


def check(holds: bool, said: str) -> None:
    """Raise AssertionError where something does not hold."""
    if not holds:
        raise AssertionError(said)


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Do the work in a child that is killed before its n-th write; whether it was killed."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, KILLED):
            raise AssertionError(f"the child ended with {code}")
        return code == KILLED
    left = iter(range(step))

    def dies(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **more: Any) -> Any:
            if next(left, None) is None:
                os._exit(KILLED)
            return call(*given, **more)

        return called

    try:
        for name in CALLS:
            setattr(os, name, dies(getattr(os, name)))
        work()
    except BaseException as error:  # noqa: BLE001 - the parent only sees the code
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)
    os._exit(0)


def kills(command: str, count: int, place: Path) -> Iterator[str]:
    """Kill a command at so many of its writes, evenly spread; "old" or "new" for each kill."""
    work, first = COMMANDS[command], place / f"{command}-first"
    first.mkdir()
    prepare(first)
    old, writes = state_of(first), 0
    whole = place / f"{command}-whole"
    shutil.copytree(first, whole)
    counted = []
    plain = {name: getattr(os, name) for name in CALLS}
    for name, call in plain.items():
        setattr(os, name, lambda *given, call=call, **more: counted.append(1) or call(*given, **more))
    try:
        work(whole)
    finally:
        for name, call in plain.items():
            setattr(os, name, call)
    new, writes = state_of(whole), len(counted)
    if command != "merge":
        check(new != old, f"{command} changes nothing")
    for step in sorted({round(one) for one in np.linspace(0, writes - 1, min(count, writes))}):
        copied = place / f"{command}-{step:04d}"
        shutil.copytree(first, copied)
        check(killed_at(step, lambda: work(copied)), f"{command}: it was not killed at write {step}")  # noqa: B023
        found = state_of(copied)
        check(found in (old, new), f"{command}: killed at write {step}, the folder is neither old nor new")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PhasegraphWarning)  # a deletion that was made finds nothing to delete
            work(copied)
        check(state_of(copied) == new, f"{command}: killed at write {step}, it cannot be completed")
        shutil.rmtree(copied)
        yield "old" if found == old else "new"


def main() -> None:
    """Kill and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--command", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    options = parser.parse_args()
    place, done = Path(tempfile.mkdtemp()), 0
    for command in options.command:
        outcomes = list(kills(command, -(-options.kills // len(options.command)), place))
        done += len(outcomes)
        print(f"{command}: {len(outcomes)} kills, {outcomes.count('old')} old and {outcomes.count('new')} new")
    shutil.rmtree(place)
    print(f"{done} kills, no folder lost or mixed")


if __name__ == "__main__":
    main()
