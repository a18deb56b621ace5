"""The reset distribution: a few passages of a dense ranking and the entities named in the query."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.candidates import Ranking
from phasegraph.graph.checks import check_range
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.entity_graph.weights import rarity
from phasegraph.graph.extraction import Gazetteer, find_names, normalise_name
from phasegraph.pipeline.checks import check_count

_UNKNOWN_SCALE = 0.7
"""What the last seed's score is taken for, the first one's being 1, where scores are no cosines."""


_gazetteers: WeakKeyDictionary[EntityGraph, Gazetteer] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How a query becomes seeds.

    Parameters
    ----------
    seed_passages : int, default 10
        First passages of the dense ranking that become seeds.
    sharpness : float, default 10
        Their masses are in proportion to similarity to this power, and sum to 1.
    name_mass : float, default 2
        Most mass that the query's entities get together.
    specificity_power : float, default 3
        An entity gets at most `name_mass` times its rarity, in (0, 1], to this power.
    unanchored : float, default 0.3
        What an entity counts for that no passage is about, in [0, 1].
    fact_mass : float, default 0.5
        Mass of the entities of the facts nearest to the query, where there are embedded facts.
    top_facts : int, default 5
        How many facts those are, at least 1.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        For a value that is no number, or out of range.

    Examples
    --------
    >>> LinkSettings().seed_passages
    10
    """

    seed_passages: int = 10
    sharpness: float = 10.0
    name_mass: float = 2.0
    specificity_power: float = 3.0
    unanchored: float = 0.3
    fact_mass: float = 0.5
    top_facts: int = 5

    def __post_init__(self) -> None:
        check_count("LinkSettings.seed_passages", self.seed_passages)
        check_count("LinkSettings.top_facts", self.top_facts, minimum=1)
        for name in ("sharpness", "name_mass", "specificity_power", "fact_mass"):
            check_range(f"LinkSettings.{name}", getattr(self, name))
        check_range("LinkSettings.unanchored", self.unanchored, 0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Seeding:
    """Seeds of one query.

    Parameters
    ----------
    nodes : (s,) array of int
        Nodes of the graph, each once: passages by falling mass, then entities in the order of the query.
    masses : (s,) array of float
        Positive; need not sum to 1.
    reason : str
        Why there are none.
    """

    nodes: IntArray
    masses: FloatArray
    reason: str = ""

    def __len__(self) -> int:
        return len(self.nodes)

    def plus(self, other: Seeding, mass: float) -> Seeding:
        """These seeds and others with `mass` times theirs; a node in both gets both, at its first place."""
        nodes = np.concatenate([self.nodes, other.nodes])
        masses = np.concatenate([self.masses, mass * other.masses])
        distinct, first, place = np.unique(nodes, return_index=True, return_inverse=True)
        summed = np.bincount(place, weights=masses, minlength=len(distinct)).astype(np.float64)
        order = np.argsort(first)
        kept = order[summed[order] > 0]
        return Seeding(distinct[kept].astype(np.intp), summed[kept], "" if len(kept) else self.reason)


def query_entities(graph: EntityGraph, query: str) -> IntArray:
    """Entities named in a query.

    Parameters
    ----------
    graph : EntityGraph
    query : str

    Returns
    -------
    (m,) array of int
        Rows of `graph.entities`, each once, in the order of the query's names.

    Notes
    -----
    Names are found as in passages, with the graph's entities as gazetteer; names of several words are found in
    lower case, too, and those of one word only where they stand alone. A query that is nothing but a name counts in
    any case.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "1", "title": "Ada Lovelace", "text": "A mathematician."}])
    >>> [graph.entities[row] for row in query_entities(graph, "who was ada lovelace?")]
    ['ada lovelace']
    """
    places = graph.entity_rows
    names = dict.fromkeys(find_names(query, _gazetteer(graph), query=True))
    whole = normalise_name(query)
    if whole in places:
        names = {whole: None}
    return np.array([places[name] for name in names if name in places], dtype=np.intp)


def link(
    graph: EntityGraph, query: str, ranking: Ranking | None = None, settings: LinkSettings | None = None
) -> Seeding:
    """Seeds of a query.

    Parameters
    ----------
    graph : EntityGraph
    query : str
    ranking : Ranking, optional
        A dense ranking of the passages; ids the graph does not hold are passed over.
    settings : LinkSettings, optional

    Returns
    -------
    Seeding
        Empty, with its reason, where the query names no entity and there is no ranking.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "1", "title": "Ada Lovelace", "text": "A mathematician."}])
    >>> link(graph, "Who was Ada Lovelace?").masses.tolist(), link(graph, "Who?").reason
    ([2.0], 'the query names no entity of the graph and no ranking was handed over')
    """
    chosen = settings if settings is not None else LinkSettings()
    passages, passage_masses = _passage_seeds(graph, ranking, chosen)
    entities = query_entities(graph, query)
    entity_masses = _entity_masses(graph, entities, chosen)
    nodes = np.concatenate([passages, entities + len(graph.passages)])
    masses = np.concatenate([passage_masses, entity_masses])
    held = masses > 0
    if not held.any():
        handed = "no ranking was handed over" if ranking is None else "the ranking holds no passage of the graph"
        return Seeding(nodes[held], masses[held], f"the query names no entity of the graph and {handed}")
    return Seeding(nodes[held], masses[held])


def similarities(ranking: Ranking) -> FloatArray:
    """Scores of a ranking as similarities in [0, 1].

    Parameters
    ----------
    ranking : Ranking

    Returns
    -------
    (n,) array of float
        The scores themselves where they can be cosines that mean something (all in [0, 1]); otherwise placed
        linearly between 0.7 (last) and 1 (first).
    """
    scores = np.asarray(ranking.scores, dtype=np.float64)
    if not len(scores) or (scores.min() >= 0 and scores.max() <= 1 + 1e-6):
        return np.clip(scores, 0.0, 1.0)
    low, high = float(scores.min()), float(scores.max())
    place = np.ones(len(scores)) if high == low else (scores - low) / (high - low)
    return _UNKNOWN_SCALE + (1 - _UNKNOWN_SCALE) * place


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


def _entity_masses(graph: EntityGraph, entities: IntArray, settings: LinkSettings) -> FloatArray:
    shares = rarity(graph.frequency[entities], len(graph.passages)).astype(np.float64) ** settings.specificity_power
    shares = np.where(graph.anchored[entities], shares, settings.unanchored * shares)
    return settings.name_mass * shares / max(1.0, float(shares.sum()))


def _gazetteer(graph: EntityGraph) -> Gazetteer:
    """The graph's entities as a gazetteer, made once per graph."""
    found = _gazetteers.get(graph)
    if found is None:
        found = _gazetteers[graph] = Gazetteer(graph.entities, matcher="python", normalised=True)
    return found
