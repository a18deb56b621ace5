"""Write a graph to Neo4j, search it there, read the changes, and drop it. The program needs a Neo4j server.

Run: pip install langchain-phasegraph "phasegraph[neo4j]"
     NEO4J_URI=bolt://127.0.0.1:... python neo4j_graph.py
In a clone of the repository, `make neo4j` starts a server and prints its address.
"""

import os
import sys

from langchain_phasegraph import EntityGraphRetriever
from phasegraph.graph import Extraction, RuleExtractor
from phasegraph.neo4j import (
    Neo4jConnection,
    Neo4jGraphSource,
    drop_corpus,
    list_corpora,
    read_changes,
    records_from_extractions,
    remove_passages,
    write_graph,
)

CORPUS = "neo4j-example"  # the walk never enters another corpus in the same database
QUESTION = "Where was the director of Vertigo born?"
PASSAGES = {
    "Vertigo": "Vertigo is a thriller by Alfred Hitchcock.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
    "Akira Kurosawa": "The director Akira Kurosawa was born in Tokyo.",
    "Agnès Varda": "The director Agnès Varda was born in Ixelles.",
    "Orson Welles": "The director Orson Welles was born in Kenosha.",
}
TRIPLES = {"Vertigo": [("Vertigo", "directed by", "Alfred Hitchcock")]}  # in place of triples that a model extracted

if "NEO4J_URI" not in os.environ:
    sys.exit("NEO4J_URI must name a server, but is not set; in a clone, `make neo4j` starts a server")
password = os.environ.get("NEO4J_PASSWORD", "")
auth = (os.environ.get("NEO4J_USER", "neo4j"), password) if password else None

rows = [{"id": f"film-{row}", "title": title, "text": text} for row, (title, text) in enumerate(PASSAGES.items())]
rules = RuleExtractor(titles=PASSAGES)
extractions = [rules(row["id"], row["title"], row["text"]) for row in rows]
extractions += [Extraction(row["id"], triples=TRIPLES[row["title"]]) for row in rows if row["title"] in TRIPLES]
records = records_from_extractions(rows, extractions)
titles = {row["id"]: row["title"] for row in rows}

with Neo4jConnection.connect(os.environ["NEO4J_URI"], auth=auth, timeout=20.0) as connection:
    first = write_graph(connection, records, corpus=CORPUS)
    again = write_graph(connection, records, corpus=CORPUS)
    print(f"written: {first.written}; written again: {again.written}, unchanged: {again.unchanged}")

    # Alone, the walk starts at the names in the question. In a fusion, it also starts at the hits of the vector store.
    found = Neo4jGraphSource(connection, CORPUS).search(QUESTION, 3, {})
    print(QUESTION)
    for name, mass in zip(found.ids, found.scores, strict=True):
        print(f"  {mass:.3f}  {titles[name]}")

    # The LangChain retriever reads the texts from Neo4j, too. The LlamaIndex package has a retriever of the same name.
    graph = EntityGraphRetriever.from_neo4j(connection, CORPUS, k=1)
    for document in graph.invoke(QUESTION):
        print(f"in LangChain: {document.metadata['title']}: {document.page_content[:60]}...")

    removed = remove_passages(connection, [found.ids[0]], corpus=CORPUS)
    changes = read_changes(connection, corpus=CORPUS, since=again.revision)
    print(f"removed: {removed.removed}; read_changes reports: {[titles[one] for one in changes.removed]}")

    drop_corpus(connection, CORPUS)
    print(f"dropped; corpora left: {[one for one in list_corpora(connection) if CORPUS in str(one)]}")
