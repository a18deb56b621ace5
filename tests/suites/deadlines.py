"""What the retrievers of an integration promise of time and length in any framework, as tests to inherit.

Derive :class:`DeadlineSuite` in a test-suite and give it the framework's hooks. Needs pytest.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.suites.framework import FrameworkSuite, ids_of

from phasegraph.acceptance import AcceptancePolicy
from phasegraph.errors import AllSourcesFailed, DegradedError, InvalidInputError, PhasegraphWarning
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.retrieval import HitFields, SourceSpec

TIMEOUT, SLOW, ALLOWED = 0.3, 5.0, 0.05
FIVE = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}


class Stalls:
    """How late a plain timer of this process is, again and again: what no code of ours can be blamed for."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._ticks = [time.monotonic()]
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def _tick(self) -> None:
        while not self._over.is_set():
            time.sleep(0.002)
            self._ticks.append(time.monotonic())

    def seconds(self, since: float) -> float:
        """All that ticks came late since then."""
        gaps = [now - before - 0.003 for before, now in pairwise(self._ticks) if now > since]
        return sum(gap for gap in gaps if gap > 0)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def within_the_deadline(seconds: float = TIMEOUT) -> Iterator[None]:
    """Fails where the block takes longer than that, 50 ms and what a plain timer lost meanwhile."""
    with Stalls() as stalls:
        began = time.monotonic()
        yield
        over = time.monotonic() - began - seconds
        lost = stalls.seconds(began + seconds)
    assert over <= ALLOWED + lost, f"{over * 1e3:.0f} ms over the deadline, of which a timer lost {lost * 1e3:.0f}"


class SlowPrior:
    """A prior of the user's that asks somebody else."""

    additive = False

    def __init__(self, free: threading.Event) -> None:
        self._free = free

    def __call__(self, ids: Any, context: Context, /) -> Any:
        self._free.wait(SLOW)
        return np.ones(len(ids))

    def to_dict(self) -> dict[str, object]:
        return {"name": "slow"}


class DeadlineSuite:
    """Tests of one framework's retrievers; derive, name it ``Test…`` and give the framework.

    Attributes
    ----------
    framework : FrameworkSuite
    """

    framework: FrameworkSuite

    @pytest.fixture(autouse=True, scope="class")
    def warm(self) -> None:
        """What a framework loads at its first call is no matter of ours."""
        for awaited in (False, True):
            self.found(self.five(timeout=None), awaited)

    @pytest.fixture
    def free(self) -> Iterator[threading.Event]:
        """Set when the test is over: nothing waits any longer."""
        free = threading.Event()
        yield free
        free.set()

    def found(self, retriever: Any, awaited: bool, query: str = "q") -> list[str]:
        """Ids of what it finds."""
        if awaited:
            return ids_of(asyncio.run(self.framework.aask(retriever, query)))
        return ids_of(self.framework.ask(retriever, query))

    def timely(self, retriever: Any, awaited: bool, free: threading.Event | None = None) -> list[str]:
        """As `found`, within the deadline; what an event loop would wait for at its end is set `free` then."""

        async def ask() -> list[str]:
            try:
                with within_the_deadline():
                    return ids_of(await self.framework.aask(retriever))
            finally:
                if free is not None:
                    free.set()

        if awaited:
            return asyncio.run(ask())
        with within_the_deadline():
            return self.found(retriever, awaited)

    def five(self, **arguments: Any) -> Any:
        """A retriever of five hits."""
        return self.framework.retriever(
            **{"retrievers": {"one": lambda query: self.framework.pairs(**FIVE)}, "timeout": TIMEOUT, **arguments}
        )

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_model_that_embeds_slowly_costs_the_selection(self, awaited: bool, free: threading.Event) -> None:
        seen: list[Any] = []

        def embed(text: str) -> list[float]:
            free.wait(SLOW)
            return [1.0, 0.0]

        given = self.framework.embedding(FIVE, embed)
        retriever = self.framework.retriever(**given, selection="mmr", timeout=TIMEOUT, on_result=seen.append)
        assert self.timely(retriever, awaited, free) == list(FIVE)
        assert any("selection by mmr" in text for text in seen[0].warnings)

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_prior_that_is_slow_is_left_out_and_that_is_said_once(self, awaited: bool, free: threading.Event) -> None:
        seen: list[Any] = []
        retriever = self.five(pipeline=FusionPipeline(priors=(SlowPrior(free),)), on_result=seen.append)
        with pytest.warns(PhasegraphWarning, match=r"not ready in time: priors.*Raise timeout="):
            assert self.timely(retriever, awaited) == list(FIVE)
        assert seen[0].degraded
        assert any("not ready in time" in text for text in seen[0].warnings)
        with warnings.catch_warnings():
            warnings.simplefilter("error", PhasegraphWarning)
            assert self.timely(retriever, awaited) == list(FIVE)
        free.set()
        with pytest.warns(PhasegraphWarning, match="in time again"):
            assert self.found(retriever, awaited) == list(FIVE)
        assert not seen[-1].degraded

    @pytest.mark.parametrize("awaited", [False, True])
    def test_correction_that_is_slow_finds_nothing_in_time(self, awaited: bool, free: threading.Event) -> None:
        def correct(candidates: Any, scores: Any) -> list[str]:
            free.wait(SLOW)
            return ["a"]

        seen: list[Any] = []
        accept = AcceptancePolicy({"one": 9.0}, on_empty=correct)
        retriever = self.five(accept=accept, on_result=seen.append)
        with pytest.warns(PhasegraphWarning, match="not ready in time"):
            assert self.timely(retriever, awaited) == []
        assert seen[0].degraded

    @pytest.mark.parametrize("awaited", [False, True])
    def test_strict_makes_an_error_of_what_was_left_out(self, awaited: bool, free: threading.Event) -> None:
        hits = {f"p{n}": 40.0 - n + (n % 3) / 7 for n in range(30)}
        retriever = self.framework.retriever(
            retrievers={
                "one": SourceSpec(retriever=lambda query: self.framework.pairs(**hits), fields=HitFields(size=40))
            },
            pipeline=FusionPipeline(priors=(SlowPrior(free),), rule="rrf"),
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
            pytest.warns(PhasegraphWarning, match="not ready in time"),
            pytest.raises(DegradedError, match="not ready in time"),
        ):
            self.timely(strict, awaited)

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_resolve_that_is_slow_costs_its_source(self, awaited: bool, free: threading.Event) -> None:
        def resolve(ids: Any) -> dict[str, Any]:
            free.wait(SLOW)
            return {}

        slow = SourceSpec(retriever=lambda query: self.framework.pairs(a=1.0, b=0.5), fields=HitFields(resolve=resolve))
        retriever = self.framework.retriever(
            retrievers={"one": lambda query: self.framework.pairs(**FIVE), "slow": slow}, timeout=TIMEOUT
        )
        with pytest.warns(PhasegraphWarning, match="'slow' failed"):
            assert self.timely(retriever, awaited) == list(FIVE)

    @pytest.mark.parametrize("awaited", [False, True])
    def test_very_many_hits_do_not_hold_the_answer_up(self, awaited: bool) -> None:
        document = self.framework.document("x", "text")
        many = 60_000
        names = [f"p{n}" for n in range(many)]
        hits = [document] * many
        spec = SourceSpec(
            retriever=lambda query: [(hit, float(-row)) for row, hit in enumerate(hits)],
            fetch_k=None,
            fields=HitFields(id=_Numbered(names)),
        )
        retriever = self.framework.retriever(
            retrievers={"many": spec, "one": lambda query: self.framework.pairs(**FIVE)}, fetch_k=None, timeout=TIMEOUT
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PhasegraphWarning)
            with suppress(AllSourcesFailed):  # those many leave a busy machine no time for the other
                self.timely(retriever, awaited)

    def test_more_hits_than_are_read_cost_their_source(self) -> None:
        seen: list[Any] = []
        hits = [(self.framework.document("x", "text"), 1.0)] * 100_001
        retriever = self.framework.retriever(
            retrievers={"many": lambda query: hits, "one": lambda query: self.framework.pairs(**FIVE)},
            on_result=seen.append,
        )
        with pytest.warns(PhasegraphWarning, match="'many' failed"):
            assert self.found(retriever, False) == list(FIVE)
        assert "100,001 hits, and at most 100,000 are read" in seen[0].reports[0].reason

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_query_is_limited_in_length(self, awaited: bool) -> None:
        make: list[Callable[..., Any]] = [self.five, self.walking]
        for made in make:
            with pytest.raises(InvalidInputError, match=r"at most 20,000 characters; got 20,001.*max_query_length="):
                self.found(made(), awaited, 20_001 * "a")
            self.found(made(timeout=None) if made == self.five else made(), awaited, 20_000 * "a")
            with pytest.raises(InvalidInputError, match="at most 3 characters"):
                self.found(made(max_query_length=3), awaited, "four")
            for length in (None, 30_000):
                self.found(made(max_query_length=length), awaited, 25_000 * "a")
            with pytest.raises((InvalidInputError, ValueError), match=r"max_query_length|\bk\b"):
                made(max_query_length=-1)

    def walking(self, **arguments: Any) -> Any:
        """An entity graph's retriever."""
        return self.framework.graph([self.framework.document("p", "Ada met Bo.")], **arguments)

    def test_a_longer_query_reaches_the_graph_in_a_retriever_that_allows_it(self) -> None:
        seen: list[Any] = []
        retriever = self.framework.retriever(
            graph=self.walking(), max_query_length=None, on_result=seen.append, timeout=60.0
        )
        for awaited in (False, True):
            self.found(retriever, awaited, "Ada " * 6_000)
        assert [[report.status for report in one.reports] for one in seen] == [["ok"], ["ok"]]


class _Numbered:
    """Ids for hits that are one object, in the order in which they are asked for."""

    def __init__(self, names: list[str]) -> None:
        self._names, self._next = names, 0

    def __call__(self, hit: object) -> str:
        self._next += 1
        return self._names[(self._next - 1) % len(self._names)]
