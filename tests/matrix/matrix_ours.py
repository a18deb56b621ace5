"""Our two retrievers over a row's store, and what the core makes of the same lists."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llama_index.core.schema import NodeWithScore
from matrix_slice import LangChainVectors, Slice, real_slice

import langchain_phasegraph as langchain
from llama_index.retrievers import phasegraph as llamaindex
from phasegraph import Context, FusionPipeline, Ranking, Result
from phasegraph.graph import ChunkGraphSource, EntityGraph, GraphSource, build_chunk_graph, build_graph
from phasegraph.lexical import read_hits
from phasegraph.retrieval import HitFields

LIMIT = 50
_FIELDS = {"id", "score", "higher_is_better", "size", "resolve"}


def retriever(framework: str, **arguments: Any) -> Any:
    """Our retriever of that framework, patient with a busy machine, which says all it knows."""
    kind = langchain.PhaseGraphRetriever if framework == "LangChain" else llamaindex.CalibratedFusionRetriever
    shown = {"score_key": "score"} if framework == "LangChain" else {}
    return kind(timeout=None, evidence_key="phasegraph", **shown, **arguments)


def spec(framework: str, given: Any, **arguments: Any) -> Any:
    """A source of that framework with settings of its own, those of its hits' fields among them."""
    kind = langchain.SourceSpec if framework == "LangChain" else llamaindex.SourceSpec
    fields = {name: arguments.pop(name) for name in _FIELDS & set(arguments)}
    return kind(retriever=given, fields=HitFields(**fields), **arguments)


def ask(retriever: Any, question: str) -> list[Any]:
    """Hits, from whichever framework's retriever."""
    return retriever.invoke(question) if hasattr(retriever, "invoke") else retriever.retrieve(question)


async def aask(retriever: Any, question: str) -> list[Any]:
    """As `ask`, awaited."""
    return await (retriever.ainvoke(question) if hasattr(retriever, "invoke") else retriever.aretrieve(question))


def ids(hits: list[Any]) -> list[str]:
    """Ids of the hits."""
    return [hit.node.node_id if isinstance(hit, NodeWithScore) else hit.id for hit in hits]


def walk(framework: str, data: Slice) -> Any:
    """Our own graph retriever over a slice."""
    if framework == "LangChain":
        return langchain.EntityGraphRetriever(graph=slice_graph(tuple(data.ids)), documents=data.documents())
    return llamaindex.EntityGraphRetriever(slice_graph(tuple(data.ids)), data.nodes(embedded=False))


def chunk_walk(framework: str, data: Slice) -> Any:
    """Our walk over chunks, from the vectors beside it, or from the nearest chunks where there are none."""
    rows = list(data.rows)
    graph = build_chunk_graph(rows, documents=[row["title"] for row in rows], embeddings=data.vectors)
    source = ChunkGraphSource(graph, embedder=LangChainVectors(data).embed_query)
    if framework == "LangChain":
        return langchain.EntityGraphRetriever(graph=source, documents=data.documents())
    return llamaindex.EntityGraphRetriever(source, data.nodes(embedded=False))


@lru_cache(maxsize=3)
def slice_graph(ids: tuple[str, ...]) -> EntityGraph:
    """The entity graph of these passages of the slice."""
    data = real_slice()
    kept = set(ids)
    rows = [dict(row) for row in data.rows if row["id"] in kept]
    return build_graph(rows, triples={name: said for name, said in data.triples.items() if name in kept})


def core(question: str, own: Any, better: str) -> Result:
    """What the core decides on a store's own list and the walk it seeds."""
    names, scores = [name for name, _ in own], [score for _, score in own]
    vector = Ranking.from_hits(
        "vector", names, None if better == "ranks only" else scores, higher_is_better=better != "lower"
    )
    graph = GraphSource(slice_graph(tuple(real_slice().ids))).search(question, LIMIT, {"vector": vector})
    texts = {row["id"]: f"{row['title']}\n{row['text']}" for row in real_slice().rows}
    return FusionPipeline().decide(
        [vector, graph], Context(question, words=read_hits(question, [vector, graph], texts.__getitem__))
    )
