"""A property graph that the framework built, as passages and triples for an entity graph of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.graph_stores.types import (
    KG_SOURCE_REL,
    ChunkNode,
    EntityNode,
    LabelledNode,
    PropertyGraphStore,
    Triplet,
)
from llama_index.core.schema import BaseNode

from llama_index.retrievers.phasegraph.conversion import chunk_of
from phasegraph import InvalidInputError, InvalidTypeError

_BATCH = 500


@dataclass(frozen=True, slots=True)
class PropertyGraphRecords:
    """What a property graph says, by passage; arguments for :func:`phasegraph.graph.build_graph`.

    Parameters
    ----------
    passages : sequence of mapping
        Each with ``id``, ``title`` (from the node's metadata, where there is one) and ``text``.
    triples : mapping of str to sequence of (subject, relation, object)
        By the id of the passage that states them.
    nodes : sequence of BaseNode
        The passages' nodes.
    unplaced : int
        Triples left out: they name no passage, or one that the store does not have.
    """

    passages: Sequence[Mapping[str, str]]
    triples: Mapping[str, Sequence[tuple[str, str, str]]]
    nodes: Sequence[BaseNode]
    unplaced: int = 0


def read_property_graph(store: PropertyGraphStore) -> PropertyGraphRecords:
    """Read passages and triples out of a property graph store.

    Parameters
    ----------
    store : PropertyGraphStore

    Returns
    -------
    PropertyGraphRecords

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is no such store, or holds no passage.

    Notes
    -----
    A triple belongs to the chunk that its relation names. The framework's retrievers take the chunk of the subject's
    node instead, which is the last one that mentioned it.
    """
    if not isinstance(store, PropertyGraphStore):
        raise InvalidTypeError(f"store must be a PropertyGraphStore; got {type(store).__name__}")
    labelled = store.get()
    chunk_ids = sorted({one.id for one in labelled if isinstance(one, ChunkNode)})
    nodes = sorted(store.get_llama_nodes(chunk_ids), key=lambda node: node.node_id) if chunk_ids else []
    if not nodes:
        raise InvalidInputError("store must hold at least one passage; got none")
    triples: dict[str, list[tuple[str, str, str]]] = {node.node_id: [] for node in nodes}
    unplaced = 0
    for chunk, triple in sorted(_triples(store, labelled), key=lambda pair: (pair[0] or "", pair[1])):
        if chunk in triples:
            triples[chunk].append(triple)
        else:
            unplaced += 1
    passages = [{"id": n.node_id, "title": str(n.metadata.get("title") or ""), "text": n.get_content()} for n in nodes]
    return PropertyGraphRecords(passages, {key: rows for key, rows in triples.items() if rows}, nodes, unplaced)


def _triples(
    store: PropertyGraphStore, labelled: Sequence[LabelledNode]
) -> set[tuple[str | None, tuple[str, str, str]]]:
    """Every triple once, with the passage it names."""
    return {
        (chunk_of(found), (_name(found[0]), found[1].label, _name(found[2])))
        for found in _relations(store, labelled)
        if found[1].label != KG_SOURCE_REL and not any(isinstance(end, ChunkNode) for end in (found[0], found[2]))
    }


def _relations(store: Any, labelled: Sequence[LabelledNode]) -> Iterator[Triplet]:
    graph: Any = getattr(store, "graph", None)
    if hasattr(graph, "get_triplets"):
        yield from graph.get_triplets()
        return
    ids = [one.id for one in labelled if not isinstance(one, ChunkNode)]
    for start in range(0, len(ids), _BATCH):
        yield from store.get_triplets(ids=ids[start : start + _BATCH])


def _name(node: LabelledNode) -> str:
    return node.name if isinstance(node, EntityNode) else node.id
