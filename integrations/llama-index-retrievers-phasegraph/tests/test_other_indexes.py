"""LlamaIndex's other indexes as sources: a summary index, a tree, the older knowledge graph index."""

import warnings

import pytest
from llama_index.core import (
    DocumentSummaryIndex,
    KnowledgeGraphIndex,
    MockEmbedding,
    PropertyGraphIndex,
    SummaryIndex,
    TreeIndex,
    VectorStoreIndex,
)
from llama_index.core.indices.property_graph import LLMSynonymRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import KGTableRetriever, KnowledgeGraphRAGRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llamaindex_stores import CHUNKS, Keywords, Listed, Looked, hits, ids_of, property_graph

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
    PhaseGraphPostprocessor,
    SourceSpec,
)
from phasegraph import InvalidTypeError, PhasegraphWarning
from phasegraph.graph import build_graph

FACTS = {
    "Ada met Babbage.": [("Ada", "met", "Babbage")],
    "Ada wrote the Notes.": [("Ada", "wrote", "Notes")],
    "Ada was born in London.": [("Ada", "born in", "London")],
}
TEXTS = [*FACTS]


class Ada(Keywords):
    """A language model that always answers with the keyword `keyword`."""

    keyword: str = "Ada"

    def complete(self, prompt, formatted=False, **kwargs):
        found = super().complete(prompt)
        found.text = f"KEYWORDS: {self.keyword}"
        return found


def nodes():
    return [TextNode(id_=f"c{row}", text=text) for row, text in enumerate(TEXTS)]


def knowledge(keyword="Ada"):
    return KnowledgeGraphIndex(
        nodes(), kg_triplet_extract_fn=FACTS.__getitem__, llm=Ada(keyword=keyword), embed_model=Looked()
    )


def graph_rag(index):
    made = KnowledgeGraphRAGRetriever(
        storage_context=index.storage_context,
        llm=Ada(),
        entity_extract_fn=lambda query: ["Ada"],
        synonym_expand_fn=lambda query: [],
    )
    made._entity_extract_template = made._synonym_expand_template = None  # they read word lists
    return made


def orders(retriever, query="Who is Ada?", times=20):
    return {tuple((hit.node_id, hit.text) for hit in retriever.retrieve(query)) for _ in range(times)}


@pytest.mark.filterwarnings("ignore:.*hits without an id:phasegraph.PhasegraphWarning")
@pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["index", "retriever", "query engine", "graph RAG"])
def test_equal_scores_keep_one_order_where_facts_get_a_new_id_at_every_call(kind):
    index = knowledge()
    source = {
        "index": lambda: index,
        "retriever": lambda: KGTableRetriever(index, llm=Ada(), embed_model=Looked()),
        "query engine": lambda: index.as_query_engine(llm=Ada()),
        "graph RAG": lambda: graph_rag(index),
    }[kind]()
    graph = CalibratedFusionRetriever(graph=source)
    (order,) = orders(graph)
    made = [name for name, text in order if "knowledge sequence" in text]
    assert len(made) == 1
    assert made[0].startswith("text-")
    assert {name for name, _ in order} - {*made} == (set() if kind == "graph RAG" else {"c0", "c1", "c2"})
    (report,) = graph.explain("Who is Ada?").reports
    total = len(order)
    assert f"1 of {total} hits get a new random id in every call: facts of a graph" in report.notes
    assert f"ids of 1 of {total} hits from their text" in report.notes


@pytest.mark.parametrize("include_text", [True, False])
def test_a_user_of_the_older_knowledge_graph_is_told_the_index_that_finds_passages(include_text):
    with pytest.warns(PhasegraphWarning, match="hits without an id") as told:
        CalibratedFusionRetriever(graph=knowledge().as_retriever(include_text=include_text)).retrieve("Who is Ada?")
    (said,) = (str(each.message) for each in told if "without an id" in str(each.message))
    assert said.endswith("use a PropertyGraphIndex in place of the KnowledgeGraphIndex to get passages with ids")
    assert "HitFields" not in said
    with warnings.catch_warnings():
        warnings.simplefilter("error", PhasegraphWarning)
        graph = LLMSynonymRetriever(property_graph().property_graph_store, llm=Keywords(), include_text=include_text)
        assert set(ids_of(CalibratedFusionRetriever(graph=graph).retrieve("Who is Ada?"))) == set(CHUNKS)


@pytest.mark.filterwarnings("ignore:.*hits without an id:phasegraph.PhasegraphWarning")
def test_facts_that_are_made_anew_are_told_by_text_in_lists_too():
    found = [knowledge().as_retriever().retrieve("Who is Ada?") for _ in range(2)]
    ids = [[hit.node_id for hit in PhaseGraphPostprocessor().fuse({"graph": one})] for one in found]
    assert ids[0] == ids[1]


def test_a_graph_that_finds_nothing_is_empty_and_no_passage():
    index = knowledge("Nobody")
    source = index.as_retriever(include_text=False)
    assert [hit.text for hit in source.retrieve("Who?")] == ["No relationships found."]
    graph = CalibratedFusionRetriever(graph=source)
    assert graph.retrieve("Who?") == []
    (report,) = graph.explain("Who?").reports
    assert (report.status, report.notes) == ("empty", ("the source's graph found no relationships",))
    own = hits(a=1.0)
    own[0].node.text = "No relationships found."
    own[0].node.metadata["page"] = 3
    assert len(CalibratedFusionRetriever(graph=Listed(own)).retrieve("Who?")) == 1


UNORDERED = {
    "summary index": lambda found: SummaryIndex(found),
    "its query engine": lambda found: SummaryIndex(found).as_query_engine(llm=Ada()),
    "tree, all leaves": lambda found: TreeIndex(found, llm=Ada(), build_tree=False).as_retriever(
        retriever_mode="all_leaf"
    ),
    "tree, roots": lambda found: TreeIndex(found, llm=Ada(), num_children=99).as_retriever(retriever_mode="root"),
}


@pytest.mark.parametrize("kind", UNORDERED)
def test_a_retriever_that_returns_all_it_holds_counts_by_membership_alone(kind):
    """The order of the nodes in the store must not affect the order of the answer."""
    total = 3 if kind == "tree, roots" else 60
    found = [TextNode(id_=f"c{row:02}", text=f"text {row}") for row in range(total)]
    retriever = CalibratedFusionRetriever(
        vector=Listed(hits(c02=0.9, c01=0.5, z=0.4, c00=0.3, y=0.2)),
        retrievers={"all": UNORDERED[kind](found)},
        k=99,
        evidence_key="why",
    )
    with pytest.warns(
        PhasegraphWarning, match="source 'all' returns its hits without an order: all its hits get the same rank"
    ):
        answer = retriever.retrieve("text 7")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = retriever.explain("text 7")
    ranking = next(one for one in result.candidates.rankings if one.source == "all")
    if kind != "tree, roots":
        assert set(ranking.ids) == {node.node_id for node in found}
    blocks = [hit.metadata["why"]["sources"]["all"] for hit in answer]
    assert {one["raw"] for one in blocks} == {None}
    assert {one["rank"] for one in blocks if one["rank"] is not None} == {(len(ranking) + 1) / 2}
    assert len({one["contribution"] for one in blocks if one["rank"] is not None}) == 1
    report = next(one for one in result.reports if one.source == "all")
    assert "all its hits get the same rank: they have no order" in report.notes
    assert [name for name in result.ids if name in ("c00", "c01", "c02")] == ["c02", "c01", "c00"]
    alone = CalibratedFusionRetriever(retrievers={"all": SourceSpec(retriever=UNORDERED[kind](found), fetch_k=2)})
    with pytest.warns(PhasegraphWarning, match="without an order"):
        assert len(alone.retrieve("text 7")) <= 2


@pytest.mark.filterwarnings("error")
def test_an_order_that_a_postprocessor_makes_of_them_counts():
    class Last(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes, query_bundle=None):
            return [NodeWithScore(node=one.node, score=float(row)) for row, one in enumerate(nodes)][::-1]

    engine = SummaryIndex(nodes()).as_query_engine(llm=Ada(), node_postprocessors=[Last()])
    assert CalibratedFusionRetriever(retrievers={"all": engine}).explain("q").ids == ("c2", "c1", "c0")


@pytest.mark.parametrize("kind", ["property graph", "document summary"])
def test_a_walk_reads_its_nodes_from_the_docstore_of_another_index(kind):
    model = MockEmbedding(embed_dim=4)
    index = {
        "property graph": lambda: PropertyGraphIndex(nodes(), kg_extractors=[], embed_model=model, llm=Ada()),
        "document summary": lambda: DocumentSummaryIndex([], llm=Ada(), embed_model=model),
    }[kind]()
    index.docstore.add_documents(nodes())
    graph = EntityGraphRetriever.from_nodes(nodes())._source.graph
    found = EntityGraphRetriever(graph, nodes=index).retrieve("What did Ada write?")
    assert {hit.text for hit in found} <= set(TEXTS)
    assert found


def test_nodes_of_a_property_graph_index_over_an_existing_store_are_looked_up():
    made = PropertyGraphIndex(nodes(), kg_extractors=[], llm=Ada(), embed_model=Looked(), embed_kg_nodes=False)
    again = PropertyGraphIndex.from_existing(
        made.property_graph_store, llm=Ada(), embed_model=Looked(), embed_kg_nodes=False
    )
    assert not again.docstore.docs
    graph = build_graph([{"id": one.node_id, "text": one.text} for one in nodes()])
    assert {hit.node_id for hit in EntityGraphRetriever(graph, nodes=again).retrieve("Ada")} == {"c0", "c1", "c2"}


def test_an_index_whose_store_looks_up_no_nodes_is_refused():
    class Silent(BasePydanticVectorStore):
        stores_text: bool = True

        @property
        def client(self):
            return None

        def add(self, nodes, **kwargs):
            return []

        def delete(self, ref_doc_id, **kwargs):
            pass

        def query(self, query, **kwargs):
            return None

    index = VectorStoreIndex.from_vector_store(Silent(), embed_model=Looked())
    with pytest.raises(InvalidTypeError, match="a Silent cannot: give the nodes, a docstore or a function of ids"):
        EntityGraphRetriever(build_graph([{"id": "c0", "text": TEXTS[0]}]), nodes=index)
