"""Measure the cost of fusion alone, as ratios to the fusion of both frameworks, for lists of 200 and 2000 hits.

python tools/benchmarks/decide_speed.py

All systems take turns in one run.
"""

from __future__ import annotations

import gc
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial

warnings.filterwarnings("ignore", category=DeprecationWarning)

import numpy as np  # noqa: E402
from langchain_classic.retrievers import EnsembleRetriever  # noqa: E402
from langchain_core.callbacks import CallbackManagerForRetrieverRun  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core import MockEmbedding, VectorStoreIndex  # noqa: E402
from llama_index.core.llms import MockLLM  # noqa: E402
from llama_index.core.retrievers import QueryFusionRetriever, VectorIndexRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, TextNode  # noqa: E402

from langchain_phasegraph.conversion import ranking_of, reader_of  # noqa: E402
from phasegraph import Background, FusionPipeline, Ranking, Result  # noqa: E402
from phasegraph.retrieval import HitFields, HitReader  # noqa: E402
from phasegraph.retrieval.provenance import provenance  # noqa: E402

TEXT = "A passage of about eight hundred characters, as passages are. " * 13
DEPTHS = {"vector": 200, "graph": 2000}
WALK = Background(-9.0, 1.0, "log", 1e-4)


class Silent(BaseRetriever):
    """A retriever that is never searched; LangChain's EnsembleRetriever cannot be built without retrievers."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return []


def drawn() -> dict[str, tuple[list[str], list[float]]]:
    """Draw, for each source, a list of ids (of 4000) and descending scores."""
    rng = np.random.default_rng(0)
    return {
        name: (
            [f"passage-{i:07d}" for i in rng.permutation(4000)[:depth]],
            np.sort(rng.random(depth))[::-1].tolist(),
        )
        for name, depth in DEPTHS.items()
    }


def from_ids(lists: dict[str, tuple[list[str], list[float]]]) -> list[Ranking]:
    """Create rankings from ids and scores; the ranking `graph` states its background, as phasegraph's walk does."""
    return [
        Ranking.from_hits(name, ids, scores, background=WALK if name == "graph" else None)
        for name, (ids, scores) in lists.items()
    ]


def from_pairs(readers: Sequence[HitReader], pairs: Sequence[object]) -> list[Ranking]:
    """Create rankings from lists of (document, score), the form in which a LangChain store returns hits."""
    return [ranking_of(reader, hits, None, []) for reader, hits in zip(readers, pairs, strict=True)]


def explained(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> Result:
    """Compute the result of fusion, and the evidence for each document."""
    result = pipeline.decide(rankings)
    provenance(result)
    return result


def built(pipeline: FusionPipeline, build: Callable[[], list[Ranking]]) -> Result:
    """Build the rankings, and compute the result of their fusion."""
    return pipeline.decide(build())


def jobs() -> dict[str, Callable[[], object]]:
    """Return the functions whose time is measured, by name; the fusions of the two frameworks are last."""
    lists = drawn()
    held = {i: Document(page_content=TEXT, id=i, metadata={"id": i}) for ids, _ in lists.values() for i in ids}
    documents = [[held[i] for i in ids] for ids, _ in lists.values()]
    pairs = [[(held[i], score) for i, score in zip(*one, strict=True)] for one in lists.values()]
    nodes = [
        [NodeWithScore(node=TextNode(id_=i, text=f"{i} {TEXT}"), score=score) for i, score in zip(*one, strict=True)]
        for one in lists.values()
    ]
    ensemble = EnsembleRetriever(retrievers=[Silent(), Silent()], weights=[0.5, 0.5], id_key="id")
    places = [VectorIndexRetriever(VectorStoreIndex([], embed_model=MockEmbedding(2))) for _ in lists]
    fusion = QueryFusionRetriever(places, llm=MockLLM(), mode="reciprocal_rerank", num_queries=1)  # type: ignore[arg-type]
    readers = [reader_of(name, HitFields(higher_is_better=True)) for name in lists]
    pipeline, build, read = FusionPipeline(), partial(from_ids, lists), partial(from_pairs, readers, pairs)
    return {
        "decide": partial(pipeline.decide, build()),
        "decide with the evidence": partial(explained, pipeline, build()),
        "rankings from ids and scores": build,
        "both together": partial(built, pipeline, build),
        "rankings from documents and scores": read,
        "both together, from documents": partial(built, pipeline, read),
        "EnsembleRetriever": partial(ensemble.weighted_reciprocal_rank, documents),
        "QueryFusionRetriever": lambda: fusion._reciprocal_rerank_fusion(
            {("query", place): list(given) for place, given in enumerate(nodes)}
        ),
    }


def timed(found: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median processor seconds of each job; the jobs take turns, in a different order each time."""
    times: dict[str, list[float]] = {name: [] for name in found}
    gc.collect()
    gc.disable()
    turns = np.random.default_rng(0)
    for turn in range(rounds + 10):
        for name, job in turns.permutation(np.array(list(found.items()), dtype=object)).tolist():
            start = time.process_time()
            job()
            if turn >= 10:
                times[name].append(time.process_time() - start)
    gc.enable()
    return {name: statistics.median(taken) for name, taken in times.items()}


if __name__ == "__main__":
    median = timed(jobs(), 150)
    theirs = [median.pop("EnsembleRetriever"), median.pop("QueryFusionRetriever")]
    print(f"{'':36s} {'us':>7s}  of Ensemble ({theirs[0] * 1e6:.0f} us)  of QueryFusion ({theirs[1] * 1e6:.0f} us)")
    for name, seconds in median.items():
        print(f"{name:36s} {seconds * 1e6:7.0f}  {seconds / theirs[0]:22.3f}  {seconds / theirs[1]:25.3f}")
    print("bars: decide .12 and .04")
