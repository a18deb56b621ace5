"""The server of the tests is a real Neo4j, with everything the other tests lean on."""

import neo4j
import pytest


def test_the_server_says_it_is_neo4j_5_26(driver):
    rows = driver.execute_query("CALL dbms.components() YIELD name, versions RETURN name, versions").records
    assert rows[0]["name"] == "Neo4j Kernel"
    assert rows[0]["versions"][0].startswith(("5.26.", "20"))


def test_a_wrong_password_is_refused(address):
    if not address.password:
        pytest.skip("the given server has authentication off")
    with (
        neo4j.GraphDatabase.driver(address.uri, auth=(address.user, "wrong-password")) as stranger,
        pytest.raises(neo4j.exceptions.AuthError),
    ):
        stranger.verify_connectivity()


def test_vector_and_fulltext_indexes_answer(driver, connection):
    run = driver.execute_query
    run(
        "CREATE VECTOR INDEX v FOR (n:P) ON (n.e) "
        "OPTIONS {indexConfig: {`vector.dimensions`: 2, `vector.similarity_function`: 'cosine'}}"
    )
    run("CREATE FULLTEXT INDEX f FOR (n:P) ON EACH [n.text]")
    rows = [[1, [1.0, 0.0], "alpha"], [2, [-1.0, 0.0], "beta"]]
    run("UNWIND $rows AS r CREATE (:P {id: r[0], e: r[1], text: r[2]})", rows=rows)
    run("CALL db.awaitIndexes(30)")
    nearest = "CALL db.index.vector.queryNodes('v', 2, [1.0, 0.0]) YIELD node, score RETURN node.id, score"
    near = run(nearest).records
    assert [row[0] for row in near] == [1, 2]
    # Neo4j's cosine score is (1 + cos) / 2, from a quantised index.
    assert near[0][1] == pytest.approx(1.0, abs=1e-3)
    assert near[1][1] == pytest.approx(0.0, abs=1e-3)
    assert run("CALL db.index.fulltext.queryNodes('f', 'beta') YIELD node RETURN node.id").records[0][0] == 2
