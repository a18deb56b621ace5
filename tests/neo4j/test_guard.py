"""Cypher that is not ours reads the graph and does nothing else, on a real server."""

import pytest

from phasegraph.errors import InvalidInputError, InvalidTypeError, StoreError
from phasegraph.neo4j import read_guarded

WRITES = (
    "CREATE (:Evil)",
    "MATCH (n) DETACH DELETE n",
    "MATCH (n) CALL (n) {CREATE (:Evil)} RETURN n",
    "CYPHER runtime=slotted CREATE (:Evil)",
    "CALL apoc.cypher.runWrite('CREATE (:Evil)', {}) YIELD value RETURN value",
    "CREATE INDEX evil FOR (n:Evil) ON (n.x)",
    "SHOW DATABASES",
    "CALL dbms.components()",
)
BEYOND = (
    "LOAD CSV FROM 'file:///etc/passwd' AS row RETURN row",
    "SHOW TRANSACTIONS",
    "TERMINATE TRANSACTION 'neo4j-transaction-1'",
    "CALL apoc.load.json('http://127.0.0.1/x') YIELD value RETURN value",
    "CALL apoc.cypher.run('RETURN 1', {}) YIELD value RETURN value",
    "CALL db.labels() YIELD label RETURN label",
)


def test_a_reading_statement_runs_with_its_values_as_parameters(connection, driver):
    driver.execute_query("UNWIND range(1, 50) AS i CREATE (:Thing {i: i})")
    statement = "MATCH (t:Thing) WHERE t.i > $least RETURN t.i ORDER BY t.i"
    assert read_guarded(connection, statement, {"least": 47}) == [[48], [49], [50]]
    assert read_guarded(connection, statement, {"least": 0}, limit=2) == [[1], [2]]


@pytest.mark.parametrize("statement", WRITES)
def test_a_statement_that_writes_or_administers_is_refused(connection, driver, statement):
    driver.execute_query("CREATE (:Thing)")
    with pytest.raises(InvalidInputError, match="must only read; the server plans it as"):
        read_guarded(connection, statement)
    assert driver.execute_query("MATCH (n) RETURN count(n)").records[0][0] == 1


@pytest.mark.parametrize("statement", BEYOND)
def test_a_statement_of_type_r_that_reaches_beyond_the_graph_is_refused(connection, statement):
    with pytest.raises(InvalidInputError, match=r"must keep to the graph|may call"):
        read_guarded(connection, statement)


@pytest.mark.parametrize("statement", ["MATCH (n) RETURN n; CREATE (:Evil)", "PROFILE CREATE (:Evil)", "not cypher"])
def test_what_the_server_cannot_plan_is_a_store_error_without_its_text(connection, statement):
    with pytest.raises(StoreError, match=r"^refused: Neo4j answered Neo\.ClientError"):
        read_guarded(connection, statement)


def test_even_past_the_planner_a_managed_read_cannot_write(connection):
    with pytest.raises(StoreError, match=r"AccessMode"):
        connection.read("CREATE (:Evil)")


def test_a_slow_statement_is_ended_by_the_server_at_the_deadline(connection):
    with pytest.raises(StoreError, match=r"^timeout: Neo4j (did not answer within|ended the transaction after) 0.5 s"):
        connection.read("UNWIND range(1, 1000000000) AS i RETURN count(i * i % 7)", timeout=0.5)


@pytest.mark.parametrize("limit", [0, -1, True, 2.0])
def test_a_limit_that_is_no_count_is_refused(connection, limit):
    with pytest.raises(InvalidInputError, match=r"limit must be (>= 1|an integer)"):
        read_guarded(connection, "RETURN 1", limit=limit)


def test_a_statement_must_be_text_of_a_sensible_length(connection):
    with pytest.raises(InvalidTypeError, match="statement must be a str"):
        read_guarded(connection, None)
    with pytest.raises(InvalidInputError, match="1 to 20000 characters"):
        read_guarded(connection, "RETURN 1 //" + "x" * 20_000)
