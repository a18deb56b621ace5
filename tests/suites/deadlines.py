"""Shared tests of both integrations for deadlines, for slow or numerous hits, and for the length of queries.

Derive a test class from :class:`DeadlineSuite` and set its attribute `framework`.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.suites.framework import FrameworkSuite, ids_of
from tests.suites.manual_time import Hang, on_clock, until

from phasegraph.acceptance import AcceptancePolicy
from phasegraph.errors import DegradedError, InvalidInputError, PhasegraphWarning
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.retrieval import HitFields, SourceSpec, call
from phasegraph.retrieval.notices import HITS_IF_LATE

TIMEOUT = 0.5
FIVE = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}


class SlowPrior:
    """A user's prior that calls a function that hangs."""

    additive = False

    def __init__(self, hang: Hang) -> None:
        self._ask = hang.function(TIMEOUT, beside=math.inf)

    def __call__(self, ids: Any, context: Context, /) -> Any:
        self._ask()
        return np.ones(len(ids))

    def to_dict(self) -> dict[str, object]:
        return {"name": "slow"}


class DeadlineSuite:
    """Tests of the deadlines of a framework's retrievers; derive a class ``Test…`` and set `framework`.

    The tests move the clock by hand. A function that hangs advances the clock exactly to the deadline. Therefore, a
    call that waits beyond its deadline never ends.

    Attributes
    ----------
    framework : FrameworkSuite
        The suite of the framework, which creates documents and searches retrievers.
    """

    framework: FrameworkSuite

    def found(self, retriever: Any, awaited: bool, query: str = "q") -> list[str]:
        """Return the ids of the hits of a retriever, called synchronously or, if `awaited`, asynchronously."""
        if awaited:
            return ids_of(asyncio.run(self.framework.aask(retriever, query)))
        return ids_of(self.framework.ask(retriever, query))

    def timely(self, retriever: Any, awaited: bool, hang: Hang, *, ends: bool = False) -> list[str]:
        """Return the same ids as `found`, and assert that the call ends at the deadline.

        If `ends` is True, release the hanging functions after the call, so that the event loop can close.
        """
        on_clock(retriever, hang.clock)
        due = hang.clock.now() + TIMEOUT

        async def ask() -> list[str]:
            try:
                return ids_of(await self.framework.aask(retriever))
            finally:
                if ends:
                    hang.released.set()

        found = asyncio.run(ask()) if awaited else self.found(retriever, awaited)
        assert hang.clock.now() == due
        return found

    def five(self, **arguments: Any) -> Any:
        """Create a retriever with a source that returns the five hits of `FIVE`."""
        return self.framework.retriever(
            **{"retrievers": {"one": lambda query: self.framework.pairs(**FIVE)}, "timeout": None, **arguments}
        )

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_model_that_embeds_slowly_costs_the_selection(self, awaited: bool, hang: Hang) -> None:
        seen: list[Any] = []

        embed = hang.function(TIMEOUT, [1.0, 0.0], beside=math.inf)
        given = self.framework.embedding(FIVE, embed)
        retriever = self.framework.retriever(**given, selection="mmr", timeout=TIMEOUT, on_result=seen.append)
        assert self.timely(retriever, awaited, hang, ends=True) == list(FIVE)
        assert any("selection by mmr" in text for text in seen[0].warnings)

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_prior_that_is_slow_is_left_out_and_that_is_said_once(self, awaited: bool, hang: Hang) -> None:
        seen: list[Any] = []
        pipeline = FusionPipeline(priors=(SlowPrior(hang),))
        retriever = self.five(pipeline=pipeline, timeout=TIMEOUT, on_result=seen.append)
        with pytest.warns(PhasegraphWarning, match=r"missed the deadline: the answer ignores priors.*Raise timeout="):
            assert self.timely(retriever, awaited, hang) == list(FIVE)
        assert seen[0].degraded
        assert any("missed the deadline" in text for text in seen[0].warnings)
        with warnings.catch_warnings():
            warnings.simplefilter("error", PhasegraphWarning)
            assert self.timely(retriever, awaited, hang) == list(FIVE)
        hang.released.set()
        with pytest.warns(PhasegraphWarning, match="meets the deadline again"):
            assert self.found(retriever, awaited) == list(FIVE)
        assert not seen[-1].degraded

    @pytest.mark.parametrize("awaited", [False, True])
    def test_correction_that_is_slow_finds_nothing_in_time(self, awaited: bool, hang: Hang) -> None:
        correct = hang.function(TIMEOUT, ["a"], beside=math.inf)
        seen: list[Any] = []
        accept = AcceptancePolicy({"one": 9.0}, on_empty=correct)
        retriever = self.five(accept=accept, timeout=TIMEOUT, on_result=seen.append)
        with pytest.warns(PhasegraphWarning, match="missed the deadline"):
            assert self.timely(retriever, awaited, hang) == []
        assert seen[0].degraded

    @pytest.mark.parametrize("awaited", [False, True])
    def test_strict_makes_an_error_of_what_was_left_out(self, awaited: bool, hang: Hang) -> None:
        hits = {f"p{n}": 40.0 - n + (n % 3) / 7 for n in range(30)}
        retriever = self.framework.retriever(
            retrievers={
                "one": SourceSpec(retriever=lambda query: self.framework.pairs(**hits), fields=HitFields(size=40))
            },
            pipeline=FusionPipeline(priors=(SlowPrior(hang),), rule="rrf"),
            timeout=TIMEOUT,
        )
        retriever.calibrate([f"query {n}" for n in range(24)], progress=False)
        strict = self.framework.retriever(
            retrievers={
                "one": SourceSpec(retriever=lambda query: self.framework.pairs(**hits), fields=HitFields(size=40))
            },
            pipeline=retriever.fitted_pipeline,
            timeout=TIMEOUT,
            strict=True,
        )
        with (
            pytest.warns(PhasegraphWarning, match="missed the deadline"),
            pytest.raises(DegradedError, match="missed the deadline"),
        ):
            self.timely(strict, awaited, hang)

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_resolve_that_is_slow_costs_its_source(self, awaited: bool, hang: Hang) -> None:
        resolve = hang.function(TIMEOUT, {})
        slow = SourceSpec(retriever=lambda query: self.framework.pairs(a=1.0, b=0.5), fields=HitFields(resolve=resolve))
        retriever = self.framework.retriever(
            retrievers={"one": lambda query: self.framework.pairs(**FIVE), "slow": slow}, timeout=TIMEOUT
        )
        with pytest.warns(PhasegraphWarning, match="'slow' failed"):
            assert self.timely(retriever, awaited, hang) == list(FIVE)

    @pytest.mark.parametrize("awaited", [False, True])
    def test_hits_that_are_not_read_at_the_deadline_are_read_no_further(self, awaited: bool, hang: Hang) -> None:
        read: list[object] = []

        def number(hit: object) -> str:
            read.append(hit)
            if len(read) == 1000:
                hang.function(TIMEOUT)()
            return f"p{len(read)}"

        hits = [(self.framework.document("x", "text"), float(-row)) for row in range(5000)]
        spec = SourceSpec(retriever=lambda query: hits, fetch_k=None, fields=HitFields(id=number))
        five = {"many": spec, "one": lambda query: self.framework.pairs(**FIVE)}
        retriever = self.framework.retriever(retrievers=five, fetch_k=None, timeout=TIMEOUT)
        with pytest.warns(PhasegraphWarning, match="'many' failed"):
            assert self.timely(retriever, awaited, hang) == list(FIVE)
        hang.released.set()
        until(lambda: not hang.jobs)
        assert len(read) == 1000

    @pytest.mark.parametrize("awaited", [False, True])
    def test_very_many_hits_do_not_hold_the_answer_up(
        self, awaited: bool, hang: Hang, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decided: list[int] = []
        decide, slowly = call.make_shortlist, hang.function(TIMEOUT)

        def made(pipeline: Any, rankings: Any, *given: Any, **options: Any) -> Any:
            decided.append(sum(map(len, rankings)))
            if len(decided) == 1:
                slowly()
            return decide(pipeline, rankings, *given, **options)

        monkeypatch.setattr(call, "make_shortlist", made)
        document, seen = self.framework.document("x", "text"), list[Any]()
        hits = [(document, float(-row)) for row in range(12_000)]
        numbers = iter(range(12_000))
        spec = SourceSpec(
            retriever=lambda query: hits, fetch_k=None, fields=HitFields(id=lambda hit: f"p{next(numbers)}")
        )
        retriever = self.framework.retriever(
            retrievers={"many": spec, "one": lambda query: self.framework.pairs(**FIVE)},
            fetch_k=None,
            timeout=TIMEOUT,
            on_result=seen.append,
        )
        with pytest.warns(PhasegraphWarning, match="missed the deadline"):
            self.timely(retriever, awaited, hang)
        assert decided == [12_005, HITS_IF_LATE + 5]
        assert seen[0].degraded

    def test_more_hits_than_are_read_cost_their_source(self) -> None:
        seen: list[Any] = []
        hits = [(self.framework.document("x", "text"), 1.0)] * 100_001
        retriever = self.framework.retriever(
            retrievers={"many": lambda query: hits, "one": lambda query: self.framework.pairs(**FIVE)},
            on_result=seen.append,
        )
        with pytest.warns(PhasegraphWarning, match="'many' failed"):
            assert self.found(retriever, False) == list(FIVE)
        assert "100,001 hits, more than the maximum 100,000" in seen[0].reports[0].reason

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_query_is_limited_in_length(self, awaited: bool) -> None:
        make: list[Callable[..., Any]] = [self.five, self.walking]
        for made in make:
            with pytest.raises(InvalidInputError, match=r"at most 20,000 characters; got 20,001.*max_query_length="):
                self.found(made(), awaited, 20_001 * "a")
            self.found(made(), awaited, 20_000 * "a")
            with pytest.raises(InvalidInputError, match="at most 3 characters"):
                self.found(made(max_query_length=3), awaited, "four")
            for length in (None, 30_000):
                self.found(made(max_query_length=length), awaited, 25_000 * "a")
            with pytest.raises((InvalidInputError, ValueError), match=r"max_query_length|\bk\b"):
                made(max_query_length=-1)

    def walking(self, **arguments: Any) -> Any:
        """Create an entity-graph retriever over a single passage."""
        return self.framework.graph([self.framework.document("p", "Ada met Bo.")], **arguments)

    def test_a_longer_query_reaches_the_graph_in_a_retriever_that_allows_it(self) -> None:
        seen: list[Any] = []
        retriever = self.framework.retriever(
            graph=self.walking(), max_query_length=None, on_result=seen.append, timeout=60.0
        )
        for awaited in (False, True):
            self.found(retriever, awaited, "Ada " * 6_000)
        assert [[report.status for report in one.reports] for one in seen] == [["ok"], ["ok"]]
