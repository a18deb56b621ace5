"""Faults of sources: each costs itself, is reported, and the rest is as if it had never been there."""

import asyncio
import time

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import Listed, hits, ids_of, listed

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
    Execution,
    HitFields,
    SourceSpec,
)
from phasegraph import AllSourcesFailed, DegradedError, InsufficientDataError, InvalidTypeError, Ranking

GOOD = {f"p{i}": 1.0 - i / 10 for i in range(8)}


def late():
    time.sleep(0.5)
    return hits(a=1.0)


def raising(query):
    yield TextNode(text="one")
    raise OSError("secret")


def endless(query):
    while True:
        yield TextNode(id_="x", text="x")


FAULTS = {
    "raises": (Listed(OSError("secret")), "error", "OSError"),
    "None": (Listed(None), "error", "TypeError"),
    "a function's None": (lambda query: None, "error", "got NoneType"),
    "bytes": (lambda query: b"text", "error", "must return a list of nodes, texts, dicts"),
    "numbers": (lambda query: [1, 2], "error", "got int at 0"),
    "triples": (lambda query: [(TextNode(text="t"), 1.0, 2.0)], "error", "got tuple of 3 at 0"),
    "iterator that raises": (raising, "error", "OSError raised while its hits were iterated over"),
    "endless iterator": (endless, "error", "yielded more than 100,000 hits"),
    "late": (Listed(late), "timeout", "no answer in time"),
    "only bad scores": (lambda query: [(TextNode(id_="x", text="x"), "high")], "partial", "usable score"),
}


@pytest.mark.filterwarnings("ignore:source .* returns hits without a usable score")
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_failed_source_leaves_no_trace_but_its_report(fault):
    bad, status, reason = FAULTS[fault]
    spec = SourceSpec(retriever=bad, timeout=0.1 if fault == "late" else None)
    retriever = CalibratedFusionRetriever(vector=listed(**GOOD), graph=spec)
    without = CalibratedFusionRetriever(vector=listed(**GOOD))
    for result in (retriever.explain("who?"), asyncio.run(retriever.aexplain("who?"))):
        report, _ = result.reports
        assert (report.source, report.status) == ("graph", status)
        assert reason in report.reason
        assert "secret" not in str(result.reports)
        assert result.degraded
        alone = without.explain("who?")
        assert result.ids == alone.ids
        assert result.scores.tolist() == alone.scores.tolist()


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


def test_bad_scores_are_dropped_and_counted():
    def mixed(query):
        scores = [0.9, float("nan"), "0.8", float("inf"), None, True, 0.1]
        return [(TextNode(id_=f"n{i}", text="t"), score) for i, score in enumerate(scores)]

    result = CalibratedFusionRetriever(vector=mixed).explain("who?")
    assert result.ids == ("n0", "n6")
    assert result.reports[0].dropped == 5


def test_no_scores_at_all_are_ranks():
    retriever = CalibratedFusionRetriever(vector=listed(a=None, b=None, c=None))
    assert ids_of(retriever.retrieve("who?")) == ["a", "b", "c"]
    assert retriever.explain("who?").reports[0].notes == ("rank only: it returns no scores",)


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


def test_all_failing_raises_with_every_cause_and_finding_nothing_does_not():
    sources = {"a": Listed(OSError()), "b": Listed(ValueError())}
    with pytest.raises(AllSourcesFailed) as caught:
        CalibratedFusionRetriever(retrievers=sources).retrieve("who?")
    assert {name: type(error) for name, error in caught.value.causes.items()} == {"a": OSError, "b": ValueError}
    nothing = CalibratedFusionRetriever(vector=Listed([]))
    assert (nothing.retrieve("who?"), nothing.explain("who?").reason) == ([], "nothing_found")


def test_strict_and_raise_turn_a_failure_into_an_error():
    with pytest.raises(DegradedError):
        CalibratedFusionRetriever(vector=listed(**GOOD), graph=Listed(OSError()), strict=True).retrieve("who?")
    with pytest.raises(OSError, match="mine"):
        CalibratedFusionRetriever(
            vector=listed(**GOOD),
            graph=SourceSpec(retriever=Listed(OSError("mine")), execution=Execution(on_error="raise")),
        ).retrieve("who?")


def test_memory_errors_and_interrupts_pass_through():
    for error in (MemoryError, KeyboardInterrupt):
        with pytest.raises(error):
            CalibratedFusionRetriever(vector=listed(**GOOD), graph=Listed(error())).retrieve("who?")


async def test_cancelling_leaves_no_task():
    class Slow(Listed):
        async def _aretrieve(self, query_bundle):
            await asyncio.sleep(5)

    task = asyncio.create_task(CalibratedFusionRetriever(vector=Slow([])).aretrieve("who?"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_retriever_asked_from_within_itself_fails_instead_of_going_round():
    retriever = CalibratedFusionRetriever(vector=listed(**GOOD), graph=lambda query: retriever.retrieve(query))
    report, _ = retriever.explain("who?").reports
    assert (report.status, "contains itself" in report.reason) == ("error", True)


def test_too_few_scores_to_fit_are_an_error_that_names_the_source():
    with pytest.raises(InsufficientDataError, match="'vector'"):
        CalibratedFusionRetriever(vector=listed(a=1.0, b=0.5)).calibrate(["one"], progress=False)
