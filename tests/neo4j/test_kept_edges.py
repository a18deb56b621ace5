"""What is kept between queries: bounded, used last stays, and never changed under a walk."""

import numpy as np

from phasegraph.neo4j.edge_cache import KeptEdges, KnownEdges


def known(names, edges):
    """A part of a graph in which every one of the passages leads to so many entities."""
    made = KnownEdges()
    ends = made.codes(False, [f"e{number}" for number in range(edges)])
    owners = made.codes(True, names)
    counts = np.full(len(names), edges, dtype=np.int32)
    made.add(owners, counts, np.tile(ends, len(names)), np.ones(edges * len(names), dtype=np.float32))
    return made


def test_kept_edges_are_bounded_and_those_used_last_stay():
    few = KeptEdges(30)
    first = known(["a", "b", "c"], 4)
    few.known(1)
    few.keep(1, first, np.zeros(first.graph.size, dtype=bool))
    assert few.known(1) is first
    only_b = np.zeros(first.graph.size, dtype=bool)
    only_b[first.passages["b"]] = True
    few.keep(1, first, only_b)
    grown = first.copy()
    ends = grown.codes(False, [f"f{number}" for number in range(15)])
    grown.add(grown.codes(True, ["d"]), np.array([15], dtype=np.int32), ends, np.ones(15, dtype=np.float32))
    few.keep(1, grown, np.zeros(grown.graph.size, dtype=bool))
    assert len(few) <= 30
    left = few.known(1).graph
    here = {left.passages[row] for row in np.flatnonzero(left.here)}
    assert "b" in here
    assert len(here) < 4
    row = left.adjacency[[left.passage_rows["b"]]].toarray().ravel()
    assert {left.entities[place - len(left.passages)] for place in np.flatnonzero(row)} == {"e0", "e1", "e2", "e3"}
    assert len(few.known(2)) == 0, "another stamp, nothing kept"
    few.keep(1, grown, np.zeros(grown.graph.size, dtype=bool))
    assert len(few) == 0, "a query that began before the change adds nothing"


def test_a_growing_copy_leaves_what_others_walk_over_as_it_is():
    base = known(["a"], 2)
    graph = base.graph
    copy = base.copy()
    copy.codes(True, ["b"])
    copy.add(copy.codes(True, ["b"]), np.array([1], np.int32), copy.codes(False, ["x"]), np.ones(1, np.float32))
    assert base.graph is graph
    assert set(base.passages) == {"a"}
    assert set(copy.graph.passage_rows) == {"a", "b"}
