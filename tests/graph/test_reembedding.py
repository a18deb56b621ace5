"""Embedding a folder anew, cut short: the next call goes on, and never with another model's vectors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import Folder
from phasegraph.graph.corpus.reembedding import FOLDER


class Model:
    """A model that stops answering after so many passages."""

    def __init__(self, name: str, turn: float, most: int = 10**6) -> None:
        self.texts: list[str] = []
        self.turn, self.most = turn, most
        self.model = EmbeddingModel(SimpleNamespace(model_name=name), lambda query: [1.0, 0.0], self.passages)

    def passages(self, records: Any) -> Any:
        if len(self.texts) + len(records) > self.most:
            raise OSError("no route to host")
        self.texts += [one.text for one in records]
        numbers = [sum(one.text.encode()) % 97 for one in records]
        return [[np.cos(self.turn * one), np.sin(self.turn * one)] for one in numbers]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.reembedding.BATCH", 2)
    monkeypatch.setattr("phasegraph.graph.corpus.reembedding.PART", 4)


def opened(path: Path, model: Model | None = None) -> Corpus:
    folder = Folder(path)
    return Corpus(folder.load()[0], None if model is None else model.model, folder=folder)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder of twelve passages."""
    rows = [{"id": f"p{n}", "text": f"Ada met Bo {n}."} for n in range(12)]
    first = Model("first", 0.1)
    records = [SimpleNamespace(text=one["text"]) for one in rows]
    index = GraphIndex.build(rows, embeddings=first.passages(records))
    Corpus(index, made_by=first.model.identity).save(tmp_path / "folder", {"vectors": True, "vector_store": "flat"})
    return tmp_path / "folder"


def cut_short(path: Path, model: Model) -> None:
    with pytest.raises(OSError, match="no route"):
        opened(path).embed_anew(model.model, model.model.passages, False)


def test_a_call_that_was_cut_short_goes_on(path: Path) -> None:
    cut_short(path, Model("second", 0.2, most=9))
    assert opened(path).settings["model"]["name"].endswith("first")  # type: ignore[index]
    corpus, model = opened(path), Model("second", 0.2)
    corpus.replace(["p1"], [{"id": "p1", "title": "", "text": "Other words.", "metadata": {}}], [[1.0, 0.0]])
    corpus.embed_anew(model.model, model.model.passages, False)
    # the first is embedded again, to see that the model is the same
    assert sorted(model.texts) == sorted(["Ada met Bo 0.", "Other words.", *(f"Ada met Bo {n}." for n in range(8, 12))])
    whole = Model("second", 0.2).passages([one for one in corpus.index.records.values()])
    for one in (corpus, opened(path)):
        assert np.allclose(one.index.graph.embeddings, whole, atol=1e-6)
    assert not (path / FOLDER).exists()


@pytest.mark.parametrize("other", [Model("third", 0.3), Model("second", 0.3)])
def test_vectors_of_another_model_are_not_taken(path: Path, other: Model) -> None:
    """Also of one that has the same name."""
    cut_short(path, Model("second", 0.2, most=9))
    other.texts[:] = []
    corpus = opened(path)
    corpus.embed_anew(other.model, other.model.passages, False)
    assert set(other.texts) == {f"Ada met Bo {n}." for n in range(12)}
    whole = Model("x", 0.3).passages(list(corpus.index.records.values()))
    assert np.allclose(opened(path).index.graph.embeddings, whole, atol=1e-6)
    assert not (path / FOLDER).exists()


def test_a_damaged_part_is_embedded_again_and_a_full_disk_is_gone_on_without(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(path, Model("second", 0.2, most=9))
    file = next((path / FOLDER / "000000").glob("vectors*"))
    file.write_bytes(file.read_bytes()[:-1])
    model = Model("second", 0.2, most=6)
    cut_short(path, model)
    assert "Ada met Bo 0." in model.texts

    def full(*given: Any, **more: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("phasegraph.graph.corpus.reembedding.write_bundle", full)
    last = Model("second", 0.2)
    opened(path).embed_anew(last.model, last.model.passages, False)
    assert opened(path).settings["model"]["name"].endswith("second")  # type: ignore[index]
