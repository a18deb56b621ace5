"""Graphs that three real libraries wrote, with fake models and real APOC, read back as passages, mentions, facts."""

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from phasegraph.errors import InvalidInputError, PhasegraphWarning
from phasegraph.neo4j import (
    GraphSchema,
    Neo4jConnection,
    PassageRecord,
    changes_between,
    detect_schema,
    open_graph,
    read_graph,
    write_graph,
)
from phasegraph.neo4j.schema import LANGCHAIN, LLAMA_INDEX

ADA = "Ada Lovelace worked with Charles Babbage."
ENGINE = "Charles Babbage built the Analytical Engine."
TRIPLES = {
    ADA: ("Ada Lovelace", "Worked with", "Charles Babbage"),
    ENGINE: ("Charles Babbage", "Built", "Analytical Engine"),
}


def triples_in(prompt: str) -> Sequence[tuple[str, str, str]]:
    """What a perfect model would find in a prompt that ends with one of the passages."""
    return [triple for text, triple in TRIPLES.items() if text in prompt]


def by_text(records):
    return {record.text: record for record in records.passages}


def write_with_llama_index(address: Any) -> None:
    from llama_index.core import PropertyGraphIndex
    from llama_index.core.indices.property_graph import SimpleLLMPathExtractor
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.schema import TextNode
    from llama_index.graph_stores.neo4j import Neo4jPropertyGraphStore

    class Canned(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata()

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            return CompletionResponse(text="\n".join(f"({', '.join(triple)})" for triple in triples_in(prompt)))

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            yield self.complete(prompt)

    store = Neo4jPropertyGraphStore(username=address.user, password=address.password, url=address.uri)
    nodes = [TextNode(id_="ada", text=ADA, metadata={"title": "Ada Lovelace"}), TextNode(id_="engine", text=ENGINE)]
    PropertyGraphIndex(
        nodes,
        llm=Canned(),
        property_graph_store=store,
        kg_extractors=[SimpleLLMPathExtractor(llm=Canned(), num_workers=1)],
        embed_kg_nodes=False,
        use_async=False,
    )
    store.close()


def write_with_langchain(address: Any, *, labelled: bool = True) -> None:
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_experimental import graph_transformers as experimental
    from langchain_neo4j import Neo4jGraph

    answers = [
        json.dumps([{"head": s, "head_type": "Thing", "relation": p, "tail": o, "tail_type": "Thing"}])
        for s, p, o in TRIPLES.values()
    ]
    transformer = experimental.LLMGraphTransformer(llm=FakeListChatModel(responses=answers))
    documents = [
        Document(ADA, metadata={"id": "ada", "title": "Ada Lovelace", "tenant": "one"}),
        Document(ENGINE, metadata={"id": "engine", "tenant": "two"}),
    ]
    graph = Neo4jGraph(url=address.uri, username=address.user, password=address.password)
    graph.add_graph_documents(
        transformer.convert_to_graph_documents(documents), include_source=True, baseEntityLabel=labelled
    )
    graph.close()


def write_with_neo4j_graphrag(driver: Any) -> None:
    from neo4j_graphrag.embeddings.base import Embedder
    from neo4j_graphrag.experimental.pipeline.kg_builder import SimpleKGPipeline
    from neo4j_graphrag.llm import LLMInterface, LLMResponse

    class Canned(LLMInterface):
        def invoke(self, input: str, *given: Any, **more: Any) -> LLMResponse:  # noqa: A002
            nodes, edges = [], []
            for subject, predicate, other in triples_in(input):
                nodes += [{"id": name, "label": "Thing", "properties": {"name": name}} for name in (subject, other)]
                edges.append({"type": predicate, "start_node_id": subject, "end_node_id": other, "properties": {}})
            return LLMResponse(content=json.dumps({"nodes": nodes, "relationships": edges}))

        async def ainvoke(self, input: str, *given: Any, **more: Any) -> LLMResponse:  # noqa: A002
            return self.invoke(input)

    class Constant(Embedder):
        def embed_query(self, text: str) -> list[float]:
            return [1.0, 0.0]

    pipeline = SimpleKGPipeline(
        llm=Canned("canned"), driver=driver, embedder=Constant(), from_file=False, schema="FREE"
    )
    for text in TRIPLES:
        asyncio.run(pipeline.run_async(text=text))


def test_llama_index_property_graphs_are_detected_and_read(connection, address):
    write_with_llama_index(address)
    assert detect_schema(connection).name == "llama_index"
    records = read_graph(connection)
    assert [record.id for record in records.passages] == ["ada", "engine"]
    assert records.stable_ids
    ada, engine = records.passages
    assert ada.title == "Ada Lovelace"
    assert ada.mentions == (("ada lovelace", 1), ("charles babbage", 1))
    assert ada.facts == (("ada lovelace", "Worked with", "charles babbage", 1),)
    assert engine.mentions == (("analytical engine", 1), ("charles babbage", 1))
    assert engine.facts == (("charles babbage", "Built", "analytical engine", 1),)


def test_langchain_graph_documents_are_detected_and_read(connection, address):
    write_with_langchain(address)
    assert detect_schema(connection).name == "langchain"
    records = read_graph(connection)
    assert [record.id for record in records.passages] == ["ada", "engine"]
    assert by_text(records)[ADA].mentions == (("ada lovelace", 1), ("charles babbage", 1))
    assert by_text(records)[ADA].title == "Ada Lovelace"
    assert [(fact[0], fact[2]) for fact in by_text(records)[ENGINE].facts] == [("charles babbage", "analytical engine")]


def test_langchain_graphs_without_the_base_label_are_read_too(connection, address):
    write_with_langchain(address, labelled=False)
    assert detect_schema(connection).name == "langchain_unlabelled"
    records = read_graph(connection)
    assert by_text(records)[ADA].mentions == (("ada lovelace", 1), ("charles babbage", 1))
    assert len(by_text(records)[ENGINE].facts) == 1


def test_neo4j_graphrag_graphs_are_detected_and_read(connection, driver):
    write_with_neo4j_graphrag(driver)
    assert detect_schema(connection).name == "neo4j_graphrag"
    with pytest.warns(PhasegraphWarning, match="2 of 2 passages have no id"):
        records = read_graph(connection)
    assert not records.stable_ids, "its chunks carry no id of their own"
    assert by_text(records)[ADA].mentions == (("ada lovelace", 1), ("charles babbage", 1))
    assert len(by_text(records)[ENGINE].facts) == 1


def test_a_corpus_key_keeps_two_tenants_of_one_database_apart(connection, address):
    write_with_langchain(address)
    tenants = dataclasses.replace(LANGCHAIN, corpus_key="tenant")
    one = read_graph(connection, tenants, corpus="one")
    assert [record.id for record in one.passages] == ["ada"]
    assert one.passages[0].facts[0][2] == "charles babbage"
    assert one.unplaced == (), "what only the other tenant states is not even left over"
    assert [fact[2] for fact in read_graph(connection, LANGCHAIN).passages[1].facts] == ["analytical engine"]


def test_a_foreign_graph_is_refreshed_by_what_differs(connection, driver, address):
    write_with_langchain(address)
    before = read_graph(connection)
    driver.execute_query("MATCH (d:Document {id: 'ada'}) DETACH DELETE d")
    driver.execute_query("MATCH (d:Document {id: 'engine'}) SET d.text = d.text + ' It was never finished.'")
    changes = changes_between(before, read_graph(connection))
    assert [record.id for record in changes.changed] == ["engine"]
    assert changes.removed == ("ada",)


def test_a_database_with_two_kinds_of_graph_asks_which_one_is_meant(connection, driver, address):
    write_with_langchain(address)
    write_with_neo4j_graphrag(driver)
    with pytest.raises(InvalidInputError, match=r"must match exactly one schema.*langchain: 4, neo4j_graphrag: 4"):
        detect_schema(connection)


def test_an_empty_database_holds_no_preset(connection):
    with pytest.raises(InvalidInputError, match="no edges of any preset"):
        detect_schema(connection)
    assert read_graph(connection, LLAMA_INDEX).passages == ()


OURS = GraphSchema("ours", "Absatz", "Ding", "NENNT", ("nr",), ("wort",), "inhalt", ("kopf",))


@pytest.fixture
def own_names(connection):
    """Two passages of a graph with names of its own; one entity has a list in the place of a name."""
    connection.write(
        "CREATE (p:Absatz {nr: 7, inhalt: $ada})-[:NENNT]->(a:Ding {wort: 'Ada Lovelace'}), "
        "(:Absatz {nr: 8, inhalt: $engine})-[:NENNT]->(b:Ding {wort: 'Charles Babbage'}), (p)-[:NENNT]->(b), "
        "(a)-[:KENNT]->(b)",
        {"ada": ADA, "engine": ENGINE},
    )
    return connection


def test_a_graph_with_names_of_its_own_is_read_without_a_warning(own_names):
    records = read_graph(own_names, OURS)
    assert [record.id for record in records.passages] == ["7", "8"]
    assert records.passages[0].facts == (("ada lovelace", "KENNT", "charles babbage", 1),)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"provenance_type": "NENT"}, "'ours': no edge 'NENT' connects a node 'Absatz' with a node 'Ding'"),
        ({"entity_label": "Dinge"}, "'ours': no edge 'NENNT' connects a node 'Absatz' with a node 'Dinge'"),
        ({"name_keys": ("name", "id")}, "'ours': 3 of 3 edges .* set name_keys .*; they are 'name', 'id'"),
        ({"id_keys": ("id",)}, "'ours': 2 of 2 passages have no id.*set id_keys .*; they are 'id'"),
    ],
)
def test_a_name_of_the_schema_that_fits_nothing_is_told(own_names, changed, told):
    with pytest.warns(PhasegraphWarning, match=told):
        read_graph(own_names, dataclasses.replace(OURS, **changed))


def test_an_entity_whose_name_is_a_list_is_told(own_names):
    own_names.write("MATCH (d:Ding {wort: 'Ada Lovelace'}) SET d.wort = ['Ada', 'Lovelace']")
    with pytest.warns(PhasegraphWarning, match="1 of 3 edges of passages lead to an entity without a name"):
        records = read_graph(own_names, OURS)
    assert [record.mentions for record in records.passages] == [(("charles babbage", 1),)] * 2


def test_passages_that_the_schema_does_not_find_are_told_with_its_names(own_names):
    with pytest.raises(InvalidInputError, match="no node 'Text' has a text in 'inhalt'"):
        open_graph(own_names, schema=dataclasses.replace(OURS, passage_label="Text"))


@pytest.mark.parametrize(
    "read", [read_graph, lambda connection, schema, corpus: open_graph(connection, corpus, schema=schema)]
)
def test_a_corpus_that_no_passage_names_is_refused_with_the_corpora_that_they_name(own_names, read):
    tenants = dataclasses.replace(OURS, corpus_key="mandant")
    with pytest.raises(InvalidInputError, match=r"no node 'Absatz' has 'nord' in 'mandant'; its values: none\."):
        read(own_names, tenants, corpus="nord")
    own_names.write("MATCH (p:Absatz) SET p.mandant = CASE p.nr WHEN 7 THEN 'west' ELSE 'ost' END")
    with pytest.raises(InvalidInputError, match=r"no node 'Absatz' has 'nord' in 'mandant'; its values: 'ost', 'west'"):
        read(own_names, tenants, corpus="nord")
    assert [record.id for record in read_graph(own_names, tenants, corpus="west").passages] == ["7"]


def test_a_corpus_of_another_library_without_a_text_is_read_and_not_opened(own_names):
    tenants = dataclasses.replace(OURS, corpus_key="mandant")
    own_names.write("CREATE (:Absatz {nr: 9, mandant: 'nord'})")
    assert read_graph(own_names, tenants, corpus="nord").passages == ()
    with pytest.raises(InvalidInputError, match="has a text in 'inhalt', and 'nord' in 'mandant'"):
        open_graph(own_names, "nord", schema=tenants)


def test_a_corpus_is_read_beside_the_graph_of_another_library(connection, address):
    write_with_langchain(address)
    write_graph(connection, [PassageRecord("p", "", ADA, mentions=(("ada lovelace", 1),))], corpus="manuals")
    assert [record.id for record in read_graph(connection, corpus="manuals").passages] == ["p"]


def test_detecting_the_schema_keeps_the_time_that_was_given(connection):
    asked = []

    class Timed(Neo4jConnection):
        def read(self, statement, parameters=None, *, timeout=None, **more):
            asked.append(timeout)
            return [[0]]

    with pytest.raises(InvalidInputError, match="no edges of any preset"):
        read_graph(Timed(connection._transactions.driver), timeout=3.0)
    assert set(asked) == {3.0}


def test_facts_that_the_walk_cannot_follow_are_told(own_names):
    own_names.write(
        "MATCH (b:Ding {wort: 'Charles Babbage'}) CREATE (b)-[:BAUTE {quelle: '8'}]->(e:Ding {wort: 'Engine'}), "
        "(e)-[:GEHOERT {quelle: 8}]->(b)"
    )
    with pytest.warns(PhasegraphWarning, match="'ours': 2 of 3 facts belong to no passage"):
        assert len(read_graph(own_names, OURS).unplaced) == 2
    assert read_graph(own_names, dataclasses.replace(OURS, fact_source_key="quelle")).unplaced == ()


def test_a_function_of_ids_gives_the_hits_the_properties_of_their_nodes(own_names):
    from langchain_core.documents import Document

    from langchain_phasegraph import EntityGraphRetriever

    own_names.write("MATCH (p:Absatz) SET p.mandant = CASE p.nr WHEN 7 THEN 'nord' ELSE 'sued' END")
    statement = "MATCH (p:Absatz) WHERE toString(p.nr) IN $ids RETURN toString(p.nr), p.inhalt, p.mandant"

    def documents(ids):
        rows = own_names.read(statement, {"ids": list(ids)})
        return {name: Document(id=name, page_content=text, metadata={"m": m}) for name, text, m in rows}

    graph = EntityGraphRetriever.from_neo4j(own_names, schema=OURS, documents=documents)
    asked = "What did Charles Babbage build?"
    assert {one.id for one in graph.invoke(asked)} == {"7", "8"}
    assert [(one.id, one.metadata["m"]) for one in graph.invoke(asked, filter={"m": "sued"})] == [("8", "sued")]
