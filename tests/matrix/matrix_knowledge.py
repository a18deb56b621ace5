"""Knowledge-graph retrievers of both frameworks over the slice and its triples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core import PropertyGraphIndex, StorageContext
from llama_index.core.graph_stores import SimpleGraphStore, SimplePropertyGraphStore
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation
from llama_index.core.indices.property_graph import (
    CypherTemplateRetriever,
    LLMSynonymRetriever,
    VectorContextRetriever,
)
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.retrievers import KnowledgeGraphRAGRetriever
from llama_index.core.schema import TransformComponent
from matrix_langchain import chunks_in_neo4j
from matrix_ours import walk
from matrix_servers import Servers, need
from matrix_slice import LangChainVectors, LlamaIndexVectors, Slice, real_slice
from pydantic import BaseModel

CHUNKS_OF = (
    "MATCH (c:Chunk)-[:MENTIONS]->(e:__Entity__) WHERE e.name IN $names RETURN c.id AS id, c.text AS text, "
    "count(*) AS hits ORDER BY hits DESC, id LIMIT 20"
)


@dataclass(frozen=True)
class Graph:
    """A knowledge-graph retriever in use: what ours is handed, and with which settings."""

    given: Any
    settings: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class GraphRow:
    """One knowledge-graph retriever. ``facts``: its hits are triples, which ours turns into passages."""

    framework: str
    store: str
    score: str
    hit: str
    passage: str
    open: Callable[[Slice, Servers], Graph]
    facts: bool = False
    passages: bool = True
    neo4j: bool = False

    @property
    def name(self) -> str:
        return f"{self.framework} {self.store}"


def named(name: str) -> str:
    """An entity's name as LlamaIndex's synonym retriever looks for it."""
    return name.strip().replace('"', " ").capitalize()


def names_in(text: str) -> list[str]:
    """Entities of the slice that a text names."""
    lowered = text.lower()
    known = {named(end) for rows in real_slice().triples.values() for s, _, o in rows for end in (s, o)}
    return sorted(one for one in known if len(one) > 3 and one.lower() in lowered)


class Names(CustomLLM):
    """A model that finds the names of known entities in its prompt."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="^".join(names_in(prompt)))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)

    def structured_predict(self, output_cls: Any, prompt: Any, *given: Any, **kwargs: Any) -> Any:
        return output_cls(names=names_in(prompt.template))


class Entities(BaseModel):
    """Parameters of the Cypher template."""

    names: list[str]


class Bundled(TransformComponent):
    """Extracts the first bundled triples of a passage."""

    most: int

    def __call__(self, nodes: Any, **kwargs: Any) -> Any:
        for node in nodes:
            rows = real_slice().triples.get(node.node_id, [])[: self.most]
            facts = [(named(s), p or "related", named(o)) for s, p, o in rows]
            node.metadata[KG_NODES_KEY] = [EntityNode(name=name) for s, _, o in facts for name in (s, o)]
            node.metadata[KG_RELATIONS_KEY] = [
                Relation(label=p, source_id=EntityNode(name=s).id, target_id=EntityNode(name=o).id) for s, p, o in facts
            ]
        return nodes


def property_graph(store: Any, data: Slice, most: int) -> PropertyGraphIndex:
    """A property graph that the framework itself builds, of so many triples per passage."""
    nodes = data.nodes()
    for node in nodes:
        node.embedding = None
        node.metadata = {"title": node.metadata["title"]}
    return PropertyGraphIndex(
        nodes,
        kg_extractors=[Bundled(most=most)],
        property_graph_store=store,
        embed_model=LlamaIndexVectors(),
        llm=Names(),
        use_async=False,
        embed_kg_nodes=True,
    )


def in_memory_graph(data: Slice) -> tuple[PropertyGraphIndex, Callable[[], object]]:
    return property_graph(SimplePropertyGraphStore(), data, 100), lambda: None


def neo4j_graph(data: Slice, servers: Servers) -> tuple[PropertyGraphIndex, Callable[[], object]]:
    """On the server; the framework sends every relation by itself, so only a few of each passage."""
    need("llama_index.graph_stores.neo4j")
    from llama_index.graph_stores.neo4j import Neo4jPropertyGraphStore

    uri, user, password = servers.neo4j
    store = Neo4jPropertyGraphStore(username=user, password=password, url=uri, refresh_schema=False)

    def close() -> None:
        store.structured_query("MATCH (n:__Node__) DETACH DELETE n")
        store.close()

    return property_graph(store, data, 3), close


def sub_retriever(kind: str, where: str, text: bool, data: Slice, servers: Servers) -> Graph:
    """One of the property graph's own retrievers."""
    make = partial(neo4j_graph, data, servers) if where == "Neo4j" else partial(in_memory_graph, data)
    index = servers.shared(where, make)
    store = index.property_graph_store
    options: dict[str, Any] = {"include_text": text, "path_depth": 1}
    made: Any
    if kind == "vector":
        made = VectorContextRetriever(
            store, vector_store=index.vector_store, embed_model=index._embed_model, similarity_top_k=5, **options
        )
    elif kind == "synonym":
        made = LLMSynonymRetriever(store, llm=Names(), **options)
    else:
        made = CypherTemplateRetriever(store, Entities, CHUNKS_OF, llm=Names())
    return Graph(made)


def knowledge_graph_rag(data: Slice, servers: Servers) -> Graph:
    store = SimpleGraphStore()
    for rows in data.triples.values():
        for subject, predicate, target in rows:
            store.upsert_triplet(named(subject), predicate, named(target))
    retriever = KnowledgeGraphRAGRetriever(
        storage_context=StorageContext.from_defaults(graph_store=store),
        llm=Names(),
        entity_extract_fn=names_in,
        synonym_expand_fn=lambda text: [],
    )
    retriever._entity_extract_template = retriever._synonym_expand_template = None  # they look for word lists online
    return Graph(retriever)


def graphrag(kind: str, data: Slice, servers: Servers) -> Graph:
    """neo4j-graphrag's retrievers, as a function of query and k."""
    need("neo4j_graphrag", "langchain_neo4j")
    import neo4j
    from neo4j_graphrag import retrievers
    from neo4j_graphrag.embeddings.base import Embedder
    from neo4j_graphrag.types import RetrieverResultItem

    class Same(Embedder):
        def embed_query(self, text: str) -> list[float]:
            return LangChainVectors(data).embed_query(text)

    def item(record: Any) -> RetrieverResultItem:
        node = record["node"]
        return RetrieverResultItem(content=node["text"], metadata={"id": node["id"], "score": record["score"]})

    close = chunks_in_neo4j(data, servers)
    uri, user, password = servers.neo4j
    driver = neo4j.GraphDatabase.driver(uri, auth=(user, password), notifications_min_severity="OFF")
    shared: dict[str, Any] = {"embedder": Same(), "result_formatter": item}
    if kind == "vector":
        own: Any = retrievers.VectorRetriever(driver, "matrix_chunks", **shared)
    elif kind == "hybrid":
        own = retrievers.HybridRetriever(driver, "matrix_chunks", "matrix_words", **shared)
    else:
        query = "RETURN node {.id, .text} AS node, score"
        own = retrievers.VectorCypherRetriever(driver, "matrix_chunks", query, **shared)

    def search(query: str, k: int) -> list[tuple[Document, float]]:
        found = own.search(query_text=query, top_k=k).items
        return [(Document(page_content=one.content, id=one.metadata["id"]), one.metadata["score"]) for one in found]

    def end() -> None:
        driver.close()
        close()

    return Graph(search, {}, end)


def cypher_chain(data: Slice, servers: Servers) -> Graph:
    """GraphCypherQAChain, its rows made documents; the model that writes the Cypher is canned."""
    need("langchain_neo4j")
    from langchain_core.language_models import FakeListChatModel
    from langchain_neo4j import GraphCypherQAChain, Neo4jGraph

    close = chunks_in_neo4j(data, servers)
    uri, user, password = servers.neo4j
    graph = Neo4jGraph(url=uri, username=user, password=password, refresh_schema=False)
    cypher = "MATCH (c:MatrixChunk) RETURN c.id AS id, c.text AS text ORDER BY c.title LIMIT 20"
    chain = GraphCypherQAChain.from_llm(
        FakeListChatModel(responses=[cypher]), graph=graph, return_direct=True, top_k=20, allow_dangerous_requests=True
    )

    def documents(answer: dict[str, Any]) -> list[Document]:
        return [Document(page_content=row["text"], id=row["id"]) for row in answer["result"]]

    def end() -> None:
        graph.close()
        close()

    return Graph((lambda query: {"query": query}) | chain | RunnableLambda(documents), {}, end)


def graph_retriever(data: Slice, servers: Servers) -> Graph:
    need("langchain_graph_retriever")
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_graph_retriever import GraphRetriever

    store = InMemoryVectorStore(LangChainVectors(data))
    documents = data.documents()
    titles = [str(document.metadata["title"]) for document in documents]
    for document in documents:
        own = document.metadata["title"]
        seen = [title for title in titles if title != own and title in document.page_content]
        document.metadata["mentions"] = seen[0] if seen else "nothing"
    store.add_documents(documents)
    return Graph(GraphRetriever(store=store, edges=[("mentions", "title")], k=50, start_k=10))


def own(framework: str, data: Slice, servers: Servers) -> Graph:
    return Graph(walk(framework, data))


PG = "LlamaIndex"
KNOWLEDGE = (
    *(
        GraphRow(
            PG,
            f"{title}, {where}, {'passages' if text else 'triples'}",
            score,
            "the passage's" if text else "random at every call",
            "the relation's own",
            partial(sub_retriever, kind, where, text),
            facts=not text,
            neo4j=where == "Neo4j",
        )
        for where in ("SimplePropertyGraphStore", "Neo4j")
        for kind, title, score in (
            ("vector", "VectorContextRetriever", "cosine of the nearer end"),
            ("synonym", "LLMSynonymRetriever", "1 throughout"),
        )
        for text in (True, False)
    ),
    GraphRow(
        PG,
        "CypherTemplateRetriever, Neo4j",
        "1",
        "random at every call",
        "none: one text of all rows",
        partial(sub_retriever, "cypher", "Neo4j", False),
        passages=False,
        neo4j=True,
    ),
    GraphRow(
        PG,
        "KnowledgeGraphRAGRetriever",
        "none",
        "random at every call",
        "none: one text of all facts",
        knowledge_graph_rag,
        passages=False,
    ),
    GraphRow(PG, "EntityGraphRetriever (ours)", "mass", "the passage's", "its own", partial(own, PG)),
    *(
        GraphRow(
            "LangChain",
            f"neo4j-graphrag {title}, as a function",
            score,
            "what its `result_formatter` hands on",
            "its own",
            partial(graphrag, kind),
            neo4j=True,
        )
        for kind, title, score in (
            ("vector", "VectorRetriever", "(1 + cosine) / 2"),
            ("cypher", "VectorCypherRetriever", "what its Cypher returns"),
            ("hybrid", "HybridRetriever", "largest share of a leg's best"),
        )
    ),
    GraphRow(
        "LangChain",
        "GraphCypherQAChain, rows made documents",
        "none",
        "what the Cypher returns",
        "its own",
        cypher_chain,
        neo4j=True,
    ),
    GraphRow(
        "LangChain",
        "GraphRetriever (langchain-graph-retriever)",
        "cosine, in metadata `_similarity_score`",
        "`Document.id`",
        "its own",
        graph_retriever,
    ),
    GraphRow("LangChain", "EntityGraphRetriever (ours)", "mass", "the passage's", "its own", partial(own, "LangChain")),
)
