"""Convert nodes of the user, an index or a property graph to passages, and define methods that change a corpus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from llama_index.core.ingestion import run_transformations
from llama_index.core.schema import BaseNode, Document, IndexNode, MetadataMode, TextNode
from llama_index.core.settings import Settings
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.vector_stores.utils import node_to_metadata_dict

import phasegraph  # the subpackage phasegraph.graph imports scipy.sparse, so it is imported only at its first use
from llama_index.retrievers.phasegraph.embedding import Embedder
from llama_index.retrievers.phasegraph.filters import filters_of
from llama_index.retrievers.phasegraph.lookup import Lookup, own_ids
from llama_index.retrievers.phasegraph.matching_nodes import NodeFilter
from llama_index.retrievers.phasegraph.nodes import copy_of, held_by_id, metadata_of, node_of
from llama_index.retrievers.phasegraph.postgres_store import all_nodes
from llama_index.retrievers.phasegraph.property_graph import chunk_of
from phasegraph import InvalidInputError, InvalidTypeError, StoreError
from phasegraph.retrieval import (
    Content,
    Described,
    EmbeddingModel,
    Framework,
    KeptPassages,
    accepts_old_names,
    in_thread,
    warn,
)

if TYPE_CHECKING:
    import phasegraph.graph

_MANY = 256


OWN_KEYS = ("_node_content", "_node_type", "document_id", "doc_id", "ref_doc_id")
"""Metadata keys that the framework adds to the user's metadata when it stores a node."""


def _own_document(node: BaseNode) -> dict[str, Any]:
    """Return the entries ``doc_id`` and ``ref_doc_id`` of a node's metadata; {} if the node has a source node.

    If a node has no source node, the framework would overwrite both entries with the text "None".
    """
    if node.ref_doc_id is not None:
        return {}
    return {key: node.metadata[key] for key in ("doc_id", "ref_doc_id") if key in node.metadata}


def _whole(name: str, node: BaseNode) -> dict[str, Any]:
    from phasegraph.graph import check_plain

    try:
        return node_to_metadata_dict(node, remove_text=True, flat_metadata=False) | _own_document(node)
    except ValueError:
        check_plain(name, node.metadata)  # raises an error that names the metadata key
        raise


_BATCH = 500


@dataclass(frozen=True, slots=True)
class PropertyGraphRecords:
    """The passages and triples of a property graph, as arguments for :func:`phasegraph.graph.build_graph`.

    Parameters
    ----------
    passages : sequence of mapping
        Passages with the keys ``id``, ``title`` (from the node's metadata, or empty) and ``text``.
    triples : mapping of str to sequence of (subject, relation, object)
        The triples of each passage, by passage id.
    nodes : sequence of BaseNode
        The nodes of the passages, in the same order.
    unplaced : int
        Number of triples that are left out because the store has no passage for them.
    """

    passages: Sequence[Mapping[str, str]]
    triples: Mapping[str, Sequence[tuple[str, str, str]]]
    nodes: Sequence[BaseNode]
    unplaced: int = 0


def read_property_graph(store: PropertyGraphStore) -> PropertyGraphRecords:
    """Read passages and triples from a property graph store.

    Parameters
    ----------
    store : PropertyGraphStore
        The store, with triples and the text chunks that state them.

    Returns
    -------
    PropertyGraphRecords
        The passages, their triples and their nodes.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If `store` is not a property graph store, or has no passage.

    Notes
    -----
    A triple belongs to the passage that its relation names. The framework's own retrievers use the passage of the
    subject's node instead, which is the last passage that mentioned the subject.
    """
    if not isinstance(store, PropertyGraphStore):
        raise InvalidTypeError(f"store must be a PropertyGraphStore; got {type(store).__name__}")
    labelled = store.get()
    chunk_ids = sorted({one.id for one in labelled if isinstance(one, ChunkNode)})
    nodes = sorted(store.get_llama_nodes(chunk_ids), key=lambda node: node.node_id) if chunk_ids else []
    if not nodes:
        raise InvalidInputError("the store has no passage: insert documents into the property graph first")
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
    """Return the distinct triples as pairs: the id of the passage that states the triple (or None), and the triple."""
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


class Nodes(Framework):
    """The operations on LlamaIndex nodes that the core needs."""

    name, hit, filters, model = "llama_index", "node", "filters", "embed_model"

    def held_by_id(self, hits: Iterable[BaseNode]) -> dict[str, BaseNode]:
        """Return the nodes by id; raise InvalidInputError if an id is repeated."""
        return held_by_id(hits)

    def of_record(self, record: phasegraph.graph.PassageRecord) -> BaseNode:
        """Convert a stored passage to the original node, with all its metadata and relationships."""
        return node_of(record)

    def of_text(self, identifier: str, text: str, metadata: Mapping[str, Any], own: Collection[str] = ()) -> BaseNode:
        """Convert a text to a node; prompts and embeddings leave out the metadata keys `own`."""
        return TextNode(
            id_=identifier, text=text, metadata=dict(metadata), excluded_llm_metadata_keys=list(own),
            excluded_embed_metadata_keys=list(own),
        )  # fmt: skip

    def text_of(self, hit: BaseNode) -> str:
        """Return a node's text."""
        return hit.get_content()

    def metadata_of(self, hit: BaseNode) -> Mapping[str, Any]:
        """Return a node's metadata, with the id of the node's document under ``ref_doc_id``."""
        return metadata_of(hit)

    def with_text(self, hit: BaseNode, text: str) -> BaseNode:
        """Return a copy of a node with another text."""
        made = copy_of(hit, hit.node_id)
        made.set_content(text)
        return made

    def passages_of(
        self, held: Mapping[str, BaseNode], title_key: str, given: Mapping[str, Sequence[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Convert nodes to passages of the core; the metadata of a passage contain all other data of its node.

        `held` maps ids to nodes, and `given` maps ids to the triples of the nodes. `title_key` is the metadata key of
        the title.
        """
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

    def filter_of(self, where: Any) -> NodeFilter:
        """Convert the argument `where` of a method to a filter that the core can apply."""
        return NodeFilter(filters_of(where))

    def check_model(self, model: object) -> None:
        """Raise InvalidTypeError unless the argument is an embedding model of LlamaIndex."""
        if not isinstance(model, BaseEmbedding):
            raise InvalidTypeError(f"embed_model must be a LlamaIndex embedding model; got {type(model).__name__}")

    def model_of(self, model: BaseEmbedding | None) -> EmbeddingModel | None:
        """Wrap an embedding model as a model of the core; return None if `model` is None."""
        embedder = Embedder.of(model)
        return None if embedder is None else EmbeddingModel(model, embedder.query, embedder.records)

    def embeds_texts(self, model: BaseEmbedding | None) -> Callable[[list[str]], Any] | None:
        """Return the model's function from a list of texts to vectors, or None if `model` is None."""
        embedder = Embedder.of(model)
        return None if embedder is None else embedder.texts

    def embedded(self, model: BaseEmbedding | None, hits: Sequence[BaseNode], progress: bool | None) -> Any:
        """Return the nodes' embeddings, and let the model embed nodes without an embedding; None if `model` is None."""
        if model is None:
            return None
        found = embed_nodes(list(hits), model, show_progress=bool(progress) and len(hits) > _MANY)
        return [found[node.node_id] for node in hits]

    def embedded_text(self, hit: BaseNode) -> str | None:
        """Return the text that the framework embeds for a node: its content and the metadata that are not excluded."""
        return None if hit.embedding is not None else hit.get_content(metadata_mode=MetadataMode.EMBED)

    def carries_vectors(self, hits: Iterable[BaseNode]) -> bool:
        """Return True if any node already has an embedding."""
        return any(one.embedding is not None for one in hits)


NODES = Nodes()


def given_or_settings(model: BaseEmbedding | None) -> BaseEmbedding:
    """Return the embedding model, or the model that the user set in ``Settings`` if `model` is None.

    Raise InvalidTypeError if there is neither; the framework's default model would send the texts to a service.
    """
    if model is not None:
        return model
    if Settings._embed_model is None:
        raise InvalidTypeError(
            "embed_model must be a LlamaIndex embedding model; got None: give embed_model=, or set Settings.embed_model"
        )
    return Settings.embed_model


def contents_of(index: VectorStoreIndex) -> tuple[dict[str, BaseNode], list[list[float]]]:
    """Return the nodes of an index by id, as :func:`nodes_of` does, and their vectors.

    The list of vectors is empty unless the framework's in-memory store has a vector for every node. Warn of index nodes
    that stand for objects. Raise InvalidInputError if there are no nodes.
    """
    listed = _listed(index)
    doors = {node.node_id: node for node in listed if _stands_for_object(index, node)}
    held = held_by_id(node for node in listed if node.node_id not in doors)
    if not held:
        raise InvalidInputError(
            "the index has no nodes: insert nodes before you build a retriever from it. To start with an empty corpus, "
            "insert one node, build the retriever, and call retriever.delete([ID])"
        )
    if doors:
        warn(
            f"{len(doors)} of {len(listed)} nodes of the index are index nodes with an object, for example "
            f"{next(iter(doors))!r}: the graph does not contain the hits of these objects, so they rank too low. "
            "Insert their nodes into the index instead"
        )
    known = getattr(getattr(index.vector_store, "data", None), "embedding_dict", {})
    return held, [known[name] for name in held] if all(name in known for name in held) else []


def nodes_of(index: VectorStoreIndex) -> dict[str, BaseNode]:
    """Return the nodes of an index by id, from its vector store if the store has texts, otherwise from its docstore.

    An index node that stands for a retriever, query engine or node is left out, because the index's own retriever
    replaces its hit by hits of that object.
    """
    return held_by_id(node for node in _listed(index) if not _stands_for_object(index, node))


def _listed(index: VectorStoreIndex) -> list[BaseNode]:
    vectors = index.vector_store
    if vectors.stores_text:
        return [node for node in all_nodes(vectors) if isinstance(node, BaseNode)]
    own = own_ids(index)
    return [node for name, node in index.docstore.docs.items() if name in own]


def _stands_for_object(index: VectorStoreIndex, node: BaseNode) -> bool:
    return isinstance(node, IndexNode) and (node.obj is not None or index._object_map.get(node.index_id) is not None)


class IndexVectors:
    """The user's vector index, which receives the changes of the corpus and embeds new nodes."""

    def __init__(self, index: VectorStoreIndex) -> None:
        self.index = index

    def check_deletes(self) -> None:
        """Raise StoreError if the index's vector store cannot delete nodes."""
        kind = type(self.index.vector_store)
        if getattr(kind, "delete_nodes", None) is BasePydanticVectorStore.delete_nodes:
            raise StoreError(
                f"{kind.__name__} cannot delete nodes, so the nodes of this index cannot be deleted or replaced; "
                "nothing was changed. Build the index and the retriever again, or use another vector store"
            )

    def write(self, records: Sequence[phasegraph.graph.PassageRecord], vectors: Any) -> None:
        """Write passages to the index, and replace passages that have the same ids."""
        self.remove([one.id for one in records])
        self.index.insert_nodes(list(map(node_of, records)))

    def remove(self, ids: Sequence[str]) -> None:
        """Delete passages from the index; unknown ids are ignored."""
        there = Lookup.of(self.index)(ids) if ids else ()
        held = [one for one in ids if one in there]
        if held:
            self.index.delete_nodes(held, delete_from_docstore=True)

    def ids(self) -> frozenset[str]:
        """Return the ids of all passages in the index."""
        return frozenset(nodes_of(self.index))

    def strays(self, known: Collection[str]) -> dict[str, BaseNode]:
        """Return the index's nodes, by id, that are not among the `known` ids of the corpus, such as pictures."""
        return {name: node for name, node in nodes_of(self.index).items() if name not in known}


class KeptNodes(KeptPassages):
    """Base class of a retriever that owns its nodes, with the methods that add, replace and delete nodes."""

    _framework = NODES
    _corpus: phasegraph.graph.Corpus | None = None
    _uncounted = OWN_KEYS
    _embeds: BaseEmbedding | None = None

    @accepts_old_names
    def add_nodes(
        self,
        nodes: Iterable[BaseNode],
        *,
        triples: phasegraph.graph.Triples | None = None,
        progress: bool = True,
    ) -> list[str]:
        """Add nodes to every source in one step, and replace stored nodes that have the same ids.

        Parameters
        ----------
        nodes : iterable of BaseNode
            The new nodes, each with an id and a text.
        triples : optional
            Triples of the new nodes, as for ``from_nodes``.
        progress : bool, default True
            Show a progress bar for many nodes, if standard error is a terminal.

        Returns
        -------
        list of str
            The nodes' ids.

        Raises
        ------
        InvalidInputError
            If the retriever wraps other retrievers, an id is repeated, or a node has no text.
        StoreError
            If the folder or its vectors cannot be written. In this case, nothing is changed.
        """
        return self._add(nodes, triples, progress)

    def _contents(self, documents: Iterable[BaseNode]) -> Iterator[Content]:
        return (
            Content(
                name, node.get_content(), node.metadata,
                {**node.metadata, "doc_id": node.ref_doc_id, "ref_doc_id": node.ref_doc_id} | _own_document(node), node,
            )
            for name, node in held_by_id(documents).items()
        )  # fmt: skip

    def _passages(self, items: Sequence[BaseNode]) -> list[dict[str, Any]]:
        return NODES.passages_of({node.node_id: node for node in items}, self._own_corpus().keys.title)

    def delete_ref_doc(self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any) -> None:
        """Delete all nodes of a document; a warning says if the document is unknown.

        `delete_from_docstore` and `delete_kwargs` have no effect; they exist because the method of an index has them.
        """
        self.delete(where={"ref_doc_id": ref_doc_id})

    def update_ref_doc(self, document: Document, *, transformations: Any = None, **update_kwargs: Any) -> None:
        """Replace all nodes of a document in one step; an unknown document is added.

        Parameters
        ----------
        document : Document
            The new version of the document; its id identifies the old version.
        transformations : sequence of transformations, optional
            The transformations that split the document into nodes. Default: ``Settings.transformations``.
        **update_kwargs
            Arguments without effect; they exist because the method of an index has them.
        """
        self._replace_documents([document], transformations)

    def refresh_ref_docs(
        self, documents: Sequence[Document], *, transformations: Any = None, **update_kwargs: Any
    ) -> list[bool]:
        """Replace changed documents and add new documents, in one step.

        Parameters
        ----------
        documents : sequence of Document
            The documents to compare with the stored documents, by id.
        transformations, **update_kwargs
            As for :meth:`update_ref_doc`.

        Returns
        -------
        list of bool
            A flag per document: True if the document is new or changed. A document is changed if its hash differs from
            the hash that its nodes store.
        """
        corpus = self._own_corpus()
        records, hashes = corpus.index.records, dict[str, str | None]()
        for record in records.values():
            hashes.setdefault(record.metadata.get("ref_doc_id", ""), record.id)
        pictures = {node.ref_doc_id: node for node in self._only_in_index(corpus).values()}
        stale = []
        for one in documents:
            name = hashes.get(one.id_)
            node = pictures.get(one.id_) if name is None else node_of(records[name])
            source = None if node is None else node.source_node
            stale.append(source is None or source.hash != one.hash)
        self._replace_documents([one for one, old in zip(documents, stale, strict=True) if old], transformations)
        return stale

    async def adelete_ref_doc(self, ref_doc_id: str, **options: Any) -> None:
        """Run :meth:`delete_ref_doc` without blocking the event loop."""
        await in_thread(lambda given: self.delete_ref_doc(given, **options), ref_doc_id)

    async def aupdate_ref_doc(self, document: Document, **options: Any) -> None:
        """Run :meth:`update_ref_doc` without blocking the event loop."""
        await in_thread(lambda given: self.update_ref_doc(given, **options), document)

    async def arefresh_ref_docs(self, documents: Sequence[Document], **options: Any) -> list[bool]:
        """Run :meth:`refresh_ref_docs` without blocking the event loop."""
        stale: list[bool] = await in_thread(lambda given: self.refresh_ref_docs(given, **options), documents)
        return stale

    def _replace_documents(self, documents: Sequence[Document], transformations: Any) -> None:
        """Replace the nodes of documents by the nodes that the transformations produce.

        The user's index also gets the new nodes without text, such as pictures.
        """
        if not documents:
            return
        corpus, names = self._own_corpus(), {one.id_ for one in documents}
        split = run_transformations(list(documents), transformations or Settings.transformations)
        made = held_by_id(split)
        kept = NODES.with_words(made, corpus.keys.title, may_be_empty=True)
        items = list(kept.values())
        removed = [one.id for one in corpus.index.records.values() if one.metadata.get("ref_doc_id") in names]
        self._replace(corpus, removed, self._passages(items), items, progress=False)
        store = corpus.state.store
        if isinstance(store, IndexVectors):
            held = self._only_in_index(corpus)
            store.remove([name for name, node in held.items() if node.ref_doc_id in names])
            store.index.insert_nodes([node for name, node in made.items() if name not in kept])

    def _replace(
        self, corpus: Any, removed: Sequence[str], came: Sequence[dict[str, Any]], items: Sequence[Any],
        progress: bool, planned: Any = None,
    ) -> int:  # fmt: skip
        if removed:
            _check_deletes(corpus)
        self._check_added(corpus, {one["id"]: one for one in came})
        count = super()._replace(corpus, removed, came, items, progress, planned)
        embeds = isinstance(corpus.state.store, IndexVectors) and corpus.index.graph.view.embeddings is None
        return len(came) if embeds else count  # without vectors in the corpus, only the index embeds the nodes

    def _check_added(self, corpus: Any, held: Mapping[str, Any]) -> None:
        if any(name in corpus.index.records for name in held):
            _check_deletes(corpus)

    def _strays(self, corpus: Any, ids: Iterable[str] | None, where: Any) -> frozenset[str]:
        if ids is None or ids:
            _check_deletes(corpus)
        if ids is not None and all(one in corpus.index.records for one in ids):
            return frozenset()
        held = self._only_in_index(corpus)
        if ids is not None:
            return frozenset(held).intersection(ids)
        described = [Described(name, metadata_of(node)) for name, node in held.items()]
        return frozenset(described[row].id for row in self._framework.filter_of(where).rows(described))

    @staticmethod
    def _only_in_index(corpus: Any) -> dict[str, BaseNode]:
        """Return the nodes, by id, that only the user's index has, such as pictures without text."""
        store = corpus.state.store
        if not isinstance(store, IndexVectors):
            return {}
        with corpus.unchanged() as index:  # a change writes its nodes to the store first
            return store.strays(index.records)

    def as_vector_store(self) -> BasePydanticVectorStore:
        """Return a vector store that changes this retriever, for an ``IngestionPipeline`` with a docstore.

        >>> from llama_index.core import Document, MockEmbedding
        >>> from llama_index.core.ingestion import IngestionPipeline
        >>> from llama_index.core.schema import TextNode
        >>> from llama_index.core.storage.docstore import SimpleDocumentStore
        >>> from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
        >>> model = MockEmbedding(embed_dim=8)
        >>> retriever = CalibratedFusionRetriever.from_nodes([TextNode(text="Ada met Bo.")], model)
        >>> pipeline = IngestionPipeline(
        ...     transformations=[model], docstore=SimpleDocumentStore(), vector_store=retriever.as_vector_store()
        ... )
        >>> _ = pipeline.run(documents=[Document(text="Cy sang.", id_="b")])
        >>> len(retriever.ids())
        2
        """
        from llama_index.retrievers.phasegraph.vector_store import RetrieverStore

        return RetrieverStore(retriever=self)

    def reembed(self, embed_model: BaseEmbedding, *, progress: bool = True) -> None:
        """Embed every node again with another model; the new vectors may have another length.

        If the retriever is in a folder, you can repeat an interrupted call; it continues with the remaining nodes.

        Parameters
        ----------
        embed_model : BaseEmbedding
            The new model.
        progress : bool, default True
            Show a progress bar for many nodes, if standard error is a terminal.

        Raises
        ------
        InvalidInputError
            If the vectors are in your own index, or the retriever wraps other retrievers.
        StoreError
            If the new vectors cannot be written to the folder. In this case, the old vectors and the old model stay.
        """
        self._reembed(embed_model, progress)

    async def areembed(self, embed_model: BaseEmbedding, **options: Any) -> None:
        """Run :meth:`reembed` without blocking the event loop."""
        await in_thread(lambda given: self.reembed(given, **options), embed_model)

    async def aadd_nodes(self, nodes: Iterable[BaseNode], **options: Any) -> list[str]:
        """Run :meth:`add_nodes` without blocking the event loop."""
        ids: list[str] = await in_thread(lambda given: self.add_nodes(given, **options), nodes)
        return ids


def _check_deletes(corpus: Any) -> None:
    """Raise StoreError if the corpus writes to an index that cannot delete nodes."""
    if isinstance(corpus.state.store, IndexVectors):
        corpus.state.store.check_deletes()
