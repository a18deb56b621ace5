"""Two tenants in one corpus: the walk of one is the walk over a corpus that holds nothing else."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from corpus import questions, records
from recording import Unasked

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.walk.restricting import passage_ids
from phasegraph.neo4j import Neo4jConnection, Neo4jGraphSource, PassageRecord, write_graph, write_synonyms
from phasegraph.ranking import Ranking

SLICE = 160


class Listening:
    """A connection that keeps what the server is told and what it returns."""

    def __init__(self, connection):
        self.connection, self.timeout, self.asked, self.answered = connection, connection.timeout, [], []

    def read(self, statement, parameters, **named):
        rows = self.connection.read(statement, parameters, **named)
        self.asked.append(parameters)
        self.answered.append(rows)
        return rows


def texts_in(value):
    """Every text in lists within lists and the values of mappings."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        value = list(value.values())
    return set().union(*map(texts_in, value)) if isinstance(value, list | tuple) else set()


def names_in(some):
    found = {name for record in some for name, _ in record.mentions}
    return found | {name for record in some for fact in record.facts for name in (fact[0], fact[2])}


@pytest.fixture(scope="module")
def tenants(driver):
    """Every other passage is theirs; "alone" holds what is mine and nothing else."""
    from real_servers import clear

    clear(driver)
    connection = Neo4jConnection(driver, timeout=60.0)
    everyone = records(SLICE)
    mine, theirs = everyone[::2], everyone[1::2]
    hidden = sorted(names_in(theirs) - names_in(mine))
    own, shared = sorted(names_in(mine) - names_in(theirs)), sorted(names_in(mine) & names_in(theirs))
    pairs = {(own[0], own[9]): 0.9, (own[3], shared[2]): 0.8, (own[5], hidden[4]): 0.9, (hidden[1], hidden[2]): 0.7}
    for corpus, some in (("both", everyone), ("alone", mine)):
        write_graph(connection, some, corpus=corpus)
        write_synonyms(connection, pairs, corpus=corpus)
    secrets = {record.id for record in theirs} | set(hidden)
    yield connection, [record.id for record in mine], secrets
    clear(driver)


def asked(ids):
    """Questions with the ranking of all passages, and with that of some."""
    for question, ranking in questions(6, SLICE):
        places = [place for place, one in enumerate(ranking.ids) if one in set(ids)]
        part = Ranking("vector", [ranking.ids[place] for place in places], ranking.scores[places])
        yield question, ranking, part


@pytest.mark.parametrize("by_function", [False, True])
def test_what_is_hidden_might_as_well_not_be_there(tenants, by_function):
    connection, mine, _ = tenants
    whole, alone = Neo4jGraphSource(connection, "both"), Neo4jGraphSource(connection, "alone")
    part = whole.within(set(mine).__contains__ if by_function else mine)
    assert part.verify() == len(mine)
    for question, ranking, own in asked(mine):
        found, wanted = part.search(question, 20, {"vector": ranking}), alone.search(question, 20, {"vector": own})
        assert found.ids == wanted.ids
        np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-12)
        assert found.size == wanted.size == len(mine)
        assert found.background.location == pytest.approx(wanted.background.location, rel=1e-12)
        assert found.background.scale == pytest.approx(wanted.background.scale, rel=1e-12)
        assert found.ids != whole.search(question, 20, {"vector": ranking}).ids


def test_nothing_hidden_crosses_the_wire_or_stands_in_a_trail(tenants):
    connection, mine, secrets = tenants
    wire = Listening(connection)
    part = Neo4jGraphSource(wire, "both", allowed=mine)
    for question, ranking, _ in asked(mine):
        found = part.search(question, 20, {"vector": ranking})
        steps = {step.name for one in found.ids for step in found.payloads[one].path}
        steps |= {step.name for one in found.ids for step, _ in found.payloads[one].seeds}
        assert not steps & secrets
    assert len(wire.answered) > 10
    received = texts_in(wire.answered)
    assert len(received) > 400
    assert not received & secrets
    # A query's own words are looked for, and may be a name of theirs; what is fetched is named by us.
    assert not texts_in([one for one in wire.asked if "most_common" in one]) & secrets
    wire = Listening(connection)
    Neo4jGraphSource(wire, "both").search(*next((one, 20, {"vector": two}) for one, two, _ in asked(mine)))
    assert texts_in(wire.answered) & secrets, "without the restriction they do"


def test_an_entity_of_theirs_is_no_seed(tenants):
    connection, mine, secrets = tenants
    part = Neo4jGraphSource(connection, "both").within(mine)
    name = next(one for one in sorted(secrets) if len(one.split()) > 1)
    assert len(Neo4jGraphSource(connection, "both").search(name, 5, {}).ids) > 0
    found = part.search(name, 5, {})
    assert found.ids == ()
    assert "names no entity" in found.reason


def test_an_edge_stated_by_both_counts_what_may_be_seen(connection):
    facts = (("ada", "met", "bo", 1),)
    passages = [
        PassageRecord("m1", mentions=(("ada", 1),), facts=facts),
        PassageRecord("m2", mentions=(("bo", 1),)),
        PassageRecord("m3", mentions=(("ada", 1),)),
        PassageRecord("t1", mentions=(("ada", 3), ("bo", 1)), facts=(("ada", "met", "bo", 5),)),
    ]
    write_graph(connection, passages, corpus="both")
    write_graph(connection, passages[:3], corpus="alone")
    part = Neo4jGraphSource(connection, "both").within({"m1", "m2", "m3"})
    found, wanted = part.search("ada", 5, {}), Neo4jGraphSource(connection, "alone").search("ada", 5, {})
    assert set(found.ids) == set(wanted.ids) == {"m1", "m2", "m3"}
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-12)
    write_graph(connection, [PassageRecord("m4", mentions=(("ada", 1),))], corpus="both")
    assert "m4" in Neo4jGraphSource(connection, "both").within(lambda one: one[0] == "m").search("ada", 5, {}).ids


def test_a_function_sees_new_passages_and_asks_for_ids_once(connection):
    wire = Listening(connection)
    write_graph(connection, [PassageRecord("m1", mentions=(("ada", 1),))], corpus="both")
    part = Neo4jGraphSource(wire, "both").within(lambda one: one.startswith("m"))
    assert part.search("ada", 5, {}).ids == ("m1",)
    assert part.search("ada", 5, {}).ids == ("m1",)
    assert sum(rows == [["m1"]] for rows in wire.answered) == 1
    write_graph(connection, [PassageRecord("m2", mentions=(("ada", 1),))], corpus="both")
    assert part.search("ada", 5, {}).ids == ("m1", "m2")


def test_restrictions_join_and_nothing_may_be_left(connection):
    some = [PassageRecord(name, mentions=(("ada", 1),)) for name in ("a", "b", "c")]
    write_graph(connection, some, corpus="both")
    source = Neo4jGraphSource(connection, "both")
    assert set(source.within({"a", "b"}).within({"b", "c"}).search("ada", 5, {}).ids) == {"b"}
    assert set(source.within({"a", "b"}).within(lambda one: one != "a").search("ada", 5, {}).ids) == {"b"}
    assert passage_ids(source) == ("a", "b", "c")
    assert passage_ids(source.within({"c", "a", "z"})) == ("a", "c")
    for nothing in ((), {"z"}, lambda one: False):
        found = source.within(nothing).search("ada", 5, {})
        assert found.ids == ()
        assert found.reason == "no passage of the graph is allowed"


@pytest.mark.parametrize("allowed", ["a", 3])
def test_what_is_neither_a_function_nor_ids_is_refused(allowed):
    with pytest.raises(InvalidTypeError, match="allowed"):
        Neo4jGraphSource(Neo4jConnection(Unasked()), "c").within(allowed)


def test_a_walk_on_the_server_is_not_restricted_silently():
    with pytest.raises(InvalidInputError, match="use method='neighbourhood'"):
        Neo4jGraphSource(Neo4jConnection(Unasked()), "c", method="gds").within({"a"})


@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
def test_the_retrievers_of_the_frameworks_filter_it_by_metadata(connection, framework):
    owners = {"m1": "me", "m2": "me", "t1": "them"}
    write_graph(connection, [PassageRecord(one, mentions=(("ada", 1),)) for one in owners], corpus="both")
    wire = Listening(connection)
    source = Neo4jGraphSource(wire, "both")
    if framework == "langchain":
        from langchain_core import documents

        import langchain_phasegraph as ours

        held = [documents.Document(one, id=one, metadata={"owner": owner}) for one, owner in owners.items()]
        found = ours.EntityGraphRetriever(graph=source, documents=held).invoke("ada", filter={"owner": "me"})
        ids = {document.id for document in found}
    else:
        from llama_index.core import schema
        from llama_index.core.vector_stores import types as words

        from llama_index.retrievers import phasegraph as ours

        nodes = [schema.TextNode(id_=one, text=one, metadata={"owner": owner}) for one, owner in owners.items()]
        filters = words.MetadataFilters(filters=[words.MetadataFilter(key="owner", value="me")])
        found = ours.EntityGraphRetriever(source, nodes).within(filters).retrieve("ada")
        ids = {hit.node_id for hit in found}
    assert ids == {"m1", "m2"}
    ids_asked_for, *rest = [rows for rows in wire.answered if "t1" in texts_in(rows)]
    assert texts_in(ids_asked_for) == set(owners), "the ids, whose documents tell whose they are"
    assert rest == []
