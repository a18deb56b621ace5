"""A filter over a corpus that changes: the passages it lets through and the search are of one state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.lookup import CorpusLookup


def _passage(name: str, text: str, team: str) -> dict[str, Any]:
    return {"id": name, "title": "", "text": text, "metadata": {"team": team}}


@pytest.mark.parametrize("part", ["graph", "bm25"])
def test_a_passage_that_goes_to_another_tenant_meanwhile_is_searched_as_it_was(part: Any) -> None:
    rows = [_passage(f"p{row}", f"Ada {row} met Bo {row} in Oslo.", "red") for row in range(4)]
    corpus = Corpus(GraphIndex.build(rows))
    lookup, source = CorpusLookup(corpus, lambda record: record), corpus.source(part)

    def passes(records: Sequence[Any]) -> list[int]:
        rows = [row for row, one in enumerate(records) if one.metadata["team"] == "red"]
        if corpus.index.records["p1"].metadata["team"] == "red":
            corpus.replace([], [_passage("p1", "Zoe Quist sings in Zanzibar.", "blue")])
        return rows

    narrowed = lookup.within(source, "red", passes)
    assert "p1" in narrowed.search("Ada 1 met Bo 1", 5, {}).ids
    assert not {"p1"} & set(narrowed.search("Zoe Quist sings in Zanzibar", 5, {}).ids)
    again = lookup.within(source, "red", passes)  # the state is another one now
    for query in ("Ada 1 met Bo 1", "Zoe Quist sings in Zanzibar"):
        assert "p1" not in again.search(query, 5, {}).ids


def test_index_and_graph_of_a_corpus_are_of_one_state() -> None:
    corpus = Corpus(GraphIndex.build([_passage("a", "Ada met Bo.", "red")]))
    before = corpus.state
    corpus.replace([], [_passage("b", "Cy met Dee.", "red")])
    assert [len(one.index.records) for one in (before, corpus.state)] == [1, 2]
    assert [one.graph.graph.passages for one in (before, corpus.state)] == [("a",), ("a", "b")]
    assert corpus.index is corpus.state.index
