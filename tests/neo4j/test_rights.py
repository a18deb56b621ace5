"""Cypher of others on a server that is set up as the guide says: it reads the graph and does nothing else."""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest
from corpus import records
from real_servers import skip_or_fail

from phasegraph.errors import StoreError
from phasegraph.neo4j import Neo4jConnection, Neo4jGraphSource, open_graph, read_graph, write_graph

neo4j = pytest.importorskip("neo4j")
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "neo4j.md"
SETTINGS = re.search(r"```text\n# neo4j\.conf for Cypher [^\n]*\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)[1]
PASSWORD = "not-the-real-one"
pytestmark = [pytest.mark.neo4j, pytest.mark.timeout(600)]

WRITES = (
    "CREATE (:Evil)",
    "cReAtE (:Evil)",
    "/* MATCH (n) */ CREATE (:Evil) // RETURN n",
    "MERGE (n:Evil {x: 1}) RETURN n",
    "MATCH (n) SET n.evil = true",
    "MATCH (n) SET n += {evil: true}",
    "MATCH (n) SET n:Evil",
    "MATCH (n) SET n:$($label)",
    "MATCH (n) REMOVE n.text",
    "MATCH (n) DETACH DELETE n",
    "MATCH ()-[r]->() DELETE r",
    "MATCH (n) CALL (n) { CREATE (:Evil) } RETURN n",
    "MATCH (n) CALL (n) { SET n.evil = 1 } IN TRANSACTIONS OF 1 ROWS",
    "MATCH (n) FOREACH (i IN [1, 2] | CREATE (:Evil))",
    "UNWIND range(1, 3) AS i CREATE (:Evil {i: i})",
    "CYPHER runtime=slotted CREATE (:Evil)",
    "CYPHER 5 CREATE (:Evil)",
    "PROFILE CREATE (:Evil)",
    "USE neo4j CREATE (:Evil)",
    "\\u0043REATE (:Evil)",
    "CREATE (:`Evil\\u0060) DETACH DELETE (n`)",
    "RETURN 1 UNION CREATE (:Evil) RETURN 1",
    "RETURN 1 AS x; CREATE (:Evil)",
    "MATCH (n) WHERE EXISTS { CREATE (:Evil) } RETURN n",
    "CALL db.createLabel('Evil')",
    "CALL db.createProperty('evil')",
    "CALL db.createRelationshipType('EVIL')",
)
SCHEMA = (
    "CREATE INDEX evil FOR (n:Evil) ON (n.x)",
    "CREATE TEXT INDEX evil FOR (n:Evil) ON (n.x)",
    "CREATE FULLTEXT INDEX evil FOR (n:Evil) ON EACH [n.x]",
    "CREATE VECTOR INDEX evil FOR (n:Evil) ON (n.x)",
    "CREATE CONSTRAINT evil FOR (n:Evil) REQUIRE n.x IS UNIQUE",
    "DROP CONSTRAINT phasegraph_passage",
    "DROP CONSTRAINT phasegraph_entity IF EXISTS",
    "DROP INDEX phasegraph_fact",
)
OUTSIDE = (
    "LOAD CSV FROM $url AS row RETURN row",
    "LOAD CSV FROM '«url»' AS row RETURN row",
    "LOAD CSV WITH HEADERS FROM '«url»' AS row RETURN row.a",
    "LOAD/**/CSV FROM '«url»' AS row RETURN row",
    "CYPHER runtime=slotted LOAD CSV FROM '«url»' AS row RETURN row",
    "CALL () { LOAD CSV FROM '«url»' AS row RETURN row } RETURN row",
    "MATCH (n) WHERE EXISTS { LOAD CSV FROM '«url»' AS row RETURN row } RETURN n",
    "PROFILE LOAD CSV FROM '«url»' AS row RETURN row",
    "LOAD CSV FROM 'ftp://127.0.0.1:«port»/x' AS row RETURN row",
    "LOAD CSV FROM 'http://localhost:«port»/x' AS row RETURN row",
    "LOAD CSV FROM 'http://[::1]:«port»/x' AS row RETURN row",
    "LOAD CSV FROM 'http://2130706433:«port»/x' AS row RETURN row",
    "LOAD CSV FROM 'file:///etc/passwd' AS row RETURN row",
    "LOAD CSV FROM 'file:///../conf/neo4j.conf' AS row RETURN row",
    "RETURN apoc.cypher.runFirstColumnSingle('LOAD CSV FROM \"«url»\" AS row RETURN row', {})",
    "RETURN apoc.cypher.runFirstColumnMany('LOAD CSV FROM \"«url»\" AS row RETURN row', {})",
    "RETURN `apoc`.`cypher`.`runFirstColumnSingle`($text, {})",
    "RETURN apoc . cypher /* */ . runFirstColumnSingle($text, {})",
    "RETURN \\u0061poc.cypher.runFirstColumnSingle($text, {})",
    "MATCH (n) WHERE apoc.cypher.runFirstColumnSingle($text, {}) IS NULL RETURN n",
    "MATCH (n) WHERE EXISTS { WITH apoc.cypher.runFirstColumnSingle($text, {}) AS x RETURN x } RETURN n",
    "CALL apoc.cypher.run($text, {}) YIELD value RETURN value",
    "CALL apoc.cypher.runMany($text, {}) YIELD result RETURN result",
    "CALL apoc.load.json('«url»') YIELD value RETURN value",
    "CALL `apoc`.`load`.`json`('«url»') YIELD value RETURN value",
    "CALL apoc.load.jsonParams('«url»', {}, null) YIELD value RETURN value",
    "CALL apoc.load.xml('«url»') YIELD value RETURN value",
    "CALL apoc.load.jsonArray('«url»') YIELD value RETURN value",
    "CALL apoc.import.json('«url»')",
    "CALL apoc.import.graphml('«url»', {})",
    "CALL apoc.export.csv.all('evil.csv', {})",
    "CALL apoc.export.json.all('evil.json', {})",
    "CALL apoc.cypher.runWrite('CREATE (:Evil)', {})",
    "CALL apoc.cypher.doIt('CREATE (:Evil)', {})",
    "CALL apoc.cypher.runSchema('CREATE INDEX evil FOR (n:Evil) ON (n.x)', {})",
    "CALL apoc.periodic.iterate('UNWIND [1] AS i RETURN i', 'CREATE (:Evil)', {})",
    "CALL apoc.periodic.submit('evil', 'CREATE (:Evil)')",
    "CALL apoc.periodic.repeat('evil', 'CREATE (:Evil)', 1)",
    "CALL apoc.create.node(['Evil'], {})",
    "CALL apoc.merge.node(['Evil'], {x: 1})",
    "CALL apoc.schema.assert({}, {})",
    "CALL apoc.refactor.rename.label('PhasegraphPassage', 'Evil')",
    "CALL apoc.nodes.delete([1], {})",
    "CALL apoc.trigger.install('neo4j', 'evil', 'CREATE (:Evil)', {})",
    "CALL apoc.log.info('evil')",
    "CALL apoc.util.sleep(30000)",
)
PROJECTIONS = (
    "CALL gds.graph.project('evil', '*', '*')",
    "CALL `gds`.`graph`.`project`('evil', '*', '*')",
    "CALL gds.graph.project.cypher('evil', 'MATCH (n) RETURN id(n) AS id', 'RETURN 0 AS source, 0 AS target')",
    "MATCH (a)-->(b) RETURN gds.graph.project('evil', a, b)",
    "MATCH (a)-->(b) WITH gds.graph.project('evil', a, b) AS g RETURN g.graphName",
    "CALL gds.graph.generate('evil', 10, 2)",
    "CALL gds.graph.export('evil', {dbName: 'evil'})",
    "CALL gds.pageRank.write('evil', {writeProperty: 'evil'})",
    "CALL gds.config.defaults.set('concurrency', 1)",
)
SERVER = (
    "CALL dbms.setConfigValue('db.logs.query.enabled', 'OFF')",
    "CALL apoc.config.list()",
    "CREATE DATABASE evil",
    "DROP DATABASE neo4j",
    "STOP DATABASE neo4j",
    "ALTER DATABASE neo4j SET ACCESS READ WRITE",
    "CREATE ALIAS evil FOR DATABASE neo4j",
    "CREATE ROLE evil",
    "GRANT ROLE admin TO neo4j",
)
ATTACKS = (*WRITES, *SCHEMA, *OUTSIDE, *PROJECTIONS, *SERVER)


class Listener:
    """A server outside that counts who knocks, on both families where there are both."""

    def __init__(self) -> None:
        self.heard = 0
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self._listen, args=(self.door,), daemon=True).start()

    def _listen(self, door: socket.socket) -> None:
        while True:
            try:
                caller, _ = door.accept()
            except OSError:
                return
            self.heard += 1
            caller.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\na\n")
            caller.close()


@pytest.fixture(scope="module")
def listener():
    made = Listener()
    yield made
    made.door.close()


@pytest.fixture(scope="module")
def server():
    """One with APOC and GDS, filled, and then started again as the guide says."""
    from neo4j_jars import ServerUnavailable, resolve
    from neo4j_process import Neo4jProcess, free_port

    class Restricted(Neo4jProcess):
        added = ""

        def _write_configuration(self) -> None:
            super()._write_configuration()
            file = self.home / "conf" / "neo4j.conf"
            ours = {line.partition("=")[0] for line in self.added.splitlines()}
            kept = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in ours]
            file.write_text("\n".join([*kept, self.added]))

    home = Path(tempfile.mkdtemp(prefix="phasegraph-neo4j-"))
    try:
        try:
            made = Restricted(resolve(), home, free_port(), PASSWORD)
            made.start()
        except ServerUnavailable as error:
            skip_or_fail(error, "NEO4J")
        try:
            with opened(made) as driver:
                write_graph(Neo4jConnection(driver, timeout=60.0), records(40), corpus="c")
                assert driver.execute_query("RETURN apoc.version(), gds.version()").records
            made.stop()
            made.added, made.plugins = SETTINGS, False
            made.start()
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def opened(server):
    return neo4j.GraphDatabase.driver(server.uri, auth=server.auth, notifications_min_severity="OFF")


STATE = (
    "MATCH (n) RETURN labels(n) AS a, properties(n) AS b ORDER BY elementId(n)",
    "MATCH (a)-[r]->(b) RETURN elementId(a), type(r), properties(r), elementId(b) ORDER BY elementId(r)",
    "SHOW CONSTRAINTS YIELD name, type, labelsOrTypes, properties RETURN * ORDER BY name",
    "SHOW INDEXES YIELD name, type, labelsOrTypes, properties, state RETURN * ORDER BY name",
    "SHOW SETTINGS YIELD name, value RETURN * ORDER BY name",
    "SHOW PROCEDURES YIELD name RETURN name ORDER BY name",
    "SHOW FUNCTIONS YIELD name RETURN name ORDER BY name",
    "SHOW DATABASES YIELD name, access, currentStatus RETURN * ORDER BY name",
    "CALL db.labels() YIELD label RETURN label ORDER BY label",
    "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey ORDER BY propertyKey",
)


def state(driver):
    return [[row.values() for row in driver.execute_query(one).records] for one in STATE]


def test_there_are_sixty_attacks_and_more():
    assert len(set(ATTACKS)) == len(ATTACKS) > 60


def test_nothing_is_changed_nothing_is_fetched_and_no_projection_is_left(server, listener):
    url = f"http://127.0.0.1:{listener.port}/x.csv"
    text = f"LOAD CSV FROM '{url}' AS row RETURN row"
    files = {path for path in server.home.rglob("evil*")}
    with opened(server) as driver:
        before, refused = state(driver), list[str]()
        assert not [name for (name,) in before[5] if name.startswith(("apoc", "gds"))]
        reader = Neo4jConnection(driver, timeout=20.0)
        for attack in ATTACKS:
            statement = attack.replace("«url»", url).replace("«port»", str(listener.port))
            values = {"url": url, "text": text, "label": "Evil"}
            try:
                reader.read(statement, values, warm=False)
            except StoreError:
                refused.append(attack)
            with pytest.raises(neo4j.exceptions.Neo4jError), driver.session() as session:
                session.run(statement, values).consume()
        assert refused == list(ATTACKS)
        assert state(driver) == before
    assert {path for path in server.home.rglob("evil*")} == files
    assert listener.heard == 0


def test_without_these_settings_the_same_statements_get_through(connection, driver, listener):
    """A server with APOC and GDS as it comes, and a transaction for reading: this is what the guide warns of."""
    before = listener.heard
    url = f"http://127.0.0.1:{listener.port}/x.csv"
    connection.read("RETURN apoc.cypher.runFirstColumnSingle($s, {})", {"s": f"LOAD CSV FROM '{url}' AS r RETURN r[0]"})
    assert listener.heard > before
    assert connection.read("CALL dbms.listConfig() YIELD name RETURN count(*)")[0][0] > 50
    assert connection.read("SHOW TRANSACTIONS")
    driver.execute_query("CREATE (:Thing)-[:HAS]->(:Thing)")
    connection.read("MATCH (a)-->(b) RETURN gds.graph.project('left', a, b)", warm=False)
    assert driver.execute_query("CALL gds.graph.drop('left') YIELD graphName RETURN graphName").records


def test_what_community_cannot_keep_is_as_the_guide_says(server):
    with opened(server) as driver:
        assert driver.execute_query("SHOW SETTINGS").records
        assert [row["user"] for row in driver.execute_query("SHOW USERS").records] == ["neo4j"]
        driver.execute_query("CREATE USER other SET PASSWORD 'another-password'")
        driver.execute_query("DROP USER other")


def test_phasegraph_reads_and_walks_there(server):
    with opened(server) as driver:
        connection = Neo4jConnection(driver, timeout=60.0)
        assert len(read_graph(connection, corpus="c").graph().passages) == 40
        assert Neo4jGraphSource(connection, "c").search(records(1)[0].title, 5, {}).ids
        assert open_graph(connection, "c", load=True).source.search(records(1)[0].title, 5, {}).ids


def test_even_past_the_planner_a_managed_read_cannot_write(connection):
    with pytest.raises(StoreError, match=r"AccessMode"):
        connection.read("CREATE (:Evil)")


def test_a_slow_statement_is_ended_by_the_server_at_the_deadline(connection):
    with pytest.raises(StoreError, match=r"^timeout: Neo4j (did not answer within|ended the transaction after) 0.5 s"):
        connection.read("UNWIND range(1, 1000000000) AS i RETURN count(i * i % 7)", timeout=0.5)


@pytest.mark.parametrize("statement", ["PROFILE CREATE (:Evil)", "not cypher"])
def test_what_the_server_refuses_is_a_store_error_without_its_text(connection, statement):
    with pytest.raises(StoreError, match=r"^refused: Neo4j answered with the error Neo\.ClientError") as raised:
        connection.read(statement)
    assert statement not in str(raised.value)
