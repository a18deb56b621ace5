"""Synonym pairs: complete, exact, and the same whether entities come at once or later."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.synonyms import _bounds, _unit, synonym_pairs


def names(n, dimensions=64, seed=0, dtype=np.float32):
    """Vectors with a falling spectrum and near-duplicates, as the embeddings of names have."""
    rng = np.random.default_rng(seed)
    spread = np.arange(1, dimensions + 1) ** -0.7
    vectors = rng.normal(size=(n, dimensions)) * spread
    near = rng.integers(0, n, n // 5)
    vectors[rng.integers(0, n, n // 5)] = vectors[near] + 0.1 * spread * rng.normal(size=(n // 5, dimensions))
    return (vectors * rng.uniform(0.2, 5, (n, 1))).astype(dtype)


def by_hand(vectors, threshold, start=0):
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    cosines = np.triu(wide @ wide.T, 1)
    left, right = np.nonzero(cosines >= threshold)
    kept = right >= start
    return list(zip(left[kept].tolist(), right[kept].tolist(), strict=True)), cosines[left[kept], right[kept]]


def pairs(found):
    return list(zip(found.left.tolist(), found.right.tolist(), strict=True))


@pytest.mark.parametrize(("n", "threshold"), [(300, 0.8), (5000, 0.8), (5000, 0.92)])
def test_every_pair_is_found_with_its_cosine_and_no_other(n, threshold):
    vectors = names(n)
    found = synonym_pairs(vectors, threshold=threshold)
    expected, cosines = by_hand(vectors, threshold)
    assert len(found) > 20
    assert pairs(found) == expected
    np.testing.assert_allclose(found.cosine, cosines, atol=1e-12)


def test_the_bound_saves_most_of_the_work_and_never_hides_a_pair():
    vectors = names(5000)
    unit = _unit(vectors, np.linalg.norm(vectors.astype(float), axis=1))
    bounds = _bounds(unit, 0.85)
    assert bounds.head.shape[1] < unit.shape[1]
    cosines = unit[:600].astype(float) @ unit.T.astype(float)
    products = bounds.head[:600] @ bounds.head.T
    assert (products >= cosines - 1e-6).all()
    left, right = (rows.ravel() for rows in np.indices(cosines.shape))
    closer = bounds.closer(left, right, products.ravel())
    assert (closer >= cosines.ravel() - 3e-6).all()
    assert closer.mean() < products.mean()


@settings(max_examples=repeats(40, 10), deadline=None)
@given(st.integers(1, 80), st.integers(1, 6), st.floats(0.05, 1.0), st.integers(0, 2**32 - 1), st.data())
def test_small_sets_agree_with_the_definition(n, dimensions, threshold, seed, data):
    vectors = names(n, dimensions, seed, np.float64)
    start = data.draw(st.integers(0, n))
    expected, cosines = by_hand(vectors, threshold, start)
    close = np.abs(cosines - threshold) < 1e-9
    found = dict.fromkeys(pairs(synonym_pairs(vectors, threshold=threshold, start=start)))
    assert all(pair in found for pair, near in zip(expected, close, strict=True) if not near)
    assert len(found) <= len(expected) + n


@pytest.mark.parametrize("start", [0, 1, 1700, 4999, 5000])
def test_entities_added_later_get_to_the_bit_the_pairs_of_a_search_over_all(start):
    vectors = names(5000)
    whole = synonym_pairs(vectors, threshold=0.85)
    before = synonym_pairs(vectors[:start], threshold=0.85) if start else synonym_pairs(vectors[:1], threshold=0.85)
    added = synonym_pairs(vectors, threshold=0.85, start=start)
    joined = {pair: c for part in (before, added) for pair, c in zip(pairs(part), part.cosine, strict=True)}
    assert len(joined) == len(before) + len(added)
    assert joined == dict(zip(pairs(whole), whole.cosine, strict=True))


def test_duplicates_zero_rows_and_flat_spectra():
    same = np.ones((2500, 3))
    assert len(synonym_pairs(same[:50], threshold=1.0)) == 50 * 49 // 2
    zeros = np.zeros((4, 3))
    assert len(synonym_pairs(zeros, threshold=0.5)) == 0
    flat = np.random.default_rng(0).normal(size=(3000, 24))
    expected, _ = by_hand(flat, 0.75)
    assert pairs(synonym_pairs(flat, threshold=0.75)) == expected


def test_no_rows_and_one_row_have_no_pairs():
    for rows in (0, 1):
        assert len(synonym_pairs(np.ones((rows, 3)), threshold=0.5)) == 0


def test_half_precision_input_and_the_callers_array_is_unchanged():
    vectors = names(400, dtype=np.float16)
    before = vectors.copy()
    found = synonym_pairs(vectors, threshold=0.85)
    assert np.array_equal(vectors, before)
    assert pairs(found) == by_hand(vectors, 0.85)[0]
    assert not found.left.flags.writeable


@pytest.mark.parametrize(
    ("vectors", "options", "error", "words"),
    [
        ([[1.0, np.nan]], {}, InvalidInputError, "row 0"),
        ([[1.0], [np.inf]], {}, InvalidInputError, "row 1"),
        ([1.0, 2.0], {}, InvalidInputError, "two-dimensional"),
        (np.empty((3, 0)), {}, InvalidInputError, "at least one column"),
        ([["a"]], {}, InvalidTypeError, "numbers"),
        ([[1.0], [1.0, 2.0]], {}, InvalidTypeError, "equal length"),
        ([[1.0]], {"threshold": 0.0}, InvalidInputError, "threshold"),
        ([[1.0]], {"threshold": 1.1}, InvalidInputError, "threshold"),
        ([[1.0]], {"threshold": np.nan}, InvalidInputError, "threshold"),
        ([[1.0]], {"start": 2}, InvalidInputError, "start"),
        ([[1.0]], {"max_pairs": -1}, InvalidInputError, "max_pairs"),
        (np.ones((30, 2)), {"max_pairs": 10}, InvalidInputError, "more than max_pairs=10 pairs"),
    ],
)
def test_bad_input_is_refused(vectors, options, error, words):
    with pytest.raises(error, match=words):
        synonym_pairs(vectors, **{"threshold": 0.8, **options})
