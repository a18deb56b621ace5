"""Each framework's graph retriever made of a graph in Neo4j: what it finds, brings and refuses."""

import asyncio
import importlib
import re
import socket
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from corpus import records
from foreign_graphs import erase, write_as
from recording import Unasked

from phasegraph.errors import AllSourcesFailed, InvalidInputError, InvalidTypeError, PhasegraphWarning, StoreError
from phasegraph.graph import GraphSource, build_graph
from phasegraph.neo4j import (
    GraphRecords,
    Neo4jConnection,
    Neo4jGraphSource,
    drop_corpus,
    list_corpora,
    open_graph,
    read_graph,
    records_from_extractions,
    write_graph,
)

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "neo4j.md"
COUNT = 60
QUESTIONS = [f"What is {one.title}?" for one in records(COUNT)[:4]]
LANGCHAIN, LLAMAINDEX = "langchain_phasegraph", "llama_index.retrievers.phasegraph"


def made(framework, connection, *args, **options):
    """An `EntityGraphRetriever` of that framework, which returns ten hits."""
    cls = importlib.import_module(framework).EntityGraphRetriever
    return cls.from_neo4j(connection, *args, **{"k" if framework == LANGCHAIN else "similarity_top_k": 10}, **options)


def hits(retriever, query, *, waiting=True):
    """Id, title and text of what it returns, in order."""
    if hasattr(retriever, "invoke"):
        found = retriever.invoke(query) if waiting else asyncio.run(retriever.ainvoke(query))
        return [(one.id, one.metadata.get("title", ""), one.page_content) for one in found]
    found = retriever.retrieve(query) if waiting else asyncio.run(retriever.aretrieve(query))
    return [(one.node_id, one.node.metadata.get("title", ""), one.text) for one in found]


@pytest.fixture
def corpus(connection):
    write_graph(connection, records(COUNT), corpus="manuals")
    return connection


@pytest.mark.parametrize("load", [True, False])
@pytest.mark.parametrize("framework", [LANGCHAIN, LLAMAINDEX])
def test_it_finds_what_the_walk_in_memory_finds_and_brings_its_texts(framework, load, corpus):
    retriever = made(framework, corpus, "manuals", load=load)
    held = {one.id: (one.title, one.text) for one in records(COUNT)}
    graph = read_graph(corpus, corpus="manuals").graph()
    beside = GraphSource(graph) if load else GraphSource(graph, words=None)  # Neo4j walks without words
    for question in QUESTIONS:
        wanted = [(name, *held[name]) for name in beside.search(question, 10, {}).ids]
        assert wanted
        assert hits(retriever, question) == wanted
        assert hits(retriever, question, waiting=False) == wanted


@pytest.mark.parametrize("load", [True, False])
def test_documents_of_ones_own_take_the_place_of_its_texts_and_can_be_filtered(load, corpus):
    from langchain_core import documents

    own = [
        documents.Document(f"own {row}", id=one.id, metadata={"tenant": ("red", "blue")[row % 2]})
        for row, one in enumerate(records(COUNT))
    ]
    red = {one.id for one in own if one.metadata["tenant"] == "red"}
    retriever = made(LANGCHAIN, corpus, "manuals", load=load, documents=own)
    question = QUESTIONS[3]
    found = hits(retriever, question)
    assert all(text.startswith("own ") for _, _, text in found)
    assert not {one[0] for one in found} <= red
    seen = {one.id for one in retriever.invoke(question, filter={"tenant": "red"})}
    assert seen
    assert seen <= red
    assert retriever.invoke(question, filter={"tenant": "green"}) == []


@pytest.mark.parametrize("load", [True, False])
def test_a_filter_key_that_no_passage_has_is_named_once(load, corpus):
    retriever = made(LANGCHAIN, corpus, "manuals", load=load)
    with pytest.warns(PhasegraphWarning, match="filter key 'team' is in no passage; their keys are 'title'"):
        assert retriever.invoke(QUESTIONS[0], filter={"team": "red"}) == []
    assert retriever.invoke(QUESTIONS[0], filter={"team": "blue"}) == []


@pytest.mark.parametrize("framework", [LANGCHAIN, LLAMAINDEX])
def test_the_graph_of_another_library_needs_no_name(framework, connection):
    write_as(connection, "llama_index", records(COUNT))
    try:
        retriever = made(framework, connection)
        named = made(framework, connection, schema="llama_index")
    finally:
        erase(connection, "llama_index")
    found = [hits(retriever, question) for question in QUESTIONS]
    assert found == [hits(named, question) for question in QUESTIONS]
    texts = {one.text for one in records(COUNT)}
    assert all(found)
    assert {text for some in found for _, _, text in some} <= texts


def test_the_program_of_the_page_runs_as_it_stands(connection):
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document("Vertigo, as the store has it.", id="film")])
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    program = next(one for one in blocks if "GraphIndex.build" in one)
    known = {"connection": connection, "store": store, "write_graph": write_graph}
    known["records_from_extractions"] = records_from_extractions
    exec(program, known)  # noqa: S102
    assert list_corpora(connection) == ("manuals",)
    found = known["retriever"].invoke("Who directed Vertigo?")
    assert [one.page_content for one in found] == ["Vertigo, as the store has it."]
    evidence = known["retriever"].explain("Who directed Vertigo?").evidence("film")
    assert {one.source for one in evidence.sources if one.raw is not None} == {"vector", "graph"}


@pytest.mark.parametrize("load", [True, False])
def test_a_corpus_that_is_not_there_is_refused_with_those_that_are(load, corpus):
    with pytest.raises(InvalidInputError, match="has no corpus 'manual'; its corpora: 'manuals'"):
        open_graph(corpus, "manual", load=load)
    assert list_corpora(corpus) == ("manuals",)


@pytest.mark.parametrize("load", [True, False])
def test_the_only_corpus_needs_no_name(load, corpus):
    assert hits(made(LANGCHAIN, corpus, load=load), QUESTIONS[0]) == hits(
        made(LANGCHAIN, corpus, "manuals", load=load), QUESTIONS[0]
    )
    write_graph(corpus, records(2), corpus="notes")
    with pytest.raises(InvalidInputError, match=r"has 2 corpora: 'manuals', 'notes'. Give corpus="):
        open_graph(corpus, load=load)


def test_a_corpus_that_was_dropped_is_an_error_and_not_an_empty_answer(corpus):
    graph = made(LANGCHAIN, corpus, "manuals", load=False)
    fused = importlib.import_module(LANGCHAIN).PhaseGraphRetriever(graph=graph)
    assert fused.explain(QUESTIONS[0]).reports[0].status == "ok"
    drop_corpus(corpus, "manuals")
    with pytest.raises(StoreError, match="the corpus 'manuals' does not exist"):
        graph.invoke(QUESTIONS[0])
    for allowed in ({"a"}, lambda name: True):
        with pytest.raises(StoreError, match="the corpus 'manuals' does not exist"):
            Neo4jGraphSource(corpus, "manuals").within(allowed).search("Ada", 5, {})
    with pytest.raises(AllSourcesFailed, match="the corpus 'manuals' does not exist"):
        fused.explain(QUESTIONS[0])


def test_an_empty_database_says_that_a_schema_or_a_corpus_must_be_given(connection):
    with pytest.raises(InvalidInputError, match=r"pass corpus= or schema=: .*no edges of any preset"):
        open_graph(connection)
    with pytest.raises(InvalidInputError, match="no passages under the schema 'langchain'"):
        open_graph(connection, schema="langchain")
    with pytest.raises(InvalidInputError, match="its corpora: none"):
        open_graph(connection, "manuals")


def test_what_cannot_be_walked_on_the_server_is_refused(corpus):
    with pytest.raises(InvalidInputError, match="load=False needs a corpus written by write_graph"):
        open_graph(corpus, schema="llama_index", load=False)
    with pytest.raises(InvalidInputError, match="embed= must be None if load=False"):
        open_graph(corpus, "manuals", load=False, embed=len)


@pytest.mark.parametrize("framework", [LANGCHAIN, LLAMAINDEX])
def test_an_address_in_place_of_a_connection_is_refused(framework):
    with pytest.raises(InvalidTypeError, match=r"got str \(for an address, use Neo4jConnection.connect"):
        made(framework, "bolt://localhost", "manuals")


@pytest.mark.parametrize(("framework", "other"), [(LANGCHAIN, LLAMAINDEX), (LLAMAINDEX, LANGCHAIN)])
def test_what_is_no_retriever_of_the_framework_is_named_with_what_to_do(framework, other):
    room, graph = importlib.import_module(framework), build_graph([{"id": "a", "text": "Ada met Bo."}])
    fused = room.PhaseGraphRetriever if framework == LANGCHAIN else room.CalibratedFusionRetriever
    with pytest.raises(InvalidTypeError, match=r"got phasegraph\.EntityGraph; make an EntityGraphRetriever of it"):
        fused(graph=graph)
    with pytest.raises(InvalidTypeError, match=r"got str$"):
        fused(graph="manuals")
    with pytest.raises(InvalidTypeError, match=r"from_neo4j\); got Neo4jConnection"):
        room.EntityGraphRetriever(graph=Neo4jConnection(Unasked()))
    with pytest.raises(InvalidTypeError, match=r"got a GraphRecords: pass records.graph\(\)"):
        room.EntityGraphRetriever(graph=GraphRecords(()))
    theirs = importlib.import_module(other).EntityGraphRetriever(graph=graph)
    with pytest.raises(InvalidTypeError, match=rf"got {other.partition('.')[0]}\.EntityGraphRetriever$"):
        fused(graph=theirs)


@pytest.mark.parametrize("load", [True, False])
def test_a_server_that_is_not_there_is_noticed_within_the_deadline_of_one_read(load):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        with Neo4jConnection.connect(f"bolt://127.0.0.1:{taken.getsockname()[1]}", timeout=1.0) as connection:
            began = time.monotonic()
            with pytest.raises(StoreError, match=r"^unreachable"):
                open_graph(connection, "manuals", load=load)
            assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(("framework", "field"), [(LANGCHAIN, "embeddings"), (LLAMAINDEX, "embed_model")])
def test_a_model_without_loading_is_refused_by_the_name_that_was_given(framework, field, corpus):
    with pytest.raises(InvalidInputError, match=f"{field}= must be None if load=False"):
        made(framework, corpus, "manuals", load=False, **{field: object()})
