"""Any knowledge graph as a source: chunk walks, bare core sources, and functions that return plain types."""

import logging

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_phasegraph import EntityGraphRetriever, HitFields, PhaseGraphRetriever, SourceSpec, fuse_lists
from phasegraph import AllSourcesFailed, CallableSource, InvalidInputError, InvalidTypeError, PhasegraphWarning, Ranking
from phasegraph.graph import ChunkGraphSource, build_chunk_graph

TEXTS = {"1": "See Table 2.", "2": "Prices.", "3": "Table 2: 4 EUR", "4": "An end."}
MODEL = DeterministicFakeEmbedding(size=16)


def documents():
    return [
        Document(text, id=name, metadata={"tenant": "red" if name < "3" else "blue"}) for name, text in TEXTS.items()
    ]


@pytest.fixture
def store():
    return InMemoryVectorStore.from_documents(documents(), MODEL)


@pytest.fixture
def graph():
    rows = [{"id": name, "text": text} for name, text in TEXTS.items()]
    return build_chunk_graph(rows, documents=["report"] * 4, embeddings=MODEL.embed_documents(list(TEXTS.values())))


def named(*ids):
    return CallableSource("graph", lambda query, limit: [(name, 1.0 - row / 10) for row, name in enumerate(ids)])


async def test_a_chunk_walk_answers_with_its_path(store, graph):
    retriever = PhaseGraphRetriever(vector=store, graph=ChunkGraphSource(graph), evidence_key="why", k=4)
    for found in (retriever.invoke("prices?"), await retriever.ainvoke("prices?")):
        assert {one.id: one.page_content for one in found} == TEXTS
        for one in found:
            why = one.metadata["why"]["sources"]["graph"]["evidence"]
            assert [kind for kind, _ in why["path"]] == ["passage"] * len(why["path"])
            assert why["path"][-1] == ["passage", one.id]
            assert len(why["edges"]) == len(why["path"]) - 1


def test_a_chunk_walk_alone_starts_from_the_nearest_chunks(graph):
    source = ChunkGraphSource(graph, embedder=MODEL.embed_query)
    walk = EntityGraphRetriever(graph=source, documents=documents(), evidence_key="why")
    found = walk.invoke("Prices.")
    assert found[0].id == "2"
    assert found[0].metadata["why"]["path"] == [["passage", "2"]]
    within = walk.invoke("Prices.", filter={"tenant": "red"})
    assert {one.id for one in within} <= {"1", "2"}
    assert within


def test_a_chunk_graph_itself_is_refused_with_what_to_make_of_it(graph):
    with pytest.raises(InvalidTypeError, match="ChunkGraphSource"):
        PhaseGraphRetriever(graph=graph)
    with pytest.raises(InvalidTypeError, match="ChunkGraphSource"):
        EntityGraphRetriever(graph=graph)


@pytest.mark.parametrize("bare", [named("4", "3"), EntityGraphRetriever(graph=named("4", "3"))])
async def test_a_bare_source_takes_its_texts_from_the_store_beside_it(store, bare):
    vector = SourceSpec(retriever=store, fetch_k=1)
    retriever = PhaseGraphRetriever(vector=vector, graph=bare, k=3)
    for found in (retriever.invoke("See Table 2."), await retriever.ainvoke("See Table 2.")):
        assert {one.id: one.page_content for one in found} == {name: TEXTS[name] for name in ("1", "3", "4")}
    assert "texts of 2 of 2 passages from source 'vector'" in retriever.explain("See Table 2.").reports[0].notes


def test_what_the_others_found_is_not_looked_up_again(store):
    asked = []
    inner = store.get_by_ids
    store.get_by_ids = lambda ids: asked.append(list(ids)) or inner(ids)
    spec = SourceSpec(retriever=named("4", "1"), depends_on=["vector"])
    PhaseGraphRetriever(vector=SourceSpec(retriever=store, fetch_k=1), graph=spec).invoke("See Table 2.")
    assert asked == [["4"]]


def test_a_store_whose_retriever_shows_a_part_of_it_gives_no_texts(store):
    """An empty text with a warning is better than the text of another tenant."""
    part = store.as_retriever(search_kwargs={"filter": lambda document: document.metadata["tenant"] == "red"})
    with pytest.raises(InvalidInputError, match="source 'vector' has its own filter, which source 'graph' cannot"):
        PhaseGraphRetriever(vector=part, graph=named("4"))
    own_ids = SourceSpec(retriever=store, fields=HitFields(id="tenant"))
    with (
        pytest.warns(PhasegraphWarning, match="no source has"),
        pytest.warns(PhasegraphWarning, match="different texts under one id"),
    ):
        PhaseGraphRetriever(vector=own_ids, graph=named("4")).invoke("prices?")


def test_a_store_that_cannot_be_asked_is_noted(store):
    store.get_by_ids = lambda ids: 1 / 0
    retriever = PhaseGraphRetriever(vector=SourceSpec(retriever=store, fetch_k=1), graph=named("4"))
    result = retriever.explain("See Table 2.")
    said = "source 'vector' could not be asked for the texts of passages (ZeroDivisionError)"
    assert said in result.reports[0].notes
    assert "make an EntityGraphRetriever" in result.warnings[-1]


def test_alone_without_documents_a_warning_says_so():
    with pytest.warns(PhasegraphWarning, match="documents= was not given"):
        found = EntityGraphRetriever(graph=named("4")).invoke("q")
    assert [(one.id, one.page_content) for one in found] == [("4", "")]
    with pytest.warns(PhasegraphWarning, match="documents= has no document for 1 of 2 passages"):
        found = EntityGraphRetriever(graph=named("4", "1"), documents=documents()[:1]).invoke("q")
    assert [(one.id, one.page_content) for one in found] == [("1", "See Table 2.")]


ANSWERS = {
    "dicts": [{"id": "1", "text": "See Table 2.", "score": 0.9}, {"id": "2", "text": "Prices.", "score": 0.4}],
    "ids and scores": {"1": 0.9, "2": 0.4},
    "dicts that name": [{"id": "1", "score": 0.9}, {"id": "2", "score": 0.4}],
    "pairs of a dict and a score": [({"id": "1", "text": "See Table 2."}, 0.9), ({"id": "2", "text": "Prices."}, 0.4)],
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_rows_meet_the_vectors_by_id(store, answer):
    async def later(query):
        return answer

    for function in (lambda query: answer, later):
        retriever = PhaseGraphRetriever(vector=store, retrievers={"rows": function}, k=4)
        result = await retriever.aexplain("Prices.")
        assert set(result.candidates.ids) == set(TEXTS)
        ranking = next(one for one in result.candidates.rankings if one.source == "rows")
        assert (ranking.ids, ranking.scores.tolist()) == (("1", "2"), [0.9, 0.4])
        assert {one.id: one.page_content for one in await retriever.ainvoke("Prices.")} == TEXTS


@pytest.mark.filterwarnings("ignore::phasegraph.PhasegraphWarning")
@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ("Ada met Bo.", ["Ada met Bo."]),
        ([("Ada", "met", "Bo"), ("Bo", "met", "Cy")], ["Ada -> met -> Bo", "Bo -> met -> Cy"]),
        ([(("Bo", "met", "Cy"), 2.0), (("Ada", "met", "Bo"), 1.0)], ["Bo -> met -> Cy", "Ada -> met -> Bo"]),
        ([], []),
        (" ", []),
    ],
)
def test_texts_and_triples_are_hits_of_their_own(answer, texts):
    retriever = PhaseGraphRetriever(retrievers={"facts": lambda query: answer})
    found = retriever.invoke("who?")
    assert sorted(one.page_content for one in found) == sorted(texts)
    assert all(one.id.startswith("text-") for one in found)


@pytest.mark.parametrize("answer", [None, b"x", {"answer": "x"}, [("a", "b", 3)], [3]])
def test_anything_else_is_refused_with_what_was_expected(answer, caplog):
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(AllSourcesFailed, match="must return a list of documents, texts"),
    ):
        PhaseGraphRetriever(retrievers={"facts": lambda query: answer}).invoke("who?")


def test_a_text_is_no_list():
    with pytest.raises(InvalidTypeError, match=r"lists\['a'\] must be a list of documents; got a text"):
        fuse_lists().invoke({"a": "text"})


def test_a_search_of_another_kind_is_refused_when_built():
    class Client:
        def search(self, *, index):
            return []

    with pytest.raises(
        InvalidTypeError, match=r"must take \(query, limit, upstream\); Client.search takes \(\*, index"
    ):
        PhaseGraphRetriever(graph=Client())


def test_a_payload_with_a_path_of_another_kind_is_evidence_all_the_same():
    class Source:
        def search(self, query, limit, upstream):
            return Ranking("graph", ["1"], [1.0], payloads={"1": type("File", (), {"path": "/tmp/x"})()})

    held = EntityGraphRetriever(graph=Source(), documents=documents())
    (found,) = PhaseGraphRetriever(graph=held, evidence_key="why").invoke("q")
    assert found.metadata["why"]["sources"]["graph"]["evidence"] == "File"


def test_a_store_that_looks_up_no_ids_is_refused_where_it_is_given():
    class Silent(VectorStore):
        def similarity_search(self, query, k=4, **kwargs):
            return []

        @classmethod
        def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
            return cls()

    with pytest.raises(InvalidTypeError, match="a Silent cannot: give the documents, or a function of ids"):
        EntityGraphRetriever(graph=named("4"), documents=Silent())
