"""LlamaIndex's nodes to rankings, and results to nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.graph_stores.types import TRIPLET_SOURCE_KEY, Triplet
from llama_index.core.indices.property_graph import BasePGRetriever, PGRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore

from phasegraph import InvalidTypeError, Ranking, Result
from phasegraph.graph.source import WalkPath
from phasegraph.retrieval import Direction, Identities, contradicts, limited, plain, provenance, scores_of
from phasegraph.retrieval.engine import Embedding
from phasegraph.retrieval.ids import Payloads
from phasegraph.retrieval.source_config import Reading


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


Lookup: TypeAlias = Callable[[Sequence[str]], Mapping[str, BaseNode]]


def as_lookup(nodes: object) -> Lookup:
    """A function from ids to the nodes that there are.

    Parameters
    ----------
    nodes : mapping, sequence of nodes, docstore, index or callable
        A callable gets a list of ids and returns a mapping or nodes in that order, None for those it does not know.

    Raises
    ------
    InvalidTypeError
        If it is none of these.
    """
    store = getattr(nodes, "docstore", nodes)
    if isinstance(store, BaseDocumentStore):
        return lambda ids: {n.node_id: n for n in store.get_nodes(list(ids), raise_error=False) if n is not None}
    if isinstance(nodes, Mapping):
        return lambda ids: {one: nodes[one] for one in ids if one in nodes}
    if callable(nodes):
        return lambda ids: _by_id(ids, nodes(list(ids)))
    if isinstance(nodes, Iterable) and not isinstance(nodes, str | bytes):
        found = list(nodes)
        if all(isinstance(node, BaseNode) for node in found):
            held = {node.node_id: node for node in found}
            return lambda ids: {one: held[one] for one in ids if one in held}
    raise InvalidTypeError(
        f"nodes must be a mapping, nodes, a docstore, an index or a function of ids; got {type(nodes).__name__}"
    )


def _by_id(ids: Sequence[str], found: object) -> Mapping[str, BaseNode]:
    if isinstance(found, Mapping):
        return found
    pairs = zip(ids, cast("Iterable[Any]", found), strict=True)
    return {one: node for one, node in pairs if node is not None}


def text_model(llm: BaseLLM) -> Callable[[str], str]:
    """A model of the framework as the core takes it: a function from prompt to text.

    Parameters
    ----------
    llm : BaseLLM

    Returns
    -------
    callable

    Raises
    ------
    InvalidTypeError
        If it is no model.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> text_model(MockLLM())("two words")
    'two words'
    """
    if not isinstance(llm, BaseLLM):
        raise InvalidTypeError(f"llm must be a language model of LlamaIndex; got {type(llm).__name__}")
    return lambda prompt: str(llm.complete(prompt).text)


def embedding_of(embed_model: BaseEmbedding | None) -> Embedding:
    """Vectors of nodes: their own, else by the text that would be embedded.

    Raises
    ------
    InvalidTypeError
        If it is no embedding model.
    """
    if embed_model is None:
        return Embedding("embed_model", vector_of=_own_vector)
    if not isinstance(embed_model, BaseEmbedding):
        raise InvalidTypeError(f"embed_model must be a BaseEmbedding or None; got {type(embed_model).__name__}")
    native = any(  # the framework wraps what a class inherits: identity does not tell whose it is
        not getattr(type(embed_model), name).__qualname__.startswith("BaseEmbedding.")
        for name in ("_aget_text_embedding", "_aget_text_embeddings", "aget_text_embedding_batch")
    )
    return Embedding(
        "embed_model",
        embed_model.get_text_embedding_batch,
        embed_model.aget_text_embedding_batch if native else None,
        _text_of,
        _own_vector,
    )


def _own_vector(hit: object) -> list[float] | None:
    return hit.embedding if isinstance(hit, BaseNode) else None


def _text_of(hit: object) -> str | None:
    return hit.get_content(metadata_mode=MetadataMode.EMBED) if isinstance(hit, BaseNode) else None


BLOCK = "phasegraph"
Evidence: TypeAlias = Mapping[str, Mapping[str, object]]


class Paths(Mapping[str, Mapping[str, object]]):
    """The paths that led to passages, as plain values, each worked out when it is asked for."""

    def __init__(self, trails: Mapping[str, object]) -> None:
        self._trails = trails

    def __getitem__(self, identifier: str) -> Mapping[str, object]:
        trail = self._trails[identifier]
        if not isinstance(trail, WalkPath):
            return {"path": str(trail)}
        seeds = {step.name: share for step, share in trail.seeds}
        return {"path": str(trail), "steps": [[step.kind, step.name] for step in trail.path], "seeds": seeds}

    def __iter__(self) -> Iterator[str]:
        return iter(self._trails)

    def __len__(self) -> int:
        return len(self._trails)


class Found(Payloads[BaseNode]):
    """Nodes by id, and what a source says about how it found them."""

    __slots__ = ("evidence",)

    def __init__(
        self, ids: Sequence[str], nodes: Sequence[BaseNode], evidence: Mapping[str, Mapping[str, object]]
    ) -> None:
        super().__init__(ids, nodes)
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class Knowledge:
    """How hits of a knowledge graph name their passage.

    Parameters
    ----------
    keeps_text : bool
        The hits are passages, facts in front, and carry the passage's id.
    exact : bool
        The passage is that of the relation; else that of the subject's node, which may be another.
    """

    keeps_text: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the answers of one source; remembers its direction, and that it warned about ids."""

    name: str
    reading: Reading
    direction: Direction
    knowledge: Knowledge | None = None
    identities: Identities = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identities", Identities(self.name))

    def ranking(self, hits: Sequence[NodeWithScore], limit: int | None, notes: list[str]) -> Ranking:
        """The answer as a ranking; what had to be handled is added to `notes`."""
        ids = self._ids(hits, notes)
        scores = scores_of(self._scores(hits), self.reading, notes, len(hits))
        higher = self._higher(scores, notes) if scores is not None else True
        evidence: Evidence = {}
        if self.knowledge is not None:
            evidence = facts_by_passage(ids, hits)
        payloads = Found(ids, [hit.node for hit in hits], evidence)
        found = Ranking.from_hits(
            self.name,
            ids,
            None if higher is None else scores,
            higher_is_better=higher is not False,
            size=self.reading.size,
            payloads=payloads,
        )
        if found.ids == tuple(ids):
            payloads.follow(found)
        elif scores is not None and higher is not None and contradicts(found, ids):
            notes.append("its order contradicts its scores; the scores were believed")
        return limited(found, limit, notes)

    def _ids(self, hits: Sequence[NodeWithScore], notes: list[str]) -> list[str]:
        if self.reading.id_fn is not None:
            own: list[object] = [self.reading.id_fn(hit) for hit in hits]
        elif self.knowledge is not None:
            own = [passage_id(hit, self.knowledge.keeps_text) for hit in hits]
            if not self.knowledge.exact:
                notes.append("passages of its triples are those of their subjects, not of the facts themselves")
        else:
            own = [hit.node.id_ for hit in hits]
        ids, found = self.identities.read(own, lambda row: _details(hits[row]))
        notes.extend(found)
        return ids

    def _scores(self, hits: Sequence[NodeWithScore]) -> list[object]:
        reading = self.reading
        if reading.score_fn is not None:
            return [reading.score_fn(hit) for hit in hits]
        if reading.score_key is not None:
            return [hit.node.metadata.get(reading.score_key) for hit in hits]
        return [hit.score for hit in hits]

    def _higher(self, scores: Sequence[object], notes: list[str]) -> bool | None:
        higher, note = self.direction.of(scores)
        if higher is None and len({score for score in scores if isinstance(score, int | float)}) < 2:
            notes.append("uninformative: all its scores are equal")
            return True
        if note:
            notes.append(note)
        return higher


def _details(hit: NodeWithScore) -> tuple[Mapping[str, object], str]:
    return hit.node.metadata, hit.node.get_content()


@dataclass(slots=True)
class Winner:
    """A returned passage: the node of the heaviest source that has its text, and what the others hold.

    Parameters
    ----------
    source : str
        Whose node it is; ties between equal weights go by name.
    node : BaseNode
    others : list of str
        Sources that returned another text under the same id.
    inner : dict
        What the sources say about how they found it, by source.
    """

    source: str
    node: BaseNode
    others: list[str] = field(default_factory=list)
    inner: dict[str, Any] = field(default_factory=dict)


def winners_of(result: Result) -> list[Winner]:
    """One per id of the result, in order."""
    rankings, weights = result.candidates.rankings, result.weights.tolist()
    order = sorted(range(len(rankings)), key=lambda column: -weights[column])
    columns = [(rankings[column].source, rankings[column].payloads) for column in order]
    held = [(name, p.get, p.evidence) for name, p in columns if isinstance(p, Found)]
    return [_winner(identifier, held) for identifier in result.ids]


def _winner(identifier: str, columns: Sequence[tuple[str, Callable[[str], BaseNode | None], Evidence]]) -> Winner:
    winner: Winner | None = None
    inner: dict[str, Any] = {}
    for name, held, evidence in columns:
        if evidence and identifier in evidence:
            inner[name] = evidence[identifier]
        node = held(identifier)
        if node is None:
            continue
        if BLOCK in node.metadata:
            inner[name] = node.metadata[BLOCK]
        if winner is None or isinstance(winner.node, TripleNode):
            winner = Winner(name, node)
        elif node is not winner.node and not isinstance(node, TripleNode) and _differ(node, winner.node):
            winner.others.append(name)
    if winner is None:
        winner = Winner("", TextNode(id_=identifier, text=""))
    winner.inner = inner
    return winner


def _differ(one: BaseNode, other: BaseNode) -> bool:
    """Whether two nodes hold different texts; facts in front of the same passage do not count."""
    if isinstance(one, TextNode) and isinstance(other, TextNode):
        first, second = one.text, other.text
    else:
        first, second = one.get_content(), other.get_content()
    return first != second and not first.endswith(second) and not second.endswith(first)


def nodes_of(result: Result, winners: Sequence[Winner], *, block: bool) -> list[NodeWithScore]:
    """Copies of the winners' nodes, best first, the wrapped retrievers' own left as they are.

    Parameters
    ----------
    result : Result
    winners : sequence of Winner
    block : bool
        Whether to add the provenance under ``metadata["phasegraph"]``, a key that neither a model's prompt nor an
        embedding reads.

    Returns
    -------
    list of NodeWithScore
        The published score is the node's score, a native float.
    """
    blocks: Sequence[dict[str, Any]] = provenance(result) if block else []
    taken: set[str] = set()
    out: list[NodeWithScore] = []
    for row, (winner, score) in enumerate(zip(winners, result.scores.tolist(), strict=True)):
        if block:
            for name, inner in winner.inner.items():
                blocks[row]["sources"][name]["evidence"] = plain(inner)
        keeps = bool(winner.node.id_) and winner.node.id_ not in taken and not isinstance(winner.node, TripleNode)
        identifier = winner.node.id_ if keeps else result.ids[row]
        taken.add(identifier)
        node = own_node(winner.node, identifier, blocks[row] if block else None)
        out.append(NodeWithScore(node=node, score=score))
    return out


def own_node(node: BaseNode, identifier: str, block: Mapping[str, Any] | None) -> BaseNode:
    """A node of its own: metadata, relationships and lists of keys are copies.

    Parameters
    ----------
    node : BaseNode
    identifier : str
        Its id.
    block : mapping, optional
        For ``metadata["phasegraph"]``; the key is excluded from prompts and embeddings.
    """
    metadata = dict(node.metadata)
    metadata.pop(BLOCK, None)
    update: dict[str, Any] = {"id_": identifier, "metadata": metadata, "relationships": dict(node.relationships)}
    if block is not None:
        metadata[BLOCK] = block
        for name in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
            keys = getattr(node, name)
            update[name] = [*keys, BLOCK] if BLOCK not in keys else list(keys)
    return node.model_copy(update=update)
