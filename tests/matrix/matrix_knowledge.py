"""Knowledge-graph retrievers of both frameworks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from matrix_graph_chains import ANSWER, cypher_chain, graph_retriever, graphrag
from matrix_ours import LIMIT, chunk_walk, walk
from matrix_property_graph import custom, knowledge_graph_rag, sub_retriever
from matrix_rows import WALLED, Graph, GraphRow
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
HANDED = "its own filter"
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
    GraphRow(
        PG,
        "CustomPGRetriever, nodes of one's own",
        "what it gives them",
        "the node's",
        "its own",
        partial(custom, False),
    ),
    GraphRow(
        PG,
        "PGRetriever of that and of LLMSynonymRetriever's triples",
        "theirs",
        "the node's; random at every call",
        "its own; the relation's own",
        partial(custom, True),
    ),
    *both_frameworks(
        *(
            GraphRow(
                "",
                f"neo4j-graphrag {title}",
                score,
                "the node's property `id`" if kind != "cypher" else "the record's column `id`",
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
        GraphRow(
            "", "a function that returns dicts", "their `score`", "their `id`", "its own", partial(answers, "dicts")
        ),
        GraphRow(
            "",
            "a function that returns triples",
            "none",
            "a hash of its text",
            "none: a text each",
            partial(answers, "triples"),
            passages=False,
        ),
        GraphRow(
            "",
            "a function that returns a text",
            "none",
            "a hash of the text",
            "none: one text",
            partial(answers, "text"),
            passages=False,
        ),
    ),
    *(
        GraphRow(
            framework,
            f"{title} (ours)",
            "mass",
            "the passage's",
            "its own",
            partial(walked, framework),
            filtered=WALLED,
        )
        for framework in (PG, "LangChain")
        for title, walked in (("EntityGraphRetriever", own), ("ChunkGraphSource", chunks))
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
)
