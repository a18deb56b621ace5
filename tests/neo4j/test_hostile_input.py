"""More than 50,000 hostile names and values, through every door: the text of no statement differs from its template."""

import random
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from recording import Recorder, Watcher

from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.graph.model.entity_graph import EdgeWeights
from phasegraph.neo4j import (
    GraphSchema,
    Neo4jConnection,
    Neo4jGraphSource,
    PassageRecord,
    drop_corpus,
    read_changes,
    read_graph,
    remove_passages,
    write_graph,
    write_synonyms,
)
from phasegraph.neo4j.remote_walk import NeighbourhoodWalk
from phasegraph.ranking import Ranking

PAYLOADS = (
    "`) DETACH DELETE n //", "x`]->() DETACH DELETE n //", "'}) DETACH DELETE p //", '"}) CREATE (:Evil) //',
    "\\u0060) CREATE (:Evil)", "\n MATCH (n) DETACH DELETE n", "\r\nCREATE (:Evil)", "\u2028CREATE (:Evil)",
    "*/ CREATE (:Evil) /*", "; CREATE (:Evil)", "$corpus", "${jndi:ldap://127.0.0.1/x}", "{{7*7}}", "«passage»", "%s",
    "{name}", "\\", "\x00", "\ufeff", "\ud800", "\u202eevil", "\uff11", "0 OR 1=1", "a" * 900,
    "CALL apoc.cypher.runWrite('CREATE (:Evil)', {})", "LOAD CSV FROM 'file:///etc/passwd' AS r",
)  # fmt: skip
WORDS = ("Chunk", "__Entity__", "MENTIONS", "id", "Works at", "text", "Ada")
FIELDS = ("passage_label", "entity_label", "provenance_type", "text_key", "fact_source_key", "corpus_key")
LISTS = ("id_keys", "name_keys", "title_keys")
PLAIN = {"name": "mine", "passage_label": "Chunk", "entity_label": "Entity", "provenance_type": "MENTIONS"}


NAMES, VALUES, SEARCHES, PER_SEARCH = 20_000, 30_000, 6, 60


def hostile(rng: random.Random) -> str:
    """A payload, alone, inside words, or cut and spliced."""
    payload = rng.choice(PAYLOADS)
    shape = rng.randrange(4)
    if shape == 0:
        return payload
    if shape == 1:
        return rng.choice(WORDS) + payload
    if shape == 2:
        return payload[rng.randrange(len(payload)) :] + rng.choice(PAYLOADS)[:200] + rng.choice(WORDS)
    ranges = ((32, 127), (1, 0xD800))
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(1, 40)))


def test_hostile_names_never_reach_a_statement():
    rng = random.Random(5)
    refused, accepted = 0, 0
    for _ in range(NAMES):
        field, name = rng.choice(FIELDS + LISTS), hostile(rng)
        names = {**PLAIN, "corpus_key": "tenant", field: ("id", name) if field in LISTS else name}
        try:
            schema = GraphSchema(**names)
        except InvalidInputError:
            refused += 1
            continue
        accepted += 1
        driver = Recorder()
        read_graph(Neo4jConnection(driver), schema, corpus="c")
        for statement, _ in driver.sent:
            bare = re.sub(r"`[^`]*`", "``", statement)
            assert not re.search(r"DELETE|CREATE|MERGE|\bSET\b|LOAD|CALL|//|/\*|;", bare)
            assert all(re.fullmatch(r"[\w .:\-]+", quoted) for quoted in re.findall(r"`([^`]*)`", statement))
    assert refused > 15_000, "the allow-list lets only words through"
    assert accepted > 0, "some of the random names are words"


def hostile_record(rng: random.Random) -> PassageRecord:
    """A record whose every text is hostile; blank ones are refused by themselves."""
    while True:
        words = [hostile(rng) for _ in range(6)]
        if all(word.strip() and len(word.encode(errors="replace")) < 1500 for word in words):
            one, other, predicate, passage, title, text = words
            return PassageRecord(passage, title, text, ((one, 1),), ((one, predicate, other, 1),), ((other, 2),))


def send_all(driver: Recorder, records: list[PassageRecord], corpus: str) -> None:
    """Call all that takes values from outside."""
    connection = Neo4jConnection(driver)
    write_graph(connection, {record.id: record for record in records}.values(), corpus=corpus)
    write_synonyms(connection, {(records[0].title, records[0].text): 0.5}, corpus=corpus)
    remove_passages(connection, [record.id for record in records], corpus=corpus)
    drop_corpus(connection, corpus)
    read_graph(connection, "phasegraph", corpus=corpus)
    read_changes(connection, corpus=corpus, since=0)
    seeds = {record.id: 1.0 for record in records}
    NeighbourhoodWalk(connection, corpus, (1, ("c", 0)), seeds, {corpus: 1.0}, follow_probability=0.5).run()
    ask(connection, records, corpus)


def ask(connection: Neo4jConnection, records: list[PassageRecord], corpus: str) -> None:
    """Search with hostile queries, ids of another source and lists of what may be seen."""
    ids = tuple(record.id for record in records)
    given = {"vector": Ranking("vector", ids, range(len(ids), 0, -1))}
    source = Neo4jGraphSource(connection, corpus)
    for record in records[:3]:
        source.search(record.text, 5, given)
        source.within(ids).search(record.title, 5, given)
        source.within(lambda passage_id: passage_id in ids).search(record.title, 5, given)


@pytest.mark.filterwarnings("ignore:.* not normalized:phasegraph.errors.PhasegraphWarning")
def test_hostile_values_leave_every_statement_as_it_is():
    rng = random.Random(6)
    plain = Recorder()
    send_all(plain, [PassageRecord("a", "b", "c", (("d", 1),), (("d", "e", "f", 1),), (("d", 2),))], "corpus")
    allowed = {statement for statement, _ in plain.sent}
    values = 0
    for _ in range(50):
        driver = Recorder()
        records = [hostile_record(rng) for _ in range(100)]
        send_all(driver, records, next(record.title for record in records if encodable(record)))
        assert {statement for statement, _ in driver.sent} <= allowed
        values += 6 * len(records)
    assert values == VALUES


def test_more_than_fifty_thousand_names_and_values_are_tried():
    assert NAMES + VALUES + SEARCHES * PER_SEARCH >= 50_000


@pytest.mark.filterwarnings("ignore:.* not normalized:phasegraph.errors.PhasegraphWarning")
def test_searches_with_hostile_words_ids_and_filters_send_what_plain_ones_send(connection, driver):
    rng = random.Random(7)
    texts = sorted({f"x{payload}" for payload in PAYLOADS if payload.isprintable()})
    written = [PassageRecord(text, text, text, ((text, 1), ("ada", 1)), ((text, text, "y", 1),)) for text in texts]
    write_graph(connection, [PassageRecord("a", "b", "c", (("ada", 1),)), PassageRecord("d", "e", "ada")], corpus="c")
    write_graph(connection, written, corpus=texts[0])
    plain, watched = Watcher(driver), Watcher(driver)
    ask(Neo4jConnection(plain, timeout=20.0), [PassageRecord("a", "b", "ada"), PassageRecord("d", "e", "ada")], "c")
    for _ in range(SEARCHES):
        records = [hostile_record(rng) for _ in range(PER_SEARCH // 3)]
        mixed = {record.id: record for record in (*rng.sample(written, 3), *records) if encodable(record)}
        ask(Neo4jConnection(watched, timeout=20.0), list(mixed.values()), texts[0])
    assert watched.sent <= plain.sent
    assert len(plain.sent) >= 3, "found passages are walked from"
    assert driver.execute_query("MATCH (n:Evil) RETURN count(n)").records[0][0] == 0
    drop_corpus(connection, texts[0])


def encodable(record: PassageRecord) -> bool:
    """Whether UTF-8 can hold it: what it cannot hold is refused before it is sent."""
    return not any("\ud800" <= letter <= "\udfff" for letter in record.id + record.title + record.text)


def test_a_hostile_name_of_a_database_is_a_setting_of_the_session_and_nothing_else(driver):
    watched = Watcher(driver)
    for payload in PAYLOADS:
        with pytest.raises((StoreError, InvalidInputError)):
            Neo4jConnection(watched, database=f"x{payload}", timeout=20.0).read("RETURN 1")
    assert watched.sent <= {"RETURN 1"}
    assert watched.databases == {f"x{payload}" for payload in PAYLOADS}


@pytest.mark.parametrize("call", [drop_corpus, lambda c, name: read_graph(c, "phasegraph", corpus=name)])
def test_a_corpus_that_utf8_cannot_hold_is_refused_by_every_door(call):
    driver = Recorder()
    with pytest.raises(InvalidInputError, match="corpus must not contain lone surrogates"):
        call(Neo4jConnection(driver), "x\ud800")
    assert not driver.sent


@pytest.mark.filterwarnings("ignore:.* not normalized:phasegraph.errors.PhasegraphWarning")
def test_on_a_real_server_hostile_values_are_stored_and_read_as_values(connection, driver):
    driver.execute_query("CREATE (:Bystander)")
    texts = [f"x{payload}" for payload in PAYLOADS if payload != "\ud800"]
    records = [PassageRecord(text, text, text, ((text, 1),), ((text, text, "y", 1),), ((text, 2),)) for text in texts]
    in_order = tuple(sorted(records, key=lambda record: record.id))
    for corpus in texts[:6]:
        write_graph(connection, records, corpus=corpus)
        Neo4jGraphSource(connection, corpus).search(corpus, 5, {})
        assert read_graph(connection, "phasegraph", corpus=corpus).passages == in_order
    labels = {row[0] for row in driver.execute_query("MATCH (n) UNWIND labels(n) AS l RETURN DISTINCT l").records}
    assert labels == {"Bystander", "PhasegraphPassage", "PhasegraphEntity", "PhasegraphCorpus"}
    types = {row[0] for row in driver.execute_query("MATCH ()-[r]->() RETURN DISTINCT type(r)").records}
    assert types == {"PHASEGRAPH_MENTIONS", "PHASEGRAPH_FACT"}
    for corpus in texts[:6]:
        drop_corpus(connection, corpus)
    assert driver.execute_query("MATCH (n) RETURN count(n)").records[0][0] == 1


def test_a_lone_surrogate_is_an_error_of_ours_and_nothing_is_written(connection, driver):
    with pytest.raises((InvalidInputError, StoreError)):
        write_graph(connection, [PassageRecord("x\ud800")], corpus="c")
    assert driver.execute_query("MATCH (p:PhasegraphPassage) RETURN count(p)").records[0][0] == 0


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "uri", [f"bolt://me:{SECRET}@127.0.0.1", f"http://{SECRET}", f"neo4j://[{SECRET}", SECRET, f"bolt:///{SECRET}"]
)
def test_an_address_that_is_wrong_is_not_repeated(uri):
    with pytest.raises(InvalidInputError) as caught:
        Neo4jConnection.connect(uri, auth=("me", SECRET))
    assert SECRET not in str(caught.value)


def test_neither_messages_nor_reprs_hold_the_password(address):
    with Neo4jConnection.connect(address.uri, auth=(address.user, SECRET)) as stranger:
        assert SECRET not in repr(stranger)
        if not address.password:
            pytest.skip("the given server has authentication off")
        with pytest.raises(StoreError, match=r"^auth: ") as caught:
            stranger.read("RETURN 1")
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


def test_weights_are_numbers_before_they_are_parameters():
    with pytest.raises(InvalidInputError):
        EdgeWeights(home="1.0 RETURN 1 //")
