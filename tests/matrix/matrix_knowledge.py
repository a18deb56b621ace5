"""Knowledge-graph retrievers of both frameworks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from matrix_graph_chains import ANSWER, cypher_chain, graph_retriever, graphrag
from matrix_ours import LIMIT, chunk_walk, walk
from matrix_property_graph import custom, knowledge_graph_rag, sub_retriever
from matrix_rows import OURS, WALLED, Graph, GraphRow
from matrix_servers import Servers
from matrix_slice import Slice


def own(framework: str, data: Slice, servers: Servers) -> Graph:
    return Graph(walk(framework, data))


def chunks(framework: str, data: Slice, servers: Servers) -> Graph:
    return Graph(chunk_walk(framework, data))


def answers(kind: str, data: Slice, servers: Servers) -> Graph:
    """A plain function over the slice."""

    def dicts(query: str, k: int = LIMIT) -> list[dict[str, Any]]:
        found = sorted(data.cosines(query).items(), key=lambda one: -one[1])[:k]
        texts = {row["id"]: row["text"] for row in data.rows}
        return [{"id": name, "text": texts[name], "score": score} for name, score in found]

    def triples(query: str) -> list[tuple[str, str, str]]:
        best = next(name for name in data.triples if name in data.cosines(query))
        return data.triples[best][:1]

    def text(query: str) -> str:
        return ANSWER

    return Graph({"dicts": dicts, "triples": triples, "text": text}[kind])


def both_frameworks(*rows: GraphRow) -> list[GraphRow]:
    """Those rows in each of the frameworks; a filter is handed on in LangChain alone."""
    return [
        *(replace(row, framework=PG, filtered="") for row in rows),
        *(replace(row, framework="LangChain") for row in rows),
    ]


PG = "LlamaIndex"
RANDOM = "a new random id in every call"
ITSELF = "the hit itself"
HANDED = "the retriever's own filter"
KNOWLEDGE = (
    *(
        GraphRow(
            PG,
            f"{title}, {where}, {'passages' if text else 'triples'}",
            score,
            "the passage's id" if text else RANDOM,
            "the passage that the relation names",
            partial(sub_retriever, kind, where, text),
            facts=not text,
            neo4j=where == "Neo4j",
        )
        for where in ("SimplePropertyGraphStore", "Neo4j")
        for kind, title, score in (
            ("vector", "VectorContextRetriever", "cosine of the more similar end of the relation"),
            ("synonym", "LLMSynonymRetriever", "1 for every hit"),
        )
        for text in (True, False)
    ),
    GraphRow(
        PG,
        "CypherTemplateRetriever, Neo4j",
        "1 for every hit",
        RANDOM,
        "none: the hit is one text with all rows",
        partial(sub_retriever, "cypher", "Neo4j", False),
        passages=False,
        neo4j=True,
    ),
    GraphRow(
        PG,
        "KnowledgeGraphRAGRetriever",
        "no score",
        RANDOM,
        "none: the hit is one text with all facts",
        knowledge_graph_rag,
        passages=False,
    ),
    GraphRow(
        PG,
        "CustomPGRetriever that returns your own nodes",
        "the score that the retriever sets",
        "the node's id",
        ITSELF,
        partial(custom, False),
    ),
    GraphRow(
        PG,
        "PGRetriever over CustomPGRetriever and LLMSynonymRetriever",
        "the score of each retriever",
        "the node's id; for a triple, a new random id in every call",
        "the hit itself; for a triple, the passage that the relation names",
        partial(custom, True),
    ),
    *both_frameworks(
        *(
            GraphRow(
                "",
                f"neo4j-graphrag {title}",
                score,
                "the node's property `id`" if kind != "cypher" else "the record's column `id`",
                ITSELF,
                partial(graphrag, kind),
                neo4j=True,
                filtered=filtered,
            )
            for kind, title, score, filtered in (
                ("vector", "VectorRetriever", "(1 + cosine) / 2", HANDED),
                ("cypher", "VectorCypherRetriever", "the value that its Cypher query returns", ""),
                (
                    "hybrid",
                    "HybridRetriever",
                    "the larger of two values, one per index: the score divided by the index's best score",
                    "",
                ),
            )
        ),
        GraphRow(
            "",
            "a function that returns dicts",
            "the dict's `score`",
            "the dict's `id`",
            ITSELF,
            partial(answers, "dicts"),
        ),
        GraphRow(
            "",
            "a function that returns triples",
            "no score",
            "a hash of the triple's text",
            "none: a triple does not name its passage",
            partial(answers, "triples"),
            passages=False,
        ),
        GraphRow(
            "",
            "a function that returns a text",
            "no score",
            "a hash of the text",
            "none: the hit is one text",
            partial(answers, "text"),
            passages=False,
        ),
    ),
    *(
        GraphRow(
            framework,
            f"{OURS} {title}",
            score,
            "the passage's id",
            ITSELF,
            partial(walked, framework),
            filtered=WALLED,
        )
        for framework in (PG, "LangChain")
        for title, score, walked in (
            ("EntityGraphRetriever", "walk, similarity and words together; no upper bound", own),
            ("ChunkGraphSource", "probability mass of the walk", chunks),
        )
    ),
    *(
        GraphRow(
            "LangChain",
            f"GraphCypherQAChain, {title}",
            "no score",
            where,
            passage,
            partial(cypher_chain, kind),
            passages=kind != "words",
            neo4j=True,
        )
        for kind, title, where, passage in (
            ("rows", "its rows (`return_direct`)", "the row's column `id`", ITSELF),
            ("documents", "its rows converted to documents", "the id that the Cypher query returns", ITSELF),
            ("words", "its answer as a text", "a hash of the answer", "none: the hit is one text"),
        )
    ),
    GraphRow(
        "LangChain",
        "GraphRetriever (langchain-graph-retriever)",
        "cosine, in metadata `_similarity_score`",
        "`Document.id`",
        ITSELF,
        graph_retriever,
        filtered="the retriever's own filter, in the search and at every step of the traversal",
    ),
)
