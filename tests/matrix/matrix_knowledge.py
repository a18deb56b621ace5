"""Knowledge-graph retrievers of both frameworks."""

from __future__ import annotations

from functools import partial

from matrix_graph_chains import cypher_chain, graph_retriever, graphrag
from matrix_ours import walk
from matrix_property_graph import knowledge_graph_rag, sub_retriever
from matrix_rows import WALLED, Graph, GraphRow
from matrix_servers import Servers
from matrix_slice import Slice


def own(framework: str, data: Slice, servers: Servers) -> Graph:
    return Graph(walk(framework, data))


PG = "LlamaIndex"
HANDED = "its own filter, which the function hands on"
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
    GraphRow(PG, "EntityGraphRetriever (ours)", "mass", "the passage's", "its own", partial(own, PG), filtered=WALLED),
    *(
        GraphRow(
            "LangChain",
            f"neo4j-graphrag {title}, as a function",
            score,
            "what its `result_formatter` hands on",
            "its own",
            partial(graphrag, kind),
            neo4j=True,
            filtered=filtered,
        )
        for kind, title, score, filtered in (
            ("vector", "VectorRetriever", "(1 + cosine) / 2", HANDED),
            ("cypher", "VectorCypherRetriever", "what its Cypher returns", ""),
            ("hybrid", "HybridRetriever", "largest share of an index's best", ""),
        )
    ),
    *(
        GraphRow(
            "LangChain",
            f"GraphCypherQAChain, {title}",
            "none",
            where,
            passage,
            partial(cypher_chain, kind),
            passages=kind != "words",
            neo4j=True,
        )
        for kind, title, where, passage in (
            ("rows", "its rows (`return_direct`)", "the row's column `id`", "its own"),
            ("documents", "its rows made documents", "what the Cypher returns", "its own"),
            ("words", "its answer in words", "a hash of the answer", "none: one text"),
        )
    ),
    GraphRow(
        "LangChain",
        "GraphRetriever (langchain-graph-retriever)",
        "cosine, in metadata `_similarity_score`",
        "`Document.id`",
        "its own",
        graph_retriever,
        filtered="its own filter, in the search and at every step",
    ),
    GraphRow(
        "LangChain",
        "EntityGraphRetriever (ours)",
        "mass",
        "the passage's",
        "its own",
        partial(own, "LangChain"),
        filtered=WALLED,
    ),
)
