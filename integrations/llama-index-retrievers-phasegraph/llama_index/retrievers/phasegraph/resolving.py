"""Passages that a source's hits only name."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from llama_index.core.schema import BaseNode, NodeWithScore, TextNode

from llama_index.retrievers.phasegraph.reading import Found, Paths
from llama_index.retrievers.phasegraph.searching import unpack
from phasegraph import Ranking
from phasegraph.adapters.resolving import by_id, note_missing


def resolved(ranking: Ranking, found: object, notes: list[str]) -> Ranking:
    """The ranking with these passages; a hit without one keeps its own node."""
    passages = {key: _as_node(key, value) for key, value in by_id(ranking.ids, found, unpack).items()}
    note_missing(ranking.ids, passages, notes)
    payloads = ranking.payloads
    ids = [one for one in ranking.ids if one in passages or one in payloads]
    evidence = payloads.evidence if isinstance(payloads, Found) else Paths(payloads)
    nodes = [passages[one] if one in passages else cast("BaseNode", payloads[one]) for one in ids]
    return replace(ranking, payloads=Found(ids, nodes, evidence))


def _as_node(key: str, value: object) -> BaseNode:
    if isinstance(value, NodeWithScore):
        return value.node
    return value if isinstance(value, BaseNode) else TextNode(id_=key, text=str(value))
