"""Convert LlamaIndex nodes to rankings, and results to nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.schema import BaseNode, NodeWithScore, TextNode

from llama_index.retrievers.phasegraph.nodes import NamedNode, UnnamedNode, copy_of, own_id
from phasegraph import InvalidTypeError, Ranking, Result
from phasegraph.retrieval import (
    EvidenceBlock,
    HitFields,
    HitReader,
    Payloads,
    SelectedHit,
    answer_items,
    are_scored,
    evidence_blocks,
    head_and_score,
    plain_hit,
    resolve_id,
    warn_without_text,
)

_HITS = "nodes"


def _hit_metadata(hit: NodeWithScore) -> Mapping[str, Any]:
    return hit.node.metadata


def _hit_text(hit: NodeWithScore) -> str:
    return hit.node.get_content()


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


_MADE_ANEW: Mapping[str, str] = MappingProxyType(
    {"kg_rel_map": "facts of a graph", "graph_store_query": "rows of a graph", "sql_query": "rows of a database"}
)
"""Descriptions of the nodes to which the framework gives a random id at every call, by a metadata key of the node."""
_FACTS_ADVICE = (
    "LlamaIndex makes a new node of the facts in every call; use a PropertyGraphIndex in place of the "
    "KnowledgeGraphIndex to get passages with ids"
)
_NO_FACTS = "No relationships found."
"""The text of the node that the framework's knowledge graph index returns if it found nothing."""


def _with_stable_ids(hits: Sequence[NodeWithScore], notes: list[str]) -> tuple[Sequence[NodeWithScore], str | None]:
    """Replace random ids by ids from the texts, and drop a node that only says that nothing was found.

    Hits with equal scores are ordered by id, so random ids would give a random order. Also return advice for a user
    whose hits have no ids; None means the general advice.
    """
    if len(hits) == 1 and _says_nothing(hits[0].node):
        notes.append("the source's graph found no relationships")
        return [], None
    keys = [next(filter(hit.node.metadata.__contains__, _MADE_ANEW), None) for hit in hits]
    said = sorted({_MADE_ANEW[key] for key in keys if key is not None})
    if not said:
        return hits, None
    count = sum(key is not None for key in keys)
    notes.append(f"{count} of {len(hits)} hits get a new random id in every call: {', '.join(said)}")
    stable = [hit if key is None else _without_id(hit) for hit, key in zip(hits, keys, strict=True)]
    return stable, _FACTS_ADVICE if "kg_rel_map" in keys else None


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
    hits, advice = _with_stable_ids(hits, notes) if own is None else (hits, None)
    nodes = [hit.node for hit in hits]
    plain = _PLAIN_NODES.issuperset(map(type, nodes))
    if own is not None:
        ids = reader.ids(hits, own, notes, parts=True)
    else:
        held_ids = [one.id_ for one in nodes] if plain else list(map(own_id, nodes))
        ids = reader.ids(hits, held_ids, notes, advice=advice)
    found = {} if evidence is None else evidence(ids)
    held = nodes if plain else [None if isinstance(one, NamedNode) else one for one in nodes]
    payloads = Payloads(ids, held, found)
    scores, stated = reader.scores(hits), None
    if scores is None and not ranks:
        scores = [hit.score for hit in hits]
        if not plain and all(hit.score is None and isinstance(hit.node, UnnamedNode) for hit in hits):
            scores, stated = reader.stated_scores(hits, notes)  # database rows that a function returned
    return reader.ranking(ids, scores, payloads, limit, notes, stated=stated, ordered=ordered)


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
