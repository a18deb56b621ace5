"""From counts to edge weights."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from phasegraph._typing import Float32Array, Int32Array
from phasegraph.graph.checks import check_range

Csr: TypeAlias = Any

HOME_TITLE, HOME_LEAD = 2, 1
"""Values of the homes matrix: the passage's title is the entity's name; the passage starts with it."""

FEWEST_COMMON = 10
"""An entity in no more passages than this is never too common."""


@dataclass(frozen=True, slots=True)
class EdgeWeights:
    """How counts become weights.

    Parameters
    ----------
    home : float, default 30
        Weight of the edge from an entity to a passage with its name as title, where a single mention has 1.
    lead : float, default 15
        The same for a passage that starts with the name.
    rarity_power : float, default 2
        A passage leads to an entity it mentions with weight log(1 + N / df) to this power (N passages, df of
        which mention the entity).
    count_power : float, default 0.5
        An entity leads to a passage that mentions it c times with weight c to this power.
    common_share : float, default 0.05
        In [0, 1]. Entities in more than this share of the passages (and in more than ten), that no passage is
        about, have no edges.
    fact : float, default 0.2
        Weight of an entity-to-entity edge per triple that joins the two.
    synonym : float, default 1
        Weight of a synonym edge of similarity 1; others in proportion.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        For a value that is no number, or out of range.

    Examples
    --------
    >>> EdgeWeights().home
    30.0
    """

    home: float = 30.0
    lead: float = 15.0
    rarity_power: float = 2.0
    count_power: float = 0.5
    common_share: float = 0.05
    fact: float = 0.2
    synonym: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            most = 1.0 if field.name == "common_share" else np.inf
            check_range(f"EdgeWeights.{field.name}", getattr(self, field.name), 0, most)


def document_frequency(mentions: Csr) -> Int32Array:
    """(E,) array of int32: how many passages mention each entity."""
    return np.bincount(mentions.indices, minlength=mentions.shape[1]).astype(np.int32)


def rarity(frequency: Int32Array, passages: int) -> Float32Array:
    """(E,) array of float32 in (0, 1]: log(1 + N / df), 1 for an entity of a single passage."""
    if not passages:
        return np.ones(len(frequency), dtype=np.float32)
    values: Float32Array = (np.log1p(passages / np.maximum(frequency, 1)) / np.log1p(passages)).astype(np.float32)
    return values


def usable(
    frequency: Int32Array, homes: Csr, passages: int, weights: EdgeWeights
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(E,) array of bool: entities that have edges at all."""
    anchored = np.bincount(homes.indices, minlength=homes.shape[1]) > 0
    most = max(weights.common_share * passages, FEWEST_COMMON)
    return (frequency <= most) | anchored


def adjacency(mentions: Csr, homes: Csr, facts: Csr, synonyms: Csr, weights: EdgeWeights) -> Csr:
    """The (P + E, P + E) matrix of edge weights, passages first; row = where an edge starts.

    Notes
    -----
    An entity of a single passage gets no edge from there, which would only lead back; as a seed it still
    leads to the passage.
    """
    passages = mentions.shape[0]
    frequency = document_frequency(mentions)
    kept = usable(frequency, homes, passages, weights)
    outward = _to_entities(mentions, frequency, kept & (frequency > 1), weights)
    inward = _to_passages(mentions, homes, kept, weights)
    across = across_weights(facts, synonyms, weights).tocsr()
    whole = sparse.block_array([[None, outward], [inward, across]], format="csr", dtype=np.float32)
    whole.eliminate_zeros()
    whole.sort_indices()
    return whole


def rarity_weights(frequency: Any, passages: int, weights: EdgeWeights) -> Any:
    """Weights of edges from passages to entities of these frequencies, one for one."""
    return np.log1p(passages / np.maximum(frequency, 1)) ** weights.rarity_power


def count_weights(counts: Any, weights: EdgeWeights) -> Float32Array:
    """What so many mentions add to the weights of edges from entities to passages."""
    counted: Float32Array = counts.astype(np.float32) ** np.float32(weights.count_power)
    return counted


def home_weights(homes: Any, weights: EdgeWeights) -> Float32Array:
    """What being about the entity adds to them; values as in the homes matrix, 0 where it is not."""
    by_kind: Float32Array = np.array([0.0, weights.lead, weights.home], dtype=np.float32)[homes]
    return by_kind


def across_weights(facts: Any, synonyms: Any, weights: EdgeWeights) -> Any:
    """Weights of edges between entities, from counts of facts and float32 similarities: two matrices or two arrays."""
    return facts.astype(np.float32) * np.float32(weights.fact) + synonyms * np.float32(weights.synonym)


def _to_entities(mentions: Csr, frequency: Int32Array, kept: Any, weights: EdgeWeights) -> Csr:
    gains = np.where(kept, rarity_weights(frequency, mentions.shape[0], weights), 0.0).astype(np.float32)
    return sparse.csr_array((gains[mentions.indices], mentions.indices, mentions.indptr), shape=mentions.shape)


def _to_passages(mentions: Csr, homes: Csr, kept: Any, weights: EdgeWeights) -> Csr:
    counted = count_weights(mentions.data, weights)
    counted *= kept[mentions.indices]
    plain = sparse.csr_array((counted, mentions.indices, mentions.indptr), shape=mentions.shape)
    at_home = sparse.csr_array((home_weights(homes.data, weights), homes.indices, homes.indptr), shape=homes.shape)
    return (plain + at_home).T.tocsr()
