"""Shared tests of both integrations for the stages: rewriting, routing, reranking and correction."""

from __future__ import annotations

import asyncio
import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import pytest
from tests.repeats import repeats
from tests.suites.manual_time import Hang, on_clock

from phasegraph.acceptance import AcceptancePolicy
from phasegraph.errors import DegradedError, InvalidInputError, PhasegraphWarning
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result
from phasegraph.retrieval import (
    Corrective,
    ModelAnswers,
    Rerank,
    SourceSpec,
    chat_router,
    dphf,
    hyde,
    keyword_router,
    modality_hyde,
    multi_query,
    neighbour_entropy_router,
    step_back,
)
from phasegraph.testing import ManualClock

TEXTS = {"a": "apple", "b": "banana", "c": "cherry", "d": "date", "e": "elder", "f": "fig"}
FIRST = {"a": 0.9, "b": 0.8, "c": 0.5, "d": 0.3, "e": 0.2}
SECOND = {"c": 7.0, "f": 6.0, "a": 5.0, "b": 2.0, "d": 1.0}
CALLS = repeats(20, 4)
"""Number of calls with which each fault of a stage is tested."""


class Letters(NamedTuple):
    """A reranker with a known order: it scores a text by the position of its first letter in `order`."""

    order: str

    def __call__(self, query: str, texts: list[str]) -> list[float]:
        return [-float(self.order.index(text[0])) for text in texts]


def same(query: str) -> str:
    """Return the query unchanged."""
    return query


def _raiser(error: BaseException) -> Callable[..., Any]:
    def stage(*arguments: Any) -> Any:
        raise error

    return stage


def _giver(answer: Any) -> Callable[..., Any]:
    return lambda *arguments: answer


class UnreadableError(ValueError):
    """An error whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError


class Unreadable:
    """An answer that raises wherever it is read."""

    def _raises(self, *arguments: object) -> Any:
        raise RuntimeError("secret")

    __iter__ = __len__ = __getitem__ = __bool__ = __float__ = __str__ = __repr__ = __eq__ = __hash__ = _raises


class MiscountedList(list[float]):
    """A list that says another length than it has."""

    def __len__(self) -> int:
        return 6


def _broken_off() -> Iterator[float]:
    yield 1.0
    raise ValueError("secret")


def _endless(*arguments: Any) -> Any:
    return _endless(*arguments)


def _emptied(*arguments: Any) -> None:
    """Empty every list that the stage was given."""
    for one in arguments:
        if isinstance(one, list):
            one.clear()


FAULTS: dict[str, Callable[..., Any]] = {
    "raises": _raiser(ValueError("secret")),
    "raises StopIteration": _raiser(StopIteration()),
    "raises SystemExit": _raiser(SystemExit(3)),
    "raises GeneratorExit": _raiser(GeneratorExit()),
    "raises CancelledError": _raiser(asyncio.CancelledError()),
    "raises TimeoutError": _raiser(TimeoutError()),
    "gives None": _giver(None),
    "gives an object": _giver(object()),
    "gives bytes": _giver(b"what"),
    "gives numbers by name": _giver({"?": float("nan")}),
    "gives NaN": _giver([float("nan")] * 50),
    "gives too few": _giver([]),
    "gives None many times": _giver([None] * 50),
    "gives without end": lambda *arguments: itertools.repeat(1.0),
    "gives itself": lambda *arguments: FAULTS,
    "raises a group of errors": _raiser(ExceptionGroup("secret", [ValueError("secret")])),
    "raises an error without a readable text": _raiser(UnreadableError()),
    "recurses without end": _endless,
    "gives an answer that cannot be read": lambda *arguments: Unreadable(),
    "gives infinity": _giver([float("inf")] * 50),
    "gives numbers beyond any float": _giver([10**400] * 50),
    "gives a list of a false length": lambda *arguments: MiscountedList(),
    "breaks off midway": lambda *arguments: _broken_off(),
    "empties its input": _emptied,
}


async def _awaited(stage: Any, arguments: tuple[Any, ...]) -> Any:
    return stage(*arguments)


def as_coroutine(stage: Any) -> Callable[..., Any]:
    """Return a coroutine function that behaves like a plain function."""

    async def awaited(*arguments: Any) -> Any:
        return await _awaited(stage, arguments)

    return awaited


class StageSuite:
    """Tests of the stages; derive a class ``Test…`` that creates a framework's retrievers, models and hits."""

    retriever: Callable[..., Any]

    def source(self, scores: dict[str, float], seen: list[Any] | None = None) -> Any:
        """Create a source that returns hits with these scores and appends each query to `seen`."""
        raise NotImplementedError

    def hits(self, scores: dict[str, float]) -> Any:
        """Create hits of the framework's class, with these scores by id."""
        raise NotImplementedError

    def ask(self, retriever: Any, query: str = "q") -> list[str]:
        raise NotImplementedError

    async def aask(self, retriever: Any, query: str = "q") -> list[str]:
        raise NotImplementedError

    def chat(self, answer: Callable[[str], str], *, native: bool = False) -> Any:
        """Create a language model of the framework that calls `answer`; `native` adds its own asynchronous method."""
        raise NotImplementedError

    def reranking(self, judge: Any) -> list[Any]:
        """Create a reranking model of each type that the framework has; each model scores texts with `judge`."""
        raise NotImplementedError

    def in_a_chain(self, retriever: Any, query: str) -> list[str]:
        """Return the ids of the hits of a real chain or query engine that uses the retriever."""
        raise NotImplementedError

    def made(self, **more: Any) -> Any:
        given = {"vector": self.source(FIRST), "graph": self.source(SECOND), **more}
        return self.retriever(**given)

    def stage(self, name: str, function: Any) -> dict[str, Any]:
        """Return the arguments of a retriever that use `function` as the stage `name`."""
        if name == "rewrite":
            return {"vector": SourceSpec(retriever=self.source(FIRST), rewrite=function)}
        if name in ("route", "rerank"):
            return {name: function}
        if name == "grade":
            return {"corrective": Corrective(function, same)}
        return {"corrective": Corrective(_giver(1), function)}

    def both(self, retriever: Any, query: str = "q") -> list[str]:
        found = self.ask(retriever, query)
        assert asyncio.run(self.aask(retriever, query)) == found
        return found

    @pytest.fixture
    def quiet(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PhasegraphWarning)
            yield

    # -- faults

    @pytest.mark.parametrize("fault", sorted(FAULTS))
    @pytest.mark.parametrize("name", ["rewrite", "route", "rerank", "grade", "correct"])
    def test_a_stage_that_fails_costs_no_answer(self, name: str, fault: str, quiet: None) -> None:
        expected = self.ask(self.made())
        kinds = [FAULTS[fault], as_coroutine(FAULTS[fault])]
        each = repeats(6, 6 if fault == "raises" else 1)  # after 10 failures in a row, a stage is skipped
        calls = 0
        while calls < CALLS:
            for function in kinds:
                retriever = self.made(**self.stage(name, function))
                for _ in range(each):
                    assert self.ask(retriever) == expected
                    calls += 1

                async def several(retriever: Any = retriever) -> list[list[str]]:
                    return [await self.aask(retriever) for _ in range(each)]

                assert asyncio.run(several()) == [expected] * each
                calls += each
        told = self.told(self.made(**self.stage(name, FAULTS[fault])))
        assert any(status != "ok" for _, status in told), told

    @pytest.mark.parametrize(
        ("error", "native"), [(ValueError(), False), (ValueError(), True), (SystemExit(), False), (KeyError("q"), True)]
    )  # a SystemExit in a task of LangChain's own model would end the event loop before phasegraph could catch it
    def test_a_language_model_that_fails_costs_no_answer(self, error: BaseException, native: bool, quiet: None) -> None:
        model = self.chat(_raiser(error), native=native)
        expected = self.ask(self.made())
        for made in (hyde(model), step_back(model), modality_hyde(model), multi_query(model)):
            spec = SourceSpec(retriever=self.source(FIRST), rewrite=made)
            assert self.both(self.made(vector=spec)) == expected
        for given in ({"route": model}, {"corrective": Corrective(model, model)}):
            assert self.both(self.made(**given)) == expected

    @pytest.mark.parametrize("awaited", [False, True])
    @pytest.mark.parametrize("native", [False, True])
    @pytest.mark.parametrize(
        ("name", "share"), [("rewrite", 0.5), ("route", 0.5), ("rerank", 1.0), ("grade", 0.5), ("correct", 0.5)]
    )
    def test_a_stage_that_hangs_costs_no_answer_and_no_more_than_its_part_of_the_timeout(
        self, name: str, share: float, native: bool, awaited: bool, clock: ManualClock, hang: Hang, quiet: None
    ) -> None:
        expected = self.ask(self.made())
        function = (hang.coroutine if native else hang.function)(share, beside=math.inf)
        retriever = on_clock(self.made(**self.stage(name, function), timeout=1.0), clock)

        async def several() -> list[list[str]]:
            return [await self.aask(retriever) for _ in range(12)]

        found = asyncio.run(several()) if awaited else [self.ask(retriever) for _ in range(12)]
        assert found == [expected] * 12
        assert clock.now() == 10 * share, "after ten failures the stage is left out"

    @pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
    @pytest.mark.parametrize("name", ["rewrite", "route", "rerank", "grade", "correct"])
    def test_a_lack_of_memory_and_an_interrupt_in_a_stage_end_the_call(
        self, name: str, error: type[BaseException], quiet: None
    ) -> None:
        retriever = self.made(**self.stage(name, _raiser(error())))
        with pytest.raises(error):
            self.ask(retriever)
        with pytest.raises(error):
            asyncio.run(self.aask(retriever))

    def told(self, retriever: Any) -> list[tuple[str, str]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PhasegraphWarning)
            return [(one.stage, one.status) for one in retriever.explain("q").extras["stages"]]

    def test_a_failure_is_reported_and_warned_about_once_without_the_query_or_foreign_text(self) -> None:
        retriever = self.made(rerank=FAULTS["raises"])
        failed = r"rerank failed \(ValueError\): the fused order is used"
        with pytest.warns(PhasegraphWarning, match=failed) as caught:
            result = [retriever.explain("a very private query") for _ in range(3)][-1]
        assert len([one for one in caught if "rerank" in str(one.message)]) == 1
        (report,) = [one for one in result.reports if one.source == "rerank"]
        assert (report.status, report.reason, report.error_class) == ("error", "ValueError", "ValueError")
        assert result.degraded
        shown = " ".join([*result.warnings, *map(repr, result.extras["stages"]), *map(repr, result.reports)])
        assert "private" not in shown
        assert "secret" not in shown

    @pytest.mark.parametrize("name", ["rewrite", "route", "rerank", "grade", "correct"])
    def test_strict_refuses_an_answer_of_which_a_stage_failed(self, name: str, quiet: None) -> None:
        raw = FusionPipeline.named("comb_sum")
        retriever = self.made(**self.stage(name, FAULTS["raises"]), strict=True, pipeline=raw)
        with pytest.raises(DegradedError, match=r"rerank|rewrite|route|correct"):
            self.ask(retriever)

    # -- stored answers of models

    def staged(self, answers: ModelAnswers, model: Any, reranker: Any) -> Any:
        """Create a retriever with every stage that calls a model; `answers` stores the models' answers."""
        chat = answers.around(model, "chat")
        return self.made(
            vector=SourceSpec(retriever=self.source(FIRST), rewrite=hyde(chat, combine="union")),
            route=chat,
            rerank=Rerank(answers.around(reranker, "reranker"), depth=4),
            corrective=Corrective(chat, rewrite=chat),
        )

    @pytest.mark.parametrize("native", [False, True])
    def test_a_run_is_replayed_from_its_answers_without_a_model(self, native: bool, tmp_path: Any) -> None:
        """The results are identical to the bit, for every type of reranker; a second run does not call the models."""
        said: list[str] = []

        def answer(prompt: str) -> str:
            said.append(prompt)
            return "vector graph 10" if "Rate" in prompt or "sources" in prompt else f"{len(prompt)} words"

        model = self.chat(answer, native=native)
        for row, reranker in enumerate(self.reranking(Letters("fedcba"))):
            file = tmp_path / f"{row}.jsonl"
            first = self.staged(ModelAnswers(file), model, reranker).explain("q")
            assert {one.status for one in first.extras["stages"]} == {"ok"}, first.extras["stages"]
            said.clear()
            again, replay = ModelAnswers(file), ModelAnswers(file, offline=True)
            for answers, retriever in (
                (again, self.staged(again, model, reranker)),
                (replay, self.staged(replay, None, None)),
            ):
                bits(retriever.explain("q"), first)
                assert self.both(retriever) == list(first.ids)
                assert (answers.asked, answers.missing, answers.replayed) == (0, 0, 3 * len(answers))
            assert said == []

    def test_an_input_without_an_answer_fails_its_stage_and_is_counted(self, tmp_path: Any, quiet: None) -> None:
        model = self.chat(_giver("a text"))
        self.ask(self.staged(ModelAnswers(tmp_path / "a.jsonl"), model, Letters("abcdef")))
        replay = ModelAnswers(tmp_path / "a.jsonl", offline=True)
        told = self.staged(replay, None, None).explain("another question").extras["stages"]
        assert {one.status for one in told} == {"failed"}
        assert all("contains no answer of" in one.reason for one in told)
        assert replay.missing == len(told)

    # -- rewriting

    @pytest.mark.parametrize("combine", ["single", "union", "rrf"])
    def test_identity_rewriting_is_bit_equal_to_none(self, combine: Any) -> None:
        plain = self.made().explain("q")
        for rewrite in (same, as_coroutine(same), lambda query: [query], lambda query: [query, query]):
            spec = SourceSpec(retriever=self.source(FIRST), rewrite=rewrite, combine=combine)
            bits(self.made(vector=spec).explain("q"), plain)

    def test_a_rewritten_query_is_what_the_source_is_asked_and_no_other(self) -> None:
        seen: list[Any] = []
        other: list[Any] = []
        spec = SourceSpec(retriever=self.source(FIRST, seen), rewrite=hyde(self.chat(lambda prompt: "A text.")))
        retriever = self.made(vector=spec, graph=self.source(SECOND, other))
        self.both(retriever)
        assert (set(seen), set(other)) == ({"A text."}, {"q"})
        (told,) = retriever.explain("q").extras["stages"]
        assert (told.source, told.detail["texts"]) == ("vector", ("A text.",))

    @pytest.mark.parametrize("native", [False, True])
    def test_the_ready_made_rewriters_ask_what_they_say(self, native: bool, quiet: None) -> None:
        asked: list[str] = []

        def answer(prompt: str) -> str:
            asked.append(prompt)
            return "\n".join(f"{n}. version {n}" for n in range(1, 5))

        model = self.chat(answer, native=native)
        whole = "1. version 1\n2. version 2\n3. version 3\n4. version 4"
        for made, texts, calls in (
            (hyde(model), {whole}, 1),
            (hyde(model, combine="union"), {"q", whole}, 1),
            (step_back(model), {"q", whole}, 1),
            (modality_hyde(model), {"q", whole}, 3),
            (multi_query(model, 2), {"q", "version 1", "version 2"}, 1),
        ):
            seen: list[Any] = []
            asked.clear()
            retriever = self.made(vector=SourceSpec(retriever=self.source(FIRST, seen), rewrite=made))
            self.both(retriever)
            assert set(seen) == texts
            assert len(asked) == 2 * calls
            assert all("q" in prompt for prompt in asked)

    def test_a_step_back_is_asked_for_half_as_many_and_the_union_kept(self) -> None:
        def lists(query: str) -> dict[str, float]:
            return {"a": 0.9, "b": 0.8, "c": 0.1} if query == "q" else {"e": 0.7, "b": 0.95, "f": 0.6}

        spec = SourceSpec(retriever=self.source_of(lists), rewrite=step_back(lambda prompt: "wider"), fetch_k=4)
        result = self.retriever(vector=spec).explain("q")
        (ranking,) = result.candidates.rankings
        assert ranking.ids == ("a", "b", "e", "c")  # b keeps its query score; f is not in the first 2 hits
        assert ranking.scores.tolist() == [0.9, 0.8, 0.7, 0.1]

    def source_of(self, lists: Callable[[str], dict[str, float]]) -> Any:
        """Create a source whose scores depend on the query."""
        raise NotImplementedError

    def test_dphf_is_reciprocal_rank_of_the_query_and_its_hypothesis(self) -> None:
        dense = {"a": 0.62, "b": 0.55, "c": 0.41, "d": 0.40, "e": 0.12}
        hypothetical = {"c": 0.31, "f": 0.02, "b": 0.004, "g": 0.001}

        def lists(query: str) -> dict[str, float]:
            return dense if query == "q" else hypothetical

        source = self.source_of(lists)
        golden = {
            "c": 0.032266,
            "b": 0.032002,
            "a": 0.016393,
            "f": 0.016129,
            "d": 0.015625,
            "g": 0.015625,
            "e": 0.015385,
        }
        rewriter = hyde(self.chat(lambda prompt: "A hypothesis."))
        result = self.retriever(**dphf(source, rewriter)).explain("q")
        assert dict(zip(result.ids, result.fused.round(6).tolist(), strict=True)) == golden
        within = SourceSpec(retriever=source, rewrite=rewriter, combine="rrf")
        (ranking,) = self.retriever(vector=within).explain("q").candidates.rankings
        assert dict(zip(ranking.ids, ranking.scores.round(6).tolist(), strict=True)) == golden

    # -- reranking

    @pytest.mark.parametrize("kind", range(4))
    def test_every_kind_of_model_decides_the_order(self, kind: int) -> None:
        models = self.reranking(Letters("fedcba"))
        if kind >= len(models):
            pytest.skip("no such kind here")
        assert self.both(self.made(rerank=models[kind])) == list("fedcba")

    def test_blend_0_is_bit_equal_to_no_stage_and_1_is_the_rerankers_order(self) -> None:
        plain = self.made().explain("q")
        bits(self.made(rerank=Rerank(Letters("fedcba"), blend=0.0)).explain("q"), plain)
        for judge in (Letters("fedcba"), as_coroutine(Letters("fedcba")), Rerank(Letters("fedcba"), blend=1.0)):
            assert self.both(self.made(rerank=judge)) == list("fedcba")
        orders = [tuple(self.ask(self.made(rerank=Rerank(Letters("fedcba"), blend=one / 20)))) for one in range(21)]
        assert orders[0] == plain.ids
        assert len(set(orders)) > 2  # between blend 0 and blend 1, the values are mixed

    def test_what_the_reranker_did_not_read_follows_in_fused_order(self) -> None:
        plain = list(self.made().explain("q").ids)
        found = self.ask(self.made(rerank=Rerank(Letters("fedcba"), depth=3)))
        assert found == [*sorted(plain[:3], reverse=True), *plain[3:]]

    def test_equal_scores_leave_the_fused_order(self) -> None:
        plain = list(self.made().explain("q").ids)
        assert self.ask(self.made(rerank=lambda query, texts: [1.0] * len(texts))) == plain

    def test_a_model_that_keeps_none_of_them_is_no_failure_and_says_so(self) -> None:
        for model in self.dropping():
            retriever = self.made(rerank=model, strict=True, pipeline=FusionPipeline.named("comb_sum"))
            plain = self.ask(self.made(pipeline=FusionPipeline.named("comb_sum")))
            for _ in range(12):
                assert self.both(retriever) == plain
            (told,) = retriever.explain("q").extras["stages"]
            assert (told.status, told.reason) == ("ok", "the reranker rejected all 6 passages: the fused order is used")
            (report,) = [one for one in retriever.explain("q").reports if one.source == "rerank"]
            assert (report.status, report.reason) == ("empty", told.reason)

    def dropping(self) -> list[Any]:
        """Create a model of each framework type that may drop passages; each model drops all passages."""
        raise NotImplementedError

    def test_a_model_that_gives_other_hits_than_it_got_has_failed(self, quiet: None) -> None:
        for model in self.inventing():
            assert self.ask(self.made(rerank=model)) == self.ask(self.made())
            assert self.told(self.made(rerank=model)) == [("rerank", "failed")]

    def inventing(self) -> list[Any]:
        """Create models of the same types that return hits that are not among the passages."""
        raise NotImplementedError

    def test_its_scores_stand_in_the_evidence_and_thresholds_read_them(self) -> None:
        accept = AcceptancePolicy({"rerank": -1.5}, verdict="last_stage")
        result = self.made(rerank=Letters("fedcba"), accept=accept).explain("q")
        assert result.ids == ("f", "e")
        (said,) = [one for one in result.evidence("e").sources if one.source == "rerank"]
        assert (said.rank, said.raw) == (2.0, -1.0)
        with pytest.raises(InvalidInputError, match="accept"):
            self.made(accept={"rerank": 0.5})

    # -- routing

    def test_a_route_says_who_is_asked_and_with_what_weight(self) -> None:
        seen: list[Any] = []
        only = self.made(route=keyword_router({"code": "graph"}, default=["vector"]), graph=self.source(SECOND, seen))
        assert self.both(only, "q") == list(FIRST)
        assert not seen
        assert set(self.both(only, "the code")) == set(SECOND)
        assert seen
        weighed = self.made(route=lambda query: {"vector": 3.0, "graph": 1.0}).explain("q")
        bits(weighed, self.made(weights={"vector": 3.0, "graph": 1.0}).explain("q"))
        (told,) = weighed.extras["stages"]
        assert told.detail["weights"] == {"vector": 3.0, "graph": 1.0}

    def test_a_router_may_read_the_first_sources_ranking_which_is_asked_once(self) -> None:
        seen: list[Any] = []
        read: list[Ranking] = []

        def router(query: str, ranking: Ranking) -> list[str]:
            read.append(ranking)
            return ["vector", "graph"]

        retriever = self.made(vector=self.source(FIRST, seen), route=router)
        bits(retriever.explain("q"), self.made().explain("q"))
        assert (len(seen), read[0].ids) == (1, tuple(FIRST))
        sharp = neighbour_entropy_router("vector", ["vector", "graph"], "graph")
        assert set(self.both(self.made(route=sharp))) == set(FIRST)  # .99 nats of five neighbours

    def test_a_language_model_routes(self) -> None:
        model = self.chat(lambda prompt: "I would take Graph.")
        for route in (model, chat_router(model, {"vector": "texts", "graph": "who knows whom"})):
            assert set(self.both(self.made(route=route))) == set(SECOND)

    def test_a_route_to_nobody_known_asks_all(self, quiet: None) -> None:
        answers: list[Any] = ["nobody", [], {}, {"vector": -1.0}, {"vector": 0.0}]
        for answer in answers:
            result = self.made(route=_giver(answer)).explain("q")
            assert result.ids == self.made().explain("q").ids
            assert result.extras["stages"][0].status == "failed"

    # -- correction

    @pytest.mark.parametrize(
        ("verdict", "action"),
        [("80", "kept"), ("60 of 100", "kept"), ("about 40", "kept"), ("24.9", "replaced"), ("-7", "replaced"),
         ("excellent", "kept"), ("1000", "kept"), (30, "kept"), (3, "replaced")],
    )  # fmt: skip
    def test_below_the_band_the_query_is_rewritten_and_asked_once_more(self, verdict: Any, action: str) -> None:
        def lists(query: str) -> dict[str, float]:
            return FIRST if query == "q" else SECOND

        graded: list[Any] = []

        def grade(query: str, texts: list[str]) -> Any:
            graded.append((query, texts))
            return verdict

        retriever = self.retriever(vector=self.source_of(lists), corrective=Corrective(grade, lambda query: "better"))
        expected = FIRST if action == "kept" else SECOND
        assert self.both(retriever) == list(expected)
        (told,) = retriever.explain("q").extras["stages"]
        assert (told.status, told.detail["action"]) == ("ok", action)
        assert 1.0 <= told.detail["grade"] <= 100.0
        assert graded[0][0] == "q"
        assert len(graded[0][1]) == 3

    def test_between_the_bands_the_hits_of_both_may_be_merged(self) -> None:
        def lists(query: str) -> dict[str, float]:
            return {"a": 0.9, "b": 0.8} if query == "q" else {"c": 0.85, "b": 0.95}

        corrective = Corrective(lambda query, texts: 40, lambda query: "better", between="merge")
        retriever = self.retriever(vector=self.source_of(lists), corrective=corrective)
        assert self.both(retriever) == ["a", "c", "b"]

    def test_where_nothing_is_accepted_the_query_is_rewritten_without_a_grade(self) -> None:
        def lists(query: str) -> dict[str, float]:
            return {"a": 0.2, "b": 0.1} if query == "q" else {"c": 0.9, "b": 0.8}

        corrective = Corrective(None, lambda query: "better")
        retriever = self.retriever(vector=self.source_of(lists), accept={"vector": 0.5}, corrective=corrective)
        assert self.both(retriever) == ["c", "b"]
        model = self.chat(lambda prompt: "12" if "Rate" in prompt else "better")
        graded = self.retriever(vector=self.source_of(lists), corrective=Corrective(model, model))
        assert self.both(graded) == ["c", "b"]

    # -- composition

    def test_stages_work_inside_a_real_chain(self) -> None:
        model = self.chat(lambda prompt: "90" if "Rate" in prompt else "vector, graph")
        retriever = self.made(
            vector=SourceSpec(retriever=self.source(FIRST), rewrite=hyde(model)), route=model,
            rerank=Letters("fedcba"), corrective=Corrective(model, model),
        )  # fmt: skip
        assert self.in_a_chain(retriever, "q") == list("fedcba")
        assert [one.stage for one in retriever.explain("q").extras["stages"]] == [
            "rewrite",
            "route",
            "rerank",
            "correct",
        ]

    def test_a_retriever_with_stages_is_copied_and_pickled(self) -> None:
        retriever = self.retriever(
            vector=SourceSpec(retriever=_Listed(self), rewrite=multi_query(str.lower, 2)),
            route=keyword_router({"code": "vector"}, default="vector"),
            rerank=Rerank(Letters("fedcba")), corrective=Corrective(_grade, str.lower),
        )  # fmt: skip
        expected = self.ask(retriever)
        for made in (copy.deepcopy(retriever), ForkingPickler.loads(bytes(ForkingPickler.dumps(retriever)))):
            assert self.ask(made) == expected == list("edcba")


def _grade(query: str, texts: list[str]) -> int:
    return 90


class _Listed:
    """A source that can be pickled and returns the hits of `FIRST`."""

    def __init__(self, suite: StageSuite) -> None:
        self.kind = type(suite)

    def __call__(self, query: str) -> Any:
        return self.kind().hits(FIRST)


def bits(found: Result, expected: Result) -> None:
    """Assert that two results are identical to the bit, except for the stages and the times."""
    assert found.ids == expected.ids
    for name in ("scores", "fused", "contributions", "calibrated", "weights", "bonuses", "priors"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    assert found.candidates.sources == expected.candidates.sources
    assert found.warnings == expected.warnings
    assert found.confidence == expected.confidence
