"""Fuse rankings with the fusion classes of other libraries (the peers), which are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, TypeAlias
from warnings import catch_warnings, simplefilter

from phasegraph.errors import MissingDependencyError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.systems import THREE, TWO, Batch, System
from phasegraph.lexical import tokenizer_of
from phasegraph.ranking import Ranking

Scored: TypeAlias = "list[tuple[str, float]]"
Fuse: TypeAlias = Callable[[Dataset, Batch, int], "list[Scored]"]


def _needs(module: str, package: str) -> None:
    if find_spec(module) is None:
        raise MissingDependencyError(f"this system needs the package {package}: pip install {package}")


def ensemble(dataset: Dataset, batch: Batch, k: int) -> list[Scored]:
    """Fuse with LangChain's EnsembleRetriever and its defaults: equal weights, and the rank constant c = 60.

    The class identifies passages by their text, and returns no scores. The scores here are computed from the ranks by
    its formula: the sum of ``0.5 / (60 + rank)`` over the rankings.
    """
    _needs("langchain_classic", "langchain-classic")
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    texts = dataset.contents

    class Listed(BaseRetriever):
        rankings: dict[str, Any]

        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            return [Document(id=i, page_content=texts[i], metadata={"id": i}) for i in self.rankings[query].ids]

    keys = [query.id for query in dataset.queries]
    listed: list[Any] = [Listed(rankings=dict(zip(keys, lists, strict=True))) for lists in batch.values()]
    fused = EnsembleRetriever(retrievers=listed, weights=[0.5] * len(listed))
    out: list[Scored] = []
    for row, key in enumerate(keys):
        ids = [str(found.metadata["id"]) for found in fused.invoke(key)[:k]]
        held = [lists[row].positions for lists in batch.values()]
        out.append([(name, sum(0.5 / (61 + places[name]) for places in held if name in places)) for name in ids])
    return out


def query_fusion(mode: str) -> Fuse:
    """Return a function that fuses with LlamaIndex's QueryFusionRetriever, without generated queries.

    `mode` is a value of LlamaIndex's ``FUSION_MODES``, such as ``relative_score``.
    """

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[Scored]:
        _needs("llama_index.core" if find_spec("llama_index") else "llama_index", "llama-index-core")
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
        from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

        texts = dataset.contents

        class Listed(BaseRetriever):  # type: ignore[misc, unused-ignore]
            def __init__(self, rankings: Mapping[str, Ranking]) -> None:
                self.rankings = rankings
                super().__init__()

            def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
                ranking = self.rankings[query_bundle.query_str]
                hits = zip(ranking.ids, ranking.scores.tolist(), strict=True)
                return [NodeWithScore(node=TextNode(id_=i, text=texts[i]), score=score) for i, score in hits]

        keys = [query.id for query in dataset.queries]
        listed: list[BaseRetriever] = [Listed(dict(zip(keys, lists, strict=True))) for lists in batch.values()]
        fused = QueryFusionRetriever(
            listed, llm=MockLLM(), mode=FUSION_MODES(mode), similarity_top_k=k, num_queries=1, use_async=False
        )
        return [[(found.node.node_id, found.score or 0.0) for found in fused.retrieve(key)[:k]] for key in keys]

    return answer


def ranx_fusion(norm: str | None, method: str) -> Fuse:
    """Return a function that fuses whole runs with ``ranx.fuse(norm=norm, method=method)``.

    If `norm` is None, the scores are not normalized. A measured time includes the compilation that ranx does on first
    use.
    """

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[Scored]:
        _needs("ranx", "ranx")
        from ranx import Run, fuse

        keys = [query.id for query in dataset.queries]
        rows = {source: zip(keys, lists, strict=True) for source, lists in batch.items()}
        scores = {
            source: {key: dict(zip(ranking.ids, ranking.scores.tolist(), strict=True)) for key, ranking in found}
            for source, found in rows.items()
        }
        runs = [Run(found, name=source) for source, found in scores.items()]
        with catch_warnings():
            simplefilter("ignore")  # numba warns about casts inside ranx
            fused = fuse(runs=runs, norm=norm, method=method)
        found = fused.to_dict()
        return [sorted(found[key].items(), key=lambda hit: (-hit[1], hit[0]))[:k] for key in keys]

    return answer


def bayesian_bm25(dataset: Dataset, batch: Batch, k: int) -> list[Scored]:
    """Rank passages with the package bayesian-bm25 and its defaults; the tokenizer is ``english``.

    The scores are in [0, 1]. Only hits with a positive score are returned.
    """
    _needs("bayesian_bm25", "bayesian-bm25[scorer]")
    from bayesian_bm25.scorer import BayesianBM25Scorer

    words, ids = tokenizer_of("english"), [passage.id for passage in dataset.passages]
    scorer: Any = BayesianBM25Scorer()
    scorer.index([words(passage.content) for passage in dataset.passages], show_progress=False)
    out: list[Scored] = []
    for query in dataset.queries:
        rows, found = scorer.retrieve([words(query.text)], k=k)
        out.append([(ids[row], one) for row, one in zip(rows[0].tolist(), found[0].tolist(), strict=True) if one > 0])
    return out


def peer_system(name: str, sources: tuple[str, ...], fuse: Fuse, about: str) -> System:
    """Return a system that fuses the rankings of `sources` with `fuse`, a function of another library.

    The system's confidence in a query is the score of its best hit, or 0 without hits.
    """

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(identifier for identifier, _ in hits) for hits in fuse(dataset, batch, k)]

    def confidence(dataset: Dataset, batch: Batch) -> list[float | None]:
        return [float(hits[0][1]) if hits else 0.0 for hits in fuse(dataset, batch, 10)]

    return System(name, sources, answer, about, confidence)


_PEERS: Mapping[str, tuple[Fuse, str]] = {
    "ensemble": (ensemble, "LangChain EnsembleRetriever (RRF)"),
    "fusion-reciprocal": (query_fusion("reciprocal_rerank"), "LlamaIndex QueryFusionRetriever, reciprocal ranks"),
    "fusion-relative": (query_fusion("relative_score"), "LlamaIndex QueryFusionRetriever, relative scores"),
    "fusion-distance": (
        query_fusion("dist_based_score"),
        "LlamaIndex QueryFusionRetriever, scores by mean and deviation",
    ),
    "ranx-rrf": (ranx_fusion(None, "rrf"), "ranx, RRF"),
    "ranx-min-max-sum": (ranx_fusion("min-max", "sum"), "ranx, min-max and sum"),
}
_WITH_BM25 = ("ensemble", "fusion-reciprocal", "fusion-relative")
PEERS: Mapping[str, System] = MappingProxyType(
    {name: peer_system(name, TWO, fuse, about) for name, (fuse, about) in _PEERS.items()}
    | {
        f"{name}-three": peer_system(f"{name}-three", THREE, _PEERS[name][0], f"{name} with BM25")
        for name in _WITH_BM25
    }
    | {"bayesian-bm25": peer_system("bayesian-bm25", (), bayesian_bm25, "BM25 as a probability, bayesian-bm25")}
)
