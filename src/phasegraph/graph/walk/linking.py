"""Find the seeds of a walk: the first passages of a dense ranking, and the entities that the query mentions by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasegraph._support.packed import NameRows
from phasegraph._support.typing import Float32Array, FloatArray, Int32Array, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.model.words import Gazetteer, find_names, normalise_name
from phasegraph.graph.walk.relevance import similarities
from phasegraph.graph.walk.settings import LinkSettings
from phasegraph.lexical import Tokenizer, tokenizer_of
from phasegraph.ranking import Ranking


@dataclass(frozen=True, slots=True, eq=False)
class Seeding:
    """The seeds of a query; if there are no seeds, `reason` explains why.

    `nodes`, of shape (s,), are distinct nodes of the graph: passages in descending order of mass, then entities in the
    order of the query. `masses`, of shape (s,), are positive and need not sum to 1.
    """

    nodes: IntArray
    masses: FloatArray
    reason: str = ""

    def __len__(self) -> int:
        return len(self.nodes)

    def plus(self, other: Seeding, mass: float) -> Seeding:
        """Return these seeds together with the seeds of `other`, whose masses are multiplied by `mass`.

        If both contain a node, its masses are added. Nodes of mass 0 are left out.
        """
        nodes = np.concatenate([self.nodes, other.nodes])
        masses = np.concatenate([self.masses, mass * other.masses])
        distinct, first, place = np.unique(nodes, return_index=True, return_inverse=True)
        summed = np.bincount(place, weights=masses, minlength=len(distinct)).astype(np.float64)
        order = np.argsort(first)
        kept = order[summed[order] > 0]
        return Seeding(distinct[kept].astype(np.intp), summed[kept], "" if len(kept) else self.reason)


def query_entities(graph: EntityGraph, query: str) -> IntArray:
    """Return the rows of the entities that a query names, without duplicates, in the order of the query.

    Names are found by the same rules as in passages; the known names are the graph's entities. A name of several words
    is also found in lower case. A name of one word is not found inside a run of capitalized words. If the whole query
    is the name of an entity, the result is this entity.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "1", "title": "Ada Lovelace", "text": "A mathematician."}])
    >>> [graph.entities[row] for row in query_entities(graph, "who was ada lovelace?")]
    ['ada lovelace']
    """
    places = graph.entity_rows
    if isinstance(places, NameRows):
        gazetteer = Gazetteer.of_rows(places)
    else:  # the graph is a part of a stored graph, which has no name table
        gazetteer = Gazetteer(graph.entities, matcher="python", normalised=True)
    names = dict.fromkeys(find_names(query, gazetteer, query=True))
    whole = normalise_name(query)
    if whole in places:
        names = {whole: None}
    return np.array([places[name] for name in names if name in places], dtype=np.intp)


def link(
    graph: EntityGraph, query: str, ranking: Ranking | None = None, settings: LinkSettings | None = None
) -> Seeding:
    """Find the seeds of a query: the first passages of a dense ranking, and the entities that the query names.

    Ids that are not in the graph are ignored. If there is no seed, the result is empty and contains the reason.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "1", "title": "Ada Lovelace", "text": "A mathematician."}])
    >>> link(graph, "Who was Ada Lovelace?").masses.tolist(), link(graph, "Who?").reason
    ([2.0], 'the query names no entity of the graph and no ranking was handed over')
    """
    chosen = settings if settings is not None else LinkSettings()
    passages = Seeding(*_passage_seeds(graph, ranking, chosen))
    handed = "no ranking was handed over" if ranking is None else "the ranking contains no passage of the graph"
    return both_seeds(
        passages, named_seeds(graph, query, chosen), f"the query names no entity of the graph and {handed}"
    )


def both_seeds(passages: Seeding, named: Seeding, otherwise: str) -> Seeding:
    """Combine passage seeds and entity seeds, without seeds of mass 0.

    If no seed is left, the result is empty, and the text `otherwise` is its reason.
    """
    nodes = np.concatenate([passages.nodes, named.nodes])
    masses = np.concatenate([passages.masses, named.masses])
    held = masses > 0
    return Seeding(nodes[held], masses[held], "" if held.any() else otherwise)


def _passage_seeds(graph: EntityGraph, ranking: Ranking | None, settings: LinkSettings) -> tuple[IntArray, FloatArray]:
    if ranking is None or not settings.seed_passages:
        return np.empty(0, dtype=np.intp), np.empty(0)
    found = [(row, rank) for rank, name in enumerate(ranking.ids) if (row := graph.passage_rows.get(name)) is not None]
    found = found[: settings.seed_passages]
    rows = np.array([row for row, _ in found], dtype=np.intp)
    near = similarities(ranking)[[rank for _, rank in found]] if found else np.empty(0)
    highest = near.max(initial=0.0)
    masses = (near / highest) ** settings.sharpness if highest > 0 else np.zeros(len(near))
    return rows, masses / masses.sum() if highest > 0 else masses


def rarity(frequency: Int32Array, passages: int) -> Float32Array:
    """Compute the rarity of each entity in (0, 1], a float32 array of shape (E,).

    The rarity is log(1 + N / df), divided by its value for df = 1. N is the number of passages, and df is the number of
    passages that mention the entity.
    """
    if not passages:
        return np.ones(len(frequency), dtype=np.float32)
    values: Float32Array = (np.log1p(passages / np.maximum(frequency, 1)) / np.log1p(passages)).astype(np.float32)
    return values


def named_seeds(graph: EntityGraph, query: str, settings: LinkSettings) -> Seeding:
    """Return, as seeds, the entities whose names are in the query, in the order of the query.

    Rare entities that have a home passage (a passage about the entity) get the highest masses.
    """
    entities = query_entities(graph, query)
    shares = rarity(graph.frequency[entities], graph.count).astype(np.float64) ** settings.specificity_power
    shares = np.where(graph.anchored[entities], shares, settings.unanchored * shares)
    return Seeding(entities + len(graph.passages), settings.name_mass * shares / max(1.0, float(shares.sum())))


def name_words(graph: EntityGraph, named: Seeding, tokenizer: Tokenizer) -> frozenset[str]:
    """Return the words in the names of the seed entities `named`."""
    names = (graph.entities[node - len(graph.passages)] for node in named.nodes.tolist())
    tokenize = tokenizer_of(tokenizer)
    return frozenset(word for name in names for word in tokenize(name))
