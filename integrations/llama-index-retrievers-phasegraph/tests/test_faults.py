"""Faults of sources: each costs itself, is reported, and the rest is as if it had never been there."""

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import Listed, hits, ids_of, listed

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
    HitFields,
    SourceSpec,
)
from phasegraph import InvalidTypeError, Ranking

GOOD = {f"p{i}": 1.0 - i / 10 for i in range(8)}


def test_passages_that_a_narrowed_graph_must_not_name_are_no_answer():
    """Fails closed: a source of one's own that does not keep to what it was narrowed to."""

    class Careless:
        depends_on = ()

        def search(self, query, limit, upstream):
            return Ranking("graph", ["blue", "red"], [2.0, 1.0])

        def within(self, allowed):
            return self

        def passage_ids(self):
            return ("blue", "red")

    nodes = [TextNode(id_=name, text=name, metadata={"colour": name}) for name in ("blue", "red")]
    red = MetadataFilters(filters=[MetadataFilter(key="colour", value="red")])
    walk = EntityGraphRetriever(Careless(), nodes)
    retriever = CalibratedFusionRetriever(vector=lambda query, filters: [(nodes[1], 1.0)], graph=walk, filters=red)
    report, _ = retriever.explain("who?").reports
    assert (report.status, "do not match the filters" in report.reason) == ("error", True)
    assert ids_of(retriever.retrieve("who?")) == ["red"]


async def test_a_coroutine_function_may_be_resolved_by_a_plain_one_or_a_coroutine():
    async def search(query):
        return hits(a=2.0, b=1.0)

    async def later(ids):
        return [f"passage {one}" for one in ids]

    for resolve in (later, lambda ids: {one: f"passage {one}" for one in ids}):
        spec = SourceSpec(retriever=search, fields=HitFields(resolve=resolve))
        retriever = CalibratedFusionRetriever(vector=spec)
        assert [hit.text for hit in await retriever.aretrieve("who?")] == ["passage a", "passage b"]
        assert [hit.text for hit in retriever.retrieve("who?")] == ["passage a", "passage b"]
    with pytest.raises(InvalidTypeError, match="resolve must be a plain function"):
        CalibratedFusionRetriever(vector=SourceSpec(retriever=listed(**GOOD), fields=HitFields(resolve=later)))


def test_scores_in_no_order_are_ranks_until_the_direction_is_declared():
    unsorted = listed(a=0.2, b=0.9, c=0.5)
    retriever = CalibratedFusionRetriever(vector=unsorted)
    assert ids_of(retriever.retrieve("who?")) == ["a", "b", "c"]
    assert "declare it" in retriever.explain("who?").reports[0].notes[0]
    declared = CalibratedFusionRetriever(vector=SourceSpec(retriever=unsorted, fields=HitFields(higher_is_better=True)))
    assert ids_of(declared.retrieve("who?")) == ["b", "c", "a"]
    assert "contradicts" in declared.explain("who?").reports[0].notes[0]


def test_a_direction_is_inferred_once_and_remembered():
    answers = [hits(a=0.1, b=0.2, c=0.4), hits(x=0.4)]
    retriever = CalibratedFusionRetriever(vector=Listed(lambda: answers.pop(0)))
    assert ids_of(retriever.retrieve("one")) == ["a", "b", "c"]
    assert "lower is better" in retriever.explain("two").reports[0].notes[0]


def test_a_repeated_node_counts_once_with_its_best_score():
    nodes = [NodeWithScore(node=TextNode(id_=f"n{i}", text="t", metadata={"c": c}), score=s)
             for i, (c, s) in enumerate((("a", 0.9), ("b", 0.8), ("a", 0.1)))]  # fmt: skip
    spec = SourceSpec(retriever=Listed(nodes), fields=HitFields(id="c", higher_is_better=True))
    result = CalibratedFusionRetriever(vector=spec).explain("who?")
    assert result.ids == ("a", "b")
    assert result.evidence("a").sources[0].raw == 0.9


def test_the_same_text_under_two_ids_stays_two_and_two_texts_under_one_id_are_named():
    one = Listed([NodeWithScore(node=TextNode(id_=i, text="same"), score=s) for i, s in (("a", 0.9), ("b", 0.8))])
    other = Listed([NodeWithScore(node=TextNode(id_="a", text="another"), score=1.0)])
    result = CalibratedFusionRetriever(retrievers={"one": one, "other": other}).explain("who?")
    assert sorted(result.ids) == ["a", "b"]
    assert any("'a' has another text in other than in one" in warning for warning in result.warnings)
