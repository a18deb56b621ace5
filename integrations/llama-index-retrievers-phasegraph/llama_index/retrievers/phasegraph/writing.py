"""A result, as nodes with their provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import BaseNode, NodeWithScore, TextNode

from llama_index.retrievers.phasegraph.knowledge import TripleNode
from llama_index.retrievers.phasegraph.reading import BLOCK, Evidence, Found
from phasegraph import Result
from phasegraph.adapters import plain, provenance


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
