"""Knowledge-graph retrievers of LangChain and of Neo4j over the slice."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from matrix_langchain import CHUNKS, chunks_in_neo4j
from matrix_rows import Graph
from matrix_servers import Servers, need
from matrix_slice import LangChainVectors, Slice

ANSWER = "The archives name a number of passages."


def graphrag(kind: str, data: Slice, servers: Servers) -> Graph:
    """neo4j-graphrag's retrievers as they are."""
    need("neo4j_graphrag", "langchain_neo4j")
    import neo4j
    from neo4j_graphrag import retrievers
    from neo4j_graphrag.embeddings.base import Embedder

    class Same(Embedder):
        def embed_query(self, text: str) -> list[float]:
            return LangChainVectors(data).embed_query(text)

    close = chunks_in_neo4j(data, servers)
    uri, user, password = servers.neo4j
    driver = neo4j.GraphDatabase.driver(uri, auth=(user, password), notifications_min_severity="OFF")
    if kind == "vector":
        own: Any = retrievers.VectorRetriever(driver, CHUNKS.index, embedder=Same())
    elif kind == "hybrid":
        own = retrievers.HybridRetriever(driver, CHUNKS.index, CHUNKS.words, embedder=Same())
    else:
        query = "RETURN node.id AS id, node.text AS text, score"
        own = retrievers.VectorCypherRetriever(driver, CHUNKS.index, query, embedder=Same())

    def end() -> None:
        driver.close()
        close()

    return Graph(own, {}, end)


def cypher_chain(kind: str, data: Slice, servers: Servers) -> Graph:
    """GraphCypherQAChain with a canned model: its rows, its answer in words, or its rows made documents."""
    need("langchain_neo4j")
    from langchain_core.language_models import FakeListChatModel
    from langchain_neo4j import GraphCypherQAChain, Neo4jGraph

    close = chunks_in_neo4j(data, servers)
    uri, user, password = servers.neo4j
    graph = Neo4jGraph(url=uri, username=user, password=password, refresh_schema=False)
    cypher = f"MATCH (c:{CHUNKS.label}) RETURN c.id, c.text ORDER BY c.title LIMIT 20"
    chain = GraphCypherQAChain.from_llm(
        FakeListChatModel(responses=[cypher, ANSWER] if kind == "words" else [cypher]),
        graph=graph,
        return_direct=kind != "words",
        top_k=20,
        allow_dangerous_requests=True,
    )

    def documents(answer: dict[str, Any]) -> list[Document]:
        return [Document(page_content=row["c.text"], id=row["c.id"]) for row in answer["result"]]

    def end() -> None:
        graph.close()
        close()

    return Graph(chain | RunnableLambda(documents) if kind == "documents" else chain, {}, end)


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
