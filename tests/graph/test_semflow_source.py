"""SemFlowRAG as a source, against the walk solved exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.graph import Extraction, GraphSource, SemFlowSource, graph_from_extractions
from phasegraph.graph.experimental.semflow import SEMFLOW_PARAMETERS, SemanticFlow, graph_abstractness
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.resets import reset_by_name
from phasegraph.sources import Source

RNG = np.random.default_rng(7)
IDS = [f"p{number:02}" for number in range(24)]
FACTS = [(f"e{one}", "met", f"e{other}") for one, other in RNG.integers(0, 12, (24, 2)).tolist()]
GRAPH = graph_from_extractions(
    IDS,
    [Extraction(name, triples=[fact]) for name, fact in zip(IDS, FACTS, strict=True)],
    embeddings=RNG.random((24, 4)),
)
INDEX = FactIndex.of(GRAPH, FACTS, RNG.random((24, 4)))
QUERY = [0.9, 0.1, 0.3, 0.2]


def _source(**given: Any) -> SemFlowSource:
    return SemFlowSource(**{"graph": GRAPH, "facts": INDEX, "embedder": lambda query: QUERY, **given})


def _exact(parameters: str, recipe: str) -> dict[str, float]:
    """Masses of the passages by a linear system over all nodes."""
    near = (np.asarray(GRAPH.embeddings) @ (np.array(QUERY) / np.linalg.norm(QUERY))).astype(float)
    seeds = reset_by_name(recipe, GRAPH, INDEX, QUERY, near)
    reset = np.zeros(GRAPH.size)
    reset[seeds.nodes] = seeds.masses / seeds.masses.sum()
    reset = np.concatenate([reset[len(IDS) :], reset[: len(IDS)]])
    chosen = SEMFLOW_PARAMETERS[parameters]
    if chosen.directed:
        flow = SemanticFlow.from_links(GRAPH.facts, GRAPH.mentions, graph_abstractness(GRAPH), chosen)
        steps = flow.transition(flow.relevance(near)).toarray()
    else:
        mentions = GRAPH.mentions.toarray().astype(float)
        steps = np.block([[GRAPH.facts.toarray(), mentions.T], [mentions, np.zeros((len(IDS), len(IDS)))]])
        steps = steps / np.maximum(steps.sum(axis=1, keepdims=True), 1e-300)
    steps[steps.sum(axis=1) == 0] = reset
    follow = chosen.follow_probability
    mass = np.linalg.solve(np.eye(GRAPH.size) - follow * steps.T, (1 - follow) * reset)
    return dict(zip(IDS, mass[len(GRAPH.entities) :].tolist(), strict=True))


@pytest.mark.parametrize(("parameters", "recipe"), [("paper", "semflowrag-paper"), ("released", "semflowrag")])
def test_scores_are_the_masses_of_the_published_walk(parameters: str, recipe: str) -> None:
    found = _source(parameters=parameters).search("who?", None, {})
    exact = _exact(parameters, recipe)
    assert dict(zip(found.ids, found.scores.tolist(), strict=True)) == pytest.approx(exact, abs=2e-4)
    assert list(found.ids[:5]) == sorted(exact, key=lambda name: (-exact[name], name))[:5]


def test_it_is_a_source_that_needs_no_other_and_keeps_to_its_limit() -> None:
    assert isinstance(_source(), Source)
    assert tuple(_source().depends_on) == ()
    assert len(_source().search("who?", 3, {})) == 3


def test_without_facts_passages_are_ranked_by_similarity_and_it_is_said() -> None:
    none = FactIndex.of(GRAPH, [("nobody", "met", "no one")], [[1.0, 0.0, 0.0, 0.0]])
    near = np.asarray(GRAPH.embeddings) @ np.array(QUERY)
    best = [IDS[row] for row in np.argsort(-near)[:5]]
    for source in (
        _source(facts=none),
        GraphSource(GRAPH, embedder=lambda query: QUERY, facts=none, reset="hipporag2"),
    ):
        found = source.search("who?", 5, {})
        assert list(found.ids) == best
        assert "no fact" in found.reason
    assert not _source().search("who?", 5, {}).reason


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("graph", 3, InvalidTypeError),
        ("graph", graph_from_extractions(["1"], []), InvalidInputError),
        ("facts", None, InvalidTypeError),
        ("embedder", 3, InvalidTypeError),
        ("parameters", "bogus", InvalidInputError),
        ("parameters", [1], InvalidInputError),
        ("name", " ", InvalidTypeError),
    ],
)
def test_a_field_that_does_not_fit_is_refused(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"{field} must"):
        _source(**{field: value})
