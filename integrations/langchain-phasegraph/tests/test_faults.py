"""One bad source never costs the others, and the answer says so."""

import asyncio
import threading
import time
import warnings
from decimal import Decimal

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_stores import Listed, ids_of, listed, pairs

from langchain_phasegraph import Execution, HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph import AllSourcesFailed, DegradedError

GOOD = pairs(a=3.0, b=2.5, c=2.0, d=1.0, e=0.5)


def good(query):
    return GOOD


def raising(answer):
    def search(query):
        raise answer

    return search


def half_way(query):
    yield GOOD[0]
    raise KeyError("midway")


FAULTS = {
    "raises": raising(RuntimeError("secret")),
    "returns None": lambda q: None,
    "returns a mapping": lambda q: {"a": "x"},
    "returns numbers": lambda q: [1, 2],
    "returns triples": lambda q: [("a", 1, 2)],
    "mixes pairs and documents": lambda q: [GOOD[0], GOOD[1][0]],
    "raises midway": half_way,
    "id function raises": SourceSpec(retriever=good, fields=HitFields(id=lambda d: d.metadata["nope"])),
    "resolve raises": SourceSpec(retriever=good, fields=HitFields(resolve=lambda ids: 1 / 0)),
    "resolve returns too few": SourceSpec(retriever=good, fields=HitFields(resolve=lambda ids: [])),
    "a retriever returns None": Listed(answer=None),
    "a retriever raises": Listed(answer=ValueError("x")),
}


@pytest.fixture(params=sorted(FAULTS))
def fault(request):
    return FAULTS[request.param]


async def test_with_a_source_failed_the_answer_is_that_of_a_retriever_without_it(fault):
    whole = PhaseGraphRetriever(vector=good, graph=fault, score_key="score", metadata_key="phasegraph")
    alone = PhaseGraphRetriever(vector=good, score_key="score", metadata_key="phasegraph")
    result, expected = whole.explain("q"), alone.explain("q")
    assert result.ids == expected.ids
    assert result.scores.tobytes() == expected.scores.tobytes()
    assert result.degraded
    assert not expected.degraded
    for found in (whole.invoke("q"), await whole.ainvoke("q")):
        for document, same in zip(found, alone.invoke("q"), strict=True):
            block, other = dict(document.metadata["phasegraph"]), dict(same.metadata["phasegraph"])
            assert (block.pop("degraded"), other.pop("degraded")) == (True, False)
            assert block == other
            assert document == same
    report = result.reports[0]
    assert (report.source, report.status) == ("graph", "error")
    assert report.error_class
    assert "secret" not in report.reason


async def test_strict_turns_a_failure_into_an_error(fault):
    retriever = PhaseGraphRetriever(vector=good, graph=fault, strict=True)
    with pytest.raises(DegradedError, match="graph"):
        retriever.invoke("q")
    with pytest.raises(DegradedError, match="graph"):
        await retriever.ainvoke("q")


async def test_all_failing_raises_with_every_cause():
    faults = {"x": raising(KeyError("x")), "y": lambda q: None}
    for asked in (PhaseGraphRetriever(retrievers=faults).invoke, PhaseGraphRetriever(retrievers=faults).explain):
        with pytest.raises(AllSourcesFailed) as caught:
            asked("q")
        assert sorted(caught.value.causes) == ["x", "y"]
    with pytest.raises(AllSourcesFailed):
        await PhaseGraphRetriever(retrievers=faults).ainvoke("q")


def test_found_nothing_and_could_not_look_are_different_values():
    empty = PhaseGraphRetriever(vector=listed(), graph=listed())
    assert empty.invoke("q") == []
    assert (empty.explain("q").reason, empty.explain("q").degraded) == ("nothing_found", False)
    half = PhaseGraphRetriever(vector=listed(), graph=raising(OSError()))
    assert half.invoke("q") == []
    assert (half.explain("q").reason, half.explain("q").degraded) == ("could_not_look", True)


def test_on_error_raise_passes_the_sources_own_error():
    retriever = PhaseGraphRetriever(
        vector=good, graph=SourceSpec(retriever=raising(OSError("x")), execution=Execution(on_error="raise"))
    )
    with pytest.raises(OSError, match="x"):
        retriever.invoke("q")


async def test_a_hanging_source_is_left_behind_at_the_deadline():
    released = threading.Event()

    def hang(query):
        released.wait(20)
        return GOOD

    retriever = PhaseGraphRetriever(vector=good, graph=hang, timeout=0.15)
    try:
        for asked in (lambda: asyncio.to_thread(retriever.explain, "q"), lambda: retriever.aexplain("q")):
            start = time.perf_counter()
            result = await asked()
            assert time.perf_counter() - start < 1.0
            assert result.reports[0].status == "timeout"
            assert result.ids[0] == "a"
    finally:
        released.set()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, "0.9", True, object()])
def test_an_unusable_score_drops_its_hit_and_is_counted(bad):
    spoiled = [*GOOD[:2], (Document("text of z", id="z"), bad), *GOOD[2:]]
    retriever = PhaseGraphRetriever(
        vector=SourceSpec(retriever=lambda q: spoiled, fields=HitFields(higher_is_better=True))
    )
    result, clean = retriever.explain("q"), PhaseGraphRetriever(vector=good).explain("q")
    assert result.ids == clean.ids
    assert result.scores.tobytes() == clean.scores.tobytes()
    assert result.reports[0].dropped == 1


@pytest.mark.parametrize("kind", [np.float32, np.float64, Decimal, int, lambda x: np.array(x)])
def test_any_number_is_a_score(kind):
    scored = [(document, kind(2 * score)) for document, score in GOOD]
    found = PhaseGraphRetriever(vector=lambda q: scored).explain("q")
    assert found.reports[0].dropped == 0
    assert found.candidates.rankings[0].scores.tolist() == [6.0, 5.0, 4.0, 2.0, 1.0]


def test_scores_that_are_all_none_leave_the_ranks():
    nones = [(document, None) for document, _ in GOOD]
    result = PhaseGraphRetriever(vector=lambda q: nones).explain("q")
    assert list(result.ids) == list("abcde")
    assert result.reports[0].dropped == 0


@pytest.mark.parametrize("scores", [[1.0] * 6, [1000.0] * 6, [0.0] * 6])
def test_a_constant_source_adds_no_order_of_its_own(scores):
    constant = [(Document(i, id=i), score) for i, score in zip("fedcba", scores, strict=True)]
    retriever = PhaseGraphRetriever(vector=good, graph=lambda q: constant)
    assert ids_of(retriever.invoke("q"))[:5] == list("abcde")
    assert retriever.explain("q").reports[0].notes == ("uninformative: its scores do not differ",)


@pytest.mark.parametrize("size", [1, 2])
def test_a_single_hit_and_negative_scores_are_ordinary(size):
    hits = [(Document(i, id=i), -5.0 - n) for n, i in enumerate("ab"[:size])]
    result = PhaseGraphRetriever(vector=lambda q: hits).explain("q")
    assert list(result.ids) == list("ab"[:size])
    assert 0 < result.scores[0] < 1


def test_unhashable_foreign_and_cyclic_metadata_are_left_alone():
    metadata = {"list": [1], "bytes": b"x", "object": object()}
    metadata["self"] = metadata
    document = Document("text", id="a", metadata=metadata)
    asked = PhaseGraphRetriever(retrievers={"s": Listed(answer=[document])}, metadata_key="phasegraph")
    (found,) = asked.invoke("q")
    assert found.metadata["object"] is metadata["object"]
    assert "phasegraph" not in metadata


@pytest.mark.parametrize(
    "query",
    ["nul \x00", "surrogate \ud800", "\u202ertl", "emoji 🎉", "cafe\u0301", '! / : [ ( " ~ AND', "x" * 1_000_000],
)
def test_odd_queries_reach_the_sources_as_they_are(query):
    seen = []

    def search(asked):
        seen.append(asked)
        return GOOD

    assert ids_of(PhaseGraphRetriever(vector=search).invoke(query)) == list("abcde")
    assert seen == [query]


def test_huge_texts_are_not_touched():
    documents = [Document("x" * 10_000_000, id="a")]
    assert PhaseGraphRetriever(vector=Listed(answer=documents)).invoke("q")[0].page_content is documents[0].page_content


async def test_a_sync_call_inside_a_running_loop_works():
    assert ids_of(PhaseGraphRetriever(vector=good).invoke("q")) == list("abcde")


def test_two_loops_one_after_the_other_and_many_threads_share_an_instance():
    retriever = PhaseGraphRetriever(vector=good, graph=Listed(answer=[d for d, _ in GOOD]))
    expected = retriever.invoke("q")
    assert asyncio.run(retriever.ainvoke("q")) == expected == asyncio.run(retriever.ainvoke("q"))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(retriever.invoke("q"))) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 30


async def test_cancelling_leaves_no_task():
    started = asyncio.Event()

    async def slow(query):
        started.set()
        await asyncio.sleep(20)

    before = asyncio.all_tasks()
    task = asyncio.create_task(PhaseGraphRetriever(vector=slow, graph=good).ainvoke("q"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_not_the_sources_to_have_passes_through(error):
    with pytest.raises(error):
        PhaseGraphRetriever(vector=good, graph=raising(error())).invoke("q")


def test_a_list_the_caller_changes_during_the_call_does_not_change_the_answer():
    shared = list(GOOD)

    def search(query):
        threading.Timer(0.0, shared.clear).start()
        return shared

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = PhaseGraphRetriever(vector=search, graph=lambda q: (time.sleep(0.05), GOOD)[1]).invoke("q")
    assert len(found) == 5
