"""Read the answers of property graph retrievers: triples, or the passages that state the triples."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import TRIPLET_SOURCE_KEY, ChunkNode, Triplet
from llama_index.core.indices.property_graph import (
    BasePGRetriever,
    CustomPGRetriever,
    CypherTemplateRetriever,
    LLMSynonymRetriever,
    PGRetriever,
    TextToCypherRetriever,
    VectorContextRetriever,
)
from llama_index.core.schema import BaseNode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from llama_index.retrievers.phasegraph.conversion import ranking_of, unpack
from llama_index.retrievers.phasegraph.nodes import TripleNode, own_id
from phasegraph import Ranking
from phasegraph.retrieval import HitReader


def is_knowledge(retriever: object) -> bool:
    """Return True if a retriever searches a property graph, and so returns triples or passages that state them."""
    return isinstance(retriever, BasePGRetriever | PGRetriever)


def with_own_chunks(retriever: BaseRetriever, limit: int | None) -> BaseRetriever:
    """Return a copy of a retriever that names the passage of each triple, and gives no random ids.

    The framework's triples name the chunk of the subject's node, which is the last passage that mentioned the subject.
    The copy reads the chunk from the relation, which names the passage that states the triple. The framework also gives
    the texts of custom retrievers and Cypher queries random ids at every call; the copy marks these texts as nodes
    without a passage id. Nodes that a retriever creates itself keep their ids.
    """
    made = copy.copy(retriever)
    if isinstance(made, PGRetriever):
        made.sub_retrievers = [with_own_chunks(one, limit) for one in made.sub_retrievers]  # type: ignore[misc]
        return made
    changes: dict[str, Any] = {}
    if limit is not None and isinstance(getattr(made, "_limit", None), int):
        changes["_limit"] = limit
    if type(made)._get_nodes_with_score is BasePGRetriever._get_nodes_with_score:  # type: ignore[attr-defined]
        properties = bool(getattr(made, "include_properties", False))
        changes["_get_nodes_with_score"] = _TripleNodes(properties)
        changes["_add_source_text"] = _SourceText(made._add_source_text)  # type: ignore[attr-defined]
    if isinstance(made, CustomPGRetriever):
        changes["_parse_custom_return_type"] = _CustomNodes(made._parse_custom_return_type)
    if isinstance(made, CypherTemplateRetriever | TextToCypherRetriever):
        changes["retrieve_from_graph"] = _CypherNodes(made.retrieve_from_graph)
        changes["aretrieve_from_graph"] = _AwaitedCypherNodes(made.aretrieve_from_graph)
    vars(made).update(changes)
    return made


@dataclass(frozen=True, slots=True)
class _CustomNodes:
    """A replacement for a custom retriever's ``_parse_custom_return_type``; its node ids are made from texts."""

    parse: Callable[[Any], list[NodeWithScore]]

    def __call__(self, answer: Any) -> list[NodeWithScore]:
        texts = [answer] if isinstance(answer, str) else answer
        if isinstance(texts, list) and texts and all(isinstance(one, str) for one in texts):
            return [NodeWithScore(node=hit.node, score=1.0) for hit in unpack(texts)]
        return self.parse(answer)


@dataclass(frozen=True, slots=True)
class _CypherNodes:
    """A replacement for a Cypher retriever's ``retrieve_from_graph``; its node ids are made from texts."""

    retrieve: Callable[[QueryBundle], list[NodeWithScore]]

    def __call__(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _unnamed(self.retrieve(query_bundle))


@dataclass(frozen=True, slots=True)
class _AwaitedCypherNodes:
    """A replacement for a Cypher retriever's ``aretrieve_from_graph``; its node ids are made from texts."""

    retrieve: Callable[[QueryBundle], Awaitable[list[NodeWithScore]]]

    async def __call__(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _unnamed(await self.retrieve(query_bundle))


def _unnamed(hits: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    texts = unpack([hit.node.get_content() for hit in hits])
    for text, hit in zip(texts, hits, strict=True):
        text.node.metadata, text.score = hit.node.metadata, hit.score
    return texts


@dataclass(frozen=True, slots=True)
class _TripleNodes:
    """A replacement for a retriever's ``_get_nodes_with_score`` that creates a :class:`TripleNode` for each triple."""

    properties: bool

    def __call__(self, triplets: Sequence[Triplet], scores: Sequence[float] | None = None) -> list[NodeWithScore]:
        values = [1.0] * len(triplets) if scores is None else scores
        return [NodeWithScore(node=self._node(one), score=score) for one, score in zip(triplets, values, strict=True)]

    def _node(self, triplet: Triplet) -> TripleNode:
        parts, chunk = [str(one) if self.properties else one.id for one in triplet], chunk_of(triplet)
        source: dict[NodeRelationship, Any] = (
            {} if chunk is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk)}
        )
        return TripleNode(text=" -> ".join(parts), relationships=source)


@dataclass(frozen=True, slots=True)
class _SourceText:
    """A replacement for a retriever's ``_add_source_text`` that records which triples led to a passage.

    The framework writes the triples into the text of the passage. Another source may supply the text of the answer.
    """

    add: Callable[[Any, Any], list[NodeWithScore]]
    facts: dict[str, dict[str, None]] = field(default_factory=dict)

    def __call__(self, retrieved_nodes: list[NodeWithScore], og_node_map: dict[str, BaseNode]) -> list[NodeWithScore]:
        for hit in retrieved_nodes:
            if isinstance(hit.node, TripleNode) and hit.node.ref_doc_id in og_node_map:
                self.facts.setdefault(hit.node.ref_doc_id, {})[hit.node.text] = None
        return self.add(retrieved_nodes, og_node_map)


def _stated(asked: Any) -> dict[str, dict[str, None]]:
    """Return the triples that led to passages in the search of :func:`with_own_chunks`'s copy, by passage id."""
    found: dict[str, dict[str, None]] = {}
    for one in asked.sub_retrievers if isinstance(asked, PGRetriever) else [asked]:
        if isinstance(one, PGRetriever):
            parts = _stated(one)
        else:
            parts = getattr(vars(one).get("_add_source_text"), "facts", {})
        for identifier, facts in parts.items():
            found.setdefault(identifier, {}).update(facts)
    return found


def chunk_of(triplet: Triplet) -> str | None:
    """Return the id of the passage that states a triple; None if the triple names no passage.

    The id is read from the relation. If the relation has no such id, the subject is used, and then the object.
    """
    subject, relation, target = triplet
    for part in (relation, subject, target):
        chunk = (part.properties or {}).get(TRIPLET_SOURCE_KEY)
        if chunk is not None and str(chunk).strip():
            return str(chunk)
    return None


def names_own_chunks(retriever: Any) -> bool:
    """Return True if :func:`with_own_chunks` can name, for each triple of the retriever, the passage that states it."""
    if isinstance(retriever, PGRetriever):
        return all(map(names_own_chunks, retriever.sub_retrievers))
    return "_get_nodes_with_score" in vars(with_own_chunks(retriever, None))


def stores_of(retriever: object) -> list[Any]:
    """Return the property graph stores that a retriever searches, without duplicates."""
    if isinstance(retriever, PGRetriever):
        found = [store for one in retriever.sub_retrievers for store in stores_of(one)]
        return [store for row, store in enumerate(found) if all(store is not one for one in found[:row])]
    store = getattr(retriever, "_graph_store", None)
    return [] if store is None else [store]


def kept_chunks(retriever: Any) -> list[str]:
    """Return the ids of all passages in the in-memory graph stores that a retriever searches.

    Return an empty list for another store, and for a retriever that can return other nodes than these passages.
    """
    if isinstance(retriever, PGRetriever):
        parts = list(map(kept_chunks, retriever.sub_retrievers))
        return list(dict.fromkeys(name for part in parts for name in part)) if all(parts) else []
    store = retriever._graph_store
    if not isinstance(store, SimplePropertyGraphStore) or not isinstance(
        retriever, LLMSynonymRetriever | VectorContextRetriever
    ):
        return []
    return [name for name, one in store.graph.nodes.items() if isinstance(one, ChunkNode)]


def knowledge_ranking(
    reader: HitReader, asked: Any, found: Sequence[NodeWithScore], limit: int | None, notes: list[str]
) -> Ranking:
    """Convert triples and passages to a ranking of passages; the triples of a passage are the passage's evidence.

    `asked` is the copy of the retriever that found them.
    """
    stated = _stated(asked)
    hits = [_as_triple(hit) if _is_triple(hit.node) else hit for hit in found]

    def facts(ids: Sequence[str]) -> dict[str, object]:
        found: dict[str, dict[str, None]] = {}
        for identifier, hit in zip(ids, hits, strict=True):
            if isinstance(hit.node, TripleNode):
                found.setdefault(identifier, {})[hit.node.text] = None
            elif hit.node.node_id in stated:
                found.setdefault(identifier, {}).update(stated[hit.node.node_id])
        return {identifier: {"facts": list(texts)} for identifier, texts in found.items()}

    passages = [one.node.ref_doc_id if isinstance(one.node, TripleNode) else own_id(one.node) for one in hits]
    return ranking_of(reader, hits, limit, notes, own=passages, evidence=facts)


def _is_triple(node: BaseNode) -> bool:
    """Return True if a node contains a triple that a custom retriever got from another retriever of LlamaIndex.

    The node of a triple has only a line of text and the id of its passage. A chunk has metadata or a document.
    """
    source = node.relationships.get(NodeRelationship.SOURCE)
    return (
        type(node) is TextNode
        and isinstance(source, RelatedNodeInfo)
        and source.node_type is None
        and not node.metadata
        and node.text.count(" -> ") >= 2
        and "\n" not in node.text
    )


def _as_triple(hit: NodeWithScore) -> NodeWithScore:
    made = TripleNode(text=hit.node.get_content(), relationships=dict(hit.node.relationships))
    return NodeWithScore(node=made, score=hit.score)
