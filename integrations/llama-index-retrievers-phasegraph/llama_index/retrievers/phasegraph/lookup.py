"""Look up nodes by id: in memory, in the nodes of an index, in a docstore, or in a store with texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index.retrievers.phasegraph.nodes import held_by_id
from phasegraph import InvalidTypeError
from phasegraph.retrieval import HitLookup


def lists_all_nodes(index: Any) -> bool:
    """Return True if a vector index lists the ids of all its nodes; otherwise, only its store knows them."""
    return not index.vector_store.stores_text or index._store_nodes_override


def own_ids(index: Any, among: Collection[str] | None = None) -> set[str]:
    """Return the ids of the nodes that belong to a vector index whose vector store has no texts.

    The index's docstore can also contain nodes of other indices, parents of the nodes, and nodes that were deleted from
    the index. With `among`, only these ids are checked.
    """
    names = index.index_struct.nodes_dict
    if isinstance(index.vector_store, SimpleVectorStore):  # the keys of `names`, ids of vectors, are ids of nodes
        vectors = index.vector_store.data.embedding_dict
        wanted = list(names) if among is None else among  # another thread may insert nodes
        return {one for one in wanted if one in names and one in vectors}
    return set(names.values()) if among is None else set(among).intersection(names.values())


@dataclass(frozen=True, slots=True)
class Lookup(HitLookup):
    """A lookup of nodes by passage id: in memory, in an index's docstore, or in a vector store with texts."""

    @classmethod
    def of(cls, nodes: Any) -> Lookup:
        """Create the lookup for the argument `nodes`; raise InvalidTypeError if its type is not supported."""
        store = getattr(nodes, "docstore", nodes)
        if nodes is None:
            return cls("none", None)
        other = isinstance(nodes, BaseIndex) and not isinstance(nodes, VectorStoreIndex)  # its vectors are not of nodes
        vectors = None if other else getattr(nodes, "vector_store", None)
        if isinstance(vectors, BasePydanticVectorStore) and vectors.stores_text:
            return cls("vectors", vectors)
        if isinstance(nodes, PropertyGraphIndex):
            return cls("graph_index", nodes)
        if isinstance(nodes, VectorStoreIndex):
            return cls("index", nodes)
        if isinstance(store, BaseDocumentStore):
            return cls("docstore", store)
        if isinstance(nodes, PropertyGraphStore):
            return cls("graph", nodes)
        if isinstance(nodes, Mapping):
            return cls("mapping", nodes)
        if callable(nodes):
            return cls("callable", nodes)
        found: list[Any] = list(nodes) if isinstance(nodes, Iterable) and not isinstance(nodes, str | bytes) else [None]
        if not all(isinstance(node, BaseNode) for node in found):
            raise InvalidTypeError(
                f"nodes must be a mapping, nodes, a docstore, an index or a function of ids; got {type(nodes).__name__}"
            )
        return cls("mapping", held_by_id(found))

    @classmethod
    def of_argument(cls, nodes: Any) -> Lookup:
        """Create the lookup (:meth:`of`); raise InvalidTypeError also if a vector store cannot look up nodes."""
        made = cls.of(nodes)
        if made.kind == "vectors" and type(made.held).get_nodes is BasePydanticVectorStore.get_nodes:
            raise InvalidTypeError(
                f"nodes must be an index whose store looks up nodes by id; a {type(made.held).__name__} cannot: give "
                "the nodes, a docstore or a function of ids"
            )
        return made

    @property
    def waits(self) -> bool:
        """True if the lookup may wait, for example for a server; False if all nodes are in memory."""
        if self.kind in ("docstore", "index"):
            return not isinstance(getattr(self.held, "docstore", self.held), SimpleDocumentStore)
        return self.kind not in ("none", "mapping")

    def __call__(self, ids: Sequence[str]) -> dict[str, BaseNode]:
        """Return the existing nodes by id."""
        if self.kind == "none":
            return {}
        if self.kind in ("docstore", "index"):
            own = ids if self.kind == "docstore" else own_ids(self.held, ids)
            held = getattr(self.held, "docstore", self.held).get_nodes(
                [one for one in ids if one in own], raise_error=False
            )
            return {node.node_id: node for node in held if node is not None}
        if self.kind == "vectors":
            return {node.node_id: node for node in self.held.get_nodes(node_ids=list(ids))}
        if self.kind == "graph":
            return {node.node_id: node for node in self.held.get_llama_nodes(list(ids))}
        if self.kind == "graph_index":  # an index over an existing store has an empty docstore
            found = Lookup("docstore", self.held.docstore)(ids)
            rest = [one for one in ids if one not in found]
            return {**found, **Lookup("graph", self.held.property_graph_store)(rest)} if rest else found
        return dict(self._paired(ids, self.held(list(ids)) if self.kind == "callable" else self.held))
