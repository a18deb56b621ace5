"""Query to seeds, by names, vectors and words: where a walk restarts, what it prefers, and what its words add."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np

from phasegraph._packed import NameRows
from phasegraph._shared import portable, seconds_left
from phasegraph._typing import BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from phasegraph._validation import check_count, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph import EntityGraph, Extraction, checked_embeddings
from phasegraph.graph.words import Gazetteer, find_names, normalise_name
from phasegraph.lexical import Tokenizer, cover, tokenizer_of
from phasegraph.ranking import Ranking, by_fields, top_order
from phasegraph.retrieval.steps import Step

_UNKNOWN_SCALE = 0.7
"""What the last seed's score is taken for, the first one's being 1, where scores are no cosines."""


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
    """Seeds of one query, or none and the reason why.

    `nodes` (s,) are nodes of the graph, each once: passages by falling mass, then entities in the order of the query.
    `masses` (s,) are positive and need not sum to 1.
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
    """Rows of the entities named in a query, each once, in the order of the query's names.

    Names are found as in passages, with the graph's entities as gazetteer; names of several words are found in
    lower case, too, and those of one word only where they stand alone. A query that is nothing but a name counts in
    any case.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "1", "title": "Ada Lovelace", "text": "A mathematician."}])
    >>> [graph.entities[row] for row in query_entities(graph, "who was ada lovelace?")]
    ['ada lovelace']
    """
    places = graph.entity_rows
    if isinstance(places, NameRows):
        gazetteer = Gazetteer.of_rows(places)
    else:  # of a part of a stored graph
        gazetteer = Gazetteer(graph.entities, matcher="python", normalised=True)
    names = dict.fromkeys(find_names(query, gazetteer, query=True))
    whole = normalise_name(query)
    if whole in places:
        names = {whole: None}
    return np.array([places[name] for name in names if name in places], dtype=np.intp)


def link(
    graph: EntityGraph, query: str, ranking: Ranking | None = None, settings: LinkSettings | None = None
) -> Seeding:
    """Seeds of a query: the first passages of a dense ranking, and the entities that the query names.

    Ids that the graph does not hold are passed over; without any seed the answer is empty and says why.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "1", "title": "Ada Lovelace", "text": "A mathematician."}])
    >>> link(graph, "Who was Ada Lovelace?").masses.tolist(), link(graph, "Who?").reason
    ([2.0], 'the query names no entity of the graph and no ranking was handed over')
    """
    chosen = settings if settings is not None else LinkSettings()
    passages = Seeding(*_passage_seeds(graph, ranking, chosen))
    handed = "no ranking was handed over" if ranking is None else "the ranking holds no passage of the graph"
    return both_seeds(
        passages, named_seeds(graph, query, chosen), f"the query names no entity of the graph and {handed}"
    )


def both_seeds(passages: Seeding, named: Seeding, otherwise: str) -> Seeding:
    """Seeds of positive mass among passages and the entities that the query names; `otherwise` says why none."""
    nodes = np.concatenate([passages.nodes, named.nodes])
    masses = np.concatenate([passages.masses, named.masses])
    held = masses > 0
    return Seeding(nodes[held], masses[held], "" if held.any() else otherwise)


def similarities(ranking: Ranking) -> FloatArray:
    """Scores of a ranking as (n,) similarities in [0, 1].

    The scores themselves where they can be cosines (all in [0, 1]); otherwise placed linearly between 0.7 (last) and
    1 (first).
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


def rarity(frequency: Int32Array, passages: int) -> Float32Array:
    """(E,) array of float32 in (0, 1]: log(1 + N / df), 1 for an entity of a single passage."""
    if not passages:
        return np.ones(len(frequency), dtype=np.float32)
    values: Float32Array = (np.log1p(passages / np.maximum(frequency, 1)) / np.log1p(passages)).astype(np.float32)
    return values


def named_seeds(graph: EntityGraph, query: str, settings: LinkSettings) -> Seeding:
    """The entities that the query names, in its order, those that are rare and have a passage of their own heaviest."""
    entities = query_entities(graph, query)
    shares = rarity(graph.frequency[entities], graph.count).astype(np.float64) ** settings.specificity_power
    shares = np.where(graph.anchored[entities], shares, settings.unanchored * shares)
    return Seeding(entities + len(graph.passages), settings.name_mass * shares / max(1.0, float(shares.sum())))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FactIndex:
    """Facts, names or both, that can be found by embedding.

    Made by :meth:`of`, :meth:`of_extractions`, :meth:`of_names`, :meth:`plus`. Given to ``GraphSource(facts=)``, the
    entities of what is nearest to the query are seeds besides those that it names: for questions that put a name in
    other words, or a relation without its entities.

    Parameters
    ----------
    ends : (F, 2) or (F, 1) array of int32
        Rows of `EntityGraph.entities`: subject and object of a fact, or the one entity of a name (padded with -1).
    embeddings : (F, d) array of float32
        L2-normalised, of the facts or names as text.
    stated : (F,) sequence of tuple of str
        Ids of the passages that state each fact, where they are known; () if they are not known of any.
    texts : (F,) sequence of tuple of str
        Subject, predicate and object of each fact, or a name alone, as given; () if they are not known.
    """

    ends: Int32Array
    embeddings: Float32Array
    stated: tuple[tuple[str, ...], ...] = ()
    texts: tuple[tuple[str, ...], ...] = ()

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        if self.stated and len(self.stated) != len(self.ends):
            raise InvalidInputError(
                f"stated must hold the passages of each of {len(self.ends)} facts; got {len(self.stated)}"
            )
        if self.texts and len(self.texts) != len(self.ends):
            raise InvalidInputError(f"texts must hold each of {len(self.ends)} facts; got {len(self.texts)}")

    def text(self, graph: EntityGraph, row: int) -> tuple[str, ...]:
        """A fact as text: subject, predicate, object; subject and object where the rest is not known."""
        if self.texts:
            return self.texts[row]
        return tuple(graph.entities[end] for end in self.ends[row].tolist() if end >= 0)

    @classmethod
    def of(
        cls,
        graph: EntityGraph,
        facts: Iterable[tuple[str, str, str]],
        embeddings: Any,
        *,
        passages: Iterable[str | Collection[str]] | None = None,
    ) -> FactIndex:
        """Match facts (subject, predicate, object), each with a row of `embeddings`, with a graph.

        Those of which an end is no entity of the graph are left out. `passages` names for each fact the id or ids of
        the passages that state it, so that it is not found for a caller who may not see them (:meth:`within`).
        """
        rows, listed = graph.entity_rows, [(str(s), str(p), str(o)) for s, p, o in facts]
        ends = [(rows.get(normalise_name(s), -1), rows.get(normalise_name(o), -1)) for s, _, o in listed]
        vectors = checked_embeddings("fact embeddings", embeddings, len(ends))
        pairs = np.array(ends, dtype=np.int32).reshape(-1, 2)
        known = (pairs >= 0).all(axis=1)
        stated = () if passages is None else _stated(passages, len(ends))
        kept = np.flatnonzero(known).tolist()
        said = tuple(stated[row] for row in kept) if stated else ()
        return cls(pairs[known], vectors[known], said, tuple(listed[row] for row in kept))

    @classmethod
    def of_extractions(
        cls, graph: EntityGraph, extractions: Iterable[Extraction], embed: Callable[[Sequence[str]], Any]
    ) -> FactIndex:
        """Embed every fact of the records that the graph was built from, once, as "subject predicate object".

        ``embed(texts) -> (n, d)`` gives the vectors; the passages that state a fact are known from the records.

        >>> from phasegraph.graph import graph_from_extractions
        >>> records = [Extraction(name, triples=[("ada", "met", "bo")]) for name in "01"]
        >>> graph = graph_from_extractions(["0", "1"], records)
        >>> FactIndex.of_extractions(graph, records, lambda texts: [[len(text), 0.0] for text in texts]).stated
        (('0', '1'),)
        """
        found: dict[tuple[str, str, str], dict[str, None]] = {}
        for record in extractions:
            for triple in record.triples:
                found.setdefault(triple, {})[record.passage_id] = None
        vectors = embed([" ".join(triple) for triple in found]) if found else np.empty((0, 1))
        return cls.of(graph, found, vectors, passages=found.values())

    @classmethod
    def of_names(cls, graph: EntityGraph, names: Iterable[str], embeddings: Any) -> FactIndex:
        """Match embedded names with a graph; otherwise as :meth:`of`.

        >>> from phasegraph.graph import Extraction, graph_from_extractions
        >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo"])])
        >>> FactIndex.of_names(graph, ["Bo", "Cy"], [[1.0, 0.0], [0.0, 1.0]]).ends.tolist()
        [[1]]
        """
        listed = list(names)
        rows = [graph.entity_rows.get(normalise_name(name), -1) for name in listed]
        vectors = checked_embeddings("name embeddings", embeddings, len(rows))
        found = np.array(rows, dtype=np.int32)
        known = tuple((str(listed[row]),) for row in np.flatnonzero(found >= 0).tolist())
        return cls(found[found >= 0][:, None], vectors[found >= 0], (), known)

    def plus(self, other: FactIndex) -> FactIndex:
        """Both in one, of the same graph: the nearest of all of them give seeds.

        >>> from phasegraph.graph import Extraction, graph_from_extractions
        >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo"])])
        >>> names = FactIndex.of_names(graph, graph.entities, [[1.0, 0.0], [0.0, 1.0]])
        >>> FactIndex.of(graph, [("ada", "met", "bo")], [[0.6, 0.8]]).plus(names).ends.tolist()
        [[0, 1], [0, -1], [1, -1]]
        """
        widths = self.embeddings.shape[1], other.embeddings.shape[1]
        if widths[0] != widths[1]:
            raise InvalidInputError(f"embeddings must have one length; got {widths[0]} and {widths[1]}")
        ends = [np.pad(one.ends, ((0, 0), (0, 2 - one.ends.shape[1])), constant_values=-1) for one in (self, other)]
        stated: tuple[tuple[str, ...], ...] = ()
        if self.stated or other.stated:
            stated = tuple(each for one in (self, other) for each in one.stated or ((),) * len(one.ends))
        texts = (*self.texts, *other.texts) if self.texts and other.texts else ()
        return FactIndex(np.concatenate(ends), np.concatenate([self.embeddings, other.embeddings]), stated, texts)

    def within(self, graph: EntityGraph, part: EntityGraph) -> FactIndex:
        """What may be found of it by a caller who may see only `part`, which ``restrict_graph`` left of its `graph`.

        Names of the part's entities; facts that one of its passages states, or, where that is not known, facts whose
        edge it kept (no hidden passage mentions both ends).
        """
        at = np.array([graph.entity_rows[name] for name in part.entities], dtype=np.int64)  # ascends, as the names do
        place = np.searchsorted(at, self.ends).astype(np.int32)
        ends = np.where(np.append(at, -1)[place] == self.ends, place, np.int32(-1))
        ends[self.ends < 0] = -1
        kept = ends[:, 0] >= 0
        if ends.shape[1] == 2:
            name, size = self.ends[:, 1] < 0, len(part.entities)
            edges = part.facts.tocoo()
            keys = edges.row.astype(np.int64) * size + edges.col
            linked = (ends >= 0).all(axis=1) & np.isin(ends[:, 0].astype(np.int64) * size + ends[:, 1], keys)
            known = np.array([bool(each) for each in self.stated] or [False] * len(ends), dtype=bool)
            seen = np.array(
                [any(one in part.passage_rows for one in each) for each in self.stated] or linked, dtype=bool
            )
            kept &= name | np.where(known, seen & (ends >= 0).all(axis=1), linked)
        left = np.flatnonzero(kept)
        stated = tuple(
            tuple(one for one in self.stated[row] if one in part.passage_rows) for row in left if self.stated
        )
        texts = tuple(self.texts[row] for row in left.tolist() if self.texts)
        return FactIndex(ends[left], self.embeddings[left], stated, texts)

    def near(self, vector: Any) -> Float32Array:
        """(F,) cosines of the facts and names to a query's embedding."""
        cosines: Float32Array = self.embeddings @ unit_vector(vector, self.embeddings.shape[1])
        return cosines


def nearest_entities(
    graph: EntityGraph, index: FactIndex, vector: Any, top: int, rows: IntArray | None = None
) -> Seeding:
    """Entities of the `top` facts or names nearest to a query's embedding, ties by row; of `rows` where given.

    Masses sum to 1: cosines (negative ones count as 0) divided by the number of passages that mention the entity.
    Empty, with the reason, where no cosine is positive.

    >>> from phasegraph.graph import Extraction, graph_from_extractions
    >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo", "cy"])])
    >>> index = FactIndex.of(graph, [("ada", "met", "bo"), ("bo", "met", "cy")], [[0.6, 0.8], [0.0, 1.0]])
    >>> nearest_entities(graph, index, [1.0, 0.0], 1).masses.tolist()
    [0.5, 0.5]
    """
    near = index.near(vector)
    best = nearest_facts(near, top) if rows is None else rows
    ends = index.ends[best]
    known = ends >= 0
    if ends.max(initial=-1) >= len(graph.entities):
        raise InvalidInputError(f"facts must be those of the graph; it has no entity in row {ends.max()}")
    entities, place = np.unique(ends[known], return_inverse=True)
    shares = np.repeat(np.maximum(near[best], 0).astype(np.float64), known.sum(axis=1))
    masses = np.bincount(place, weights=shares, minlength=len(entities)) / np.maximum(graph.frequency[entities], 1)
    total = float(masses.sum())
    held = masses > 0
    nodes = entities[held].astype(np.intp) + len(graph.passages)
    if total <= 0:
        return Seeding(nodes, masses[held], "no embedded fact or name is near the query")
    return Seeding(nodes, masses[held] / total)


def _stated(passages: Iterable[str | Collection[str]], count: int) -> list[tuple[str, ...]]:
    given = [(each,) if isinstance(each, str) else tuple(each) for each in passages]
    if len(given) != count:
        raise InvalidInputError(f"passages must name those of each of {count} facts; got {len(given)}")
    wrong = next((one for each in given for one in each if not isinstance(one, str)), None)
    if wrong is not None:
        raise InvalidTypeError(f"passages must be ids; got {wrong!r:.80}")
    return given


def nearest_facts(near: Float32Array | FloatArray, top: int) -> IntArray:
    """Places of the `top` highest values, ties by place."""
    places = np.arange(len(near))
    if 0 < top < len(near):
        places = np.flatnonzero(near >= np.partition(near, len(near) - top)[len(near) - top])
    return places[np.lexsort((places, -near[places]))[:top]]


Fact: TypeAlias = tuple[str, ...]
KeepFacts: TypeAlias = Callable[[str, Sequence[Fact]], Any]
"""``keep(query, facts) -> facts``: those of (subject, predicate, object) that bear on the query; may be a coroutine."""
_HALF = 0.5
"""Of what its source has left, so that the walk still has its time."""
NONE_KEPT = "the fact filter kept none of {} facts: passages are ranked by their similarity to the query, as published"


@dataclass(frozen=True, slots=True, eq=False)
class FactFilter:
    """Which of the facts nearest to a query seed its walk, as HippoRAG 2 and SemFlowRAG have a model decide.

    Parameters
    ----------
    keep : callable
        ``keep(query, facts) -> facts`` that bear on the query, of those given: (subject, predicate, object) in their
        order, without the predicate where it is not known. May be a coroutine function. For a language model:
        :func:`~phasegraph.graph.filter_facts_with`.
    timeout : float, default 10
        Seconds that it may take; never more than half of what its source has left.

    Notes
    -----
    It runs in a worker. Where it raises, is late, or gives something else than some of the facts, all of them seed the
    walk, the ranking's reason says so, and a warning, once until it works again. (The published programs give up the
    walk then.) After 10 failures in a row it is left out, one query in 30 s trying it again. Where it keeps none, the
    passages are ranked by similarity, as published.

    References
    ----------
    HippoRAG 2, arXiv:2502.14802; SemFlowRAG, arXiv:2606.28447.

    Examples
    --------
    >>> def keep(query, facts):
    ...     return [fact for fact in facts if fact[0] in query]
    >>> FactFilter(keep).rows("Who met ada?", [("ada", "met", "bo"), ("cy", "met", "bo")])
    ([0], '')
    """

    keep: KeepFacts
    timeout: float = 10.0
    _step: Step = field(init=False, repr=False)

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        if not callable(self.keep):
            raise InvalidTypeError(f"fact_filter must be a function of a query and facts; got {self.keep!r:.80}")
        check_range("FactFilter.timeout", self.timeout, ends="(]")
        object.__setattr__(self, "_step", Step("the fact filter", self.keep, "the facts are not filtered"))

    @classmethod
    def of(cls, given: object) -> FactFilter | None:
        """The filter for what was given as one."""
        return given if given is None or isinstance(given, FactFilter) else cls(given)  # type: ignore[arg-type]

    def rows(self, query: str, facts: Sequence[Fact]) -> tuple[list[int], str]:
        """Places of the facts that are kept, ascending, and what went wrong, if anything did."""
        seconds = min(self.timeout, _HALF * seconds_left())
        tried = self._step.run((query, list(facts)), seconds, partial(_places, facts))
        self._step.announce()
        if tried.error is None:
            return tried.value, ""
        how = "was not asked" if tried.status == "skipped" else "failed"
        return list(range(len(facts))), f"the fact filter {how} ({tried.reason}): the facts are not filtered"


def _places(facts: Sequence[Fact], kept: Any) -> list[int]:
    """Places of the facts that a filter gave."""
    if isinstance(kept, str | bytes) or not isinstance(kept, Iterable):
        raise InvalidTypeError(f"fact_filter must give a list of facts; got {type(kept).__name__}")
    given = [tuple(fact) for fact in islice(kept, len(facts) + 1)]
    if len(given) > len(facts):
        raise InvalidInputError(f"fact_filter must give at most the {len(facts)} facts that it got; got more")
    unknown = sum(fact not in facts for fact in given)
    if unknown:  # a model's words are not repeated
        raise InvalidTypeError(f"fact_filter must give facts that it got; {unknown} of its facts are others")
    return [place for place, fact in enumerate(facts) if fact in given]


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """Rows of the facts and names that seed a walk, nearest first; `note` says what to report, `none` if all went."""

    rows: IntArray
    note: str = ""
    none: bool = False


def kept_facts(
    fact_filter: FactFilter | None,
    query: str,
    graph: EntityGraph,
    facts: FactIndex,
    near: Float32Array | FloatArray,
    top: int,
) -> KeptFacts:
    """The `top` facts of the highest `near`, ties by row, after the filter; names are no facts and stay."""
    best = nearest_facts(near, top)
    shown = [place for place, row in enumerate(best.tolist()) if facts.ends.shape[1] == 2 and facts.ends[row, 1] >= 0]
    if fact_filter is None or not shown:
        return KeptFacts(best)
    found, note = fact_filter.rows(query, [facts.text(graph, int(best[place])) for place in shown])
    gone = set(shown).difference(shown[place] for place in found)
    rows = best[[place for place in range(len(best)) if place not in gone]]
    return KeptFacts(rows, note if len(rows) else NONE_KEPT.format(len(shown)), not len(rows))


def check_embedder(source: Any) -> None:
    """Refuse an `embedder` that cannot be called; a method that a framework wrapped is kept as one to be pickled."""
    if not callable(source.embedder):
        raise InvalidTypeError(f"embedder must be callable; got {source.embedder!r:.80}")
    object.__setattr__(source, "embedder", portable(source.embedder))


def unit_vector(vector: Any, dimensions: int) -> Float32Array:
    """A query's embedding as (dimensions,) float32, checked and normalised."""
    try:
        values = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"the query's embedding must be numbers; got {vector!r:.80}") from error
    if values.shape != (dimensions,):
        raise InvalidInputError(f"the query's embedding must have shape ({dimensions},); got {values.shape}")
    length = float(np.sqrt(np.dot(values.astype(np.float64), values)))
    if not np.isfinite(length):
        raise InvalidInputError("the query's embedding must be finite; it holds NaN or infinity")
    return values / np.float32(length) if length > 0 else values


FLOOR = 0.05
"""Least similarity a passage counts with: no passage is closed to the walk."""
UNLISTED = 0.5
"""What a passage outside the ranking counts with, as a share of the ranking's last similarity."""


def relevance(
    graph: EntityGraph, ranking: Ranking | None, vector: Any = None, *, floor: float = FLOOR
) -> FloatArray | None:
    """How readily the walk enters each of the (P + E,) nodes; None where nothing is known.

    For passages the cosine of `vector`, the query's embedding, to `graph.embeddings`, or their similarity in a dense
    ranking where there are none to compare, at least `floor`; 1 for entities.
    """
    node_weights = np.ones(graph.size)
    count = len(graph.passages)
    if vector is not None and graph.embeddings is not None:
        near = graph.embeddings @ unit_vector(vector, graph.embeddings.shape[1])
        node_weights[:count] = np.maximum(near, floor)
        return node_weights
    if ranking is None or not len(ranking):
        return None
    near = np.maximum(similarities(ranking), floor)
    node_weights[:count] = max(UNLISTED * float(near[-1]), floor)
    for name, value in zip(ranking.ids, near.tolist(), strict=True):
        row = graph.passage_rows.get(name)
        if row is not None:
            node_weights[row] = value
    return node_weights


@dataclass(frozen=True, slots=True)
class ResetRecipe:
    """The numbers of one published reset distribution.

    `passage_weight` is the mass of the passage with the highest similarity (the lowest gets 0); `top_facts` give seeds,
    of which `top_entities` are kept.
    """

    passage_weight: float
    top_facts: int
    top_entities: int


RESETS: Mapping[str, ResetRecipe] = MappingProxyType(
    {
        "hipporag2": ResetRecipe(0.05, 5, 5),
        "semflowrag": ResetRecipe(0.08, 5, 5),
        "semflowrag-paper": ResetRecipe(0.08, 12, 20),
    }
)
"""HippoRAG 2 and SemFlowRAG as released, and SemFlowRAG with its paper's numbers."""
NO_FACTS = "there is no fact to seed the walk: passages are ranked by their similarity to the query, as published"


def fact_reset(
    graph: EntityGraph, ends: Int32Array, fact_scores: FloatArray, similarities: FloatArray, recipe: ResetRecipe
) -> Seeding:
    """The reset distribution of HippoRAG 2 (arXiv:2502.14802), which SemFlowRAG shares; entities first, passages next.

    A kept fact gives each end its score divided by the number of passages that mention the end; an entity's mass
    is the mean over the facts it ends, and the entities with the greatest mass stay (ties by row). Every passage
    adds its min-max scaled similarity times the passage weight. Facts are the `top_facts` with the highest score;
    the papers have a language model filter them first.

    `ends` (F, 2) are entity rows of the facts, -1 for none; `fact_scores` (F,) their similarities to the query, min-max
    scaled over all facts; `similarities` (P,) those of all passages.

    >>> from phasegraph.graph import Extraction, graph_from_extractions
    >>> graph = graph_from_extractions(["0", "1"], [Extraction("0", ["b", "c"]), Extraction("1", ["b"])])
    >>> seeds = fact_reset(graph, np.array([[0, 1]]), np.array([0.9]), np.array([1.0, 0.0]), RESETS["semflowrag"])
    >>> seeds.nodes.tolist(), seeds.masses.round(3).tolist()
    ([3, 2, 0], [0.9, 0.45, 0.08])
    """
    if len(ends) != len(fact_scores) or len(similarities) != len(graph.passages):
        raise InvalidInputError(
            f"there must be one score per fact and one similarity per passage; got {len(fact_scores)} for {len(ends)} "
            f"facts, {len(similarities)} for {len(graph.passages)} passages"
        )
    best = np.lexsort((np.arange(len(ends)), -np.asarray(fact_scores)))[: recipe.top_facts]
    found: dict[int, list[float]] = {}
    for fact in best.tolist():
        for entity in (row for row in ends[fact].tolist() if row >= 0):
            mass = float(fact_scores[fact]) / max(int(graph.frequency[entity]), 1)
            found.setdefault(entity, []).append(mass)
    means = sorted(((-sum(each) / len(each), entity) for entity, each in found.items()))[: recipe.top_entities]
    nodes = np.array([entity + len(graph.passages) for _, entity in means], dtype=np.intp)
    scaled = recipe.passage_weight * _min_max(np.asarray(similarities, dtype=np.float64))
    nodes = np.concatenate([nodes, np.arange(len(scaled))])
    masses = np.concatenate([[-mass for mass, _ in means], scaled])
    held = masses > 0
    reason = "" if held.any() else "no fact and no passage stands out for the query"
    return Seeding(nodes[held], masses[held], reason)


def reset_by_name(
    name: str, graph: EntityGraph, facts: FactIndex, vector: Any, similarities: FloatArray, rows: IntArray | None = None
) -> Seeding:
    """The reset distribution ``RESETS[name]``, from a query's embedding and the passages' (P,) similarities to it.

    `rows` are those of the facts that a filter kept.
    """
    if name not in RESETS:
        raise InvalidInputError(f"reset must be one of {', '.join(RESETS)}; got {name!r}")
    kept = slice(None) if rows is None else np.sort(rows)
    return fact_reset(graph, facts.ends[kept], fact_scores(facts, vector)[kept], similarities, RESETS[name])


def fact_scores(facts: FactIndex, vector: Any) -> FloatArray:
    """(F,) array of float in [0, 1]: cosines of the facts to a query's embedding, min-max scaled over all facts."""
    return _min_max(facts.near(vector).astype(np.float64))


def _min_max(values: FloatArray) -> FloatArray:
    """Scaled to [0, 1]; a constant array becomes ones."""
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    return np.ones(len(values)) if high == low else (values - low) / (high - low)


_TOP = 20
"""How many of the best scores say whether a walk points anywhere."""
NO_SPREAD = 1e-9
"""A deviation up to which scores are equal but for rounding."""
_STEEP = 50.0
"""Logarithm of a score beyond which it grows more slowly: one passage among millions may stand 1,000 deviations out."""
_SENTENCE = 3
"""Words from which on a query that stands in one passage as a whole looks for that passage."""


class Terms(Protocol):
    """The words of a query as :class:`~phasegraph.lexical.QueryTerms` has them, of all passages or of some."""

    @property
    def scores(self) -> FloatArray:
        """(n,) BM25."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """Those that the collection has."""
        ...

    @property
    def idf(self) -> FloatArray:
        """(t,) of these."""
        ...

    @property
    def all_idf(self) -> Mapping[str, float]:
        """Of every word of the query."""
        ...

    @property
    def shares(self) -> FloatArray:
        """(t,) shares of the words in their idf."""
        ...

    def held_by(self, passages: IntArray, /) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        ...


@dataclass(frozen=True, slots=True)
class LocalIds(Sequence[str]):
    """The ids of some passages, looked up one by one."""

    passages: Sequence[str]
    rows: IntArray

    def __getitem__(self, place: Any) -> Any:
        return self.passages[int(self.rows[place])]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class WordSettings:
    """How the query's words count in a walk.

    Parameters
    ----------
    weight : float, default 0.2
        What the best BM25 score adds to a cosine; others in proportion.
    seed_pool : int, default 50
        Passages from which seeds are chosen, those of the highest relevance.
    seed_cover : float, default 0.3
        What it adds to a seed's relevance to have all words, by idf, that no seed before has.
    diffuse : (float, float), default (10, 13)
        Effective number of the walk's 20 best scores at which plain relevance starts to take its place, and has.
    unnamed : float, default 0.3
        Share that plain relevance has at least, in [0, 1], where the query names nothing that a passage is about.
    dense_share : float, default 0.7
        Share of the cosines in that plain relevance, in [0, 1]; the rest is BM25's.
    complete : float, default 0.8
        In [0, 1). Where the best passage by BM25 has more than this share of the query's words, by idf squared, the
        cosines' share falls; where it has all of them, and they are three or more, the query looks for that passage,
        and BM25 alone decides.
    cover : float, default 3
        What it adds to a score's logarithm to have all words, by idf, that no passage before has.
    cover_pool, cover_picks : int, default 30, 10
        Among how many of the best, and for how many places.
    relation : float, default 1
        How much more readily the walk enters the passage that is best, by BM25, for those words of the query that are
        in none of the names it has; others in proportion. Less where no passage is about these names.
    """

    weight: float = 0.2
    seed_pool: int = 50
    seed_cover: float = 0.3
    diffuse: tuple[float, float] = (10.0, 13.0)
    unnamed: float = 0.3
    dense_share: float = 0.7
    complete: float = 0.8
    cover: float = 3.0
    cover_pool: int = 30
    cover_picks: int = 10
    relation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("weight", "seed_cover", "cover", "relation"):
            check_range(f"WordSettings.{name}", getattr(self, name))
        for name in ("unnamed", "dense_share"):
            check_range(f"WordSettings.{name}", getattr(self, name), 0, 1)
        check_range("WordSettings.complete", self.complete, 0, 1, ends="[)")
        for name in ("seed_pool", "cover_pool", "cover_picks"):
            check_count(f"WordSettings.{name}", getattr(self, name), minimum=1)
        if not isinstance(self.diffuse, tuple) or len(self.diffuse) != 2 or not 1 <= self.diffuse[0] < self.diffuse[1]:
            raise InvalidInputError(f"WordSettings.diffuse must be two ascending numbers from 1; got {self.diffuse!r}")


def relevance_by_words(cosines: FloatArray, terms: Terms, settings: WordSettings) -> FloatArray:
    """(P,) cosines with what BM25 adds to them."""
    highest = float(terms.scores.max(initial=0.0))
    return cosines + settings.weight * terms.scores / highest if highest > 0 else cosines


def name_words(graph: EntityGraph, named: Seeding, tokenizer: Tokenizer) -> frozenset[str]:
    """The words of the names that a query has."""
    names = (graph.entities[node - len(graph.passages)] for node in named.nodes.tolist())
    tokenize = tokenizer_of(tokenizer)
    return frozenset(word for name in names for word in tokenize(name))


def entered(gains: FloatArray, others: FloatArray, highest: float, named: float, settings: WordSettings) -> FloatArray:
    """(n,) gains of edges into passages, with what the query's words besides its names say for each of these.

    What a question asks about its names ("born", "directed") stands in the passage that answers it, whoever that is
    about: `others` (n,) are BM25 scores of these words alone, `highest` that of the best passage, `named` the mass of
    the names that a passage is about.

    >>> entered(np.array([0.5, 0.5]), np.array([4.0, 0.0]), 4.0, 1.0, WordSettings()).tolist()
    [1.0, 0.5]
    """
    return gains * (1 + settings.relation * named * np.minimum(others / highest, 1.0)) if highest > 0 else gains


def seeds_by_words(
    relevance: FloatArray, terms: Terms, ids: Sequence[str], count: int, sharpness: float, settings: WordSettings
) -> tuple[IntArray, FloatArray]:
    """Rows and masses, which sum to 1, of at most `count` relevant passages that have different words of the query."""
    best = top_order(relevance, ids, settings.seed_pool)
    best = best[relevance[best] > 0]
    places, worth = cover(relevance[best], terms.held_by(best), terms.shares, settings.seed_cover, count)
    masses = (worth / worth[0]) ** sharpness if len(worth) else worth
    return best[places], masses / masses.sum() if len(masses) else masses


def blended(
    logs: FloatArray,
    cosines: FloatArray,
    terms: Terms,
    named: float,
    settings: WordSettings,
    standing: FloatArray | None = None,
) -> FloatArray:
    """(P,) logarithms of a walk's scores, mixed with plain relevance as far as the walk says little.

    `standing` (P,) says for how many passages each of these stands in means and deviations: itself, if not given.
    """
    low, high = settings.diffuse
    spread = min(max((effective_number(logs) - low) / (high - low), 0.0), 1.0)
    doubt = 1 - (1 - spread) * (1 - settings.unnamed * (1 - named))
    whole = _completeness(terms, settings.complete)
    doubt = 1.0 if whole == 1.0 else doubt
    dense = settings.dense_share * (1 - whole) * _standardised(cosines, standing)
    words = _standardised(terms.scores, standing)
    plain = dense + (1 - settings.dense_share * (1 - whole)) * words
    if not plain.any():
        return logs
    return (1 - doubt) * logs + doubt * moments(logs, standing)[1] * plain


def _completeness(terms: Terms, least: float) -> float:
    """Share of the query's words, by idf squared, that the best passage by BM25 has, mapped from [`least`, 1]."""
    if len(terms.all_idf) < _SENTENCE or len(terms.words) == 0:
        return 0.0
    held = terms.held_by(np.array([int(np.argmax(terms.scores))]))[0]
    if held.all() and len(held) == len(terms.all_idf):
        return 1.0
    total = sum(idf * idf for idf in terms.all_idf.values())
    share = float((terms.idf[held] ** 2).sum()) / total if total else 0.0
    return min(max((share - least) / (1.0 - least), 0.0), 1.0 - 1e-9)


def covering(
    scores: FloatArray, rows: IntArray, ids: Sequence[str], terms: Terms, limit: int | None, settings: WordSettings
) -> tuple[IntArray, FloatArray]:
    """The first `limit` of these rows with scores that fall, the best rearranged to have the query's words early."""
    wanted = None if limit is None else max(limit, settings.cover_pool)
    if wanted is not None and wanted < len(rows):
        rows = rows[scores[rows] >= np.partition(scores[rows], len(rows) - wanted)[len(rows) - wanted]]
    order = rows[top_order(scores[rows], LocalIds(ids, rows), wanted)]
    head = order[: settings.cover_pool]
    places, worth = cover(scores[head], terms.held_by(head), terms.shares, settings.cover, settings.cover_picks)
    rest: BoolArray = np.ones(len(order), dtype=np.bool_)
    rest[places] = False
    order, values = np.concatenate([head[places], order[rest]]), np.concatenate([worth, scores[order[rest]]])
    return order[:limit], values[:limit]


def effective_number(logs: FloatArray) -> float:
    """Exponential of the entropy of the shares of the 20 largest of exp(`logs`): 1 (one passage) to 20 (flat)."""
    top = logs if len(logs) <= _TOP else np.partition(logs, len(logs) - _TOP)[-_TOP:]
    shares = np.exp(top - top.max())
    shares /= shares.sum()
    held = shares[shares > 0]
    return float(np.exp(-(held * np.log(held)).sum()))


def moments(values: FloatArray, standing: FloatArray | None = None) -> tuple[float, float]:
    """Mean and deviation, where each value may stand for many."""
    if standing is None:
        return float(values.mean()), float(values.std())
    total = standing.sum()
    mean = float((values * standing).sum() / total)
    return mean, float(np.sqrt(((values - mean) ** 2 * standing).sum() / total))


def _standardised(values: FloatArray, standing: FloatArray | None) -> FloatArray:
    mean, spread = moments(values, standing)
    return (values - mean) / spread if spread > NO_SPREAD else np.zeros(len(values))


def published(values: FloatArray) -> FloatArray:
    """Positive scores in the order of these logarithms, finite whatever they are."""
    beyond = np.maximum(values - _STEEP, 0.0)
    return np.asarray(np.exp(np.minimum(values, _STEEP) + np.log1p(beyond)))
