"""What happens between two statements: a corpus changes, a writer dies, others do the same, a server comes back."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import neo4j
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from corpus import questions, records

from phasegraph.errors import InvalidInputError, InvalidTypeError, StoreError
from phasegraph.graph import GraphSource
from phasegraph.neo4j import (
    Neo4jConnection,
    Neo4jGraphSource,
    PassageRecord,
    drop_corpus,
    drop_schema,
    list_corpora,
    list_schema,
    read_changes,
    read_graph,
    remove_passages,
    write_graph,
)
from phasegraph.neo4j.connection import RecentReads
from phasegraph.neo4j.gds import _CATALOG, STATE, drop_projections, has_gds, list_projections, project
from phasegraph.neo4j.remote_walk import LOOKUP
from phasegraph.ranking import Ranking

COUNT = 60
TWO = (
    PassageRecord("1", "Ada", "Ada met Bo.", facts=(("ada", "met", "bo", 1),), homes=(("ada", 2),)),
    PassageRecord("2", "Cy", "Cy met Dee.", facts=(("cy", "met", "dee", 1),), homes=(("cy", 2),)),
)


class Interrupted(Neo4jConnection):
    """Somebody else acts after a search has read something, once; by default after it has looked its names up."""

    after: str = LOOKUP
    act: Callable[[], object] | None = None

    def read(self, statement: str, *rest: Any, **named: Any) -> list[list[Any]]:
        rows = super().read(statement, *rest, **named)
        if statement == self.after and self.act is not None:
            act, self.act = self.act, None
            act()
        return rows


class Killed(Neo4jConnection):
    """A writer that dies in the transaction that would drop what nothing is left of, or a corpus itself."""

    def write_all(self, statements: Any, **named: Any) -> list[list[Any]]:
        fixed = list(statements)
        if any("NOT EXISTS" in statement for statement, _ in fixed):
            raise StoreError("unreachable: killed")
        return super().write_all(fixed, **named)

    def write(self, statement: str, *rest: Any, **named: Any) -> list[list[Any]]:
        if statement.endswith("DELETE c"):
            raise StoreError("unreachable: killed")
        return super().write(statement, *rest, **named)


@pytest.mark.parametrize("method", ["neighbourhood", "gds"])
@pytest.mark.parametrize("whole", [False, True], ids=["most_passages", "the_corpus"])
def test_passages_that_go_while_a_search_is_under_way_do_not_break_it(driver, connection, method, whole):
    if method == "gds" and not has_gds(connection):
        pytest.skip("the server has no GDS")
    write_graph(connection, records(COUNT), corpus="k")
    query, dense = questions(1, COUNT)[0]
    interrupted = Interrupted(driver, timeout=20.0)
    gone = sorted({each.id for each in records(COUNT)} - set(dense.ids[-3:]))
    source = Neo4jGraphSource(interrupted, "k", method=method)
    interrupted.act = lambda: drop_corpus(connection, "k") if whole else remove_passages(connection, gone, corpus="k")
    if whole and method == "gds":
        with pytest.raises(ValueError, match="has no passages"):
            source.search(query, 10, {"vector": dense})
    else:
        assert set(source.search(query, 10, {"vector": dense}).ids) <= {each.id for each in records(COUNT)}


def test_hits_that_the_corpus_does_not_hold_are_no_passages_of_it(connection):
    write_graph(connection, records(COUNT), corpus="k")
    in_memory = GraphSource(read_graph(connection, corpus="k").graph(), words=None)
    query, dense = questions(1, 3 * COUNT)[0]
    assert not {each.id for each in records(COUNT)}.issuperset(dense.ids)
    ours = in_memory.search(query, 10, {"vector": dense})
    theirs = Neo4jGraphSource(connection, "k").search(query, 10, {"vector": dense})
    assert theirs.ids == ours.ids
    assert theirs.background.location == pytest.approx(ours.background.location, abs=0.01)


def test_names_that_only_a_removed_passage_mentioned_are_gone_when_a_writer_that_died_is_called_again(
    driver, connection
):
    write_graph(connection, TWO, corpus="k")
    with pytest.raises(StoreError):
        remove_passages(Killed(driver), ["2"], corpus="k")
    remove_passages(connection, ["2"], corpus="k")
    assert sorted(connection.read("MATCH (e:PhasegraphEntity) RETURN e.name")) == [["ada"], ["bo"]]


def test_what_is_kept_of_a_corpus_does_not_outlive_a_drop_that_ended_in_the_middle(driver, connection):
    write_graph(connection, TWO, corpus="k")
    since = read_graph(connection, corpus="k").revision
    source = Neo4jGraphSource(connection, "k")
    assert source.passage_ids() == ("1", "2")
    with pytest.raises(StoreError):
        drop_corpus(Killed(driver), "k")
    assert source.passage_ids() == ()
    with pytest.raises(InvalidInputError, match="read the whole corpus with read_graph"):
        read_changes(connection, corpus="k", since=since)
    drop_corpus(connection, "k")
    assert list_corpora(connection) == ()


def test_a_name_that_nothing_mentions_any_more_takes_no_mass(connection):
    write_graph(connection, TWO[:1], corpus="k")
    connection.write("CREATE (:PhasegraphEntity {corpus: 'k', name: 'cy'})")
    dense = Ranking("vector", ["1"], np.array([0.5]))
    in_memory = GraphSource(read_graph(connection, corpus="k").graph(), words=None).search(
        "Who is Cy?", 5, {"vector": dense}
    )
    found = Neo4jGraphSource(connection, "k").search("Who is Cy?", 5, {"vector": dense})
    assert found.scores.tolist() == pytest.approx(in_memory.scores.tolist())


def test_a_projection_may_be_made_by_several_at_once(connection):
    if not has_gds(connection):
        pytest.skip("the server has no GDS")
    write_graph(connection, TWO, corpus="k")
    with ThreadPoolExecutor(6) as pool:
        made = {each.name for each in pool.map(lambda _: project(connection, "k"), range(6))}
    assert list_projections(connection, "k") == tuple(made)


@pytest.mark.parametrize("after", [STATE, _CATALOG], ids=["before_it_is_made", "before_it_is_walked"])
def test_a_search_and_another_that_has_seen_a_later_corpus_do_not_take_each_others_projection(
    driver, connection, after
):
    if not has_gds(connection):
        pytest.skip("the server has no GDS")
    write_graph(connection, TWO, corpus="k")
    source = Neo4jGraphSource(interrupted := Interrupted(driver, timeout=20.0), "k", method="gds")
    assert source.search("Who is Ada?", 5, {}).ids == ("1",)
    others = []

    def write_and_project() -> None:
        remove_passages(connection, ["2"], corpus="k")
        others.append(project(connection, "k").name)

    interrupted.after, interrupted.act = after, write_and_project
    assert source.search("Who is Ada?", 5, {}).ids == ("1",)
    assert others[0] in list_projections(connection, "k")


def test_what_is_run_again_after_an_outage_neither_drops_anything_nor_is_a_callers_own(driver, connection):
    again = Neo4jConnection(driver, timeout=20.0)
    write_graph(connection, TWO, corpus="k")
    again.read("RETURN $secret", {"secret": "s3cret"}, warm=False)
    if has_gds(connection):
        project(connection, "k")
        drop_projections(again, "k")
    Neo4jGraphSource(again, "k").search("Who is Ada?", 5, {})
    again._recent.server_was_away()
    kept = again._recent.take()
    assert LOOKUP in dict(kept)
    assert not [statement for statement, _ in kept if "drop" in statement or "$secret" in statement]


def test_a_pool_that_is_exhausted_is_no_outage(address, connection):
    with neo4j.GraphDatabase.driver(address.uri, auth=address.auth, max_connection_pool_size=1) as small:
        narrow = Neo4jConnection(small, timeout=0.3)
        with small.session() as busy:
            busy.run("UNWIND range(1, 100000) AS i RETURN i")
            with pytest.raises(StoreError, match="unreachable"):
                narrow.read("RETURN 1")
        assert narrow._recent.take() == []


def test_what_is_run_again_is_run_once_at_a_time():
    recent = RecentReads()
    recent.note("RETURN 1", {})
    recent.server_was_away()
    with recent.again() as first:
        recent.server_was_away()
        with recent.again() as second:
            assert (len(first), len(second)) == (1, 0)
    with recent.again() as third:
        assert len(third) == 1


def test_an_index_over_nodes_is_not_taken_for_ours_over_relationships(driver, connection):
    drop_schema(connection, corpora_may_remain=True)
    driver.execute_query("CREATE INDEX phasegraph_fact FOR (x:PHASEGRAPH_FACT) ON (x.corpus, x.passage)")
    try:
        assert list_schema(connection) == ()
        with pytest.raises(StoreError, match="phasegraph_fact"):
            write_graph(connection, TWO, corpus="k")
        assert "phasegraph_fact" not in drop_schema(connection, corpora_may_remain=True)
    finally:
        driver.execute_query("DROP INDEX phasegraph_fact")


@pytest.mark.parametrize("allowed", [{1, 2}, {1, "a"}, [["a"]], b"a"])
def test_ids_that_are_no_text_are_named(connection, allowed):
    with pytest.raises(InvalidTypeError, match="str"):
        Neo4jGraphSource(connection, "k").within(allowed)
