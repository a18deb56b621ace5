"""What is done before there is a deadline: edges weighed, names read, the walk compiled."""

import subprocess
import sys

import numpy as np
import pytest

from phasegraph import Ranking
from phasegraph.graph import GraphSource, build_graph
from phasegraph.graph.chunk_graph import ChunkGraphSource, build_chunk_graph
from phasegraph.graph.experimental.semflow import SemFlowSource
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.walker import prepare

PASSAGES = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Bo sang to Cy."}]


def plain():
    return build_graph(PASSAGES, embeddings=np.eye(2))


def test_the_edges_are_weighed_before_the_first_search():
    graph = plain()
    source = GraphSource(graph)
    assert "operator" not in vars(graph)
    prepare(source)
    operator = vars(graph)["operator"]
    source.search("Who met Bo?", 5, {})
    assert graph.operator is operator


def test_a_restricted_graph_is_made_ready_itself():
    source = GraphSource(plain()).within({"b"})
    assert "operator" not in vars(source.graph)
    assert source.prepare() is source
    assert "operator" in vars(source.graph)
    nothing = GraphSource(plain()).within(())
    prepare(nothing)
    assert nothing.search("Bo?", 5, {}).ids == ()


def test_a_chunk_graph_is_made_ready():
    graph = build_chunk_graph([*PASSAGES, {"id": "c", "text": "See a."}], documents=["d", "d", "e"])
    source = ChunkGraphSource(graph)
    prepare(source)
    assert "operator" in vars(graph.walkable)
    assert source.search("?", 5, {"vector": Ranking("vector", ["a"], [0.9])}).ids


@pytest.mark.parametrize(("parameters", "part"), [("paper", "_flow"), ("released", "_undirected")])
def test_the_directed_walk_is_made_ready_as_it_will_be_walked(parameters, part):
    graph = plain()
    facts = FactIndex.of(graph, [("Ada", "met", "Bo")], [[0.8, 0.6]])
    source = SemFlowSource(graph, facts, lambda query: [0.6, 0.8], parameters)
    expected = SemFlowSource(graph, facts, lambda query: [0.6, 0.8], parameters).search("Who?", 5, {})
    prepare(source)
    assert part in vars(source)
    assert source.search("Who?", 5, {}).scores.tobytes() == expected.scores.tobytes()


def test_other_sources_are_left_alone():
    class Other:
        def prepare(self):
            raise AssertionError

    prepare(Other())
    prepare(None)


def test_nothing_is_compiled_by_the_first_search():
    code = """
from phasegraph import Ranking
from phasegraph.graph import GraphSource, build_graph
from phasegraph.pagerank import _numba_kernels as kernels
from phasegraph.graph.walk.walker import prepare
passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Bo sang to Cy."}]
source = GraphSource(build_graph(passages))
compiled = lambda: {n: len(f.signatures) for n, f in vars(kernels).items() if hasattr(f, "signatures")}
cold = compiled()
prepare(source)
warm = compiled()
for given in ({}, {"vector": Ranking("vector", ["a"], [0.9])}):
    source.search("Who met Bo?", 5, given)
print(cold != warm, warm == compiled())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
