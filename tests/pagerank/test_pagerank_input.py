"""What personalised PageRank refuses, and how it says so."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from phasegraph.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    NotConvergedError,
    PhasegraphWarning,
)
from phasegraph.graph.experimental.semflow import FlowParameters
from phasegraph.pagerank import WalkOperator, personalized_pagerank
from phasegraph.pagerank.workspace import PushWorkspace, _load_kernels, compiled_kernels

RING = sparse.csr_array((np.ones(4), ([0, 1, 2, 3], [1, 2, 3, 0])), shape=(4, 4))
PAIR = sparse.csr_array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("adjacency", "error", "words"),
    [
        (np.eye(3), InvalidTypeError, "must be a scipy sparse matrix"),
        (sparse.csr_array([[0, 1j], [1, 0]]), InvalidTypeError, "real numbers"),
        (sparse.csr_array((2, 3)), InvalidInputError, "square"),
        (sparse.csr_array([[0.0, -1.0], [1.0, 0.0]]), InvalidInputError, "got -1.0 on an edge of node 0"),
        (sparse.csr_array([[0.0, 1.0], [np.nan, 0.0]]), InvalidInputError, "got nan on an edge of node 1"),
        (sparse.csr_array([[0.0, np.inf], [1.0, 0.0]]), InvalidInputError, "finite"),
    ],
)
def test_a_bad_graph_is_refused(adjacency, error, words):
    with pytest.raises(error, match=words):
        WalkOperator.from_adjacency(adjacency)


def test_a_walk_over_no_node_is_refused():
    with pytest.raises(InvalidInputError, match="reset must have a positive finite sum"):
        personalized_pagerank(sparse.csr_array((0, 0)), [], follow_probability=0.5)


@pytest.mark.parametrize(
    ("reset", "error", "words"),
    [
        ([1.0, 0.0], InvalidInputError, "one weight per node"),
        ([0.0] * 4, InvalidInputError, "positive finite sum"),
        ([1.0, -1.0, 1.0, 1.0], InvalidInputError, "got -1.0 at position 1"),
        ([1.0, np.nan, 1.0, 1.0], InvalidInputError, "got nan at position 1"),
        ([[1.0, 0.0, 0.0, 0.0]], InvalidInputError, "one-dimensional"),
        (["a", "b", "c", "d"], InvalidTypeError, "numbers"),
        (([], []), InvalidInputError, "at least one node"),
        (([0, 1], [1.0]), InvalidInputError, "2 nodes and 1 weights"),
        (([4], [1.0]), InvalidInputError, r"\[0, 4\)"),
        (([-1], [1.0]), InvalidInputError, r"\[0, 4\)"),
        (([0.5], [1.0]), InvalidTypeError, "integers"),
        (([0], [1.0], [1.0]), InvalidInputError, "3 parts"),
        (([[0]], [1.0]), InvalidInputError, "one-dimensional"),
    ],
)
@pytest.mark.parametrize("method", ["power", "push"])
def test_a_bad_reset_distribution_is_refused(reset, error, words, method):
    with pytest.raises(error, match=words):
        personalized_pagerank(RING, reset, follow_probability=0.5, method=method)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"follow_probability": 1.0}, "follow_probability"),
        ({"follow_probability": -0.1}, "follow_probability"),
        ({"follow_probability": np.nan}, "follow_probability"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": np.inf}, "tolerance"),
        ({"method": "jump"}, "method"),
        ({"method": "push", "kernel": "fast"}, "kernel"),
        ({"method": "push", "polish": -1}, "polish"),
        ({"method": "push", "polish": True}, "polish"),
        ({"method": "push", "refine": -1}, "refine"),
        ({"method": "push", "workspace": PushWorkspace(3)}, "workspace must have the size of the graph, 4 nodes"),
        ({"precision": "float16"}, "precision"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"method": "chebyshev"}, "undirected"),
    ],
)
def test_a_bad_setting_is_refused(options, words):
    with pytest.raises(InvalidInputError, match=words):
        personalized_pagerank(RING, ([0], [1.0]), **{"follow_probability": 0.5, **options})


@pytest.mark.parametrize("method", ["power", "chebyshev", "push"])
def test_an_unconverged_mass_is_never_returned(method):
    with pytest.raises(NotConvergedError):
        personalized_pagerank(
            PAIR, ([0], [1.0]), follow_probability=0.9, method=method, tolerance=1e-9, max_iterations=3
        )


def test_a_push_that_did_not_settle_leaves_its_workspace_clean():
    space = PushWorkspace(2)
    with pytest.raises(NotConvergedError):
        personalized_pagerank(
            PAIR,
            ([0], [1.0]),
            follow_probability=0.9,
            method="push",
            tolerance=1e-9,
            max_iterations=3,
            workspace=space,
        )
    for array in (*space.plain, space.records):
        assert not array.any()


@pytest.fixture
def kernels_unloaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "phasegraph.pagerank._numba_kernels", raising=False)
    monkeypatch.delattr("phasegraph.pagerank._numba_kernels", raising=False)
    _load_kernels.cache_clear()
    yield
    _load_kernels.cache_clear()


def test_without_numba_the_numpy_kernel_answers_and_the_compiled_one_names_the_extra(monkeypatch, kernels_unloaded):
    monkeypatch.setitem(sys.modules, "numba", None)
    walk = personalized_pagerank(PAIR, ([0], [1.0]), follow_probability=0.5, method="push")
    assert walk.mass.sum() + walk.residual == pytest.approx(1.0)
    with pytest.raises(MissingDependencyError, match=r"phasegraph\[graph\]"):
        personalized_pagerank(PAIR, ([0], [1.0]), follow_probability=0.5, method="push", kernel="compiled")


def test_a_numba_that_confuses_types_is_not_used_and_this_is_said_once(monkeypatch, kernels_unloaded):
    monkeypatch.setattr("numba.version_info", SimpleNamespace(short=(0, 60)))
    with pytest.warns(PhasegraphWarning, match=r"too old: pip install .phasegraph\[graph\]") as warned:
        walks = [personalized_pagerank(PAIR, ([0], [1.0]), follow_probability=0.5, method="push") for _ in range(2)]
    assert len(warned) == 1
    assert walks[0].mass.sum() + walks[0].residual == pytest.approx(1.0)
    with pytest.raises(MissingDependencyError, match=r"numba 0\.61 or later"):
        compiled_kernels()


@pytest.mark.parametrize("method", ["power", "chebyshev", "push"])
@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("follow_probability", None, InvalidTypeError),
        ("follow_probability", "x", InvalidTypeError),
        ("follow_probability", False, InvalidTypeError),
        ("follow_probability", np.nan, InvalidInputError),
        ("tolerance", "a", InvalidTypeError),
        ("tolerance", True, InvalidTypeError),
        ("tolerance", 0.0, InvalidInputError),
        ("max_iterations", True, InvalidTypeError),
        ("max_iterations", 2.5, InvalidTypeError),
        ("precision", "bogus", InvalidInputError),
    ],
)
def test_a_number_of_a_wrong_kind_is_refused_by_name(field, value, error, method):
    options = {"follow_probability": 0.5, "method": method, field: value}
    with pytest.raises(error, match=f"{field} must"):
        personalized_pagerank(PAIR, ([0], [1.0]), **options)


@pytest.mark.parametrize(("field", "value"), [("workspace", 3), ("polish", True), ("refine", 2.5), ("complete", 1)])
def test_a_push_names_the_field_of_a_wrong_kind(field, value):
    with pytest.raises(InvalidTypeError, match=f"{field} must"):
        personalized_pagerank(PAIR, ([0], [1.0]), follow_probability=0.5, method="push", **{field: value})


def test_a_walk_that_hardly_restarts_ends_without_an_answer():
    with pytest.raises(NotConvergedError, match="after 10000 iterations"):
        personalized_pagerank(PAIR, ([0], [1.0]), follow_probability=0.9999999)
    longer = personalized_pagerank(PAIR, ([0], [1.0]), follow_probability=0.998, max_iterations=30_000)
    assert longer.mass.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("facts", 2.5), ("facts", True), ("penalty", True), ("directed", "no"), ("floor", "x"), ("entity_seeds", None)],
)
def test_the_numbers_of_a_flow_are_numbers(field, value):
    with pytest.raises(InvalidTypeError, match=f"{field} must"):
        FlowParameters(**{field: value})
