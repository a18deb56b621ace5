"""Experimental: relevance spread over entity links between candidates, as a mean field.

The PhaseGraph paper describes the reranker and reports one win on 66 queries, and a net loss on the full
corpus; its formula is reconstructed. It is here so that the claim can be checked, not because it helps.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from phasegraph._typing import FloatArray
from phasegraph._validation import check_range
from phasegraph.errors import InvalidInputError, NotConvergedError

_STEPS = 10_000


def mean_field(
    relevance: FloatArray,
    links: FloatArray,
    /,
    *,
    field: float = 1.0,
    coupling: float = 0.5,
    temperature: float = 1.0,
    tolerance: float = 1e-12,
    force: bool = False,
) -> FloatArray:
    """Fixed point of ``m = tanh((field * z + coupling * A m) / temperature)``, A the row-normalised links.

    `relevance` is z, (n,) in [-1, 1]; `links` (n, n) are >= 0, and a candidate without links stands alone. `tolerance`
    is the largest distance from the fixed point. While `coupling` / `temperature` is below 1 the map contracts by it in
    the largest difference (the slope of tanh is at most 1 and rows add up to 1), so the fixed point is unique and
    reached from anywhere; at 1 a phase transition begins, and only `force` iterates there, for 10,000 steps at most.

    >>> mean_field([0.8, 0.2], [[0, 1], [1, 0]], coupling=0.0).round(4)
    array([0.664 , 0.1974])
    """
    check_range("field", field)
    check_range("coupling", coupling)
    check_range("temperature", temperature, ends="(]")
    check_range("tolerance", tolerance, ends="(]")
    z = np.array(relevance, dtype=np.float64)
    if z.ndim != 1 or not np.isfinite(z).all() or (np.abs(z) > 1).any():
        raise InvalidInputError("relevance must be a flat array of numbers in [-1, 1]")
    ratio = coupling / temperature
    if ratio >= 1 and not force:
        raise InvalidInputError(
            f"coupling / temperature must be below 1 for one fixed point (or force=True); got {ratio:g}"
        )
    spread = row_normalised(links, count=len(z))
    state = np.tanh(field * z / temperature)
    margin = tolerance * (1 - ratio) / ratio if 0 < ratio < 1 else tolerance
    for _ in range(_STEPS):
        following = np.tanh((field * z + coupling * (spread @ state)) / temperature)
        change = float(np.abs(following - state).max(initial=0.0))
        state = following
        if change <= max(margin, 4 * np.finfo(np.float64).eps):
            return state
    raise NotConvergedError(f"the mean field did not settle within {_STEPS} steps: it still moves by {change:.2g}")


def ising_rerank(
    scores: FloatArray,
    links: FloatArray,
    /,
    *,
    blend: float = 0.15,
    field: float = 1.0,
    coupling: float = 0.5,
    temperature: float = 1.0,
    force: bool = False,
) -> FloatArray:
    """Fused scores blended with the mean field over entity links; (n,) in [0, 1].

    ``(1 - blend) * scores / max + blend * (m + 1) / 2`` of (n,) `scores` >= 0, higher is better, which, standardised
    and divided by the largest in size, are z of :func:`mean_field`; `links` as from :func:`entity_links`. The paper
    reports that a `blend` from .25 on disrupts.

    >>> ising_rerank([1.0, 0.5], [[0, 0], [0, 0]], blend=0.0)
    array([1. , 0.5])
    """
    values = np.array(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
        raise InvalidInputError("scores must be a flat array of finite numbers >= 0")
    check_range("blend", blend, 0, 1)
    top = float(values.max(initial=0.0))
    centred = values - (values.mean() if len(values) else 0.0)
    size = float(np.abs(centred).max(initial=0.0))
    z = centred / size if size > 1e-12 * top else np.zeros_like(values)
    state = mean_field(z, links, field=field, coupling=coupling, temperature=temperature, force=force)
    return np.asarray((1 - blend) * (values / top if top > 0 else values) + blend * (state + 1) / 2)


def entity_links(mentions: sparse.csr_array, /, *, rarity: bool = True) -> FloatArray:
    """(n, n) strengths of the links between candidates: the entities both mention; 0 on the diagonal.

    Anything but 0 in the (n, e) `mentions` is one. With `rarity` an entity weighs
    ``log(1 + n / candidates that mention it)``, otherwise 1.

    >>> entity_links(sparse.csr_array([[1, 1], [0, 2], [1, 0]]), rarity=False)
    array([[0., 1., 1.],
           [1., 0., 0.],
           [1., 0., 0.]])
    """
    held = sparse.csr_array(mentions).astype(np.float64)
    held.data = (held.data != 0).astype(np.float64)
    frequency = np.asarray(held.sum(axis=0)).ravel()
    weights = np.log1p(held.shape[0] / np.maximum(frequency, 1.0)) if rarity else np.ones(held.shape[1])
    table = np.asarray((held.multiply(weights[None, :]).tocsr() @ held.T).toarray())
    np.fill_diagonal(table, 0.0)
    return table


def row_normalised(links: FloatArray, /, *, count: int) -> FloatArray:
    """Links without their diagonal, each row adding up to 1 or 0."""
    table = np.array(links, dtype=np.float64)
    if table.shape != (count, count):
        raise InvalidInputError(f"links must have shape {(count, count)}; got {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        raise InvalidInputError("links must be finite and >= 0")
    np.fill_diagonal(table, 0.0)
    total = table.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, table / np.where(total > 0, total, 1.0), 0.0))
