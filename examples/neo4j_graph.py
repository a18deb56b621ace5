"""A graph in Neo4j: write it, walk it there, refresh what changed, drop it. Needs NEO4J_URI, and nothing from a clone.

Run: pip install langchain-phasegraph "phasegraph[neo4j]"
     NEO4J_URI=bolt://127.0.0.1:... python neo4j_graph.py     (in a clone `make neo4j` starts a server, and prints it)
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

CORPUS = "neo4j-example"  # another corpus in the same database is never walked into
QUESTION = "Where was the director of Vertigo born?"
PASSAGES = {
    "Vertigo": "Vertigo is a thriller by Alfred Hitchcock.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
    "Akira Kurosawa": "The director Akira Kurosawa was born in Tokyo.",
    "Agnès Varda": "The director Agnès Varda was born in Ixelles.",
    "Orson Welles": "The director Orson Welles was born in Kenosha.",
}
TRIPLES = {"Vertigo": [("Vertigo", "directed by", "Alfred Hitchcock")]}  # if a model found some

if "NEO4J_URI" not in os.environ:
    sys.exit("NEO4J_URI must name a server; in a clone `make neo4j` starts one and prints its address")
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

    # Fused with a vector store, its hits are seeds, too; alone, the walk starts from the names in the question.
    found = Neo4jGraphSource(connection, CORPUS).search(QUESTION, 3, {})
    print(QUESTION)
    for name, mass in zip(found.ids, found.scores, strict=True):
        print(f"  {mass:.3f}  {titles[name]}")

    # The same as a retriever of LangChain, texts and all; LlamaIndex has one of the same name.
    graph = EntityGraphRetriever.from_neo4j(connection, CORPUS, k=1)
    for document in graph.invoke(QUESTION):
        print(f"in LangChain: {document.metadata['title']}: {document.page_content[:60]}...")

    removed = remove_passages(connection, [found.ids[0]], corpus=CORPUS)
    changes = read_changes(connection, corpus=CORPUS, since=again.revision)
    print(f"removed: {removed.removed}; a reader that refreshes sees: {[titles[one] for one in changes.removed]}")

    drop_corpus(connection, CORPUS)
    print(f"dropped; left of it: {[one for one in list_corpora(connection) if CORPUS in str(one)]}")
