"""The entity-graph retriever in LangChain, in a direct call and fused with vectors whose hits start the walk."""

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_stores import Fixed, ids_of
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, extractions_of, text_model
from phasegraph import InvalidInputError
from phasegraph.graph import FactIndex, FlowParameters, GraphSource, SemFlowSource, build_graph

PASSAGES = [
    Document("Vertigo is a film by Alfred Hitchcock.", id="film", metadata={"title": "Vertigo"}),
    Document("Alfred Hitchcock was born in Leytonstone.", id="man", metadata={"title": "Alfred Hitchcock"}),
    Document("Leytonstone is a part of London.", id="place", metadata={"title": "Leytonstone"}),
    Document("Paris is a city.", id="other", metadata={"title": "Paris"}),
]
QUESTION = "Where was the director of Vertigo born?"


def alone(**more):
    return EntityGraphRetriever.from_documents(PASSAGES, **more)


class TestEntityGraphRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return alone

    @property
    def retriever_constructor_params(self):
        return {}

    @property
    def retriever_query_example(self):
        return QUESTION


@pytest.mark.parametrize("k", [0, 1, 2, 100])
def test_k_is_a_field_and_a_keyword(k):
    whole = alone(k=100).invoke(QUESTION)
    assert ids_of(alone(k=k).invoke(QUESTION)) == ids_of(whole)[:k] == ids_of(alone().invoke(QUESTION, k=k))
    assert ids_of(asyncio.run(alone().ainvoke(QUESTION, k=k))) == ids_of(whole)[:k]


def stores():
    vectors = InMemoryVectorStore(Fixed())
    vectors.add_documents(PASSAGES)
    pairs = InMemoryStore()
    pairs.mset([(str(document.id), document) for document in PASSAGES])
    return [vectors, pairs]


@pytest.mark.parametrize("source", range(2))
def test_documents_come_from_stores(source):
    graph = alone().graph
    found = EntityGraphRetriever(graph=graph, documents=stores()[source]).invoke(QUESTION)
    texts = {document.id: document.page_content for document in PASSAGES}
    assert [document.page_content for document in found] == [texts[document.id] for document in found]


def vector_store():
    class Words(Fixed):
        def embed_query(self, text):
            return [float(word in text) + 0.01 for word in ("Vertigo", "film", "Paris", "city", "London", "born")]

    store = InMemoryVectorStore(Words())
    store.add_documents(PASSAGES)
    return store


def test_fused_a_walk_that_points_sharply_has_most_of_the_weight():
    result = PhaseGraphRetriever(vector=vector_store(), graph=alone(), k=4).explain(QUESTION)
    weights = dict(zip(result.candidates.sources, result.weights.round(6).tolist(), strict=True))
    assert weights == {"graph": 0.95, "vector": 0.05}


def test_embeddings_of_the_passages_are_kept_with_the_graph():
    retriever = alone(embeddings=vector_store().embeddings)
    assert retriever.graph.embeddings.shape == (4, 6)
    assert retriever.invoke(QUESTION)


def test_graph_documents_become_extractions():
    source = PASSAGES[0]
    documents = pytest.importorskip("langchain_neo4j.graphs.graph_document")
    GraphDocument, Node, Relationship = documents.GraphDocument, documents.Node, documents.Relationship
    nodes = [Node(id="Vertigo", type="Film"), Node(id="Alfred Hitchcock", type="Person")]
    found = extractions_of(
        [
            GraphDocument(
                nodes=nodes, relationships=[Relationship(source=nodes[0], target=nodes[1], type="BY")], source=source
            )
        ]
    )
    assert (found[0].passage_id, found[0].entities) == ("film", ("vertigo", "alfred hitchcock"))
    assert found[0].triples == (("Vertigo", "BY", "Alfred Hitchcock"),)
    assert alone(triples=found).graph.facts.nnz == 2
    rows = [{"id": one.id, "text": one.page_content} for one in PASSAGES]
    assert build_graph(rows, triples=found).facts.nnz == 2


@pytest.mark.parametrize("model", [FakeListChatModel(responses=["answer"]), FakeListLLM(responses=["answer"])])
def test_a_language_model_becomes_a_function_from_prompt_to_text(model):
    text = text_model(model)("prompt")
    assert (text, type(text)) == ("answer", str)


def test_bad_arguments_are_errors_that_name_them():
    graph = alone().graph
    for arguments, named in (
        ({"graph": 3}, "graph"),
        ({}, "graph"),
        ({"graph": graph, "documents": 3}, "documents"),
        ({"graph": graph, "documents": ["text", 3]}, "documents"),
        ({"graph": graph, "k": -1}, "k must"),
        ({"graph": graph, "depth": 2}, "depth"),
        ({"graph": graph, "embeddings": 3}, "embeddings"),
    ):
        with pytest.raises(InvalidInputError, match=named):
            EntityGraphRetriever(**arguments)
    with pytest.raises(InvalidInputError, match="model"):
        text_model(len)
    with pytest.raises(InvalidInputError, match="graph_documents"):
        extractions_of([3])
    with pytest.raises(InvalidInputError, match="query"):
        alone().invoke(" ")
    for k in (-1, True, 1.5):
        with pytest.raises(InvalidInputError, match="k must"):
            alone().invoke(QUESTION, k=k)


def test_no_search_waits_for_a_graph_that_is_assigned():
    rows = [{"id": d.id, "title": d.metadata["title"], "text": d.page_content} for d in PASSAGES]
    graph, other = build_graph(rows), build_graph(rows)
    retriever = EntityGraphRetriever(graph=graph, documents=PASSAGES)
    ready = vars(graph)["operator"]
    retriever.k = 3
    assert vars(graph)["operator"] is ready
    retriever.graph = GraphSource(other)
    assert "operator" in vars(other)


async def test_semflow_is_asked_as_it_is_and_takes_its_texts_from_documents():
    vectors = [[float(i == j) + 0.1 for j in range(4)] for i in range(4)]
    texts = [{"id": one.id, "title": one.metadata["title"], "text": one.page_content} for one in PASSAGES]
    graph = build_graph(texts, embeddings=vectors)
    facts = FactIndex.of(graph, [("Vertigo", "is by", "Alfred Hitchcock")], [[0.6, 0.8, 0.1, 0.1]])
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    store.add_documents(PASSAGES)
    for parameters in ("paper", "released", FlowParameters(query_weighted=False, abstractness=False, penalty=0.0)):
        source = SemFlowSource(graph, facts, lambda query: [0.6, 0.8, 0.1, 0.1], parameters)
        walk = source.search(QUESTION, 50, {})
        assert len(walk.ids) >= 2
        shown = EntityGraphRetriever(graph=source, documents=PASSAGES)
        assert ids_of(shown.invoke(QUESTION)) == list(walk.ids)
        retriever = PhaseGraphRetriever(vector=store, graph=source)
        found = retriever.invoke(QUESTION)
        assert {one.id: one.page_content for one in found} == {one.id: one.page_content for one in PASSAGES}
        report = {one.source: one for one in retriever.explain(QUESTION).reports}["graph"]
        assert (report.status, report.hits) == ("ok", len(walk.ids))
        assert ids_of(await retriever.ainvoke(QUESTION)) == ids_of(found)
