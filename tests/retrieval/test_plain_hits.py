"""What plain functions return, and retrievers that are neither of a framework nor ours, read or refused."""

import inspect

import numpy as np
import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode

from phasegraph import CallableSource, InvalidTypeError, PhasegraphWarning, Ranking
from phasegraph.retrieval import (
    MalformedAnswerError,
    Payloads,
    adapted,
    answer_items,
    head_and_score,
    plain_hit,
)
from phasegraph.retrieval.deletions import Deletions
from phasegraph.retrieval.provenance import plain_evidence
from phasegraph.retrieval.reading import completed


class Rows:
    """Rows of a database, such as those of SQLAlchemy: an iteration gives the rows, and `columns` is a method."""

    def columns(self, *names):
        return self

    def __iter__(self):
        return iter(["a", "b"])


class DataFrame:
    """A table like those of pandas and polars: an iteration gives no rows."""

    columns = ("id", "score")

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize(
    ("answer", "items"),
    [
        ("", []),
        (" \n", []),
        ("one text", ["one text"]),
        ({"p": 0.5, "q": 0}, [{"id": "p", "score": 0.5}, {"id": "q", "score": 0}]),
        ({"p": np.float32(0.5)}, [{"id": "p", "score": np.float32(0.5)}]),
        (iter(["a", "b"]), ["a", "b"]),
        (Rows(), ["a", "b"]),
        ([], []),
    ],
)
def test_an_answer_is_taken_apart(answer, items):
    assert answer_items(answer, "documents") == items


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "got NoneType"),
        (b"text", "got bytes"),
        (3, "got int"),
        (DataFrame(), "got DataFrame; give its rows"),
        ({}, r"got a dict of \[\]"),
        ({"context": ["x"], "answer": "y"}, r"got a dict of \['context', 'answer'\]"),
        ({"p": True}, r"got a dict of \['p'\]"),
    ],
)
def test_what_is_no_answer_is_refused_with_what_was_expected(answer, said):
    expected = "a retriever must return a list of documents, texts, dicts .text or id., triples, or pairs of these"
    with pytest.raises(MalformedAnswerError, match=f"{expected}.*{said}") as caught:
        answer_items(answer, "documents")
    assert len(str(caught.value)) <= 200, "a report cuts what is longer"


def test_a_coroutine_is_refused_and_closed():
    async def search():
        return ["a"]

    answer = search()
    with pytest.raises(MalformedAnswerError, match="got coroutine"):
        answer_items(answer, "documents")
    assert inspect.getcoroutinestate(answer) == inspect.CORO_CLOSED


def test_a_pair_is_a_hit_and_its_score_and_nothing_else_is():
    assert head_and_score(["x", 0.0]) == ("x", 0.0)
    assert head_and_score({"id": "p", "score": 1.0}) == ({"id": "p", "score": 1.0}, None)
    assert head_and_score("ab") == ("ab", None)


@pytest.mark.parametrize(
    "row", [{"text": "Ada"}, {"page_content": "Ada"}, {"c.content": "Ada"}, {"n": {"text": "Ada"}}]
)
def test_the_text_of_a_row_is_found(row):
    hit = plain_hit(row, "documents", 0)
    assert (hit.text, hit.id, dict(hit.metadata)) == ("Ada", None, {})


def test_a_row_says_its_id_score_and_metadata():
    row = {"chunk_id": 7, "text": "Ada", "_score": 0, "metadata": {"title": "T", "_score": 9}, "page": 3}
    hit = plain_hit(row, "documents", 0)
    assert (hit.text, hit.id) == ("Ada", None), "whose it is, is read from the metadata, as for any hit"
    assert hit.metadata == {"chunk_id": 7, "_score": 0, "title": "T", "page": 3}
    assert row["metadata"] == {"title": "T", "_score": 9}, "what was given is left as it was"


def test_a_row_that_only_names_a_passage_has_no_text_and_any_other_is_json():
    assert plain_hit({"id": "p", "score": 0.5}, "documents", 0).text is None
    assert plain_hit({"id": "p", "title": "T"}, "documents", 0).text == '{"id": "p", "title": "T"}'
    assert plain_hit({"count(*)": 5}, "documents", 0).text == '{"count(*)": 5}'
    assert plain_hit({"score": 0.5}, "documents", 0).text == '{"score": 0.5}'


@pytest.mark.parametrize("item", [3, None, {}, ("a", "b"), ("a", "b", 3), ("a", "b", "c", "d"), b"x"])
def test_what_is_no_hit_is_refused_by_its_place(item):
    with pytest.raises(MalformedAnswerError, match=f"got {type(item).__name__}.* at 4") as caught:
        plain_hit(item, "nodes", 4)
    assert len(str(caught.value)) <= 200


# Passages that a source names and does not hold.

GONE = Deletions("graph")
NAMED = Ranking(
    "graph", ["a", "b", "c"], [3.0, 2.0, 1.0], payloads=Payloads(["a", "b", "c"], [None, "B", None], {"a": 1})
)


def test_missing_passages_come_from_other_rankings_then_from_stores():
    notes: list[str] = []
    vector = Ranking("vector", ["a", "z"], [1.0, 0.5], payloads=Payloads(["a", "z"], ["A", "Z"]))
    asked = []

    def look_up(ids):
        asked.append(list(ids))
        return {"c": "C", "a": "not this one"}

    found = completed(NAMED, [None, vector, NAMED], {"vector": look_up, "other": lambda ids: 1 / 0}, notes, GONE)
    assert dict(found.payloads) == {"a": "A", "b": "B", "c": "C"}
    assert found.payloads.evidence == {"a": 1}
    assert (found.ids, found.scores.tolist()) == (NAMED.ids, NAMED.scores.tolist())
    assert asked == [["c"]], "nothing that is at hand is looked up; nothing is asked once all is there"
    assert notes == ["texts of 1 of 3 passages from source 'vector'"]
    assert dict(NAMED.payloads) == {"b": "B"}


def test_a_store_that_fails_is_noted_and_costs_no_answer():
    notes: list[str] = []
    assert completed(NAMED, [], {"vector": lambda ids: 1 / 0}, notes, GONE) is NAMED
    assert notes == ["source 'vector' could not be asked for the texts of passages (ZeroDivisionError)"]


def test_the_evidence_of_a_core_source_is_no_passage():
    paths = Ranking("other", ["a"], [1.0], payloads={"a": "a path"})
    assert completed(NAMED, [paths], {}, [], GONE) is NAMED


def test_a_path_that_is_none_of_ours_is_plain_evidence():
    class File:
        path = "/tmp/x"

    assert plain_evidence(File()) == "File"


# Things with a search of their own.


class Store:
    def search(self, query, search_type, **more):
        return []


def test_a_search_that_is_not_that_of_a_source_is_refused_when_built():
    with pytest.raises(InvalidTypeError, match=r"must take \(query, limit, upstream\); Store.search takes \(query, se"):
        adapted(Store())
    source = CallableSource("v", lambda query, limit: [])
    assert adapted(source) is source
    assert adapted(len) is len
    assert adapted(Store) is Store


@pytest.fixture(scope="module")
def graphrag():
    pytest.importorskip("neo4j_graphrag", reason="neo4j-graphrag is not installed")
    import neo4j
    from neo4j_graphrag.retrievers.base import ExternalRetriever
    from neo4j_graphrag.types import RawSearchResult, RetrieverResultItem

    rows = [
        {"node": {"id": "p", "text": "Ada", "embedding": None}, "score": 0.9, "id": "4:x:1", "elementId": "4:x:1"},
        {"node": {"text": "Bo"}, "score": 0.8, "id": "4:x:2", "elementId": "4:x:2"},
    ]

    class Own(ExternalRetriever):
        """A retriever of one's own over the library's real base class, which asks no server."""

        embedder = "a model"
        result_formatter = None

        def get_search_results(self, query_vector=None, query_text=None, top_k=5, filters=None):
            self.asked = (query_text, top_k, filters)
            return RawSearchResult(records=[neo4j.Record(row) for row in rows][:top_k], metadata={})

    def formatted(record):
        return RetrieverResultItem(content=record["node"]["text"], metadata={"id": "own", "score": record["score"]})

    with neo4j.GraphDatabase.driver("bolt://localhost:1") as driver:
        yield lambda kind=Own, **changes: _made(kind, driver, changes), Own, formatted


def _made(kind, driver, changes):
    made = kind(driver, "id", "id")
    vars(made).update(changes)
    return made


def test_a_neo4j_graphrag_retriever_is_a_function_that_returns_rows(graphrag):
    make, _, formatted = graphrag
    given = make()
    search = adapted(given)
    assert search.__name__ == "Own"
    assert search("who?", 1) == [{"id": "p", "text": "Ada", "score": 0.9}]
    assert given.asked == ("who?", 1, None)
    assert search("who?")[1] == {"text": "Bo", "score": 0.8}, "an element id is no passage's"
    search("who?", 2, {"tenant": "red"})
    assert given.asked == ("who?", 2, {"tenant": "red"})
    assert adapted(make(result_formatter=formatted))("who?", 1) == [{"id": "own", "text": "Ada", "score": 0.9}]


def test_one_that_formats_in_its_class_is_asked_for_its_items(graphrag):
    make, own, formatted = graphrag

    class Formats(own):
        def default_record_formatter(self, record):
            return formatted(record)

    assert adapted(make(Formats))("who?", 1) == [{"id": "own", "text": "Ada", "score": 0.9}]


def test_a_cypher_of_its_own_takes_no_filter(graphrag):
    make, *_ = graphrag
    with pytest.raises(TypeError, match="filter"):
        adapted(make(retrieval_query="RETURN node"))("who?", 1, filter={"tenant": "red"})


def test_a_neo4j_graphrag_object_that_cannot_be_asked_is_refused_when_built(graphrag):
    make, own, _ = graphrag
    with pytest.raises(InvalidTypeError, match="Own has no embedder"):
        adapted(make(embedder=None))

    class ByVector(own):
        def get_search_results(self, query_vector, top_k=5):
            raise NotImplementedError

    with pytest.raises(InvalidTypeError, match="ByVector cannot be a source: it has no search by query_text"):
        adapted(make(ByVector))
    from neo4j_graphrag.generation import GraphRAG

    with pytest.raises(InvalidTypeError, match="GraphRAG cannot be a source"):
        adapted(GraphRAG.__new__(GraphRAG))


@pytest.mark.parametrize("hit", [Document("real text", id="a"), TextNode(text="real text", id_="a")])
def test_a_dict_around_a_hit_is_refused_and_not_read_as_its_repr(hit):
    with pytest.raises(
        MalformedAnswerError, match=f"the dict at 3 contains a {type(hit).__name__}: return hits, or pairs"
    ):
        plain_hit({"document": hit, "score": 0.9}, "hits", 3)


def test_a_neo4j_graphrag_retriever_whose_nodes_have_no_known_text_warns_once(graphrag):
    import neo4j
    from neo4j_graphrag.types import RawSearchResult

    make, own, _ = graphrag

    class Named(own):
        def get_search_results(self, query_text=None, top_k=5):
            found = [neo4j.Record({"node": {"inhalt": "Ada"}, "score": 0.9 if query_text == "who?" else 0.5})]
            return RawSearchResult(records=found, metadata={})

    search = adapted(make(Named))
    with pytest.warns(PhasegraphWarning, match="hits without a property text, page_content or content") as told:
        one, other = search("who?", 1)[0], search("where?", 1)[0]
    assert one == {"inhalt": "Ada", "score": 0.9, "text": '{"inhalt": "Ada"}'}
    assert other["text"] == one["text"], "the text identifies the hit, whatever the question"
    assert len(told) == 1


def test_the_only_column_of_a_neo4j_graphrag_record_may_be_a_node_under_another_name(graphrag):
    import neo4j
    from neo4j_graphrag.types import RawSearchResult

    make, own, _ = graphrag

    class Chosen(own):
        def get_search_results(self, query_text=None, top_k=5):
            return RawSearchResult(records=[neo4j.Record({"c": {"id": "p", "text": "Ada"}})], metadata={})

    (row,) = adapted(make(Chosen))("who?", 1)
    assert plain_hit(row, "documents", 0) == plain_hit({"id": "p", "text": "Ada"}, "documents", 0)
