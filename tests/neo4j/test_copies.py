"""Connections and what walks over them are pickled, copied and used in another process."""

import copy
import multiprocessing
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from corpus import questions, records
from recording import Unasked

from phasegraph.errors import InvalidTypeError
from phasegraph.neo4j import Neo4jConnection, Neo4jGraphSource, open_graph, write_graph

COUNT = 60


def pickled(each):
    return pickle.loads(pickle.dumps(each))  # noqa: S301


def found(source, query, dense):
    """What a source answers, as plain values."""
    ranking = source.search(query, 10, {"vector": dense})
    return ranking.ids, ranking.scores.tolist()


def texts(opened, ids):
    return opened.texts(ids)


@pytest.fixture
def own(address, connection):
    """A connection of its own to a corpus of sixty passages."""
    write_graph(connection, records(COUNT), corpus="k")
    with Neo4jConnection.connect(address.uri, auth=address.auth, timeout=120.0) as opened:
        yield opened


@pytest.fixture(scope="module")
def process():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_a_connection_pickles_as_its_settings_and_keeps_its_secrets_out_of_sight(own, address):
    with pickled(own) as other:
        assert (other.timeout, other.database) == (own.timeout, own.database)
        assert other.read("RETURN 1") == [[1]]
        assert not address.password or address.password not in repr(other)
    assert own.read("RETURN 1") == [[1]], "closing the copy leaves the first one open"


def test_a_deep_copy_is_the_connection_itself(own):
    assert copy.deepcopy(own) is own


def test_a_connection_over_a_callers_own_driver_says_what_can_be_pickled():
    with pytest.raises(InvalidTypeError, match=r"driver of your own cannot be pickled: use connect\(uri\)"):
        pickle.dumps(Neo4jConnection(Unasked()))


@pytest.mark.parametrize("how", [pickled, copy.deepcopy])
def test_a_copied_source_finds_the_same(own, how):
    query, dense = questions(1, COUNT)[0]
    ids = [record.id for record in records(COUNT)]
    whole = Neo4jGraphSource(own, "k")
    for source in (whole, whole.within(ids[::2]), whole.within(ids[::2]).within(set(ids[:40]).__contains__)):
        copied = how(source)
        ids, scores = found(copied, query, dense)
        expected = found(source, query, dense)
        assert ids == expected[0]
        np.testing.assert_allclose(scores, expected[1], rtol=1e-12)


def test_a_source_is_used_in_another_process(own, process):
    query, dense = questions(1, COUNT)[0]
    source = Neo4jGraphSource(own, "k")
    ids, scores = process.submit(found, source, query, dense).result(60)
    expected = found(source, query, dense)
    assert ids == expected[0]
    np.testing.assert_allclose(scores, expected[1], rtol=1e-12)


@pytest.mark.parametrize("load", [True, False])
def test_an_opened_graph_is_used_in_another_process(own, process, load):
    opened = open_graph(own, "k", load=load)
    query, dense = questions(1, COUNT)[0]
    there = process.submit(found, opened.source, query, dense), process.submit(texts, opened, dense.ids[:3])
    assert there[0].result(60)[0] == found(opened.source, query, dense)[0]
    assert there[1].result(60) == opened.texts(dense.ids[:3])
