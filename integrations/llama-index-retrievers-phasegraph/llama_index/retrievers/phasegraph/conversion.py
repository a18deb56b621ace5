"""Convert LlamaIndex nodes to rankings, and results to nodes."""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.response.schema import Response
from llama_index.core.graph_stores.types import TRIPLET_SOURCE_KEY, PropertyGraphStore, Triplet
from llama_index.core.indices.property_graph import (
    BasePGRetriever,
    CustomPGRetriever,
    CypherTemplateRetriever,
    PGRetriever,
    TextToCypherRetriever,
)
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.settings import Settings
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from phasegraph import InvalidTypeError, Ranking, Result
from phasegraph.retrieval import (
    EvidenceBlock,
    HitAccess,
    HitFields,
    HitLookup,
    HitReader,
    ModelFunction,
    Payloads,
    SelectedHit,
    answer_items,
    aquestion_vector,
    are_scored,
    corpus_ids,
    evidence_blocks,
    head_and_score,
    is_taken,
    plain_hit,
    question_vector,
    resolve_id,
    warn_without_text,
)

if TYPE_CHECKING:
    import phasegraph.graph

_HITS = "nodes"


class UnnamedNode(TextNode):
    """A node for a text without an id; the node has a generated id, which does not identify a passage."""

    @classmethod
    def class_name(cls) -> str:
        """Return the class name that the framework serializes for this node."""
        return str(TextNode.class_name())


class NamedNode(UnnamedNode):
    """A placeholder for a passage with a known id and an unknown text."""


class TripleNode(UnnamedNode):
    """A node for a triple; its source relationship names the passage that states the triple."""


# Functions by which the core reads nodes and hits.


def text_of(node: BaseNode) -> str:
    """Return a node's text; "" for a triple, which has the id of its passage, but not the passage's text."""
    if isinstance(node, TripleNode):
        return ""
    return node.text if isinstance(node, TextNode) else node.get_content()


def metadata_of(node: BaseNode) -> Mapping[str, Any]:
    """Return a node's metadata, with the id of the node's document under ``ref_doc_id``."""
    document = node.ref_doc_id
    return node.metadata if document is None else ChainMap(node.metadata, {"ref_doc_id": document})


def _hit_metadata(hit: NodeWithScore) -> Mapping[str, Any]:
    return hit.node.metadata


def _hit_text(hit: NodeWithScore) -> str:
    return hit.node.get_content()


def _text_to_embed(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.EMBED)


def _embedding_of(node: BaseNode) -> list[float] | None:
    return node.embedding


_INSTEAD: ContextVar[QueryBundle | None] = ContextVar("phasegraph_embedding_instead", default=None)


@contextmanager
def embedding_instead(bundle: QueryBundle) -> Iterator[None]:
    """Make :class:`Embedder` use the bundle's ``embedding`` or ``embedding_strs`` in the ``with`` block.

    A source of the core receives only the query's text, and not the bundle.
    """
    given = bundle.embedding is not None or bundle.custom_embedding_strs is not None
    token = _INSTEAD.set(bundle if given else None)
    try:
        yield
    finally:
        _INSTEAD.reset(token)


@dataclass(frozen=True, slots=True)
class Embedder:
    """A LlamaIndex embedding model with the methods that the core calls; unlike bound methods, it can be pickled."""

    model: BaseEmbedding

    @classmethod
    def of(cls, embed_model: object) -> Embedder | None:
        """Wrap an embedding model; return None for None, and raise InvalidTypeError for other types.

        A model without callback handlers gets the callback manager of ``Settings``, as in the framework's indexes. A
        separate manager would store the events of all calls forever.
        """
        if embed_model is None:
            return None
        if not isinstance(embed_model, BaseEmbedding):
            raise InvalidTypeError(f"embed_model must be a BaseEmbedding or None; got {type(embed_model).__name__}")
        if not embed_model.callback_manager.handlers:
            embed_model.callback_manager = Settings.callback_manager
        return cls(embed_model)

    def texts(self, texts: list[str]) -> list[list[float]]:
        """Embed passage texts."""
        return self.model.get_text_embedding_batch(texts)

    async def atexts(self, texts: list[str]) -> list[list[float]]:
        """Run :meth:`texts` asynchronously."""
        return await self.model.aget_text_embedding_batch(texts)

    def records(self, records: Sequence[phasegraph.graph.PassageRecord]) -> list[list[float]]:
        """Embed stored passages, with the text that the framework would embed for each node."""
        return self.texts([_text_to_embed(node_of(one)) for one in records])

    def query(self, query: str) -> list[float]:
        """Embed a query; inside :func:`embedding_instead`, use the bundle's vector or texts."""
        bundle = _INSTEAD.get()
        if bundle is None or bundle.query_str != query:
            found: list[float] = question_vector(self.model, (query,), partial(self.model.get_query_embedding, query))
            return found
        if bundle.embedding is not None:
            return bundle.embedding
        combined: list[float] = QuestionModel(self.model).get_agg_embedding_from_queries(bundle.embedding_strs)
        return combined

    @property
    def awaits(self) -> bool:
        """True if the model has its own asynchronous method to embed passages."""
        return any(  # compare the names of the methods, because the framework wraps inherited methods in new functions
            not getattr(type(self.model), name).__qualname__.startswith("BaseEmbedding.")
            for name in ("_aget_text_embedding", "_aget_text_embeddings", "aget_text_embedding_batch")
        )


class QuestionModel:
    """A wrapper around an embedding model for one search; the sources of a call embed the same question only once."""

    def __init__(self, model: BaseEmbedding) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # a copy asks for attributes before it has any
            raise AttributeError(name)
        return getattr(self._model, name)

    def get_agg_embedding_from_queries(self, queries: list[str], agg_fn: Callable[..., Any] | None = None) -> Any:
        """Return the combined vector of the texts in `queries`, usually of the question alone."""
        method = self._model.get_agg_embedding_from_queries
        if agg_fn is not None:
            return method(queries, agg_fn)
        return question_vector(
            self._model, self._key(queries, "get_agg_embedding_from_queries"), partial(method, queries)
        )

    async def aget_agg_embedding_from_queries(
        self, queries: list[str], agg_fn: Callable[..., Any] | None = None
    ) -> Any:
        """Run :meth:`get_agg_embedding_from_queries` asynchronously."""
        method = self._model.aget_agg_embedding_from_queries
        if agg_fn is not None:
            return await method(queries, agg_fn)
        key = self._key(queries, "aget_agg_embedding_from_queries")
        return await aquestion_vector(self._model, key, partial(method, queries))

    def _key(self, queries: Sequence[str], method: str) -> tuple[object, ...]:
        """Return the texts, and also the class if it combines vectors by its own `method`."""
        own = not getattr(type(self._model), method).__qualname__.startswith("BaseEmbedding.")
        return (*queries, type(self._model)) if own else tuple(queries)


def access_of(retrievers: Iterable[object] = ()) -> HitAccess:
    """Return the functions with which phasegraph's core reads the text, metadata and embedding of a node.

    The first retriever with an embedding model supplies the model for nodes without an embedding.
    """
    models = (getattr(retriever, "_embed_model", None) for retriever in retrievers)
    model = next((one for one in models if isinstance(one, BaseEmbedding)), None)
    embedder = None if model is None else Embedder(model)
    return HitAccess(
        text_of, metadata_of, to_embed=_text_to_embed, vector=_embedding_of,
        embed=None if embedder is None else embedder.texts,
        aembed=embedder.atexts if embedder is not None and embedder.awaits else None,
    )  # fmt: skip


class _TextModel(ModelFunction):
    """A function from prompt to text that calls a language model."""

    def __init__(self, llm: BaseLLM) -> None:
        order = type(llm).__mro__
        native, plain = (
            next(row for row, kind in enumerate(order) if name in vars(kind)) for name in ("acomplete", "complete")
        )
        super().__init__(llm, awaits=native <= plain)

    def __call__(self, prompt: str) -> str:
        return str(self.model.complete(prompt).text)

    async def _acall(self, prompt: str) -> str:
        return str((await self.model.acomplete(prompt)).text)


def text_model(llm: BaseLLM) -> Callable[[str], str]:
    """Convert a LlamaIndex language model to a function from prompt to text, for the core's extractor.

    Parameters
    ----------
    llm : BaseLLM
        A language model of LlamaIndex.

    Returns
    -------
    callable
        ``prompt -> text``.

    Raises
    ------
    InvalidTypeError
        If `llm` is not a language model.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> text_model(MockLLM())("two words")
    'two words'
    """
    if not isinstance(llm, BaseLLM):
        raise InvalidTypeError(f"llm must be a language model of LlamaIndex; got {type(llm).__name__}")
    return _TextModel(llm)


def unpack(answer: object) -> list[NodeWithScore]:
    """Convert the return value of a retriever or function to hits.

    Raises
    ------
    MalformedAnswerError
        If the value contains neither nodes nor hits that :func:`phasegraph.retrieval.plain_hit` can read.
    """
    if isinstance(answer, Response):
        answer = answer.source_nodes or answer.response or ""
    items = answer_items(answer, _HITS)
    if set(map(type, items)) == {NodeWithScore}:
        return list(items)
    are_scored(_is_pair(item) for item in items if not isinstance(item, NodeWithScore))
    return [_hit(item, row) for row, item in enumerate(items)]


def _is_pair(item: object) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2


def _hit(item: object, row: int) -> NodeWithScore:
    if isinstance(item, NodeWithScore):
        return item
    head, score = head_and_score(item)
    if isinstance(head, NodeWithScore):
        head = head.node
    return NodeWithScore.model_construct(node=head if isinstance(head, BaseNode) else _node(head, row), score=score)


def _node(item: object, row: int) -> BaseNode:
    """Convert a text, a database row or a triple to a node; the columns of a row become metadata."""
    hit = plain_hit(item, _HITS, row)
    if hit.text is None:
        kind: type[TextNode] = NamedNode
        return kind(id_=str(hit.id), text="", metadata=dict(hit.metadata))
    return _told_by_text(hit.text, hit.metadata, [key for key in hit.metadata if key in hit.read])


def _told_by_text(text: str, metadata: Mapping[str, Any], unread: list[str]) -> TextNode:
    """Create a node with an id from its text; prompts and embeddings leave out the metadata keys `unread`."""
    kind: type[TextNode] = UnnamedNode
    return kind(
        id_=resolve_id(None, {}, text)[0], text=text, metadata=dict(metadata),
        excluded_llm_metadata_keys=unread, excluded_embed_metadata_keys=unread,
    )  # fmt: skip


def as_node(identifier: str, value: Any) -> BaseNode:
    """Convert a passage from ``resolve`` to a node."""
    if isinstance(value, NodeWithScore):
        return value.node
    return value if isinstance(value, BaseNode) else TextNode(id_=identifier, text=str(value))


def reader_of(name: str, fields: HitFields, known: bool | None = None) -> HitReader:
    """Create the reader that converts the hits of the source `name` to a ranking.

    `known` is True if a higher score is better, False if a lower score is better, and None if this is unknown.
    """
    return HitReader(name, fields, known, _hit_metadata, _hit_text)


_PLAIN_NODES: frozenset[type] = frozenset({TextNode})


def own_id(node: BaseNode) -> str | None:
    """Return the node's id; None if the id was generated and therefore does not identify a passage."""
    named = isinstance(node, NamedNode) or not isinstance(node, UnnamedNode)
    return node.id_ if named else None


_MADE_ANEW: Mapping[str, str] = MappingProxyType(
    {"kg_rel_map": "facts of a graph", "graph_store_query": "rows of a graph", "sql_query": "rows of a database"}
)
"""Descriptions of the nodes to which the framework gives a random id at every call, by a metadata key of the node."""
_NO_FACTS = "No relationships found."
"""The text of the node that the framework's knowledge graph index returns if it found nothing."""


def _with_stable_ids(hits: Sequence[NodeWithScore], notes: list[str]) -> Sequence[NodeWithScore]:
    """Replace random ids by ids from the texts, and drop a node that only says that nothing was found.

    Hits with equal scores are ordered by id, so random ids would give a random order.
    """
    if len(hits) == 1 and _says_nothing(hits[0].node):
        notes.append("the source's graph found no relationships")
        return []
    keys = [next(filter(hit.node.metadata.__contains__, _MADE_ANEW), None) for hit in hits]
    said = sorted({_MADE_ANEW[key] for key in keys if key is not None})
    if not said:
        return hits
    count = sum(key is not None for key in keys)
    notes.append(f"{count} of {len(hits)} hits get a new random id in every call: {', '.join(said)}")
    return [hit if key is None else _without_id(hit) for hit, key in zip(hits, keys, strict=True)]


def _without_id(hit: NodeWithScore) -> NodeWithScore:
    node: Any = hit.node
    return NodeWithScore(
        node=_told_by_text(node.text, node.metadata, list(node.excluded_llm_metadata_keys)), score=hit.score
    )


def _says_nothing(node: BaseNode) -> bool:
    return type(node) is TextNode and node.text == _NO_FACTS and not node.metadata and not node.relationships


def ranking_of(
    reader: HitReader,
    hits: Sequence[NodeWithScore],
    limit: int | None,
    notes: list[str],
    *,
    own: Sequence[object] | None = None,
    evidence: Callable[[Sequence[str]], Mapping[str, object]] | None = None,
    ranks: bool = False,
    ordered: bool = True,
) -> Ranking:
    """Convert hits to a ranking, and add a note to `notes` for each repaired problem.

    `own` are the ids of the hits, if these ids differ from the ids of the nodes. ``evidence(ids)`` returns evidence by
    id, which says how the source found a passage. If `ranks` is True, the hits' scores are ignored, and only their
    ranks count. If `ordered` is False, the order of the hits has no meaning.
    """
    hits = _with_stable_ids(hits, notes) if own is None else hits
    nodes = [hit.node for hit in hits]
    plain = _PLAIN_NODES.issuperset(map(type, nodes))
    if own is not None:
        ids = reader.ids(hits, own, notes, parts=True)
    else:
        ids = reader.ids(hits, [one.id_ for one in nodes] if plain else list(map(own_id, nodes)), notes)
    found = {} if evidence is None else evidence(ids)
    held = nodes if plain else [None if isinstance(one, NamedNode) else one for one in nodes]
    payloads = Payloads(ids, held, found)
    scores, told = reader.scores(hits), None
    if scores is None and not ranks:
        scores = [hit.score for hit in hits]
        if not plain and all(hit.score is None and isinstance(hit.node, UnnamedNode) for hit in hits):
            scores, told = reader.stated_scores(hits, notes)  # database rows that a function returned
    return reader.ranking(ids, scores, payloads, limit, notes, told=told, ordered=ordered)


# Conversion of results to nodes.


def check_key(name: str, value: object) -> str | None:
    """Return `value` if it is a metadata key or None; otherwise raise InvalidTypeError, which names the argument."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidTypeError(f"{name} must be a metadata key or None; got {value!r}")
    return value


def nodes_of(result: Result, hits: Sequence[SelectedHit], evidence_key: str | None) -> list[NodeWithScore]:
    """Return copies of the result's nodes, best first; the wrapped retrievers' nodes stay unchanged.

    `hits` are the nodes that were chosen for the results, in the same order. `evidence_key` is the metadata key for the
    evidence; None: add no evidence.
    """
    blocks: Sequence[EvidenceBlock | None] = (
        [None] * len(hits) if evidence_key is None else evidence_blocks(result, hits)
    )
    warn_without_text(result, hits)
    taken: set[str] = set()
    out: list[NodeWithScore] = []
    for identifier, hit, block, score in zip(result.ids, hits, blocks, result.scores.tolist(), strict=True):
        node: BaseNode = TextNode(id_=identifier, text="") if hit.payload is None else hit.payload
        if node.id_ and node.id_ not in taken and not isinstance(node, UnnamedNode):
            identifier = node.id_
        taken.add(identifier)
        out.append(NodeWithScore(node=copy_of(node, identifier, evidence_key, block), score=score))
    return out


class Annotated(dict[str, Any]):
    """Node metadata that contain evidence, but leave the evidence out of ``repr`` and thus out of ``node.hash``.

    Therefore, a node with evidence and the same node without evidence are equal for retrievers that compare hashes.
    """

    def __repr__(self) -> str:
        return repr({key: value for key, value in self.items() if not isinstance(value, EvidenceBlock)})


def copy_of(node: BaseNode, identifier: str, key: str | None = None, block: EvidenceBlock | None = None) -> BaseNode:
    """Copy a node and give the copy an id; the copy has its own metadata, relationships and lists of keys.

    The evidence `block` is stored in the metadata under `key`, unless `block` is None. Prompts and embeddings leave
    this key out.
    """
    if block is not None and is_taken(key, node.metadata):
        block = None
    update: dict[str, Any] = {
        "id_": identifier,
        "metadata": dict(node.metadata),
        "relationships": dict(node.relationships),
    }
    for name in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
        update[name] = list(getattr(node, name))
        if block is not None and key not in update[name]:
            update[name].append(key)
    if block is not None:
        update["metadata"] = Annotated(update["metadata"] | {key: block})
    return node.model_copy(update=update)


def held_by_id(nodes: Iterable[BaseNode]) -> dict[str, BaseNode]:
    """Return the nodes by id; raise InvalidInputError if an id is repeated."""
    if isinstance(nodes, BaseNode | str) or not isinstance(nodes, Iterable):
        raise InvalidTypeError(f"nodes must be a list of nodes; got {type(nodes).__name__}")
    listed = list(nodes)
    wrong = next((one for one in listed if not isinstance(one, BaseNode)), None)
    if wrong is not None:
        raise InvalidTypeError(f"nodes must be a list of nodes; it contains a {type(wrong).__name__}")
    ids = [node.id_ for node in listed]
    if not set(map(type, ids)) <= {str} or not all(map(str.strip, ids)) or len(set(ids)) < len(ids):
        ids = corpus_ids(((node.id_, node.metadata, "") for node in listed), "nodes")
    return dict(zip(ids, listed, strict=True))


def own_ids(index: Any, among: Collection[str] | None = None) -> set[str]:
    """Return the ids of the nodes that belong to a vector index whose vector store has no texts.

    The index's docstore can also contain nodes of other indices, parents of the nodes, and nodes that were deleted from
    the index. With `among`, only these ids are checked.
    """
    names = index.index_struct.nodes_dict
    if isinstance(index.vector_store, SimpleVectorStore):  # the keys of `names`, ids of vectors, are ids of nodes
        vectors = index.vector_store.data.embedding_dict
        return {one for one in (names if among is None else among) if one in names and one in vectors}
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
        vectors = getattr(nodes, "vector_store", None)
        if isinstance(vectors, BasePydanticVectorStore) and vectors.stores_text:
            return cls("vectors", vectors)
        if isinstance(vectors, BasePydanticVectorStore):
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
        return dict(self._paired(ids, self.held(list(ids)) if self.kind == "callable" else self.held))


# Retrievers of property graphs: they return triples, or the passages that state the triples.


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


def knowledge_ranking(
    reader: HitReader, found: Sequence[NodeWithScore], limit: int | None, notes: list[str]
) -> Ranking:
    """Convert triples and passages to a ranking of passages; the triples of a passage are the passage's evidence."""
    hits = [_as_triple(hit) if _is_triple(hit.node) else hit for hit in found]

    def facts(ids: Sequence[str]) -> dict[str, object]:
        found: dict[str, dict[str, None]] = {}
        for identifier, hit in zip(ids, hits, strict=True):
            if isinstance(hit.node, TripleNode):
                found.setdefault(identifier, {})[hit.node.text] = None
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


def node_of(record: phasegraph.graph.PassageRecord) -> BaseNode:
    """Convert a stored passage to the original node, with all its metadata and relationships."""
    return metadata_dict_to_node(dict(record.metadata), text=record.text)
