"""Steps and stages of the core: time, breakers, paths for a reranker, and nothing more where none is used."""

from __future__ import annotations

import asyncio
import copy
import math
import threading
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from tests.suites.manual_time import PATIENCE, Hang, auntil, until

from phasegraph import AllSourcesFailed, CallableSource, InvalidInputError, PhasegraphWarning, Ranking
from phasegraph._support.clock import CLOCK, NO_DEADLINE, Clock, Deadline
from phasegraph._support.prompts import filled
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.graph import GraphSource, build_graph
from phasegraph.retrieval import Corrective, FusionEngine, HitAccess, Rerank, SourceSpec
from phasegraph.retrieval.stages.corrective import read_grade
from phasegraph.retrieval.stages.models import OverModel
from phasegraph.retrieval.stages.reranking import bridges_to
from phasegraph.retrieval.stages.rewriting import combined, read_queries
from phasegraph.sources import AsyncCallableSource
from phasegraph.sources.steps import Step
from phasegraph.sources.workers import in_thread
from phasegraph.testing import ManualClock


def same(answer: Any) -> Any:
    return answer


# -- steps


def test_a_step_is_left_out_after_ten_failures_in_a_row_and_warned_about_once() -> None:
    calls = []

    def broken(number: int) -> None:
        calls.append(number)
        raise ValueError

    step = Step("it", broken, "nothing is done")
    found = [step.run((row,), NO_DEADLINE, same) for row in range(15)]
    assert [one.status for one in found] == ["failed"] * 10 + ["skipped"] * 5
    assert len(calls) == 10
    with pytest.warns(PhasegraphWarning, match=r"it failed \(ValueError\): nothing is done"):
        step.announce()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.announce()


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_what_ends_a_program_passes_through(error: BaseException) -> None:
    def fatal() -> None:
        raise error

    with pytest.raises(type(error)):
        Step("it", fatal, "").run((), NO_DEADLINE, same)

    async def awaited() -> None:
        raise error

    with pytest.raises(type(error)):
        asyncio.run(Step("it", awaited, "").arun((), NO_DEADLINE, same))


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_a_trial_that_ends_a_program_is_not_the_last(error: BaseException, clock: ManualClock) -> None:
    deadline = Deadline.after(clock, None)
    raised: list[BaseException] = [ValueError()] * 10 + [error]

    def broken() -> int:
        if raised:
            raise raised.pop(0)
        return 3

    step = Step("it", broken, "")
    assert [step.run((), deadline, same).status for _ in range(11)] == ["failed"] * 10 + ["skipped"]
    clock.advance(60.0)
    with pytest.raises(type(error)):
        step.run((), deadline, same)
    clock.advance(60.0)
    assert step.run((), deadline, same).value == 3


def test_a_cancelled_caller_is_cancelled_and_the_steps_task_with_it() -> None:
    begun, ended = [], []

    async def slow() -> None:
        begun.append(True)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def main() -> None:
        task = asyncio.create_task(Step("it", slow, "").arun((), NO_DEADLINE, same))
        await auntil(lambda: begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    asyncio.run(main())
    assert ended == [True]


def test_a_step_does_not_block_the_event_loop() -> None:
    async def main() -> None:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0)
                beats += 1

        heart = asyncio.create_task(beat())
        tried = await Step("it", lambda: until(lambda: beats >= 10), "").arun((), NO_DEADLINE, same)
        heart.cancel()
        assert tried.status == "ok"

    asyncio.run(main())


def test_a_prompt_is_filled_once() -> None:
    assert filled("{query}|{passages}", query="{passages}", passages="{query}") == "{passages}|{query}"
    with pytest.raises(InvalidInputError, match="prompt to text"):
        OverModel(3).complete("q")


# -- reading


def test_what_a_rewriter_gives_is_read_or_refused() -> None:
    assert read_queries("a") == ["a"]
    assert read_queries(("a", "b")) == ["a", "b"]
    for answer in (None, [], [""], " ", ["a", 3], {"a"}, b"a", ["a"] * 17):
        with pytest.raises(InvalidInputError):
            read_queries(answer)


@pytest.mark.parametrize(
    ("answer", "grade"),
    [("0", 1), ("100.5", 100), ("no number", 100), ("between 30 and 40", 30), (61, 61), (0.5, 1), ("-7", 1),
     ("rating-80", 80), ("9" * 400, 100), ("٧٥", 75)],
)  # fmt: skip
def test_a_grade_is_the_first_number_clamped_and_100_where_there_is_none(answer: Any, grade: float) -> None:
    assert read_grade(answer) == grade


@pytest.mark.parametrize("bands", [(25, 60), (101, 25), (60, 0), (60,), "ab", (60, None)])
def test_bands_that_do_not_fall_are_refused(bands: Any) -> None:
    with pytest.raises(InvalidInputError, match="bands"):
        Corrective(same, same, bands=bands)


def test_rank_only_lists_join_by_rank_and_a_union_counts_what_was_dropped() -> None:
    first, second = Ranking.from_hits("v", ["a", "b"], None), Ranking.from_hits("v", ["c", "a"], None)
    found = combined("v", [first, second], "union")
    assert (found.ids, found.rank_only) == (("a", "c", "b"), True)
    dropped = Ranking.from_hits("v", ["x", "y"], [1.0, float("nan")])
    assert combined("v", [dropped, dropped.without({"x"})], "union").dropped == 2


# -- the engine


def engine(clock: Clock = CLOCK, **more: Any) -> FusionEngine:
    specs: Mapping[str, SourceSpec] = more.pop("specs", dict.fromkeys("gv", SourceSpec(retriever=None)))
    made = FusionEngine.of(specs, **more)
    made.gatherer.clock = clock
    return made


SOURCES = {
    "v": CallableSource("v", lambda query, limit: [("a", 0.9), ("b", 0.8), ("c", 0.1)]),
    "g": AsyncCallableSource("g", lambda query, limit: _later([("c", 5.0), ("d", 1.0)])),
}


async def _later(answer: Any) -> Any:
    return answer


def test_a_hanging_stage_leaves_the_rest_their_time(clock: ManualClock, hang: Hang) -> None:
    """A router and two rewriters that hang, one after the other, and a reranker: the sources still answer."""
    both = threading.Barrier(2, timeout=PATIENCE)

    def rewriting(query: str) -> None:
        hang.function(2.0 if both.wait() == 0 else 0.0, beside=math.inf)()

    spec = SourceSpec(retriever=None, rewrite=rewriting)
    route, rerank = hang.function(4.0, beside=math.inf), hang.function(2.0, beside=math.inf)
    made = engine(specs={"g": spec, "v": spec}, route=route, rerank=rerank, timeout=8.0, clock=clock)
    with pytest.warns(PhasegraphWarning):
        found = made.retrieve("q", SOURCES)[0]
    assert clock.now() == 8.0
    assert found.ids == engine().retrieve("q", SOURCES)[0].ids
    told = [(one.stage, one.status) for one in found.extras["stages"]]  # type: ignore[attr-defined]
    assert sorted(told) == [("rerank", "late"), ("rewrite", "late"), ("rewrite", "late"), ("route", "late")]
    assert any("the original query was searched" in note for one in found.reports for note in one.notes)


def test_routed_sources_bring_along_what_they_depend_on_and_only_they_are_fused() -> None:
    specs = {"g": SourceSpec(retriever=None, depends_on=("v",)), "v": SourceSpec(retriever=None)}
    found = engine(specs=specs, route=lambda query: "g").retrieve("q", SOURCES)[0]
    assert found.candidates.sources == ("g",)
    assert [one.source for one in found.reports] == ["g", "v"]


def test_a_route_within_weights_of_zero_asks_all(recwarn: pytest.WarningsRecorder) -> None:
    found = engine(weights={"g": 0.0, "v": 1.0}, route=lambda query: "v").retrieve("q", {"v": SOURCES["v"]})[0]
    assert found.ids == ("a", "b", "c")


def test_accepting_by_a_reranker_reads_its_scores_even_at_blend_0() -> None:
    accept = AcceptancePolicy({"rerank": 0.5}, verdict="last_stage")
    made = engine(rerank=Rerank(lambda query, texts: [0.9, 0.1, 0.8, 0.2], blend=0.0), accept=accept)
    plain = engine().retrieve("q", SOURCES)[0].ids
    assert made.retrieve("q", SOURCES)[0].ids == (plain[0], plain[2])


def test_only_a_retriever_that_reranks_has_thresholds_on_that() -> None:
    with pytest.raises(InvalidInputError, match="rerank"):
        engine(accept={"rerank": 0.5})
    with pytest.raises(InvalidInputError, match="must not be named 'rerank'"):
        engine(specs={"rerank": SourceSpec(retriever=None)})
    with pytest.raises(InvalidInputError, match="combine"):
        SourceSpec(retriever=None, combine="rrf")


def test_nothing_found_is_neither_reranked_nor_graded() -> None:
    calls: list[str] = []
    made = engine(
        specs={"v": SourceSpec(retriever=None)},
        rerank=lambda query, texts: calls.append("rerank"),
        corrective=Corrective(lambda query, texts: calls.append("grade"), lambda query: "again"),
    )
    found = made.retrieve("q", {"v": CallableSource("v", lambda query, limit: [])})[0]
    assert (found.reason, calls) == ("nothing_found", [])
    assert [one.stage for one in found.extras["stages"]] == ["correct"]  # type: ignore[attr-defined]


def test_a_second_answer_that_fails_leaves_the_first() -> None:
    def once(query: str, limit: int | None) -> list[tuple[str, float]]:
        if query != "q":
            raise OSError
        return [("a", 1.0)]

    made = engine(
        specs={"v": SourceSpec(retriever=None)}, corrective=Corrective(lambda query, texts: 1, lambda query: "?")
    )
    with pytest.warns(PhasegraphWarning, match="failed"):
        found = made.retrieve("q", {"v": CallableSource("v", once)})[0]
    assert found.ids == ("a",)
    (told,) = found.extras["stages"]  # type: ignore[misc, attr-defined]
    assert (told.status, told.reason) == ("failed", "AllSourcesFailed")


def test_sources_are_not_asked_again_without_time(clock: ManualClock, hang: Hang) -> None:
    asked: list[str] = []

    def search(query: str, limit: int | None) -> list[tuple[str, float]]:
        asked.append(query)
        return [("a", 1.0)]

    made = engine(
        specs={"v": SourceSpec(retriever=None)},
        timeout=0.5,
        clock=clock,
        rerank=hang.function(0.5, beside=math.inf),
        corrective=Corrective(None, lambda query: "?"),
        accept={"v": 2.0},
    )
    with pytest.warns(PhasegraphWarning):
        found = made.retrieve("q", {"v": CallableSource("v", search)})[0]
    assert (asked, found.reason) == (["q"], "all_rejected")
    assert found.extras["stages"][-1].status == "late"  # type: ignore[index]


def test_calibrating_asks_what_will_be_asked() -> None:
    asked: list[str] = []

    def search(query: str, limit: int | None) -> list[tuple[str, float]]:
        asked.append(query)
        return [(f"p{row}", 1.0 / (row + 1 + len(asked))) for row in range(10)]

    from phasegraph.retrieval import Calibrating

    class Retriever(Calibrating):
        def __init__(self) -> None:
            spec = SourceSpec(retriever=None, rewrite=lambda query: f"{query}!", fetch_k=7)
            self._engine = engine(specs={"v": spec})

        def _sources(self, query: str) -> Any:
            return {"v": CallableSource("v", search)}

    Retriever().calibrate([f"q{n}" for n in range(20)], progress=False)
    assert asked[:2] == ["q0!", "q1!"]


def test_an_engine_with_stages_is_copied_with_breakers_of_its_own() -> None:
    made = engine(rerank=lambda query, texts: 1 / 0, route=lambda query: "v")
    for _ in range(12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.retrieve("q", SOURCES)
    again = copy.deepcopy(made)
    with pytest.warns(PhasegraphWarning):
        told = again.retrieve("q", SOURCES)[0].extras["stages"]
    assert [one.status for one in told] == ["ok", "failed"]  # type: ignore[attr-defined]


# -- a path before a passage


FILMS = {
    "film": ("Vertigo", "Vertigo is a film by Alfred Hitchcock."),
    "man": ("Alfred Hitchcock", "Alfred Hitchcock was born in Leytonstone."),
    "place": ("Leytonstone", "Leytonstone is a part of London."),
    "other": ("Paris", "Paris is a city."),
}


def test_a_reranker_of_paths_reads_the_bridge_before_the_last_hop() -> None:
    read: list[str] = []

    def judge(query: str, texts: list[str]) -> list[float]:
        read.extend(texts)
        return [float("Hitchcock" in text) + float("London" in text) for text in texts]

    graph = GraphSource(
        build_graph([{"id": name, "title": title, "text": text} for name, (title, text) in FILMS.items()])
    )
    seeds = Ranking("vector", ["film", "man", "place", "other"], [0.9, 0.3, 0.2, 0.1], payloads=FILMS)
    sources = {"vector": CallableSource("vector", lambda query, limit: seeds), "graph": graph}
    specs = {"vector": SourceSpec(retriever=None), "graph": SourceSpec(retriever=None, depends_on=("vector",))}
    access = HitAccess(text=lambda hit: " ".join(hit) if isinstance(hit, tuple) else "")

    def asked(of: Any) -> tuple[str, ...]:
        made = engine(specs=specs, rerank=Rerank(judge, of=of), access=access)
        return made.retrieve("Where was the director of Vertigo born?", sources)[0].ids

    asked("passage")
    assert "Leytonstone Leytonstone is a part of London." in read
    read.clear()
    found = asked("path")
    (last,) = [text for text in read if text.endswith("is a part of London.")]
    assert last != "Leytonstone Leytonstone is a part of London."
    assert "Hitchcock" in last.split("\n\n")[0]  # the bridge's text stands first
    assert found[0] == "place"
    assert bridges_to(["nobody"], [seeds], str) == [""]


# -- a router that reads a ranking which is late


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("status", ["timeout", "ok"])
def test_a_router_that_waits_for_a_late_ranking_costs_no_answer(
    status: str, awaits: bool, clock: ManualClock, hang: Hang
) -> None:
    """Neither the others' answers, where the ranking never comes, nor its own, where it comes in time for the call."""
    others, ended = threading.Event(), threading.Event()

    def search(name: str) -> Any:
        def fn(query: str, limit: int | None) -> list[tuple[str, float]]:
            if name == "graph":
                others.set()
                return [("c", 5.0), ("d", 1.0)]
            if routed:
                clock.advance(0.5)  # the router waits for half of the time
            # The other source has answered. With a router, an earlier call for this source goes on beside this call.
            beside = 0 if not routed else 1 if awaits else 2
            until(lambda: others.is_set() and clock.waiting > routed and hang.jobs <= 1 + beside)
            if status == "timeout":
                clock.advance(0.5 if routed else 1.0)
                ended.wait()
            return [("a", 0.9), ("c", 0.1)]

        async def awaited(query: str, limit: int | None) -> list[tuple[str, float]]:
            return await in_thread(lambda given: fn(*given), (query, limit))

        return AsyncCallableSource(name, awaited) if awaits else CallableSource(name, fn)

    sources = {name: search(name) for name in ("graph", "vector")}
    specs = dict.fromkeys(sources, SourceSpec(retriever=None))

    async def asked(made: FusionEngine) -> Any:
        before = asyncio.all_tasks()
        found = (await made.aretrieve("q", sources))[0] if awaits else made.retrieve("q", sources)[0]
        await auntil(lambda: asyncio.all_tasks() == before)
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhasegraphWarning)
        routed = False
        expected = asyncio.run(asked(engine(specs=specs, timeout=1.0, clock=clock)))
        ended.set()
        until(lambda: not hang.jobs)
        others.clear()
        ended.clear()
        routed = True
        made = engine(specs=specs, timeout=1.0, clock=clock, route=lambda query, ranking: "graph")
        found = asyncio.run(asked(made))
    ended.set()
    assert (found.ids, found.scores.tobytes()) == (expected.ids, expected.scores.tobytes())
    assert [one.status for one in found.reports] == [one.status for one in expected.reports] == ["ok", status]
    (told,) = found.extras["stages"]
    assert (told.stage, told.status, told.reason) == (
        "route",
        "skipped",
        "source 'vector' returned no ranking, which the router needs",
    )


@pytest.mark.parametrize("awaits", [False, True])
def test_deciding_over_a_second_answer_has_no_more_than_what_is_left(
    awaits: bool, clock: ManualClock, hang: Hang
) -> None:
    hangs = hang.function(0.5, [], beside=math.inf)

    def on_empty(found: Any, scores: Any) -> list[str]:
        if asked == ["q"]:
            clock.advance(0.5)
            return []
        return hangs()  # type: ignore[no-any-return]

    asked: list[str] = []

    def search(query: str, limit: int | None) -> list[tuple[str, float]]:
        asked.append(query)
        return [("a", 0.9)]

    made = engine(
        specs={"v": SourceSpec(retriever=None)}, timeout=1.0, accept=AcceptancePolicy({"v": 5.0}, on_empty=on_empty),
        corrective=Corrective(None, lambda query: "better"), clock=clock,
    )  # fmt: skip
    sources = {"v": CallableSource("v", search)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhasegraphWarning)
        found = (asyncio.run(made.aretrieve("q", sources)) if awaits else made.retrieve("q", sources))[0]
    assert (asked, clock.now()) == (["q", "better"], 1.0)
    (told,) = found.extras["stages"]  # type: ignore[misc, attr-defined]
    assert (told.stage, told.status, found.reason) == ("correct", "late", "all_rejected")


@pytest.mark.parametrize("awaits", [False, True])
def test_a_text_longer_than_a_query_may_be_is_not_asked(awaits: bool) -> None:
    """A model that does not end its answer costs neither a source's time nor its answer."""
    asked: list[str] = []

    def search(query: str, limit: int | None) -> list[tuple[str, float]]:
        asked.append(query)
        return [("a", 0.9)]

    for longest, expected in ((20, "q"), (None, "again " * 10)):
        asked.clear()
        made = engine(
            specs={"v": SourceSpec(retriever=None, rewrite=lambda query: "again " * 10)}, max_query_length=longest
        )
        sources = {"v": CallableSource("v", search)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PhasegraphWarning)
            found = (asyncio.run(made.aretrieve("q", sources)) if awaits else made.retrieve("q", sources))[0]
        assert asked == [expected]
        (told,) = found.extras["stages"]  # type: ignore[misc, attr-defined]
        assert told.status == ("ok" if longest is None else "failed")
        assert "again" not in told.reason


def test_of_several_texts_a_correction_asks_the_first_and_says_so() -> None:
    made = engine(corrective=Corrective(lambda query, texts: 1, lambda query: ["better", "best"]))
    (told,) = made.retrieve("q", SOURCES)[0].extras["stages"]  # type: ignore[misc, attr-defined]
    assert told.detail["texts"] == ("better",)


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("given", ["too much", ["too much", "too much again"]])
def test_a_source_that_cannot_take_the_rewritten_text_is_asked_the_query(given: Any, awaits: bool) -> None:
    asked: list[str] = []

    def search(query: str, limit: int | None) -> list[tuple[str, float]]:
        asked.append(query)
        if query.startswith("too much"):
            raise ValueError("more tokens than the model takes")
        return [("a", 0.9), ("b", 0.2)]

    async def asearch(query: str, limit: int | None) -> list[tuple[str, float]]:
        return search(query, limit)

    source: Any = AsyncCallableSource("v", asearch) if awaits else CallableSource("v", search)
    made = engine(specs={"v": SourceSpec(retriever=None, rewrite=lambda query: given)})
    found = (asyncio.run(made.aretrieve("q", {"v": source})) if awaits else made.retrieve("q", {"v": source}))[0]
    assert (found.ids, asked[-1]) == (("a", "b"), "q")
    (told,) = found.extras["stages"]  # type: ignore[misc, attr-defined]
    assert (told.status, told.reason) == ("failed", "the source failed on the rewritten texts (ValueError)")
    (report,) = found.reports
    assert (report.status, report.notes) == (
        "ok",
        (
            "the original query was searched, because rewriting had no effect "
            "(the source failed on the rewritten texts (ValueError))",
        ),
    )  # fmt: skip


def test_a_source_that_fails_on_its_query_too_is_not_asked_again() -> None:
    asked: list[str] = []

    def search(query: str, limit: int | None) -> list[tuple[str, float]]:
        asked.append(query)
        raise OSError

    made = engine(specs={"v": SourceSpec(retriever=None, rewrite=lambda query: "better", combine="union")})
    with pytest.raises(AllSourcesFailed):
        made.retrieve("q", {"v": CallableSource("v", search)})
    assert sorted(asked) == ["better", "q"]


@pytest.mark.parametrize("late", [False, True])
def test_a_cancelled_call_leaves_no_task_of_what_its_router_waited_for(late: bool, clock: ManualClock) -> None:
    """Cancelled while the router waits for its ranking, or while the other sources are asked in place of that."""
    asked: list[str] = []

    async def asearch(query: str, limit: int | None) -> list[tuple[str, float]]:
        asked.append(query)
        await asyncio.sleep(PATIENCE)
        return []

    sources = {name: AsyncCallableSource(name, asearch) for name in ("graph", "vector")}
    specs = dict.fromkeys(sources, SourceSpec(retriever=None))
    made = engine(specs=specs, timeout=8.0, route=lambda query, ranking: "graph", clock=clock)

    async def main() -> None:
        task = asyncio.create_task(made.aretrieve("q", sources))
        await auntil(lambda: len(asked) == 1 and clock.waiting)
        if late:
            clock.advance(4.0)
            await auntil(lambda: len(asked) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await auntil(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    asyncio.run(main())
