"""Measure the cost of phasegraph in LangChain, as ratios to EnsembleRetriever in one run in which both take turns.

python tools/benchmarks/langchain_overhead.py
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Sequence
from functools import partial

warnings.filterwarnings("ignore", category=DeprecationWarning)

from interleaved import TEXT, interleaved, interleaved_async, report  # noqa: E402
from langchain_classic.retrievers import EnsembleRetriever  # noqa: E402
from langchain_core.callbacks import CallbackManagerForRetrieverRun  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402

from langchain_phasegraph import PhaseGraphRetriever  # noqa: E402
from langchain_phasegraph.conversion import ranking_of, reader_of  # noqa: E402
from phasegraph import FusionPipeline  # noqa: E402
from phasegraph.retrieval import HitFields  # noqa: E402


def passages(start: int, count: int) -> list[Document]:
    """Return `count` documents with 800 characters each; their ids begin at number `start`."""
    return [Document(page_content=f"{i} {TEXT}", id=f"passage-{i}") for i in range(start, start + count)]


class Fixed(BaseRetriever):
    """A retriever that returns fixed documents."""

    documents: list[Document]
    seconds: float = 0.0

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.documents


class AsyncFixed(Fixed):
    """A retriever that returns fixed documents, with its own asynchronous search."""

    async def _aget_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
        return self.documents


def invoke_ratios() -> None:
    """Print the ratios of phasegraph to EnsembleRetriever for whole calls, synchronous and asynchronous."""
    for name, kind, seconds, rounds, bar in (
        ("sync invoke, two no-op sources of 50", Fixed, 0.0, 1500, 1.8),
        ("sync invoke, two sources of 5 ms", Fixed, 0.005, 60, 0.6),
        ("ainvoke, two no-op sources of 50", AsyncFixed, 0.0, 1500, 1.4),
    ):
        legs = [kind(documents=passages(0, 50), seconds=seconds), kind(documents=passages(25, 50), seconds=seconds)]
        ensemble = EnsembleRetriever(retrievers=legs)
        ours = PhaseGraphRetriever(retrievers={"first": legs[0], "second": legs[1]})
        if name.startswith("sync"):
            found = interleaved([partial(one.invoke, "query") for one in (ours, ensemble)], rounds)
        else:
            found = asyncio.run(interleaved_async([partial(one.ainvoke, "query") for one in (ours, ensemble)], rounds))
        report(name, *found, bar)


def fusing_ratios() -> None:
    """Print the ratios for fusion alone: converting documents to rankings, and `decide`.

    The lists have 200 and 2000 hits.
    """
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
    report("rankings from documents and decide, 200 + 2000", times[0], times[4], 0.4)
    report("the same, documents without scores", times[1], times[4], 0.4)
    report("rankings from documents alone", times[2], times[4])
    report("decide alone", times[3], times[4])


if __name__ == "__main__":
    print(f"{'':52s} {'phasegraph':>12s}  {'Ensemble':>12s}")
    invoke_ratios()
    fusing_ratios()
