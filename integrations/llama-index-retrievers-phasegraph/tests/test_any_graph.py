"""Any knowledge graph as a source: chunk walks, bare core sources, custom retrievers, functions of plain types."""

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import TRIPLET_SOURCE_KEY, EntityNode, Relation
from llama_index.core.indices.property_graph import CustomPGRetriever, PGRetriever
from llama_index.core.retrievers import VectorIndexRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, ObjectType, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import ids_of

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, HitFields, SourceSpec
from phasegraph import AllSourcesFailed, CallableSource, InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.graph import ChunkGraphSource, build_chunk_graph
from phasegraph.sources import AsyncCallableSource

TEXTS = {"1": "See Table 2.", "2": "Prices.", "3": "Table 2: 4 EUR", "4": "An end."}
MODEL = MockEmbedding(embed_dim=16)
RED = MetadataFilters(filters=[MetadataFilter(key="tenant", value="red")])


def nodes():
    return [
        TextNode(id_=name, text=text, metadata={"tenant": "red" if name < "3" else "blue"})
        for name, text in TEXTS.items()
    ]


@pytest.fixture
def index():
    return VectorStoreIndex(nodes(), embed_model=MODEL)


@pytest.fixture
def graph():
    rows = [{"id": name, "text": text} for name, text in TEXTS.items()]
    return build_chunk_graph(rows, documents=["report"] * 4, embeddings=MODEL.get_text_embedding_batch([*TEXTS]))


def named(*ids):
    return CallableSource("graph", lambda query, limit: [(name, 1.0 - row / 10) for row, name in enumerate(ids)])


def first(index):
    return SourceSpec(retriever=index, fetch_k=1)


def texts_of(hits):
    return {hit.node_id: hit.text for hit in hits}


async def test_a_chunk_walk_answers_with_its_path(index, graph):
    retriever = CalibratedFusionRetriever(vector=index, graph=ChunkGraphSource(graph), evidence_key="why", k=4)
    for found in (retriever.retrieve("prices?"), await retriever.aretrieve("prices?")):
        assert texts_of(found) == TEXTS
        for hit in found:
            why = hit.metadata["why"]["sources"]["graph"]["evidence"]
            assert why["path"][-1] == ["passage", hit.node_id]
            assert len(why["edges"]) == len(why["path"]) - 1


def test_a_chunk_walk_alone_starts_from_the_nearest_chunks(graph):
    source = ChunkGraphSource(graph, embedder=MODEL.get_query_embedding)
    walk = EntityGraphRetriever(source, nodes(), evidence_key="why")
    found = walk.retrieve("Prices.")
    assert texts_of(found) == TEXTS
    assert found[0].metadata["why"]["path"] == [["passage", found[0].node_id]]
    assert set(ids_of(walk.within(RED).retrieve("Prices."))) == {"1", "2"}


def test_a_chunk_graph_itself_is_refused_with_what_to_make_of_it(graph):
    with pytest.raises(InvalidTypeError, match="ChunkGraphSource"):
        CalibratedFusionRetriever(graph=graph)
    with pytest.raises(InvalidTypeError, match="ChunkGraphSource"):
        EntityGraphRetriever(graph)


async def late(query, limit):
    return [("4", 1.0), ("3", 0.5)]


@pytest.mark.parametrize(
    "bare", [named("4", "3"), AsyncCallableSource("graph", late), EntityGraphRetriever(named("4", "3"))]
)
async def test_a_bare_source_takes_its_texts_from_the_store_beside_it(index, bare):
    retriever = CalibratedFusionRetriever(vector=first(index), graph=bare, k=3)
    for found in (retriever.retrieve("q"), await retriever.aretrieve("q")):
        assert {"3", "4"} <= set(ids_of(found))
        assert texts_of(found) == {name: TEXTS[name] for name in ids_of(found)}
    notes = retriever.explain("q").reports[0].notes
    assert any(note.endswith("of 2 passages from source 'vector'") for note in notes)


def test_a_retriever_that_shows_a_part_of_its_index_gives_no_texts(index):
    """A refusal or a missing text is better than the text of another tenant."""
    vector = index.as_retriever(filters=RED)
    said = r"\(vector\) must apply to every source.*: source 'graph' does not support"
    with pytest.raises(InvalidInputError, match=said):
        CalibratedFusionRetriever(vector=vector, graph=named("4"))
    limited = VectorIndexRetriever(index, node_ids=["1", "2"])
    with pytest.warns(PhasegraphWarning, match="no source has"):
        found = CalibratedFusionRetriever(vector=limited, graph=named("4")).retrieve("prices?")
    assert TEXTS["4"] not in texts_of(found).values()
    own_ids = SourceSpec(retriever=index, fields=HitFields(id="tenant"))
    with (
        pytest.warns(PhasegraphWarning, match="no source has"),
        pytest.warns(PhasegraphWarning, match="different texts under one id"),
    ):
        CalibratedFusionRetriever(vector=own_ids, graph=named("4")).retrieve("prices?")


def test_a_narrowed_walk_gives_no_texts_of_what_it_must_not_show(graph):
    walk = EntityGraphRetriever(ChunkGraphSource(graph, embedder=MODEL.get_query_embedding), nodes())
    assert (
        texts_of(CalibratedFusionRetriever(graph=named("4"), retrievers={"walk": walk}).retrieve("q"))["4"] == "An end."
    )
    narrow = walk.within(RED)
    with pytest.raises(
        InvalidInputError,
        match=r"\(walk\) must apply to every source.*: source 'graph' does not support",
    ):
        CalibratedFusionRetriever(graph=named("4"), retrievers={"walk": narrow})


ANSWERS = {
    "dicts": [{"id": "1", "text": "See Table 2.", "score": 0.9}, {"id": "2", "text": "Prices.", "score": 0.4}],
    "ids and scores": {"1": 0.9, "2": 0.4},
    "dicts that name": [{"id": "1", "score": 0.9}, {"id": "2", "score": 0.4}],
    "pairs of a dict and a score": [({"id": "1", "text": "See Table 2."}, 0.9), ({"id": "2", "text": "Prices."}, 0.4)],
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_rows_meet_the_vectors_by_id(index, answer):
    async def later(query):
        return answer

    for function in (lambda query: answer, later):
        retriever = CalibratedFusionRetriever(vector=index, retrievers={"rows": function}, k=4)
        result = await retriever.aexplain("Prices.")
        assert set(result.candidates.ids) >= {"1", "2"}
        ranking = next(one for one in result.candidates.rankings if one.source == "rows")
        assert (ranking.ids, ranking.scores.tolist()) == (("1", "2"), [0.9, 0.4])
        found = texts_of(await retriever.aretrieve("Prices."))
        assert found == {name: TEXTS[name] for name in found}


def test_neither_a_prompt_nor_an_embedding_reads_a_rows_id_and_score():
    row = {"id": "1", "text": "See Table 2.", "score": 0.9, "title": "T"}
    (hit,) = CalibratedFusionRetriever(retrievers={"rows": lambda query: [row]}).retrieve("q")
    assert hit.metadata == {"id": "1", "score": 0.9, "title": "T"}
    for said in (hit.node.get_content(metadata_mode=mode) for mode in ("llm", "embed")):
        assert said == "title: T\n\nSee Table 2."


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
    found = CalibratedFusionRetriever(retrievers={"facts": lambda query: answer}).retrieve("who?")
    assert sorted(hit.text for hit in found) == sorted(texts)
    assert all(hit.node_id.startswith("text-") for hit in found)


@pytest.mark.parametrize("answer", [None, b"x", {"answer": "x"}, [("a", "b", 3)], [3]])
def test_anything_else_is_refused_with_what_was_expected(answer):
    with pytest.raises(AllSourcesFailed, match="must return a list of nodes, texts"):
        CalibratedFusionRetriever(retrievers={"facts": lambda query: answer}).retrieve("who?")


def test_a_search_of_another_kind_is_refused_when_built():
    class Client:
        def search(self, *, index):
            return []

    with pytest.raises(
        InvalidTypeError, match=r"must take \(query, limit, upstream\); Client.search takes \(\*, index"
    ):
        CalibratedFusionRetriever(graph=Client())


# Custom retrievers of a property graph.


class Own(CustomPGRetriever):
    """A custom retriever that returns `answer`, or calls it if it is a function."""

    def init(self, answer, **kwargs):
        self.answer = answer

    def custom_retrieve(self, query_str):
        return self.answer(query_str) if callable(self.answer) else self.answer


def of(answer, together, include_text=False):
    own = Own(SimplePropertyGraphStore(), include_text=include_text, answer=answer)
    return PGRetriever([own], use_async=False) if together else own


def chunk(name):
    """Return a node like the nodes of a node parser: a part of a document."""
    source = RelatedNodeInfo(node_id="document", node_type=ObjectType.DOCUMENT)
    return TextNode(id_=name, text=f"{TEXTS[name]} a -> b -> c", relationships={NodeRelationship.SOURCE: source})


@pytest.mark.parametrize("together", [False, True], ids=["CustomPGRetriever", "PGRetriever"])
@pytest.mark.parametrize("include_text", [False, True])
@pytest.mark.parametrize("kind", ["node", "nodes", "scored", "chunks"])
async def test_nodes_of_ones_own_keep_their_ids(index, kind, include_text, together):
    answer = {
        "node": nodes()[0],
        "nodes": nodes()[:2],
        "scored": [NodeWithScore(node=node, score=0.5) for node in nodes()[:2]],
        "chunks": [chunk("1"), chunk("2")],
    }[kind]
    wanted = {"1"} if kind == "node" else {"1", "2"}
    graph = of(answer, together, include_text)
    alone = CalibratedFusionRetriever(graph=graph)
    for found in (alone.retrieve("q"), await alone.aretrieve("q")):
        assert set(ids_of(found)) == wanted
        assert all(TEXTS[hit.node_id] in hit.text for hit in found)
    both = CalibratedFusionRetriever(vector=index, graph=graph, evidence_key="why", k=9).retrieve("q")
    assert set(ids_of(both)) <= set(TEXTS)
    credited = {hit.node_id for hit in both if hit.metadata["why"]["sources"]["graph"]["rank"] is not None}
    assert credited == wanted


@pytest.mark.filterwarnings("ignore::phasegraph.PhasegraphWarning")
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("answer", ["one text", ["one text", "another"]])
def test_texts_have_the_same_id_at_every_call(answer, together):
    retriever = CalibratedFusionRetriever(graph=of(answer, together))
    found = retriever.retrieve("q")
    assert {hit.text for hit in found} == ({answer} if isinstance(answer, str) else set(answer))
    assert ids_of(found) == ids_of(retriever.retrieve("q"))
    assert all(name.startswith("text-") for name in ids_of(found))


def test_triples_that_a_custom_retriever_hands_on_lead_to_their_passages():
    store = SimplePropertyGraphStore()
    store.upsert_llama_nodes(nodes()[:1])
    ada, bo = (EntityNode(name=name, properties={TRIPLET_SOURCE_KEY: "1"}) for name in ("Ada", "Bo"))
    triplet = (ada, Relation(label="met", source_id=ada.id, target_id=bo.id), bo)
    handed = Own(store, answer=None)._get_nodes_with_score([triplet])
    assert [hit.text for hit in handed] == ["Ada -> met -> Bo"]
    own = Own(store, answer=handed)
    (found,) = CalibratedFusionRetriever(graph=own, evidence_key="why").retrieve("Ada")
    assert (found.node_id, found.text) == ("1", TEXTS["1"])
    assert found.metadata["why"]["sources"]["graph"]["evidence"] == {"facts": ["Ada -> met -> Bo"]}
