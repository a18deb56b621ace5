"""An index from which all passages were deleted: it keeps its settings, and can be filled again."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasegraph.errors import InvalidInputError
from phasegraph.graph import (
    EdgeWeights,
    EntityGraph,
    GraphIndex,
    GraphSource,
    NameSynonyms,
    graph_from_extractions,
    load_graph,
)
from phasegraph.graph.corpus.change import Change, joined
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index import graph_index
from phasegraph.graph.walk.walker import prepare

ROWS = [
    {"id": "a", "title": "Ada", "text": "Ada met the Engine of Bo.", "metadata": {"source": "x"}},
    {"id": "b", "title": "Bo", "text": "Bo sang.", "metadata": {}},
]
VECTORS = np.eye(2, 3, dtype=np.float32)
WEIGHTS = EdgeWeights(synonym=0.5)


def built(rows: Any = ROWS, vectors: Any = VECTORS, **more: Any) -> GraphIndex:
    """An index with settings that are not the usual ones."""
    return GraphIndex.build(
        rows, embeddings=vectors, known_names=["Engine"], weights=WEIGHTS, tokenizer="german", **more
    )


def emptied(index: GraphIndex) -> GraphIndex:
    """The index after a change that deletes all passages."""
    empty = Change(tuple(index.records)).made_in(index)
    assert (list(empty.records), empty.graph.passages, empty.log) == ([], (), None)
    return empty


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("vectors", [None, VECTORS])
def test_an_index_that_is_filled_again_is_the_index_of_a_build(
    vectors: Any, logged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = built(vectors=vectors)
    if logged:
        monkeypatch.setattr(graph_index, "LOGGED", 0)
        index = index.replace(["a"], None)
        assert index.log is not None
    empty = emptied(index)
    empty.save(tmp_path / "index")
    for one in (empty, emptied(empty), copy.deepcopy(empty), *(GraphIndex.load(tmp_path / "index") for _ in range(2))):
        new, found = [{**ROWS[0], "id": "c"}], None if vectors is None else VECTORS[1:]
        filled, whole = one.add(new, embeddings=found), built(new, found)
        assert filled.known_names == whole.known_names
        assert filled.records["c"] == whole.records["c"]
        assert pickle.dumps(filled.graph.weights) == pickle.dumps(whole.graph.weights)
        assert filled.graph.entities == whole.graph.entities
        for name in ("mentions", "homes", "facts", "synonyms", "adjacency"):
            for part in ("data", "indices", "indptr"):
                found, wanted = (getattr(getattr(one.graph, name), part) for one in (filled, whole))
                assert (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes()), name
        assert filled.graph.lexical is not None
        assert filled.graph.lexical.tokenizer == "german"


def test_changes_that_empty_and_fill_are_joined_to_the_same_index() -> None:
    index = built(vectors=None)
    changes = [Change(("a",)), Change(("b",)), Change((), ({**ROWS[1], "metadata": {}},))]
    stepwise = index
    for one in changes:
        stepwise = one.made_in(stepwise)
    (together,) = joined(changes)
    assert list(together.made_in(index).records) == list(stepwise.records) == ["b"]
    assert together.made_in(index).graph.entities == stepwise.graph.entities
    assert not list(joined(changes[:2])[0].made_in(index).records)


def test_sources_over_an_empty_graph_find_nothing(tmp_path: Path) -> None:
    empty = emptied(built())
    empty.save(tmp_path / "index")
    for graph in (empty.graph, load_graph(tmp_path / "index"), EntityGraph((), (), None, None)):
        prepare(GraphSource(graph))
        for source in (GraphSource(graph), LexicalSource(empty.graph), VectorSource(empty.graph, embedder=unit)):
            for limit in (5, None):
                assert not source.search("Who met Ada?", limit, {}).ids
            assert not source.within(["a"]).search("Who met Ada?", 5, {}).ids


def unit(query: str) -> list[float]:
    """The vector of every query."""
    return [1.0, 0.0, 0.0]


def test_what_does_not_fit_an_empty_index_is_refused() -> None:
    empty = emptied(built())
    with pytest.raises(InvalidInputError, match="'a' is not in the index"):
        empty.replace(["a"], ROWS)
    with pytest.raises(InvalidInputError, match=r"embeddings= is missing"):
        empty.add(ROWS)
    with pytest.raises(InvalidInputError, match=r"must have shape \(2, 3\)"):
        empty.add(ROWS, embeddings=np.eye(2))
    with pytest.raises(InvalidInputError, match="passages is empty"):
        empty.add([])
    with pytest.raises(InvalidInputError, match="passages is empty"):
        graph_from_extractions([], [])
    with pytest.raises(InvalidInputError, match="'zz' is not in the index"):
        Change(("a", "zz")).made_in(built())
    other = empty.reembedded(np.empty((0, 2)))
    assert other.add(ROWS, embeddings=np.eye(2)).graph.embeddings is not None


def test_embedded_names_are_kept() -> None:
    def embed(names: Any) -> Any:
        return np.array([[len(name), 1.0] for name in names])

    empty = emptied(built(synonyms=NameSynonyms.of(embed)))
    assert empty.synonyms is not None
    filled = empty.replace([], ROWS, embeddings=VECTORS)
    whole = built(synonyms=NameSynonyms.of(embed))
    assert filled.synonyms is not None
    assert (filled.graph.synonyms != whole.graph.synonyms).nnz == 0
