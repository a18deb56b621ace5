"""Knowledge-graph retrievers of the framework, so that every triple names the passage it came from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.graph_stores.types import TRIPLET_SOURCE_KEY, Triplet
from llama_index.core.indices.property_graph import BasePGRetriever, PGRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode


class TripleNode(TextNode):
    """A triple; its source is the passage that states it."""

    @classmethod
    def class_name(cls) -> str:
        """Name of the class it stands for, in what is written down."""
        return str(TextNode.class_name())


def is_knowledge(retriever: object) -> bool:
    """Whether a retriever gives triples of a property graph, or the passages they came from."""
    return isinstance(retriever, BasePGRetriever | PGRetriever)


def with_own_chunks(retriever: BaseRetriever, limit: int | None) -> BaseRetriever:
    """A copy whose triples name the chunk of their relation.

    The framework takes the chunk of the subject's node, which belongs to the last passage that mentioned it; the
    relation keeps the right one. A retriever that makes its nodes in a way of its own is left to do so.
    """
    made = copy.copy(retriever)
    if isinstance(made, PGRetriever):
        made.sub_retrievers = [with_own_chunks(one, limit) for one in made.sub_retrievers]  # type: ignore[misc]
        return made
    changes: dict[str, Any] = {}
    if limit is not None and isinstance(getattr(made, "_limit", None), int):
        changes["_limit"] = limit
    if type(made)._get_nodes_with_score is BasePGRetriever._get_nodes_with_score:  # type: ignore[attr-defined]
        changes["_get_nodes_with_score"] = _triple_nodes(bool(getattr(made, "include_properties", False)))
    vars(made).update(changes)
    return made


def _triple_nodes(properties: bool) -> Callable[..., list[NodeWithScore]]:
    def build(triplets: Sequence[Triplet], scores: Sequence[float] | None = None) -> list[NodeWithScore]:
        values = [1.0] * len(triplets) if scores is None else scores
        return [
            NodeWithScore(node=_triple_node(one, properties), score=score)
            for one, score in zip(triplets, values, strict=True)
        ]

    return build


def _triple_node(triplet: Triplet, properties: bool) -> TripleNode:
    parts = [str(one) if properties else one.id for one in triplet]
    chunk = chunk_of(triplet)
    source: dict[NodeRelationship, Any] = (
        {} if chunk is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk)}
    )
    return TripleNode(text=" -> ".join(parts), relationships=source)


def chunk_of(triplet: Triplet) -> str | None:
    """Id of the passage that states a triple: the relation's, else the subject's, else the object's."""
    subject, relation, target = triplet
    for part in (relation, subject, target):
        chunk = (part.properties or {}).get(TRIPLET_SOURCE_KEY)
        if chunk is not None and str(chunk).strip():
            return str(chunk)
    return None


def keeps_text(retriever: object) -> bool:
    """Whether its hits are passages, facts in front, rather than triples."""
    if isinstance(retriever, PGRetriever):
        return any(map(keeps_text, retriever.sub_retrievers))
    return bool(getattr(retriever, "include_text", False))


def store_of(retriever: object) -> Any:
    """The property graph store behind a retriever, or None."""
    if isinstance(retriever, PGRetriever):
        return next((found for one in retriever.sub_retrievers if (found := store_of(one)) is not None), None)
    return getattr(retriever, "_graph_store", None)


def passage_id(hit: NodeWithScore, keeps: bool) -> str | None:
    """Id of the passage a knowledge-graph hit came from; None where it does not say."""
    node = hit.node
    if keeps and not isinstance(node, TripleNode):
        return str(node.node_id)
    return node.ref_doc_id


def facts_by_passage(ids: Sequence[str], hits: Iterable[NodeWithScore]) -> dict[str, Mapping[str, object]]:
    """The triples found of each passage, in order, each once."""
    found: dict[str, dict[str, None]] = {}
    for identifier, hit in zip(ids, hits, strict=True):
        if isinstance(hit.node, TripleNode):
            found.setdefault(identifier, {})[hit.node.text] = None
    return {identifier: {"facts": list(facts)} for identifier, facts in found.items()}
