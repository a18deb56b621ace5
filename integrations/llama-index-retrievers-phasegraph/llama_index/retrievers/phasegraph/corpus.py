"""Nodes of one's own, or in an index or property graph: as passages, with what they state; retrievers over them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.graph_stores.types import (
    KG_SOURCE_REL,
    ChunkNode,
    EntityNode,
    LabelledNode,
    PropertyGraphStore,
    Triplet,
)
from llama_index.core.indices.utils import embed_nodes
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.utils import node_to_metadata_dict

import phasegraph  # its room graph is loaded when it is first named: it brings scipy.sparse
from llama_index.retrievers.phasegraph.conversion import Embedder, chunk_of, held_by_id, node_of
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import KeptPassages, in_thread, with_progress

if TYPE_CHECKING:
    import phasegraph.graph

FRAMEWORK = "llama_index"
_MANY = 256


def passages_of(
    held: Mapping[str, BaseNode], title_key: str, given: Mapping[str, Sequence[Any]] | None = None
) -> list[dict[str, Any]]:
    """Nodes as passages of the core, with the extractions handed over; the metadata hold what else a node has."""
    return [
        {
            "id": name,
            "title": str(node.metadata.get(title_key) or ""),
            "text": node.get_content(),
            "metadata": _whole(name, node),
            "given": [] if given is None else given.get(name, []),
        }
        for name, node in held.items()
    ]


def _whole(name: str, node: BaseNode) -> dict[str, Any]:
    from phasegraph.graph import check_plain

    try:
        return node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
    except ValueError:
        check_plain(name, node.metadata)  # says which key it is
        raise


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


def embedded(embed_model: BaseEmbedding | None, held: Mapping[str, BaseNode], progress: bool) -> Any:
    """The nodes' embeddings: those that they carry, else the model's, of what the framework embeds of a node."""
    if embed_model is None:
        return None
    found = embed_nodes(list(held.values()), embed_model, show_progress=progress and len(held) > _MANY)
    return [found[node.node_id] for node in held.values()]


def built(
    held: Mapping[str, BaseNode],
    embed_model: BaseEmbedding | None,
    *,
    title_key: str,
    vectors: Any = None,
    triples: Any = None,
    gazetteer: Iterable[str] = (),
    tokenizer: Any = "english",
    progress: bool = True,
    store: Any = None,
    kept: bool = False,
) -> phasegraph.graph.Corpus:
    """A corpus of nodes, in memory, with their vectors in a store if there is one; to be `kept` in a folder."""
    from phasegraph.graph import Corpus, GraphIndex, check_passages

    embedder, passages = Embedder.of(embed_model), passages_of(held, title_key)
    check_passages(passages, kept=kept, tokenizer=tokenizer)  # before anything is embedded
    index = GraphIndex.build(
        passages, triples=triples,
        embeddings=embedded(embed_model, held, progress) if vectors is None else vectors or None,
        gazetteer=gazetteer, tokenizer=tokenizer,
        progress=lambda rows: with_progress(rows, progress and len(held) > _MANY, label="index", unit="passage"),
    )  # fmt: skip
    return Corpus(index, None if embedder is None else embedder.query, store=store)


def contents_of(index: VectorStoreIndex) -> tuple[dict[str, BaseNode], list[list[float]]]:
    """Nodes by id that an index's docstore holds, or its vector store where that has texts, and their vectors.

    The vectors are those of the framework's own store in memory; none for any other. InvalidInputError if it holds no
    node.
    """
    held = nodes_of(index)
    if not held:
        raise InvalidInputError("the index must hold nodes; its docstore is empty")
    known = getattr(getattr(index.vector_store, "data", None), "embedding_dict", {})
    return held, [known[name] for name in held] if all(name in known for name in held) else []


def nodes_of(index: VectorStoreIndex) -> dict[str, BaseNode]:
    """Nodes by id that an index's docstore holds, or its vector store where that has texts."""
    vectors = index.vector_store
    listed = vectors.get_nodes(node_ids=None) if vectors.stores_text else index.docstore.docs.values()
    return held_by_id(node for node in listed if isinstance(node, BaseNode))


class IndexVectors:
    """A vector index of the user's own, kept in step; it embeds what is added to it."""

    def __init__(self, index: VectorStoreIndex) -> None:
        self.index = index

    def write(self, records: Sequence[phasegraph.graph.PassageRecord], vectors: Any) -> None:
        """Keep these passages, in place of any with their ids."""
        self.remove([one.id for one in records])
        self.index.insert_nodes(list(map(node_of, records)))

    def remove(self, ids: Sequence[str]) -> None:
        """Forget passages; ids that are not there are passed over, which some stores would refuse."""
        there = self.ids() if ids else ()
        held = [one for one in ids if one in there]
        if held:
            self.index.delete_nodes(held, delete_from_docstore=True)

    def ids(self) -> frozenset[str]:
        """Ids of the passages there are."""
        return frozenset(nodes_of(self.index))


class KeptNodes(KeptPassages):
    """Part of a retriever that was made of nodes, or opened from a folder: they come and go."""

    _corpus: phasegraph.graph.Corpus | None = None
    _title_key: str = "title"
    _embeds: BaseEmbedding | None = None

    def add_nodes(
        self,
        nodes: Iterable[BaseNode],
        *,
        extractions: Iterable[phasegraph.graph.Extraction] | Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
        progress: bool = True,
    ) -> list[str]:
        """Add nodes to every source at once; one with the id of a node that is there takes its place.

        Parameters
        ----------
        nodes : iterable of BaseNode
        extractions : optional
            Triples, as for ``from_nodes``.
        progress : bool, default True
            Show a bar for many nodes, where standard error is a terminal.

        Returns
        -------
        list of str
            The nodes' ids.

        Raises
        ------
        InvalidInputError
            If the retriever was made of other retrievers, an id repeats, or a node has no text.
        StoreError
            If the folder or its vectors cannot be changed. Nothing is changed then.
        """
        from phasegraph.graph import fields_of

        self._changing()
        held = held_by_id(nodes)
        passages = passages_of(held, self._title_key, fields_of(extractions, held))
        self._add(passages, lambda: embedded(self._embeds, held, progress))
        return list(held)

    async def aadd_nodes(self, nodes: Iterable[BaseNode], **options: Any) -> list[str]:
        """As :meth:`add_nodes`, without blocking the event loop."""
        ids: list[str] = await in_thread(lambda given: self.add_nodes(given, **options), nodes)
        return ids


def folder_settings(title_key: str, *, vectors: bool) -> dict[str, object]:
    """What a folder is to be opened with."""
    return {"framework": FRAMEWORK, "title_key": title_key, "vectors": vectors}


def opened(
    path: str | os.PathLike[str], embed_model: BaseEmbedding | None, *, vectors: bool, progress: bool | None = False
) -> tuple[phasegraph.graph.Corpus, str]:
    """The corpus of a folder, with its vectors where they are wanted, and its title key."""
    from phasegraph.graph import open_folder

    embedder = Embedder.of(embed_model)
    query = None if embedder is None else embedder.query
    return open_folder(path, FRAMEWORK, query, vectors=vectors, progress=progress)
