"""Passages in a folder, without a framework."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError, InvalidTypeError, PhasegraphWarning, StoreError
from phasegraph.graph.corpus.change import Change
from phasegraph.retrieval.passage_folder import PassageFolder

FOLDERS = Path(__file__).parents[1] / "folders"
QUESTIONS = ["Who met Bo?", "Letter 3", "Cy sang"]


def model(name: str = "plain", size: int = 8) -> EmbeddingModel:
    """A model whose vectors are its own."""
    turn = sum(name.encode())

    def vector(text: str) -> list[float]:
        return np.random.default_rng((turn, *text.encode())).standard_normal(size).tolist()

    return EmbeddingModel(
        SimpleNamespace(model_name=name), vector, lambda records: [vector(one.content) for one in records]
    )


def pages(*numbers: int, said: str = "met") -> list[dict[str, Any]]:
    return [
        {"id": f"p{n}", "title": f"Letter {n}", "text": f"Ada {said} Bo {n}.", "metadata": {"source": f"{n % 4}.md"}}
        for n in numbers
    ]


class CoreFolder:
    """What ``tests/folders/write.py`` keeps for later versions."""

    def write_folder(self, path: Path) -> None:
        """A folder with changes beside its index."""
        folder = PassageFolder.create(path, pages(*range(6)), model(), progress=False)
        folder.delete(["p2"])
        folder.sync(pages(8, said="saw"), progress=False)

    def opened(self, path: Path) -> PassageFolder:
        """Open the folder."""
        return PassageFolder.open(path, model())

    def answers(self, folder: PassageFolder) -> list[list[str]]:
        """What the walk finds."""
        source = folder.corpus.source("graph")
        return [list(source.search(question, 5, {}).ids) for question in QUESTIONS]

    def names_of(self, answers: Sequence[Any]) -> list[Any]:
        """The answers themselves."""
        return list(answers)


def test_a_folder_that_a_version_before_this_one_wrote_opens_and_changes(tmp_path: Path) -> None:
    archives, suite = sorted(FOLDERS.glob("core-*.zip")), CoreFolder()
    assert "core-0.1.0.zip" in {one.name for one in archives}
    for archive in archives:
        place = tmp_path / archive.stem
        shutil.unpack_archive(archive, place)
        expected = json.loads((place / "expected.json").read_text())
        folder = suite.opened(place / "corpus")
        assert folder.ids() == expected["ids"]
        assert suite.answers(folder) == expected["answers"]
        folder.sync(pages(9), progress=False)
        folder.delete(["p3"])
        assert set(suite.opened(place / "corpus").ids()) == set(folder.ids()) != set(expected["ids"])


def test_another_model_is_refused_with_both_names(tmp_path: Path) -> None:
    PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), model(), progress=False)
    with pytest.raises(InvalidInputError, match=r"SimpleNamespace plain.*SimpleNamespace other.*cosine"):
        PassageFolder.open(tmp_path / "folder", model("other"))
    with pytest.raises(InvalidTypeError, match="EmbeddingModel"):
        PassageFolder.create(tmp_path / "other", pages(1), "minilm", progress=False)  # type: ignore[arg-type]


def test_reembedding_that_is_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.reembedding.BATCH", 2)
    monkeypatch.setattr("phasegraph.graph.corpus.reembedding.PART", 2)
    folder = PassageFolder.create(tmp_path / "folder", pages(*range(8)), model(), progress=False)
    ids, made = folder.ids(), list[str]()

    def counting(stops: int | None) -> EmbeddingModel:
        fresh = model("fresh", 12)

        def passages(records: Sequence[Any]) -> Any:
            if stops is not None and len(made) >= stops:
                raise KeyboardInterrupt
            made.extend(one.id for one in records)
            return fresh.passages(records)

        return EmbeddingModel(fresh.model, fresh.query, passages)

    with pytest.raises(KeyboardInterrupt):
        folder.reembed(counting(4), progress=False)
    assert PassageFolder.open(tmp_path / "folder", model()).ids() == ids
    made.clear()
    again = PassageFolder.open(tmp_path / "folder")
    again.reembed(counting(None), progress=False)
    assert len(made) <= 5  # four that were not there, and perhaps the first again, to see that it is the same model
    assert np.asarray(again.corpus.index.graph.embeddings).shape == (8, 12)
    assert PassageFolder.open(tmp_path / "folder", model("fresh", 12)).ids() == ids


def test_a_read_only_folder_opens_and_refuses_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), model(), progress=False)

    def refused(*given: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("phasegraph._support.files._lock", refused)  # a superuser may write where the bits forbid it
    folder = PassageFolder.open(tmp_path / "folder", model())
    assert folder.documents() == {"1.md": 1, "2.md": 1, "3.md": 1}
    assert len(folder.corpus.source("graph").search("Who met Bo?", 5, {})) == 3
    with pytest.raises(StoreError, match="Read-only file system"):
        folder.delete(["p1"])


def test_bad_input_is_named(tmp_path: Path) -> None:
    folder = PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), progress=False)
    with pytest.warns(PhasegraphWarning, match="no passage matches .*; 0 deleted"):
        assert folder.delete(where={"source": "9.md"}) == 0
    with pytest.warns(PhasegraphWarning) as said:
        assert folder.ids(where={"sorce": "1.md"}) == []  # codespell:ignore sorce
    assert "did you mean 'source'" in str(said[0].message)
    with pytest.raises(InvalidInputError, match="allow_empty=True"):
        folder.sync([], full=True)
    with pytest.raises(InvalidInputError, match=r"where\['source'\]"):
        folder.delete(where={"source": None})
    with pytest.raises(InvalidInputError, match="either ids or where"):
        folder.delete()
    assert len(folder.ids()) == 3


def test_a_sync_that_is_refused_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), model(), progress=False)

    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Change, "write", full)
    with pytest.raises(StoreError, match=r"nothing was changed.*No space left"):
        folder.sync(pages(1, 2, 7), full=True, progress=False)
    assert folder.ids() == PassageFolder.open(tmp_path / "folder", model()).ids() == ["p1", "p2", "p3"]


def test_near_duplicates_of_a_folder(tmp_path: Path) -> None:
    text = "Ada met Bo in Oslo in the year in which the engine was made, and Cy sang of it."
    rows = [{"id": str(n), "text": text + " Dee." * n, "metadata": {"source": f"{n}.md"}} for n in range(2)]
    folder = PassageFolder.create(tmp_path / "folder", rows, progress=False)
    (pair,) = folder.near_duplicates(0.7)
    assert (pair.first, pair.second) == ("0.md", "1.md")
