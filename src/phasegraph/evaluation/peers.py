"""The peers: other libraries' own fusion classes over the same lists, imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any
from warnings import catch_warnings, simplefilter

from phasegraph.errors import MissingDependencyError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import THREE, TWO, Answer, Batch, System
from phasegraph.ranking import Ranking


def _needs(module: str, package: str) -> None:
    if find_spec(module) is None:
        raise MissingDependencyError(f"this peer needs {package}; pip install {package}")


def _texts(dataset: Dataset) -> dict[str, str]:
    return {passage.id: passage.content for passage in dataset.passages}


def ensemble(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
    """LangChain's EnsembleRetriever, its defaults: equal weights, c = 60, identity by text."""
    _needs("langchain_classic", "langchain-classic")
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    texts = _texts(dataset)

    class Listed(BaseRetriever):
        rankings: dict[str, Any]

        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            return [Document(id=i, page_content=texts[i], metadata={"id": i}) for i in self.rankings[query].ids]

    keys = [query.id for query in dataset.queries]
    listed: list[Any] = [Listed(rankings=dict(zip(keys, lists, strict=True))) for lists in batch.values()]
    fused = EnsembleRetriever(retrievers=listed, weights=[0.5] * len(listed))
    return [tuple(str(found.metadata["id"]) for found in fused.invoke(key)[:k]) for key in keys]


def query_fusion(mode: str) -> Answer:
    """LlamaIndex's QueryFusionRetriever in one of its modes, without extra queries."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        _needs("llama_index.core" if find_spec("llama_index") else "llama_index", "llama-index-core")
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
        from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

        texts = _texts(dataset)

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
        return [tuple(found.node.node_id for found in fused.retrieve(key)[:k]) for key in keys]

    return answer


def ranx_fusion(norm: str | None, method: str) -> Answer:
    """Ranx's fusion, over whole runs at once; its compilation on first use counts as its time."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
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
            simplefilter("ignore")  # numba's, about ranx's own casts
            fused = fuse(runs=runs, norm=norm, method=method)
        found = fused.to_dict()
        return [tuple(sorted(found[key], key=lambda i: (-found[key][i], i))[:k]) for key in keys]

    return answer


_PEERS: Mapping[str, tuple[Answer, str]] = {
    "ensemble": (ensemble, "LangChain EnsembleRetriever"),
    "fusion-reciprocal": (query_fusion("reciprocal_rerank"), "LlamaIndex QueryFusionRetriever"),
    "fusion-relative": (query_fusion("relative_score"), "LlamaIndex QueryFusionRetriever"),
    "fusion-distance": (query_fusion("dist_based_score"), "LlamaIndex QueryFusionRetriever"),
    "ranx-rrf": (ranx_fusion(None, "rrf"), "ranx"),
    "ranx-min-max-sum": (ranx_fusion("min-max", "sum"), "ranx"),
}
_WITH_BM25 = ("ensemble", "fusion-reciprocal", "fusion-relative")
PEERS: Mapping[str, System] = MappingProxyType(
    {name: System(name, TWO, answer, about) for name, (answer, about) in _PEERS.items()}
    | {f"{name}-three": System(f"{name}-three", THREE, *_PEERS[name]) for name in _WITH_BM25}
)
