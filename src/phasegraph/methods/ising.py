"""Mean-field Ising reranking, in which the relevance of a passage spreads to passages with common entities.

Appendix D of the PhaseGraph paper describes the stage without a legible formula; the formulas here are a
reconstruction. ``python tools/reproduce DATA --only ising`` measures the effect of the stage.

References
----------
.. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886, App. D
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import KnownFields, check_range
from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.graph import EntityGraph
from phasegraph.graph.model.entity_graph import check_kind
from phasegraph.retrieval.stages.models import Passage

_STEPS, _TOLERANCE = 10_000, 1e-12


def mean_field(relevance: ArrayLike, links: ArrayLike, coupling: float = 0.5, temperature: float = 1.0) -> FloatArray:
    """Solve the mean-field equation ``m = tanh((relevance + coupling * A m) / temperature)`` for m.

    A is the matrix of links with each row divided by its sum.

    Parameters
    ----------
    relevance : (n,) array_like of float
        The relevance of each passage, finite; usually in [-1, 1].
    links : (n, n) array_like of float
        The strength of the link between two passages, >= 0. The diagonal is ignored, and a row of zeros stays zero.
    coupling : float, default 0.5
        Strength of the spreading, in [0, temperature). With 0, no relevance spreads. At the temperature, the mean field
        has its phase transition; at or above it, the solution is not unique.
    temperature : float, default 1
        Divisor in the equation, > 0.

    Returns
    -------
    (n,) array of float
        The magnetization of each passage, in [-1, 1].

    Raises
    ------
    InvalidInputError
        If shapes do not match, a value is outside its range, or the coupling reaches the temperature.
    NotConvergedError
        If the iteration does not converge within 10,000 steps, because the coupling is too close to the temperature.

    Notes
    -----
    Each step of the iteration is a contraction in the maximum norm with the rate ``coupling / temperature``.

    Examples
    --------
    >>> chain = np.array([[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]])
    >>> mean_field([0.8, 0.2, -0.4, -0.9], chain).round(4)
    array([ 0.6757,  0.4914, -0.4066, -0.8017])
    """
    field = np.asarray(relevance, dtype=np.float64)
    weights = np.array(links, dtype=np.float64)
    if field.ndim != 1 or weights.shape != (len(field), len(field)):
        raise InvalidInputError(f"relevance and links must be (n,) and (n, n); got {field.shape}, {weights.shape}")
    if not np.isfinite(field).all() or not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInputError(
            "relevance must be finite, and links must be finite and >= 0; got relevance from "
            f"{field.min(initial=0.0):g} to {field.max(initial=0.0):g}, and links from {weights.min(initial=0.0):g} to "
            f"{weights.max(initial=0.0):g}"
        )
    check_range("temperature", temperature, ends="(]")
    if check_range("coupling", coupling) >= temperature:
        raise InvalidInputError(
            f"coupling must be below the temperature {temperature:g}, the phase transition; got {coupling:g}"
        )
    np.fill_diagonal(weights, 0.0)
    totals = weights.sum(axis=1, keepdims=True)
    shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    state = np.tanh(field / temperature)
    for _ in range(_STEPS):
        after = np.tanh((field + coupling * (shares @ state)) / temperature)
        if np.abs(after - state).max(initial=0.0) <= _TOLERANCE:
            return np.asarray(after)
        state = after
    raise NotConvergedError(f"the mean field did not converge in {_STEPS} steps; lower the coupling {coupling:g}")


@dataclass(frozen=True, slots=True)
class IsingReranker(KnownFields):
    """A reranker for ``Rerank`` that raises candidates which share entities with good candidates.

    Parameters
    ----------
    graph : EntityGraph
        The graph whose mentions link the candidates. The weight of a common entity is ``ln(passages / frequency)``.
        Here, ``frequency`` is the number of passages that mention the entity.
    coupling, temperature
        As for :func:`mean_field`.

    Notes
    -----
    In this reconstruction, the relevance of a candidate decreases linearly with its fused rank, from 1 to -1. The paper
    blends the result with the fused score and observes a change of behavior at a weight of 0.25; here,
    ``Rerank(blend=.15)`` sets the weight. A passage that is not in the graph ranks below all other passages, in fused
    order.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> texts = [("a", "Ada met Bo."), ("b", "Rain fell."), ("c", "Bo sang with Ada."), ("d", "It was cold.")]
    >>> graph = build_graph([{"id": name, "title": "", "text": text} for name, text in texts])
    >>> from phasegraph.retrieval import Rerank
    >>> stage = Rerank(IsingReranker(graph), blend=0.15)
    >>> scores = stage.model("Who sang?", [Passage(name, text, None) for name, text in texts])
    >>> [round(score, 3) for score in scores]
    [0.772, 0.322, 0.053, -0.762]
    """

    graph: EntityGraph
    coupling: float = 0.5
    temperature: float = 1.0
    reads_hits = True

    def __post_init__(self) -> None:
        check_kind("graph", self.graph, EntityGraph)
        mean_field([0.0], [[0.0]], self.coupling, self.temperature)

    def __call__(self, query: str, passages: Sequence[Passage]) -> list[float | None]:
        """Return a score in [-1, 1] for each passage; None for a passage that is not in the graph."""
        rows = self.graph.passage_rows
        known = [place for place, one in enumerate(passages) if one.id in rows]
        links = entity_links(self.graph, [passages[place].id for place in known])
        scores: list[float | None] = [None] * len(passages)
        relevance = np.linspace(1.0, -1.0, len(passages))[known]
        for place, score in zip(known, mean_field(relevance, links, self.coupling, self.temperature), strict=True):
            scores[place] = float(score)
        return scores


def entity_links(graph: EntityGraph, ids: Sequence[str]) -> FloatArray:
    """Return, for each pair of n passages, the sum of the weights of their common entities.

    The result is an (n, n) array with the diagonal 0. `ids` are the ids of the passages, all of which must be in the
    graph.
    """
    view = graph.view
    shared = (view.mentions[[view.passage_rows[one] for one in ids]] > 0).astype(np.float64)
    rarity = np.log(len(view.passages) / np.maximum(view.frequency, 1))
    links = np.asarray((shared.multiply(rarity) @ shared.T).todense())
    np.fill_diagonal(links, 0.0)
    return links
