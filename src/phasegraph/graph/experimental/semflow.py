"""SemFlowRAG: a walk that prefers edges from abstract to specific entities, with edge weights that depend on the query.

.. [1] "SemFlowRAG", arXiv:2606.28447
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, FloatArray, Int32Array, IntArray
from phasegraph._support.validation import check_count, check_flag, check_query, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.entity_graph import EntityGraph, check_kind
from phasegraph.graph.model.synonyms import finite_rows
from phasegraph.graph.walk.fact_filter import FactFilter, KeepFacts, KeptFacts, kept_facts
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.relevance import unit_vector
from phasegraph.graph.walk.resets import NO_FACTS, ResetRecipe, fact_reset, fact_scores
from phasegraph.graph.walk.walker import GraphWalker, best_passages, check_embedder, check_source_name
from phasegraph.pagerank.operator import WalkOperator
from phasegraph.pagerank.push import PageRankResult, Positions, Reset, Transitions, as_seeds, ranges, run_push
from phasegraph.pagerank.solve import personalized_pagerank, push_settings
from phasegraph.pagerank.workspace import Kernel, PushWorkspace, WorkspacePool, compiled_kernels
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Upstream

_ROWS = 1024
_kept: WeakKeyDictionary[EntityGraph, dict[tuple[Any, ...], FloatArray]] = WeakKeyDictionary()


def truncated_min_max(values: ArrayLike, /, *, low: float = 0.01, high: float = 0.99) -> FloatArray:
    """Scale values linearly so that a low and a high quantile become 0 and 1, and clip the result to [0, 1].

    If the two quantiles are equal, all values become .5.

    >>> truncated_min_max([0.575, 0.1, 0.0, 0.1]).round(6).tolist()
    [1.0, 0.173913, 0.0, 0.173913]
    """
    given = finite_vector(values, "values")
    if not 0.0 <= low < high <= 1.0:
        raise InvalidInputError(f"quantiles must satisfy 0 <= low < high <= 1; got {low} and {high}")
    if not len(given):
        return given
    ordered = np.sort(given)
    places = np.array([low, high]) * (len(ordered) - 1)
    below = places.astype(np.intp)
    above = np.minimum(below + 1, len(ordered) - 1)
    bottom, top = ordered[below] + (places - below) * (ordered[above] - ordered[below])
    if top <= bottom:
        return np.full(len(given), 0.5)
    scaled: FloatArray = np.clip((given - bottom) / (top - bottom), 0.0, 1.0)
    return scaled


def abstractness(
    mentions: Any, passages: ArrayLike, *, ddof: int = 0, shrinkage: float = 0.0, prior: float | None = None
) -> FloatArray:
    """Compute the abstractness of each entity: the variance of the embeddings of its passages; an array of shape (E,).

    The variance is the trace of the covariance matrix.

    Parameters
    ----------
    mentions : (P, E) sparse matrix
        An entry is not zero if the passage mentions the entity; the number of mentions has no effect.
    passages : (P, d) array of float
        Finite embeddings of the passages. Sums have the type float64 for float64 embeddings, and float32 for shorter
        types.
    ddof : {0, 1}
        0 for the population covariance, as in SemFlowRAG; 1 for the unbiased covariance.
    shrinkage, prior : float
        The values m0 >= 0 and p0 in the shrunk variance (m * variance + m0 * p0) / (m + m0), which is used instead of
        the variance. m is the number of the entity's passages. The default prior is the mean variance of the entities
        with at least two passages.

    Notes
    -----
    The expected population variance is (m - 1) / m times the true variance, so it rises with m. Entities in a single
    passage, usually the majority, have the variance 0. ``ddof=1`` removes the first effect. `shrinkage`, our own
    addition, reduces the second effect; a single passage counts as an observation of 0.

    Examples
    --------
    >>> from scipy import sparse
    >>> mentions = sparse.csr_array([[1, 1], [1, 0]])
    >>> abstractness(mentions, [[1.0, 0.0], [0.0, 1.0]]).tolist()
    [0.5, 0.0]
    >>> abstractness(mentions, [[1.0, 0.0], [0.0, 1.0]], ddof=1, shrinkage=1.0).round(6).tolist()
    [1.0, 0.5]
    """
    vectors = finite_rows(passages, "passages")
    members = members_of(mentions, len(vectors))
    if ddof not in (0, 1):
        raise InvalidInputError(f"ddof must be 0 or 1; got {ddof!r}")
    if not (np.isfinite(shrinkage) and shrinkage >= 0) or (prior is not None and not 0 <= prior < np.inf):
        raise InvalidInputError(f"shrinkage and prior must be finite and at least 0; got {shrinkage}, {prior}")
    counts = np.diff(members.indptr).astype(np.float64)
    several = counts > 1
    variance = np.zeros(len(counts))
    variance[several] = _scatter(members[several], vectors) / (counts[several] - ddof)
    if shrinkage == 0:
        return variance
    level = prior if prior is not None else float(variance[several].mean()) if several.any() else 0.0
    shrunk: FloatArray = (counts * variance + shrinkage * level) / (counts + shrinkage)
    return shrunk


def graph_abstractness(graph: EntityGraph, *, normalised: bool = True, **options: Any) -> FloatArray:
    """Compute the abstractness of a graph's entities (see :func:`abstractness`), a read-only array of shape (E,).

    If `normalised`, :func:`truncated_min_max` scales the values to [0, 1], as :class:`SemanticFlow` needs them. The
    other options are the options of :func:`abstractness`. The result is cached for the graph.

    >>> from phasegraph.graph import build_graph
    >>> passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Ada sang."}]
    >>> graph = build_graph(passages, embeddings=[[1.0, 0.0], [0.0, 1.0]])
    >>> graph.entities, graph_abstractness(graph, normalised=False).tolist()
    (('ada', 'bo'), [0.5, 0.0])
    """
    if graph.embeddings is None:
        raise InvalidInputError("abstractness needs a graph with embeddings: build the graph with embeddings=")
    kept = _kept.setdefault(graph, {})
    key = (normalised, *sorted(options.items()))
    if key not in kept:
        values = abstractness(graph.mentions, graph.embeddings, **options)
        values = truncated_min_max(values) if normalised else values
        values.flags.writeable = False
        kept[key] = values
    return kept[key]


def best_of(members: Any, scores: FloatArray, rows: IntArray | None = None) -> FloatArray:
    """Return, for each row of the CSR matrix `members`, the highest score among its columns; 0 for an empty row.

    `scores` has a score per column. `rows` contains the row of each entry of the matrix; passing it saves a third of
    the time.
    """
    entries = np.repeat(np.arange(members.shape[0]), np.diff(members.indptr)) if rows is None else rows
    best = np.full(members.shape[0], -np.inf)
    np.maximum.at(best, entries, scores.take(members.indices))
    best[best == -np.inf] = 0.0
    return best


def _scatter(members: Any, vectors: Any) -> FloatArray:
    """Compute the scatter of each entity: the sum of the squared distances of its passages' vectors to their mean.

    `members`, of shape (E, P), contains the passages of each entity. `vectors`, of shape (P, d), are the embeddings of
    the passages.
    """
    centred = vectors.astype(np.float64 if vectors.dtype.itemsize > 4 else np.float32)
    centred -= vectors.mean(axis=0, dtype=np.float64).astype(centred.dtype)
    squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    total: FloatArray = members @ squares
    counts = np.diff(members.indptr)
    for first in range(0, len(total), _ROWS):
        rows = members[first : first + _ROWS].astype(centred.dtype)
        sums = rows @ centred
        total[first : first + _ROWS] -= np.einsum("ij,ij->i", sums, sums) / counts[first : first + _ROWS]
    return np.maximum(total, 0.0)


def members_of(mentions: Any, passages: int) -> Any:
    """Return a CSR matrix of shape (E, P): 1 if the entity is mentioned in the passage; `passages` is the number P."""
    if not sparse.issparse(mentions):
        raise InvalidTypeError(f"mentions must be a scipy sparse matrix; got {type(mentions).__name__}")
    given: Any = mentions
    if given.ndim != 2 or given.shape[0] != passages:
        raise InvalidInputError(f"mentions must have one row per passage ({passages}); got shape {given.shape}")
    members = sparse.csr_array(given.T.tocsr(), copy=True)
    members.sum_duplicates()
    members.eliminate_zeros()
    members.data = np.ones(len(members.data))
    return members


def finite_vector(values: ArrayLike, name: str) -> FloatArray:
    """Check that `values` are a one-dimensional array of finite numbers, and return it; messages contain `name`."""
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be numbers; got {values!r:.80}") from error
    if given.ndim != 1:
        raise InvalidInputError(f"{name} must be one-dimensional; got shape {given.shape}")
    bad = np.flatnonzero(~np.isfinite(given))
    if len(bad):
        raise InvalidInputError(f"{name} must be finite; got {given[bad[0]]} at position {bad[0]}")
    return given


LocalMin = Literal["self_loop", "merge", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowParameters:
    """The parameters of a semantic flow (the walk of SemFlowRAG) and of its seeds.

    The abstractness of an entity, in [0, 1], is the scaled variance of its passages' embeddings
    (:func:`graph_abstractness`). A link is an edge between two entities. It is downhill if the abstractness of its
    target is the same as that of its source, or lower; otherwise, it is uphill.

    Parameters
    ----------
    directed : bool
        If True, edges are directed, and their weights depend on the query. If False, the walk is HippoRAG 2's
        undirected walk, and only `follow_probability` and the parameters of the seeds have an effect.
    query_weighted : bool
        If True, the weight of a link depends on the relevance of its target to the query. If False, the relevance of
        every entity is 1 (an ablation).
    abstractness : bool
        If True, entities have different abstractness. If False, all have the same abstractness (an ablation), so every
        link is a downhill link without a penalty.
    penalty : float
        Reduction of a link's weight per unit of difference in abstractness, at least 0 (lambda in the paper).
    down_share : float
        Share in (0, 1), for an entity with links of both kinds: of the mass that the entity sends along its links, this
        share flows along the downhill links.
    floor : float
        Minimum weight of a link before normalization, greater than 0. Normalization divides the weights of an entity's
        downhill links by their sum, and the weights of its uphill links by their sum.
    passage_share : float, optional
        Share of an entity's mass that flows to its passages, in [0, 1]. With None, each passage has weight 1, and all
        links together have weight 1. An entity in m passages then sends the share m / (1 + m) to them.
    local_min : {"self_loop", "merge", "drop"}
        What happens to the downhill share of an entity without downhill links. ``self_loop`` leaves the mass at the
        entity, and ``merge`` sends it uphill. ``drop`` leaves the share out; more mass then flows to passages.
    follow_probability : float
        Probability of following an edge, in [0, 1); otherwise, the walk restarts.
    facts, entity_seeds : int
        Maximum number of facts that supply seeds, and maximum number of entity seeds.
    passage_weight : float
        Weight of the similarities of all passages in the reset distribution.
    """

    directed: bool = True
    query_weighted: bool = True
    abstractness: bool = True
    penalty: float = 1.0
    down_share: float = 0.9
    floor: float = 1e-6
    passage_share: float | None = None
    local_min: LocalMin = "self_loop"
    follow_probability: float = 0.5
    facts: int = 12
    entity_seeds: int = 20
    passage_weight: float = 0.08

    def __post_init__(self) -> None:
        for name in ("directed", "query_weighted", "abstractness"):
            check_flag(name, getattr(self, name))
        check_range("penalty", self.penalty)
        check_range("down_share", self.down_share, 0, 1, ends="()")
        check_range("floor", self.floor, ends="(]")
        if self.passage_share is not None:
            check_range("passage_share", self.passage_share, 0, 1)
        if self.local_min not in ("self_loop", "merge", "drop"):
            raise InvalidInputError(f'local_min must be "self_loop", "merge" or "drop"; got {self.local_min!r}')
        check_range("follow_probability", self.follow_probability, 0, 1, ends="[)")
        check_count("facts", self.facts, minimum=1)
        check_count("entity_seeds", self.entity_seeds, minimum=1)
        check_range("passage_weight", self.passage_weight)


SEMFLOW_PARAMETERS: Mapping[str, FlowParameters] = MappingProxyType(
    {"paper": FlowParameters(), "released": FlowParameters(directed=False, facts=5, entity_seeds=5)}
)
"""The parameters of the paper, and of the program that its authors released.

The released program does not use the directed walk. It is HippoRAG 2's undirected walk with a passage weight of .08.
It uses 5 facts and 5 entities instead of the paper's 12 and 20. The paper has no rule for a relevance below the
penalty; the program uses a minimum of 1e-6. In the paper, the mass of a seed is similarity / frequency; in the program,
it is the mean of this value over the entity's facts.
"""


class Chances(NamedTuple):
    """The step probabilities that do not depend on the query, in arrays with an entry for each of n nodes.

    `down` is the total probability of a node's downhill links, and `up` the total probability of its uphill links.
    `other` is the probability of each single passage edge, and `stay` the probability of the self loop.
    """

    down: FloatArray
    up: FloatArray
    other: FloatArray
    stay: FloatArray


@dataclass(frozen=True, eq=False)
class FlowArrays:
    """The edges of SemFlowRAG's graph in CSR form, with all values that do not depend on the query.

    The row of an entity contains its downhill links, then its uphill links, then its passages. The row of a passage
    contains its entities. `downs` is the number of downhill links of each node, and `semantics` the number of all links
    of each node. `penalties` is the reduction of each link's weight by the difference in abstractness, and `chances`
    are the step probabilities. `edge_counts` and `costs` are as in :class:`~phasegraph.pagerank.push.Transitions`.
    """

    indptr: Positions
    indices: Int32Array
    penalties: Float32Array
    downs: Int32Array
    semantics: Int32Array
    chances: Chances
    edge_counts: Int32Array
    costs: Int32Array


def flow_arrays(links: Any, members: Any, heights: FloatArray, parameters: FlowParameters) -> FlowArrays:
    """Build the edges of SemFlowRAG's graph, sorted by source node.

    An entity has downhill links, then uphill links, then edges to its passages. A passage has edges to its entities.

    `links`, of shape (E, E), are the edges between entities, and `members`, of shape (E, P), the passages of each
    entity. `heights` is the abstractness of each entity. All values that do not depend on the query are computed here.
    """
    entities, passages = members.shape
    u, v, uphill = _links(links, heights)
    mentioned = np.repeat(np.arange(entities), np.diff(members.indptr))
    passage = members.indices.astype(np.int64) + entities
    sources = np.concatenate([u, mentioned, passage])
    targets = np.concatenate([v, passage, mentioned])
    group = np.concatenate([uphill, np.full(2 * len(passage), 2, dtype=np.int8)])
    penalties = np.zeros(len(sources), dtype=np.float32)
    penalties[: len(u)] = parameters.penalty * np.abs(heights[v] - heights[u])
    order = np.lexsort((targets, group, sources))
    size = entities + passages
    counts = np.bincount(sources, minlength=size)
    downs = np.bincount(u[uphill == 0], minlength=size)
    ups = np.bincount(u[uphill == 1], minlength=size)
    chances = _chances(entities, downs, ups, counts - downs - ups, parameters)
    edge_counts = counts + (chances.stay > 0)
    arrays = FlowArrays(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        targets[order].astype(np.int32),
        penalties[order],
        downs.astype(np.int32),
        (downs + ups).astype(np.int32),
        chances,
        edge_counts.astype(np.int32),
        np.maximum(edge_counts, 1).astype(np.int32),
    )
    for array in (*chances, *(x for x in vars(arrays).values() if isinstance(x, np.ndarray))):
        array.flags.writeable = False
    return arrays


def _links(links: Any, heights: FloatArray) -> tuple[IntArray, IntArray, Any]:
    """Return three arrays with an entry per link: source entity, target entity, and 1 for an uphill link, else 0.

    `heights` is the abstractness of each entity, of shape (E,).
    """
    if not sparse.issparse(links):
        raise InvalidTypeError(f"links must be a scipy sparse matrix; got {type(links).__name__}")
    given: Any = links
    if given.ndim != 2 or given.shape != (len(heights), len(heights)):
        raise InvalidInputError(
            f"links must be square with one row per entity ({len(heights)}); got shape {given.shape}"
        )
    matrix = sparse.csr_array(given, copy=True)
    matrix.sum_duplicates()
    pairs = matrix.tocoo()
    kept = (pairs.data != 0) & (pairs.row != pairs.col)
    u, v = pairs.row[kept].astype(np.intp), pairs.col[kept].astype(np.intp)
    return u, v, (heights[v] > heights[u]).astype(np.int8)


def _chances(entities: int, downs: IntArray, ups: IntArray, others: IntArray, parameters: FlowParameters) -> Chances:
    """Compute the step probabilities of each node from its numbers of edges.

    `downs`, `ups` and `others`, of shape (n,), are the numbers of downhill links, uphill links and passage edges of the
    nodes. The first `entities` nodes are entities.
    """
    is_entity = np.arange(len(downs)) < entities
    lowest = (downs == 0) & (ups > 0)
    down = np.where(downs > 0, np.where(ups > 0, parameters.down_share, 1.0), 0.0)
    up = np.where(ups > 0, 1.0 - parameters.down_share, 0.0)
    stay = np.where(is_entity & (downs + ups + others == 0), 1.0, 0.0)
    if parameters.local_min == "merge":
        up[lowest] = 1.0
    elif parameters.local_min == "self_loop":
        stay[lowest] = parameters.down_share
    semantic = down + up + stay
    if parameters.passage_share is None:
        total = semantic + others
        each = np.divide(1.0, total, out=np.zeros(len(total)), where=others > 0)
    else:
        share = np.where(semantic > 0, parameters.passage_share, 1.0)
        each = np.divide(share, others, out=np.zeros(len(share)), where=others > 0)
        left = 1.0 - each * others
        total = np.divide(semantic, left, out=np.full(len(left), np.inf), where=left > 0)
    scale = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
    return Chances(down * scale, up * scale, each, stay * scale)


class FlowTransitions(Transitions):
    """The transitions of SemFlowRAG's walk for one query: how a node divides its mass among its out-edges."""

    def __init__(self, arrays: FlowArrays, relevance: FloatArray, floor: float) -> None:
        super().__init__(len(arrays.indices), arrays.edge_counts, arrays.costs)
        self.arrays, self.relevance, self.floor = arrays, relevance, floor

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the target of each out-edge and the mass that arrives; see :meth:`Transitions.spread`."""
        arrays, chances = self.arrays, self.arrays.chances
        starts = arrays.indptr.take(nodes)
        ends = arrays.indptr.take(nodes + 1)
        semantics = arrays.semantics.take(nodes).astype(np.int64)
        targets, values = self._links(nodes, amounts, starts, semantics)
        others = ends - starts - semantics
        edges = ranges(starts + semantics, others)
        stay = chances.stay.take(nodes)
        loops = np.flatnonzero(stay)
        return (
            np.concatenate([targets, arrays.indices.take(edges), nodes.take(loops)]).astype(np.intp),
            np.concatenate(
                [values, np.repeat(amounts * chances.other.take(nodes), others), (amounts * stay).take(loops)]
            ),
        )

    def _links(
        self, nodes: IntArray, amounts: FloatArray, starts: Positions, semantics: Positions
    ) -> tuple[Int32Array, FloatArray]:
        """Return the target of each link of `nodes`, and the mass that flows along the link.

        ``amounts[i]`` is the mass that ``nodes[i]`` sends. The links of ``nodes[i]`` are ``semantics[i]`` edges; the
        first has the number ``starts[i]``.
        """
        arrays, chances = self.arrays, self.arrays.chances
        edges = ranges(starts, semantics)
        targets = arrays.indices.take(edges)
        weights = np.maximum(self.floor, self.relevance.take(targets) - arrays.penalties.take(edges))
        group = 2 * np.repeat(np.arange(len(nodes)), semantics)
        group += edges >= np.repeat(starts + arrays.downs.take(nodes), semantics)
        sums = np.bincount(group, weights=weights, minlength=2 * len(nodes))
        shares = np.empty(2 * len(nodes))
        shares[0::2] = amounts * chances.down.take(nodes)
        shares[1::2] = amounts * chances.up.take(nodes)
        np.divide(shares, sums, out=shares, where=sums > 0)
        return targets, shares.take(group) * weights

    def matrix(self) -> Any:
        """Return the matrix of step probabilities, of shape (n, n); entry (u, v) belongs to the step from u to v."""
        nodes = np.arange(self.size)
        targets, values = self.spread(nodes, np.ones(self.size))
        arrays = self.arrays
        others = np.diff(arrays.indptr) - arrays.semantics
        loops = np.flatnonzero(arrays.chances.stay)
        sources = np.concatenate([np.repeat(nodes, arrays.semantics), np.repeat(nodes, others), loops])
        return sparse.coo_array((values, (sources, targets)), shape=(self.size, self.size)).tocsr()

    @lazy_property
    def _pull(self) -> Any:
        return self.matrix().T.tocsr()

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """Return the mass that arrives at each node; see :meth:`Transitions.sweep`."""
        arrived: FloatArray = self._pull @ amounts
        return arrived

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """Return the compiled function that pushes mass along the edges, round by round."""
        arrays = self.arrays
        edges = (arrays.indptr, arrays.indices, arrays.penalties, arrays.downs, arrays.semantics)
        flow = (*edges, tuple(arrays.chances))
        bound = (flow, self.relevance, arrays.edge_counts, arrays.costs, self.floor)
        return partial(compiled_kernels().semantic_rounds, bound)


@dataclass(frozen=True, eq=False)
class SemanticFlow:
    """A graph of entities and passages for walks with query-dependent weights; :meth:`from_links` creates it.

    The nodes are the entities, 0 to E - 1, then the passages. The weight of a link from u to v is
    ``max(floor, relevance[v] - penalty * |abstractness[v] - abstractness[u]|)``. A link is downhill if the abstractness
    of v is the same or lower; otherwise, it is uphill. The weights of the downhill links of u are divided by their sum,
    and so are the weights of its uphill links. The downhill links get the share `down_share` of the mass on the
    links of u, and the uphill links get the rest. An edge between an entity and its passage has weight 1 in both
    directions. `members`, of shape (E, P), contains the passages of each entity.
    """

    arrays: FlowArrays
    members: Any
    parameters: FlowParameters

    @classmethod
    def from_links(
        cls, links: Any, mentions: Any, abstractness: ArrayLike, parameters: FlowParameters | None = None
    ) -> SemanticFlow:
        """Create the graph from the links between entities and the mentions of entities in passages.

        `links` is a sparse matrix of shape (E, E). An entry (u, v) that is not zero is a link from u to v. A link in
        both directions therefore needs two entries. Self links are ignored.
        `mentions` is a sparse matrix of shape (P, E); an entry is not zero if the passage mentions the entity.
        `abstractness`, of shape (E,), is in [0, 1]; see :func:`truncated_min_max`. The default parameters are the
        paper's parameters.
        """
        chosen = SEMFLOW_PARAMETERS["paper"] if parameters is None else parameters
        heights = finite_vector(abstractness, "abstractness")
        members = members_of(mentions, mentions.shape[0] if hasattr(mentions, "shape") else 0)
        if members.shape[0] != len(heights):
            raise InvalidInputError(
                f"mentions must have one column per entity ({len(heights)}); got {members.shape[0]}"
            )
        if not chosen.directed:
            raise InvalidInputError("parameters must have directed=True: an undirected walk is not a semantic flow")
        levels = heights if chosen.abstractness else np.zeros_like(heights)
        return cls(flow_arrays(links, members, levels, chosen), members, chosen)

    @property
    def size(self) -> int:
        """The number of nodes, which are entities and passages."""
        return len(self.arrays.costs)

    @lazy_property
    def pool(self) -> WorkspacePool:
        """The scratch memory for walks over this graph."""
        return WorkspacePool(self.size)

    @lazy_property
    def _entries(self) -> IntArray:
        """The row of each entry of the matrix `members`, that is, the entity to which the entry belongs."""
        entries: IntArray = np.repeat(np.arange(self.members.shape[0]), np.diff(self.members.indptr))
        return entries

    def relevance(self, passage_scores: ArrayLike) -> FloatArray:
        """Compute the relevance of each entity from the similarities of its passages; shape (E,), values in [0, 1].

        `passage_scores`, of shape (P,), are the similarities of the passages to a query.
        """
        scores = finite_vector(passage_scores, "passage_scores")
        if len(scores) != self.members.shape[1]:
            raise InvalidInputError(
                f"passage_scores must have one value per passage ({self.members.shape[1]}); got {len(scores)}"
            )
        return truncated_min_max(best_of(self.members, scores, self._entries))

    def transition(self, relevance: ArrayLike) -> Any:
        """Return the CSR matrix of step probabilities for a query; entry (u, v) belongs to the step from u to v.

        `relevance`, of shape (E,), is the relevance of the entities; see :meth:`relevance`.
        """
        return self._transitions(relevance).matrix()

    def walk(
        self,
        relevance: ArrayLike,
        reset: Reset,
        *,
        follow_probability: float | None = None,
        tolerance: float | None = None,
        method: Literal["push", "power"] = "push",
        workspace: PushWorkspace | None = None,
        kernel: Kernel = "auto",
        polish: int = 0,
        max_iterations: int | None = None,
    ) -> PageRankResult:
        """Walk with the edge weights of a query, and return the stationary mass of each node.

        `relevance`, of shape (E,), is the relevance of the entities; see :meth:`relevance`. The method "push" computes
        only the weights of nodes that it pushes. The method "power" is the reference: it computes all weights, then
        iterates. The default `follow_probability` is in the flow's parameters. The other arguments are described at
        :func:`~phasegraph.pagerank.personalized_pagerank`.
        """
        follow = self.parameters.follow_probability if follow_probability is None else follow_probability
        transitions = self._transitions(relevance)
        if method == "power":
            graph = WalkOperator.from_adjacency(transitions.matrix())
            return personalized_pagerank(
                graph, reset, follow_probability=follow, tolerance=tolerance, max_iterations=max_iterations
            )
        if method != "push":
            raise InvalidInputError(f'method must be "push" or "power" for a semantic flow; got {method!r}')
        settings = push_settings(follow, tolerance, polish, max_iterations, kernel)
        return run_push(transitions, self.pool, as_seeds(reset, self.size), settings, workspace)

    def _transitions(self, relevance: ArrayLike) -> FlowTransitions:
        given = finite_vector(relevance, "relevance")
        if len(given) != self.members.shape[0]:
            raise InvalidInputError(
                f"relevance must have one value per entity ({self.members.shape[0]}); got {len(given)}"
            )
        weights = given if self.parameters.query_weighted else np.ones_like(given)
        return FlowTransitions(self.arrays, weights, self.parameters.floor)


@dataclass(frozen=True, eq=False)
class SemFlowSource(GraphWalker):
    """A source that ranks passages by SemFlowRAG's walk.

    Parameters
    ----------
    graph : EntityGraph
        A graph with embeddings of the passages. Facts and synonym edges are the links between entities.
    facts : FactIndex
        Embedded facts of the graph.
    embedder : callable
        A function ``embedder(query) -> (d,) vector``.
    parameters : {"paper", "released"} or FlowParameters, default "paper"
        The parameters, or a key of ``SEMFLOW_PARAMETERS``. "paper" names the parameters of the paper, and "released"
        the parameters of the released program, whose walk is undirected.
    name : str, default "semflow"
        Name of the source in rankings and reports.
    fact_filter : FactFilter or callable, optional
        A filter of the facts, as in :class:`~phasegraph.graph.GraphSource`; in the paper, a language model filters the
        facts.

    Notes
    -----
    The score of a passage is its mass. If the index contains no fact, passages are ranked by similarity, as published;
    `Ranking.reason` then says so.

    References
    ----------
    SemFlowRAG. arXiv:2606.28447

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Bo sang."}]
    >>> graph = build_graph(passages, embeddings=[[1.0, 0.0], [0.0, 1.0]])
    >>> facts = FactIndex.of(graph, [("Ada", "met", "Bo")], [[0.8, 0.6]])
    >>> SemFlowSource(graph, facts, lambda query: [0.6, 0.8]).search("Who met Bo?", 10, {}).ids
    ('a', 'b')
    """

    graph: EntityGraph
    facts: FactIndex
    embedder: Callable[[str], Any]
    parameters: str | FlowParameters = "paper"
    name: str = "semflow"
    fact_filter: FactFilter | KeepFacts | None = None

    def __post_init__(self) -> None:
        check_kind("graph", self.graph, EntityGraph)
        check_kind("facts", self.facts, FactIndex)
        check_source_name(self.name)
        object.__setattr__(self, "fact_filter", FactFilter.of(self.fact_filter))
        if self.graph.embeddings is None:
            raise InvalidInputError("graph must have embeddings of its passages: build the graph with embeddings=")
        check_embedder(self)
        if not isinstance(self.parameters, FlowParameters) and self.parameters not in tuple(SEMFLOW_PARAMETERS):
            known = ", ".join(SEMFLOW_PARAMETERS)
            raise InvalidInputError(f"parameters must be FlowParameters or one of {known}; got {self.parameters!r:.80}")

    @property
    def depends_on(self) -> Sequence[str]:
        """An empty sequence, because the source needs no other source's ranking."""
        return ()

    @lazy_property
    def chosen(self) -> FlowParameters:
        """The walk's parameters: `parameters` itself, or the entry of ``SEMFLOW_PARAMETERS`` with this name."""
        return self.parameters if isinstance(self.parameters, FlowParameters) else SEMFLOW_PARAMETERS[self.parameters]

    @lazy_property
    def _links(self) -> Any:
        return (self.graph.facts.astype(np.float32) + self.graph.synonyms).tocsr()

    @lazy_property
    def _flow(self) -> SemanticFlow:
        return SemanticFlow.from_links(self._links, self.graph.mentions, graph_abstractness(self.graph), self.chosen)

    @lazy_property
    def _undirected(self) -> WalkOperator:
        mentions = self.graph.mentions.astype(np.float32)
        return WalkOperator.from_adjacency(sparse.block_array([[self._links, mentions.T], [mentions, None]]).tocsr())

    def prepare(self) -> Self:
        """Prepare the first search; see :meth:`phasegraph.graph.GraphSource.prepare`."""
        self._walked(np.zeros(1, dtype=np.intp), np.ones(1), np.ones(len(self.graph.passages)))
        return self

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        query = check_query(query)
        limit = None if limit is None else check_count("limit", limit, minimum=1)
        graph, chosen, vector = self.graph, self.chosen, self.embedder(query)
        vectors: Any = graph.embeddings
        near = graph.cosines_to(unit_vector(vector, vectors.shape[1])).astype(np.float64)
        if not len(self.facts.ends):
            return self._ranked(near, limit, NO_FACTS)
        recipe = ResetRecipe(chosen.passage_weight, chosen.facts, chosen.entity_seeds)
        kept, scores = KeptFacts(np.arange(len(self.facts.ends))), fact_scores(self.facts, vector)
        if isinstance(self.fact_filter, FactFilter):
            kept = kept_facts(self.fact_filter, query, graph, self.facts, scores, chosen.facts)
        if kept.none:
            return self._ranked(near, limit, kept.note)
        rows = np.sort(kept.rows)
        seeds = fact_reset(graph, self.facts.ends[rows], scores[rows], near, recipe)
        if not len(seeds):
            return Ranking(self.name, (), np.empty(0), size=len(near), reason=seeds.reason)
        # In this walk, the nodes of entities come before the nodes of passages.
        nodes = np.roll(np.arange(graph.size), -len(graph.entities))[seeds.nodes]
        masses = self._walked(nodes, seeds.masses, near)
        return self._ranked(masses, limit, kept.note)

    def _walked(self, nodes: Any, masses: FloatArray, near: FloatArray) -> FloatArray:
        """Walk from the seeds `nodes`, whose masses are `masses`, and return the mass of each passage.

        In the numbering of `nodes`, entities come before passages. `near` are the passages' similarities to the query.
        """
        reset, follow = (nodes, masses), self.chosen.follow_probability
        if self.chosen.directed:
            walked = self._flow.walk(self._flow.relevance(near), reset)
        else:
            walked = personalized_pagerank(self._undirected, reset, follow_probability=follow, method="push")
        return walked.mass[len(self.graph.entities) :]

    def _ranked(self, scores: FloatArray, limit: int | None, reason: str) -> Ranking:
        rows = np.flatnonzero(scores > 0)
        ids, best = best_passages(self.graph, rows, scores[rows], limit)
        return Ranking(self.name, ids, best, size=len(scores), reason=reason)
