"""Retrievers of property graphs: every triple is replaced by the passage that states it."""

import asyncio

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.indices.property_graph import LLMSynonymRetriever, PGRetriever, VectorContextRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llamaindex_stores import CHUNKS, FACTS, Keywords, Listed, Looked, hits, ids_of, listed, property_graph
from tests.suites.manual_time import until

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
    HitFields,
    SourceSpec,
    read_property_graph,
)
from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.graph import FactIndex, FlowParameters, SemFlowSource, build_graph


@pytest.fixture
def graph():
    return property_graph()


def synonyms(graph, **options):
    return LLMSynonymRetriever(graph.property_graph_store, llm=Keywords(), **options)


def contexts(graph, **options):
    return VectorContextRetriever(
        graph.property_graph_store, vector_store=graph.vector_store, embed_model=graph._embed_model, **options
    )


def kinds(graph, include_text):
    found = {kind.__name__: kind(graph, include_text=include_text) for kind in (synonyms, contexts)}
    found["both"] = PGRetriever([found["synonyms"], found["contexts"]])
    return found


@pytest.mark.parametrize("include_text", [True, False])
@pytest.mark.parametrize("kind", ["synonyms", "contexts", "both"])
def test_triples_come_back_as_the_passages_that_state_them(graph, kind, include_text):
    retriever = CalibratedFusionRetriever(graph=kinds(graph, include_text)[kind], evidence_key="phasegraph")
    found = retriever.retrieve("Who was Ada?")
    assert set(ids_of(found)) == set(CHUNKS)
    for hit in found:
        assert hit.text.endswith(CHUNKS[hit.node_id])
        for subject, label, target in FACTS[hit.node_id]:
            fact = f"{subject} -> {label} -> {target}"
            assert fact in hit.metadata["phasegraph"]["sources"]["graph"]["evidence"]["facts"]


@pytest.mark.parametrize("include_text", [True, False])
async def test_async_gives_the_same_passages(graph, include_text):
    retriever = CalibratedFusionRetriever(graph=kinds(graph, include_text)["both"])
    assert (await retriever.aexplain("Ada?")).ids == retriever.explain("Ada?").ids


def test_the_framework_alone_loses_the_passages_of_shared_entities(graph):
    """The reason for the mapping: the framework reads the passage from the subject, which stores only the last one."""
    assert set(ids_of(synonyms(graph).retrieve("Ada?"))) == {"c3"}


def test_the_retriever_is_left_as_it_was(graph):
    own = synonyms(graph, include_text=False, limit=7)
    before = dict(vars(own))
    CalibratedFusionRetriever(graph=own).retrieve("Ada?")
    assert vars(own) == before
    assert {hit.node.ref_doc_id for hit in own.retrieve("Ada?")} == {"c3"}


def test_the_limit_replaces_the_number_of_triples(graph):
    own = synonyms(graph, include_text=False)
    assert len(CalibratedFusionRetriever(graph=own, fetch_k=1).retrieve("Ada?")) == 1


def test_constant_scores_of_a_graph_count_as_membership_only(graph):
    retriever = CalibratedFusionRetriever(graph=synonyms(graph))
    fused = retriever.explain("Ada?").fused
    assert fused.max() == fused.min()


def test_agreement_between_vectors_and_graph_is_rewarded(graph):
    vector = Listed(
        [NodeWithScore(node=TextNode(id_=c, text=CHUNKS[c]), score=s) for c, s in (("c2", 0.9), ("c1", 0.8))]
    )
    retriever = CalibratedFusionRetriever(
        vector=vector, graph=synonyms(graph, include_text=False), evidence_key="phasegraph"
    )
    block = retriever.retrieve("Ada?")[0].metadata["phasegraph"]
    assert {name: one["rank"] is not None for name, one in block["sources"].items()} == {"graph": True, "vector": True}


def test_a_passages_own_text_is_taken_before_a_triple():
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="p")}
    triple = NodeWithScore(node=TextNode(text="a -> b -> c", relationships=source), score=1.0)
    spec, with_text = (
        SourceSpec(
            retriever=Listed([triple]),
            fields=HitFields(id=lambda hit: hit.node.ref_doc_id, resolve=lambda ids, found=found: found),
        )
        for found in ({}, ["text"])
    )
    assert CalibratedFusionRetriever(graph=with_text).retrieve("x")[0].text == "text"
    (report,) = CalibratedFusionRetriever(graph=spec).explain("x").reports
    assert "resolve gave no passage for 1 of 1 ids" in report.notes


def test_hits_without_any_id_fall_back_on_their_text_once():
    with pytest.warns(PhasegraphWarning, match="hits without an id"):
        found = CalibratedFusionRetriever(graph=lambda query: [("some fact", 1.0)]).retrieve("x")
    assert found[0].node_id.startswith("text-")


def test_a_property_graph_is_read_with_the_passage_of_each_relation(graph):
    records = read_property_graph(graph.property_graph_store)
    assert records.triples == {name: sorted(facts) for name, facts in FACTS.items()}
    assert [passage["text"] for passage in records.passages] == list(CHUNKS.values())
    assert records.unplaced == 0
    ours = build_graph(records.passages, triples=records.triples)
    found = EntityGraphRetriever(ours, records.nodes).retrieve("Where was Ada born, and who built the Engine?")
    assert found[0].node_id == "c3"


def test_an_empty_or_foreign_store_is_an_error():
    from llama_index.core.graph_stores import SimplePropertyGraphStore

    with pytest.raises(InvalidInputError, match="the store has no passage"):
        read_property_graph(SimplePropertyGraphStore())
    with pytest.raises(InvalidTypeError, match="store must be"):
        read_property_graph({})


def walked():
    nodes = [
        TextNode(id_="film", text="Vertigo is a film by Alfred Hitchcock.", metadata={"title": "Vertigo"}),
        TextNode(id_="man", text="Alfred Hitchcock was born in Leytonstone.", metadata={"title": "Alfred Hitchcock"}),
        TextNode(id_="other", text="Paris is a city.", metadata={"title": "Paris"}),
    ]
    return build_graph([{"id": n.node_id, "title": n.metadata["title"], "text": n.text} for n in nodes]), nodes


def test_similarity_top_k_is_how_many_it_returns():
    graph, nodes = walked()
    found = EntityGraphRetriever(graph, nodes, similarity_top_k=2).retrieve("Where was the director of Vertigo born?")
    assert ids_of(found) == ["man", "film"]


def test_it_takes_seeds_of_its_own():
    graph, nodes = walked()
    found = EntityGraphRetriever(graph, nodes, seeds=listed(other=0.9, film=0.1)).retrieve("something else")
    assert found[0].node_id == "other"


async def test_seeds_may_be_asynchronous_and_never_hold_the_event_loop():
    graph, nodes = walked()

    async def native(query):
        await asyncio.sleep(0)
        return hits(other=0.9)

    def slow(query):
        if query.startswith("awaited"):
            before = len(ticks)
            until(lambda: len(ticks) > before + 5)
        return hits(other=0.9)

    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    for seeds in (native, slow):
        retriever = EntityGraphRetriever(graph, nodes, seeds=seeds)
        fused = CalibratedFusionRetriever(graph=retriever, evidence_key="phasegraph", timeout=None)
        expected = ids_of(retriever.retrieve("something else"))
        assert expected[0] == "other"
        assert ids_of(fused.retrieve("something else")) == expected
        assert ids_of(await retriever.aretrieve("awaited: something else")) == expected
        assert ids_of(await fused.aretrieve("awaited: something else")) == expected
    ticking.cancel()


def test_a_seed_that_fails_raises_its_own_error():
    graph, nodes = walked()
    with pytest.raises(OSError, match="mine"):
        EntityGraphRetriever(graph, nodes, seeds=Listed(OSError("mine"))).retrieve("something else")


def test_what_it_does_not_know_is_an_error_that_says_what_was_meant():
    graph, nodes = walked()
    with pytest.raises(InvalidTypeError, match="unexpected argument 'provenance'; did you mean 'evidence_key'"):
        EntityGraphRetriever(graph, nodes, provenance=False)
    assert EntityGraphRetriever(graph, nodes, similarity_top_k=0).retrieve("Vertigo?") == []
    assert all(hit.metadata.keys() == {"title"} for hit in EntityGraphRetriever(graph, nodes).retrieve("Vertigo?"))


async def test_semflow_is_asked_as_it_is_and_takes_its_texts_from_nodes():
    nodes = walked()[1]
    vectors = {node.id_: [float(i == j) + 0.1 for j in range(3)] for i, node in enumerate(nodes)}
    graph = build_graph(
        [{"id": n.id_, "title": n.metadata["title"], "text": n.text} for n in nodes], embeddings=list(vectors.values())
    )
    facts = FactIndex.of(graph, [("Vertigo", "is by", "Alfred Hitchcock")], [[0.6, 0.8, 0.1]])
    for node in nodes:
        node.embedding = vectors[node.id_]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=3))
    question = "Where was the director of Vertigo born?"
    for parameters in ("paper", "released", FlowParameters(query_weighted=False, abstractness=False, penalty=0.0)):
        source = SemFlowSource(graph, facts, lambda query: [0.6, 0.8, 0.1], parameters)
        walk = source.search(question, 50, {})
        assert len(walk.ids) >= 2
        alone = EntityGraphRetriever(source, nodes)
        assert ids_of(alone.retrieve(question)) == list(walk.ids)
        assert {hit.node_id: hit.text for hit in alone.retrieve(question)}["man"] == nodes[1].text
        retriever = CalibratedFusionRetriever(vector=index, graph=source)
        found = retriever.retrieve(question)
        assert {hit.node_id: hit.text for hit in found} == {node.id_: node.text for node in nodes}
        report = {one.source: one for one in retriever.explain(question).reports}["graph"]
        assert (report.status, report.hits) == ("ok", len(walk.ids))
        assert ids_of(await retriever.aretrieve(question)) == ids_of(found)
    with pytest.raises(InvalidInputError, match="SemFlowSource cannot be filtered"):
        alone.within(MetadataFilters(filters=[MetadataFilter(key="title", value="Vertigo")]))


def test_built_from_nodes_it_embeds_them_and_the_query():
    _, nodes = walked()
    model = Looked(vectors={"Hitchcock.": (1.0, 0.0), "Leytonstone.": (0.0, 1.0)}, default=(0.7, 0.7))
    retriever = EntityGraphRetriever.from_nodes(nodes, embed_model=model, similarity_top_k=1)
    (found,) = retriever.retrieve("Is Vertigo set in Leytonstone.")
    assert (found.node_id, found.metadata) == ("man", {"title": "Alfred Hitchcock"})
    with pytest.raises(InvalidTypeError, match="embed_model"):
        EntityGraphRetriever.from_nodes(nodes, vectors=[[1.0]] * 3, embed_model="bge")


def test_without_nodes_the_other_sources_have_the_text():
    graph, nodes = walked()
    vector = Listed([NodeWithScore(node=node, score=1.0 - i / 10) for i, node in enumerate(nodes)])
    found = CalibratedFusionRetriever(vector=vector, graph=EntityGraphRetriever(graph)).retrieve("Vertigo?")
    assert {hit.node_id: hit.text for hit in found} == {node.node_id: node.text for node in nodes}
    with pytest.warns(PhasegraphWarning, match="nodes= was not given"):
        assert {hit.text for hit in EntityGraphRetriever(graph).retrieve("Vertigo?")} == {""}


def test_passages_that_nodes_lack_are_named():
    graph, nodes = walked()
    with pytest.warns(PhasegraphWarning, match="nodes= has no node for 1 of 2 passages"):
        found = EntityGraphRetriever(graph, nodes[:1]).retrieve("Where was the director of Vertigo born?")
    assert ids_of(found) == ["film"]


def test_seeds_of_its_own_serve_where_the_other_sources_give_none():
    graph, nodes = walked()
    own = EntityGraphRetriever(graph, nodes, seeds=listed(other=0.9))
    result = CalibratedFusionRetriever(graph=own, retrievers={"bm25": listed(film=1.0)}).explain("something else")
    assert "other" in result.ids


def test_a_passage_without_a_node_is_left_out_alone_and_in_a_fusion_another_source_has_it():
    graph, nodes = walked()
    walk = EntityGraphRetriever(graph, nodes[1:])
    with pytest.warns(PhasegraphWarning, match="nodes= has no node for 1 of 2 passages .* they are left out"):
        assert ids_of(walk.retrieve("Where was the director of Vertigo born?")) == ["man"]
    fused = CalibratedFusionRetriever(
        graph=walk, vector=lambda query: [(node, 1.0 - row / 10) for row, node in enumerate(nodes)]
    )
    found = fused.retrieve("Where was the director of Vertigo born?")  # a warning would raise an error here
    assert "film" in ids_of(found)
    assert all(hit.node.get_content() for hit in found)


@pytest.mark.parametrize("include_text", [True, False])
def test_a_passage_that_was_deleted_from_the_index_does_not_come_back_through_the_graph(
    graph, include_text, monkeypatch
):
    monkeypatch.setattr(  # a look-up in memory has no time limit, so a busy machine lets no deleted passage stay
        "phasegraph.retrieval.deletions.within", lambda *_: pytest.fail("a look-up in another thread")
    )
    index = VectorStoreIndex([TextNode(id_=name, text=text) for name, text in CHUNKS.items()], embed_model=Looked())
    retriever = CalibratedFusionRetriever(vector=index, graph=kinds(graph, include_text)["both"])
    assert set(ids_of(retriever.retrieve("Ada?"))) == set(CHUNKS)
    index.delete_nodes(["c3"], delete_from_docstore=True)
    with pytest.warns(PhasegraphWarning, match=r"source 'graph': 1 of 3 hits dropped: .* are not in the store"):
        found = retriever.explain("Ada?")
    assert set(found.ids) == {"c1", "c2"}
    assert {report.source: report.dropped for report in found.reports} == {"graph": 1, "vector": 0}
