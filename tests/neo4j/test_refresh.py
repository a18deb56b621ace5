"""Nothing is missed: what is written while one reads, by whomever, after a drop, or after the server was killed."""

import threading

import numpy as np
import pytest

from phasegraph.errors import InvalidInputError
from phasegraph.graph import GraphIndex, GraphSource
from phasegraph.graph.model.entity_graph import graph_from_extractions
from phasegraph.neo4j import (
    GraphChanges,
    GraphRecords,
    Neo4jConnection,
    PassageRecord,
    changes_between,
    drop_corpus,
    read_changes,
    read_graph,
    records_from_extractions,
    remove_passages,
    write_graph,
    write_synonyms,
)


def record(name, *others, text=""):
    """A passage that mentions itself and others, and states a fact about each of them."""
    facts = tuple((name, "knows", other, 1) for other in others)
    return PassageRecord(name, name, text, ((name, 2), *((other, 1) for other in others)), facts, ((name, 2),))


FIRST = (record("ada", "bo", "cy"), record("bo", "cy"), record("cy"), record("di", "ada", "eve"))


def same(one, other):
    """Whether two graphs are equal to the bit."""
    assert (one.passages, one.entities, one.weights) == (other.passages, other.entities, other.weights)
    for name in ("mentions", "homes", "facts", "synonyms", "adjacency"):
        for part in ("data", "indices", "indptr"):
            found, wanted = (getattr(getattr(graph, name), part) for graph in (one, other))
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted, err_msg=f"{name}.{part}")


class ReadsInBetween(Neo4jConnection):
    """A connection whose writes are overtaken by a reader, just before a batch of passages is sent."""

    def __init__(self, driver, reader):
        super().__init__(driver, timeout=20.0)
        self.reader = reader
        self.seen = []

    def write_all(self, statements, **limits):
        statements = list(statements)
        if any("passages" in values for _, values in statements):
            self.seen.append(read_graph(self.reader, "phasegraph", corpus="c"))
        return super().write_all(statements, **limits)


def test_what_is_written_while_one_reads_is_in_the_next_refresh(connection, driver):
    write_graph(connection, FIRST[:1], corpus="c")
    writer = ReadsInBetween(driver, connection)
    write_graph(writer, FIRST, corpus="c", batch=1)
    assert len(writer.seen) == 3
    for seen in writer.seen:
        changes = read_changes(connection, corpus="c", since=seen.revision)
        assert seen.with_changes(changes).passages == FIRST


def test_writers_at_the_same_time_each_have_revisions_of_their_own(connection, driver):
    write_graph(connection, FIRST[:1], corpus="c")
    before = read_graph(connection, "phasegraph", corpus="c").revision
    made = [[record(f"{writer} {number}", "ada") for number in range(8)] for writer in range(3)]
    writers = [
        threading.Thread(target=write_graph, args=(Neo4jConnection(driver, timeout=20.0), some), kwargs=settings)
        for some in made
        for settings in [{"corpus": "c", "batch": 1}]
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    rows = driver.execute_query("MATCH (p:PhasegraphPassage) RETURN p.revision").records
    assert sorted(row[0] for row in rows)[1:] == list(range(before + 1, before + 25))


def test_a_revision_of_a_corpus_that_was_dropped_is_refused(connection):
    old = write_graph(connection, FIRST, corpus="c").revision
    drop_corpus(connection, "c")
    with pytest.raises(InvalidInputError, match=r"no corpus 'c'; its corpora: none"):
        read_changes(connection, corpus="c", since=old)
    new = write_graph(connection, FIRST[:2], corpus="c", batch=1)
    assert new.revision > old
    with pytest.raises(InvalidInputError, match=r"does not belong to the current corpus, .*: read the whole"):
        read_changes(connection, corpus="c", since=old)
    with pytest.raises(InvalidInputError, match="does not belong to the current corpus"):
        read_changes(connection, corpus="c", since=new.revision + 1)
    assert read_changes(connection, corpus="c", since=0).changed == FIRST[:2]


def test_synonyms_are_refreshed_too(connection):
    write_graph(connection, FIRST, corpus="c")
    before = read_graph(connection, "phasegraph", corpus="c")
    write_synonyms(connection, {("bo", "ada"): 0.5}, corpus="c")
    changes = read_changes(connection, corpus="c", since=before.revision)
    assert (changes.changed, changes.removed, changes.synonyms) == ((), (), (("ada", "bo", 0.5),))
    after = before.with_changes(changes)
    same(before.update(before.graph(), changes), after.graph())
    assert read_changes(connection, corpus="c", since=after.revision) == GraphChanges((), (), after.revision)


def test_a_refreshed_graph_is_the_one_a_full_reading_gives_and_walks_like_it(connection):
    write_graph(connection, FIRST, corpus="c")
    write_synonyms(connection, {("ada", "bo"): 0.5, ("bo", "eve"): 0.25}, corpus="c")
    before = read_graph(connection, "phasegraph", corpus="c")
    graph = before.graph()
    write_graph(connection, [record("bo", "fay", text="Bo is new."), record("gil", "ada")], corpus="c")
    remove_passages(connection, ["di"], corpus="c")
    changes = read_changes(connection, corpus="c", since=before.revision)
    assert ([each.id for each in changes.changed], changes.removed) == (["bo", "gil"], ("di",))
    after, whole = before.with_changes(changes), read_graph(connection, "phasegraph", corpus="c")
    assert after == whole
    updated = before.update(graph, changes)
    same(updated, whole.graph())
    found, wanted = (GraphSource(each).search("does ada know fay", 5, {}) for each in (updated, whole.graph()))
    assert found.ids == wanted.ids
    np.testing.assert_array_equal(found.scores, wanted.scores)


def test_an_index_is_written_refreshed_and_read_back_as_its_own_graph(connection):
    def written(index):
        found = [*index.found.values(), *(one for given in index.given.values() for one in given)]
        passages = [{"id": row[0], "title": row[1], "text": row[2]} for row in index.rows]
        write_graph(connection, records_from_extractions(passages, found), corpus="c")

    texts = [
        {"id": "1", "title": "Ada Lovelace", "text": "Ada Lovelace was a friend of Charles Babbage."},
        {"id": "2", "title": "Charles Babbage", "text": "Charles Babbage was born in London."},
    ]
    index = GraphIndex.build(texts, triples={"1": [("Ada Lovelace", "friend of", "Charles Babbage")]})
    written(index)
    before = read_graph(connection, "phasegraph", corpus="c")
    same(before.graph(), index.graph)
    index = index.add([{"id": "3", "title": "London", "text": "London is where Ada Lovelace died."}])
    written(index)
    changes = read_changes(connection, corpus="c", since=before.revision)
    assert [each.id for each in changes.changed] == ["3"], "that London is a title now changes no other passage"
    same(before.update(before.graph(), changes), index.graph)


def test_an_update_takes_the_graph_of_the_same_records():
    before, after = GraphRecords(FIRST), GraphRecords((*FIRST[1:], record("new", "bo")))
    changes = changes_between(before, after)
    assert changes.removed == ("ada",)
    vectors = np.eye(4, dtype=np.float32)
    updated = before.update(before.graph(), changes, embeddings=vectors)
    same(updated, after.graph())
    np.testing.assert_array_equal(updated.embeddings, vectors)
    with pytest.raises(InvalidInputError, match="graph must contain the passages of these records"):
        before.update(after.graph(), changes)
    with pytest.raises(InvalidInputError, match="at least one"):
        before.update(before.graph(), changes_between(before, GraphRecords(())))


def test_the_graph_of_records_is_the_one_of_their_extractions():
    odd = PassageRecord(
        "odd",
        "Odd",
        "",
        (("ada", 3), ("İzmir", 1)),
        (("Ada", "knows", "ada", 2), ("ada", "is in", "Ä. b.", 1), ("...", "is", "bo", 1), ("bo", "has", "bo", 5)),
        (("ada", 1), ("cy", 2), ("bo", 7)),
    )
    several = GraphRecords((*FIRST, odd), synonyms=(("ada", "bo", 0.5), ("bo", "nobody", 0.5)))
    wanted = graph_from_extractions(
        [each.id for each in several.passages],
        [one for each in several.passages for one in each.extractions()],
        synonyms={("ada", "bo"): 0.5, ("bo", "nobody"): 0.5},
    )
    same(several.graph(), wanted)
    assert "ä b" in wanted.entities
    with pytest.raises(InvalidInputError, match="similarity"):
        GraphRecords(FIRST, synonyms=(("ada", "bo", 1.5),)).graph()
    with pytest.raises(InvalidInputError, match="must be unique"):
        GraphRecords((FIRST[0], FIRST[0])).graph()


@pytest.mark.filterwarnings("ignore:.* not normalized:phasegraph.errors.PhasegraphWarning")
def test_what_others_wrote_into_our_schema_is_refused_by_name_or_read_as_it_is(connection, driver):
    write_graph(connection, FIRST, corpus="c")
    odd = "a\x1fb\x1bmc\x1b\x1f"
    write_graph(connection, [record(odd, "x\x1b", "y\x1fe")], corpus="c")
    assert {each.id for each in read_graph(connection, "phasegraph", corpus="c").passages} == {
        odd,
        *(each.id for each in FIRST),
    }
    assert read_graph(connection, "phasegraph", corpus="c").passages[0] == record(odd, "x\x1b", "y\x1fe")
    for change, said in (
        ("MATCH ()-[m:PHASEGRAPH_MENTIONS]->({name: 'cy'}) SET m.count = 0", "count of mentions"),
        ("MATCH ()-[m:PHASEGRAPH_MENTIONS]->({name: 'cy'}) SET m.count = [1]", "count of mentions"),
        ("MATCH (:PhasegraphPassage {id: 'cy'})-[m:PHASEGRAPH_MENTIONS]->() REMOVE m.count", "count of mentions"),
        ("MATCH ()-[f:PHASEGRAPH_FACT {passage: 'bo'}]->() REMOVE f.predicate", "facts must have 3 nonblank"),
        ("MATCH ()-[f:PHASEGRAPH_FACT {passage: 'bo'}]->() SET f.count = 3000000000", "count of facts"),
        ("MATCH (e:PhasegraphEntity {name: 'cy'}) REMOVE e.name", "mentions must have 1 nonblank"),
    ):
        driver.execute_query(change)
        with pytest.raises(InvalidInputError, match=said):
            read_graph(connection, "phasegraph", corpus="c")
        drop_corpus(connection, "c")
        write_graph(connection, FIRST, corpus="c")
