"""Semantic abstractness, truncated min-max and the relevance of entities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from scipy import sparse

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph import Extraction, graph_from_extractions
from phasegraph.graph.experimental.semflow import (
    abstractness,
    best_of,
    graph_abstractness,
    members_of,
    truncated_min_max,
)

PASSAGES = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 0], [0, 0, 1], [0, 0.6, 0.8]])
MENTIONS = sparse.csr_array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 1]])


def test_golden_abstractness():
    np.testing.assert_allclose(abstractness(MENTIONS, PASSAGES), [0.575, 0.1, 0, 0.1], atol=1e-12)
    unbiased = abstractness(MENTIONS, PASSAGES, ddof=1)
    np.testing.assert_allclose(unbiased, [0.766667, 0.2, 0, 0.2], atol=5e-7)


def test_golden_truncated_min_max():
    scaled = truncated_min_max([0.575, 0.1, 0, 0.1])
    np.testing.assert_allclose(scaled, [1, 0.173913, 0, 0.173913], atol=5e-7)


@pytest.mark.parametrize(("values", "expected"), [([], []), ([3.0], [0.5]), ([2.0, 2.0], [0.5, 0.5])])
def test_truncated_min_max_of_nothing_and_of_one_value(values, expected):
    assert truncated_min_max(values).tolist() == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60))
def test_truncated_min_max_agrees_with_numpys_quantiles_and_keeps_the_order(values):
    given_values = np.array(values)
    low, high = np.quantile(given_values, [0.01, 0.99])
    scaled = truncated_min_max(given_values)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    if high - low > 1e-6:
        np.testing.assert_allclose(scaled, np.clip((given_values - low) / (high - low), 0, 1), atol=1e-6)
    assert (np.diff(scaled[np.argsort(given_values)]) >= 0).all()


def random_case(seed):
    rng = np.random.default_rng(seed)
    mentions = sparse.random_array((30, 40), density=0.08, random_state=rng).tocsr()
    return mentions, rng.normal(size=(30, 70))


@settings(max_examples=repeats(25, 10), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1]))
def test_abstractness_is_the_trace_of_the_covariance(seed, ddof):
    mentions, passages = random_case(seed)
    members = [np.flatnonzero(column) for column in mentions.toarray().T]
    expected = [passages[rows].astype(float).var(axis=0, ddof=ddof).sum() if len(rows) > 1 else 0.0 for rows in members]
    np.testing.assert_allclose(abstractness(mentions, passages, ddof=ddof), expected, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_short_floats_are_summed_in_float32(dtype):
    mentions, passages = random_case(4)
    short = (passages + 1).astype(dtype)
    np.testing.assert_allclose(abstractness(mentions, short), abstractness(mentions, short.astype(float)), rtol=1e-5)


def test_a_common_shift_changes_nothing_even_a_large_one():
    mentions, passages = random_case(5)
    shifted = passages + 1e5
    np.testing.assert_allclose(abstractness(mentions, shifted), abstractness(mentions, passages), rtol=1e-6)


def test_repeated_mentions_in_a_passage_count_once():
    doubled = sparse.csr_array((MENTIONS.data * 3, MENTIONS.indices, MENTIONS.indptr), shape=MENTIONS.shape)
    np.testing.assert_allclose(abstractness(doubled, PASSAGES), abstractness(MENTIONS, PASSAGES))


def test_shrinkage_pulls_towards_the_prior_by_the_number_of_passages():
    shrunk = abstractness(MENTIONS, PASSAGES, shrinkage=2.0, prior=0.4)
    expected = [(4 * 0.575 + 0.8) / 6, (2 * 0.1 + 0.8) / 4, 0.8 / 3, (2 * 0.1 + 0.8) / 4]
    np.testing.assert_allclose(shrunk, expected)
    own = abstractness(MENTIONS, PASSAGES, shrinkage=1e12)
    np.testing.assert_allclose(own, np.mean([0.575, 0.1, 0.1]), rtol=1e-9)


def test_an_entity_is_as_relevant_as_its_best_passage():
    scores = [0.6, 0.96, 0.8, 0.0, 0.48]
    with_a_stranger = sparse.csr_array(sparse.block_array([[MENTIONS, sparse.csr_array((5, 1))]]))
    assert best_of(members_of(with_a_stranger, 5), np.array(scores)).tolist() == [0.96, 0.96, 0.8, 0.48, 0]
    np.testing.assert_allclose(
        truncated_min_max(best_of(members_of(MENTIONS, 5), np.array(scores))), [1, 1, 0.659864, 0], atol=1e-6
    )
    assert best_of(members_of(MENTIONS, 5), np.full(5, -0.5)).tolist() == [-0.5] * 4


def test_the_callers_arrays_are_not_changed():
    mentions, passages = MENTIONS.copy(), PASSAGES.copy()
    abstractness(mentions, passages)
    assert np.array_equal(passages, PASSAGES)
    assert (mentions != MENTIONS).nnz == 0


@pytest.mark.parametrize(
    ("mentions", "passages", "options", "error", "words"),
    [
        (MENTIONS.toarray(), PASSAGES, {}, InvalidTypeError, "mentions"),
        (MENTIONS, PASSAGES[:4], {}, InvalidInputError, r"one row per passage \(4\)"),
        (MENTIONS, PASSAGES[0], {}, InvalidInputError, "two-dimensional"),
        (MENTIONS, np.where(PASSAGES == 0.8, np.nan, PASSAGES), {}, InvalidInputError, "row 1"),
        (MENTIONS, PASSAGES, {"ddof": 2}, InvalidInputError, "ddof"),
        (MENTIONS, PASSAGES, {"shrinkage": -1.0}, InvalidInputError, "shrinkage"),
        (MENTIONS, PASSAGES, {"shrinkage": 1.0, "prior": np.nan}, InvalidInputError, "prior"),
    ],
)
def test_bad_input_is_refused(mentions, passages, options, error, words):
    with pytest.raises(error, match=words):
        abstractness(mentions, passages, **options)


def test_bad_values_and_quantiles_are_refused():
    with pytest.raises(InvalidInputError, match="position 1"):
        truncated_min_max([0.0, np.nan])
    with pytest.raises(InvalidInputError, match="quantiles"):
        truncated_min_max([0.0, 1.0], low=0.9, high=0.1)
    with pytest.raises(InvalidTypeError, match="numbers"):
        truncated_min_max(["a"])
    with pytest.raises(InvalidInputError, match="one-dimensional"):
        truncated_min_max([[1.0]])


RECORDS = [Extraction(str(row), ["abcd"[column]]) for row, column in zip(*MENTIONS.nonzero(), strict=True)]


def test_a_graph_gives_the_abstractness_of_its_entities_and_works_it_out_once():
    graph = graph_from_extractions(list("01234"), RECORDS, embeddings=PASSAGES)
    np.testing.assert_allclose(graph_abstractness(graph), [1, 0.173913, 0, 0.173913], atol=5e-7)
    np.testing.assert_allclose(graph_abstractness(graph, normalised=False), [0.575, 0.1, 0, 0.1], atol=1e-6)
    unbiased = graph_abstractness(graph, normalised=False, ddof=1)
    np.testing.assert_allclose(unbiased, [0.766667, 0.2, 0, 0.2], atol=1e-6)
    assert graph_abstractness(graph) is graph_abstractness(graph)
    assert not unbiased.flags.writeable


def test_a_graph_without_embeddings_has_no_abstractness():
    with pytest.raises(InvalidInputError, match="graph with embeddings"):
        graph_abstractness(graph_from_extractions(list("01234"), RECORDS))
