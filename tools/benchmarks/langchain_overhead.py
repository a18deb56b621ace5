"""What phasegraph costs in LangChain, as ratios to EnsembleRetriever in one interleaved run.

python tools/benchmarks/langchain_overhead.py
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

warnings.filterwarnings("ignore", category=DeprecationWarning)

from langchain_classic.retrievers import EnsembleRetriever  # noqa: E402
from langchain_core.callbacks import CallbackManagerForRetrieverRun  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402

from langchain_phasegraph import PhaseGraphRetriever  # noqa: E402
from langchain_phasegraph.conversion import ranking_of, reader_of  # noqa: E402
from phasegraph import FusionPipeline  # noqa: E402
from phasegraph.retrieval import HitFields  # noqa: E402

TEXT = "A passage of about eight hundred characters, as passages are. " * 13
BARS = {
    "sync invoke, two no-op sources of 50": 1.8,
    "ainvoke, two no-op sources of 50": 1.4,
    "sync invoke, two sources of 5 ms": 0.6,
    "rankings from documents and decide, 200 + 2000": 0.4,
}


class Times(NamedTuple):
    """Seconds of one job over many turns: the median, and the lowest decile, which other work disturbs least."""

    median: float
    quiet: float

    @classmethod
    def of(cls, found: list[float]) -> Times:
        """Of the seconds of all turns."""
        return cls(statistics.median(found), statistics.quantiles(found, n=10)[0])


def passages(start: int, count: int) -> list[Document]:
    """Documents with ids, 800 characters each."""
    return [Document(page_content=f"{i} {TEXT}", id=f"passage-{i}") for i in range(start, start + count)]


class Fixed(BaseRetriever):
    """A source that has its answer ready."""

    documents: list[Document]
    seconds: float = 0.0

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.documents


class AsyncFixed(Fixed):
    """The same with an asynchronous search of its own."""

    async def _aget_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
        return self.documents


def interleaved(jobs: Sequence[Callable[[], object]], rounds: int) -> list[Times]:
    """Seconds of each job, taken in turns."""
    times: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        for _ in range(max(3, rounds // 10)):
            job()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for job, found in zip(jobs, times, strict=True):
                start = time.perf_counter()
                job()
                found.append(time.perf_counter() - start)
    finally:
        gc.enable()
    return [Times.of(found) for found in times]


def report(name: str, ours: Times, theirs: Times, bar: float | None = None) -> None:
    """One line of the table."""
    allowed = BARS.get(name) if bar is None else bar
    limit = "" if allowed is None else f"  (at most {allowed})"
    quiet = ours.quiet / theirs.quiet
    ratio = f"ratio {ours.median / theirs.median:5.2f}, of the quickest tenths {quiet:5.2f}{limit}"
    print(f"{name:52s} {ours.median * 1e6:9.0f} us  {theirs.median * 1e6:9.0f} us  {ratio}")


def invoke_ratios() -> None:
    """Whole calls, sync and async."""
    for name, kind, seconds, rounds in (
        ("sync invoke, two no-op sources of 50", Fixed, 0.0, 1500),
        ("sync invoke, two sources of 5 ms", Fixed, 0.005, 60),
        ("ainvoke, two no-op sources of 50", AsyncFixed, 0.0, 1500),
    ):
        legs = [kind(documents=passages(0, 50), seconds=seconds), kind(documents=passages(25, 50), seconds=seconds)]
        ensemble = EnsembleRetriever(retrievers=legs)
        ours = PhaseGraphRetriever(retrievers={"first": legs[0], "second": legs[1]})
        if name.startswith("sync"):
            found = interleaved([lambda: ours.invoke("query"), lambda: ensemble.invoke("query")], rounds)  # noqa: B023
        else:
            found = asyncio.run(interleaved_async(ours, ensemble, rounds))
        report(name, *found)


async def interleaved_async(ours: BaseRetriever, theirs: BaseRetriever, rounds: int) -> list[Times]:
    """As :func:`interleaved`, on one event loop."""
    times: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds + 100):
            for retriever, found in zip((ours, theirs), times, strict=True):
                start = time.perf_counter()
                await retriever.ainvoke("query")
                if turn >= 100:
                    found.append(time.perf_counter() - start)
    finally:
        gc.enable()
    return [Times.of(found) for found in times]


def fusing_ratios() -> None:
    """Documents to rankings, and decide, on lists of 200 and 2000."""
    lists = [passages(0, 200), passages(100, 2000)]
    pairs = [[(document, 1.0 - i / 3000) for i, document in enumerate(documents)] for documents in lists]
    legs = [Fixed(documents=[]), Fixed(documents=[])]
    ensemble = EnsembleRetriever(retrievers=legs)
    readers = [reader_of(name, HitFields(higher_is_better=True)) for name in ("first", "second")]
    pipeline = FusionPipeline()

    def build(given: Sequence[Sequence[object]]) -> list[object]:
        return [ranking_of(reader, hits, None, []) for reader, hits in zip(readers, given, strict=True)]

    def whole(given: Sequence[Sequence[object]]) -> object:
        return pipeline.decide(build(given))  # type: ignore[arg-type]

    ready = build(pairs)
    times = interleaved(
        [
            lambda: whole(pairs),
            lambda: whole(lists),
            lambda: build(pairs),
            lambda: pipeline.decide(ready),  # type: ignore[arg-type]
            lambda: ensemble.weighted_reciprocal_rank(lists),
        ],
        200,
    )
    report("rankings from documents and decide, 200 + 2000", times[0], times[4])
    report("the same, documents without scores", times[1], times[4], 0.4)
    report("rankings from documents alone", times[2], times[4])
    report("decide alone", times[3], times[4])


if __name__ == "__main__":
    print(f"{'':52s} {'phasegraph':>12s}  {'Ensemble':>12s}")
    invoke_ratios()
    fusing_ratios()
