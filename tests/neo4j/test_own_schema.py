"""Our own graphs in Neo4j: written once whatever happens, read back equal, refreshed by what changed, kept apart."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from recording import Unasked

from phasegraph.errors import InvalidInputError, PhasegraphWarning, StoreError
from phasegraph.graph.model.entity_graph import Extraction, graph_from_extractions
from phasegraph.graph.model.words import normalise_name
from phasegraph.neo4j import (
    GraphRecords,
    Neo4jConnection,
    PassageRecord,
    detect_schema,
    drop_corpus,
    list_corpora,
    read_changes,
    read_graph,
    records_from_extractions,
    remove_passages,
    write_graph,
    write_synonyms,
)
from phasegraph.neo4j.writing import ensure_schema

PASSAGES = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace worked with Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage built the Analytical Engine."},
    {"id": "byron", "title": "Lord Byron", "text": "Lord Byron was the father of Ada Lovelace."},
]
EXTRACTIONS = [
    Extraction("ada", ["ada lovelace", "charles babbage"], [], ["ada lovelace"], "ada lovelace"),
    Extraction("ada", ["ada lovelace"], [("Ada Lovelace", "worked with", "Charles Babbage")]),
    Extraction(
        "babbage", ["charles babbage"], [("Charles Babbage", "built", "Analytical Engine")], ["charles babbage"]
    ),
    Extraction(
        "byron", ["lord byron", "ada lovelace"], [("Lord Byron", "father of", "Ada Lovelace")], (), "lord byron"
    ),
]
RECORDS = records_from_extractions(PASSAGES, EXTRACTIONS)


def same_graph(one, other):
    """Whether two graphs have the same passages, entities and weights."""
    assert one.passages == other.passages
    assert one.entities == other.entities
    for name in ("mentions", "homes", "facts", "synonyms", "adjacency"):
        np.testing.assert_array_equal(getattr(one, name).toarray(), getattr(other, name).toarray(), err_msg=name)


def test_records_build_the_graph_that_the_extractions_build():
    in_order = sorted(passage["id"] for passage in PASSAGES)
    same_graph(GraphRecords(RECORDS).graph(), graph_from_extractions(in_order, EXTRACTIONS))


def test_the_ends_of_a_fact_are_mentioned_by_its_passage():
    assert PassageRecord("p", facts=(("ada", "met", "bo", 2),)).mentions == (("ada", 1), ("bo", 1))


def test_names_are_written_as_they_are_compared():
    made = Extraction("p", [normalise_name("İzmir")], [("İzmir", "lies in", "Türkiye")])
    record = records_from_extractions([{"id": "p", "text": "İzmir lies in Türkiye."}], [made])[0]
    assert [name for name, _ in record.mentions] == ["izmir", "türkiye"]


def test_records_of_a_passage_count_the_same_in_any_order():
    stated = Extraction("1", triples=[("Ada", "met", "Bo")])
    named = Extraction("1", ["ada", "ada"])
    for order in ([stated, named], [named, stated]):
        (made,) = records_from_extractions([{"id": "1", "text": "Ada"}], order)
        assert sorted(made.mentions) == [("ada", 2), ("bo", 1)]


def test_what_was_written_is_read_back_equal(connection):
    write_graph(connection, RECORDS, corpus="c")
    write_synonyms(connection, {("lord byron", "ada lovelace"): 0.5, ("lord byron", "unknown"): 0.9}, corpus="c")
    assert detect_schema(connection).name == "phasegraph"
    back = read_graph(connection, corpus="c")
    assert [record.id for record in back.passages] == ["ada", "babbage", "byron"]
    assert [(record.title, record.text) for record in back.passages] == [(p["title"], p["text"]) for p in PASSAGES]
    assert [record.facts for record in back.passages] == [record.facts for record in RECORDS]
    synonyms = {("ada lovelace", "lord byron"): 0.5}
    wanted = graph_from_extractions([record.id for record in RECORDS], EXTRACTIONS, synonyms=synonyms)
    same_graph(back.graph(), wanted)


def test_writing_again_writes_nothing(connection, driver):
    first = write_graph(connection, RECORDS, corpus="c")
    assert (first.written, first.unchanged) == (3, 0)
    before = contents(driver)
    again = write_graph(connection, RECORDS, corpus="c")
    assert (again.written, again.unchanged, again.revision) == (0, 3, first.revision)
    assert contents(driver) == before


def contents(driver):
    nodes = driver.execute_query("MATCH (n) RETURN count(n)").records[0][0]
    edges = driver.execute_query("MATCH ()-[r]->() RETURN count(r)").records[0][0]
    return nodes, edges


class Stops(Neo4jConnection):
    """A connection that loses the server after a number of batches."""

    def __init__(self, driver, batches):
        super().__init__(driver, timeout=20.0)
        self.batches = batches

    def write_all(self, statements, **limits):
        statements = list(statements)
        if any("passages" in values for _, values in statements):
            if self.batches == 0:
                raise StoreError("unreachable")
            self.batches -= 1
        return super().write_all(statements, **limits)


def test_a_write_that_was_cut_off_is_resumed_and_ends_equal(connection, driver):
    with pytest.raises(StoreError):
        write_graph(Stops(driver, 2), RECORDS, corpus="c", batch=1)
    resumed = write_graph(connection, RECORDS, corpus="c", batch=1)
    assert (resumed.written, resumed.unchanged) == (1, 2)
    wanted = graph_from_extractions([record.id for record in RECORDS], EXTRACTIONS)
    same_graph(read_graph(connection, corpus="c").graph(), wanted)


def test_a_changed_passage_replaces_what_it_said_before(connection):
    write_graph(connection, RECORDS, corpus="c")
    other = PassageRecord("ada", "Ada", "Ada met Mary.", (("ada", 1), ("mary", 1)), (("ada", "met", "mary", 1),))
    write_graph(connection, [other], corpus="c")
    back = {record.id: record for record in read_graph(connection, corpus="c").passages}
    assert back["ada"] == other
    assert back["byron"].mentions == RECORDS[2].mentions


def test_a_refresh_reads_what_changed_and_nothing_else(connection):
    first = write_graph(connection, RECORDS, corpus="c")
    assert read_changes(connection, corpus="c", since=first.revision).changed == ()
    other = PassageRecord("new", "", "Something new.", (("something", 2),))
    write_graph(connection, [other], corpus="c")
    second = remove_passages(connection, ["byron", "absent"], corpus="c")
    changes = read_changes(connection, corpus="c", since=first.revision)
    assert changes.changed == (other,)
    assert changes.removed == ("byron",)
    assert changes.revision == second.revision > first.revision
    entities = {name for record in read_graph(connection, corpus="c").passages for name, _ in record.mentions}
    assert "lord byron" not in entities


def test_a_passage_that_comes_back_is_no_longer_removed(connection):
    first = write_graph(connection, RECORDS, corpus="c")
    remove_passages(connection, ["ada"], corpus="c")
    write_graph(connection, RECORDS, corpus="c")
    changes = read_changes(connection, corpus="c", since=first.revision)
    assert [record.id for record in changes.changed] == ["ada"]
    assert changes.removed == ()


def test_replacing_a_corpus_removes_what_was_not_given(connection):
    write_graph(connection, RECORDS, corpus="c")
    report = write_graph(connection, RECORDS[:1], corpus="c", replace=True)
    assert (report.written, report.unchanged, report.removed) == (0, 1, 2)
    assert [record.id for record in read_graph(connection, corpus="c").passages] == ["ada"]


def test_a_write_counts_the_passages_of_the_corpus_that_it_was_not_given(connection):
    write_graph(connection, RECORDS, corpus="c")
    report = write_graph(connection, RECORDS[:1], corpus="c")
    assert (report.written, report.unchanged, report.removed, report.kept) == (0, 1, 0, 2)
    assert write_graph(connection, RECORDS[:1], corpus="c", replace=True).kept == 0
    write_graph(connection, RECORDS, corpus="c")
    removed = remove_passages(connection, ["ada"], corpus="c")
    assert (removed.unchanged, removed.removed, removed.kept) == (0, 1, 2)


def test_two_corpora_share_no_node_and_are_dropped_alone(connection, driver):
    driver.execute_query("CREATE (:Mine {corpus: 'one'})")
    write_graph(connection, RECORDS, corpus="one")
    write_graph(connection, RECORDS[:1], corpus="two")
    assert list_corpora(connection) == ("one", "two")
    across = "MATCH (a)-[r]-(b) WHERE a.corpus <> b.corpus RETURN count(r)"
    assert driver.execute_query(across).records[0][0] == 0
    drop_corpus(connection, "one")
    assert list_corpora(connection) == ("two",)
    assert len(read_graph(connection, "phasegraph", corpus="two").passages) == 1
    assert driver.execute_query("MATCH (m:Mine) RETURN count(m)").records[0][0] == 1


def test_the_schema_may_be_ensured_any_number_of_times_and_is_named(connection, driver):
    ensure_schema(connection)
    ensure_schema(connection)
    rows = driver.execute_query("SHOW CONSTRAINTS YIELD name RETURN name").records
    assert {row[0] for row in rows} == {f"phasegraph_{kind}" for kind in ("passage", "removed", "entity", "corpus")}


@pytest.mark.parametrize(
    "change",
    [
        lambda connection, corpus: remove_passages(connection, ["ada"], corpus=corpus),
        lambda connection, corpus: write_synonyms(connection, {}, corpus=corpus),
        lambda connection, corpus: drop_corpus(connection, corpus),
    ],
)
def test_a_change_of_a_corpus_that_does_not_exist_is_refused_with_the_corpora_that_do(connection, change):
    write_graph(connection, RECORDS, corpus="manuals")
    with pytest.raises(InvalidInputError, match=r"no corpus 'manual'; its corpora: 'manuals'"):
        change(connection, "manual")
    assert list_corpora(connection) == ("manuals",)
    drop_corpus(connection, "manual", missing_ok=True)
    change(connection, "manuals")


@pytest.mark.parametrize(
    "read", [read_graph, lambda connection, corpus: read_changes(connection, corpus=corpus, since=0)]
)
def test_reading_a_corpus_that_does_not_exist_is_refused_with_the_corpora_that_do(connection, read):
    write_graph(connection, RECORDS, corpus="manuals")
    with pytest.raises(InvalidInputError, match=r"no corpus 'manual'; its corpora: 'manuals'"):
        read(connection, corpus="manual")


def test_a_corpus_without_passages_is_read(connection):
    write_graph(connection, RECORDS, corpus="c")
    revision = remove_passages(connection, [record.id for record in RECORDS], corpus="c").revision
    assert read_graph(connection, corpus="c") == GraphRecords((), revision)


def test_an_id_that_is_not_in_a_list_is_refused_before_anything_is_sent():
    with pytest.raises(InvalidInputError, match=r"ids must be .*'ada'"):
        remove_passages(Neo4jConnection(Unasked()), "ada", corpus="c")


def test_replacing_a_corpus_by_nothing_must_be_allowed(connection):
    assert write_graph(connection, [], corpus="c", replace=True).removed == 0
    write_graph(connection, RECORDS, corpus="c")
    with pytest.raises(InvalidInputError, match=r"would remove all 3 passages of 'c': .*allow_empty=True"):
        write_graph(connection, [], corpus="c", replace=True)
    assert write_graph(connection, [], corpus="c").kept == 3
    assert write_graph(connection, [], corpus="c", replace=True, allow_empty=True).removed == 3


@pytest.mark.parametrize("corpus", ["", "  ", None, 3])
def test_a_corpus_without_a_name_is_refused(corpus):
    with pytest.raises(InvalidInputError, match="corpus must be"):
        write_graph(Neo4jConnection(Unasked()), RECORDS, corpus=corpus)
    with pytest.raises(InvalidInputError, match="corpus must be"):
        read_graph(Neo4jConnection(Unasked()), "phasegraph", corpus=corpus)


def test_an_id_given_twice_is_refused():
    with pytest.raises(InvalidInputError, match="two passages have the id 'ada'"):
        write_graph(Neo4jConnection(Unasked()), [RECORDS[0], RECORDS[0]], corpus="c")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("id", " ", "id must not be blank"),
        ("title", None, "title must be a str"),
        ("mentions", (("ada", 0),), r"count of mentions must be an integer in \[1, "),
        ("mentions", (("", 1),), "mentions must have 1 nonblank"),
        ("mentions", (("ada", True),), "count of mentions"),
        ("facts", (("ada", "met", 1),), "facts must have 3 nonblank"),
        ("homes", (("ada", 1.5),), "count of homes"),
    ],
)
def test_a_record_names_the_field_that_is_wrong(field, value, message):
    with pytest.raises(InvalidInputError, match=message):
        PassageRecord(**{"id": "x", field: value})


def test_a_name_that_questions_cannot_find_is_told(connection):
    made = [PassageRecord("p", mentions=(("Kiel", 1),)), PassageRecord("q", facts=(("kiel", "in", "x", 1),))]
    with pytest.warns(PhasegraphWarning, match="1 names of entities are not normalized.* which makes 'kiel' of 'Kiel'"):
        write_graph(connection, made, corpus="c")
