"""A graph in Neo4j: write it, walk it there, refresh what changed, drop it. Needs NEO4J_URI.

Run: make neo4j   (in another terminal; prints the address)
     NEO4J_URI=bolt://127.0.0.1:... python examples/neo4j_graph.py
"""

import os
import sys
from pathlib import Path

import numpy as np

from langchain_phasegraph import EntityGraphRetriever
from phasegraph import Ranking
from phasegraph.evaluation.datasets import load_dataset
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

if "NEO4J_URI" not in os.environ:
    sys.exit("NEO4J_URI must name a server; `make neo4j` starts one and prints its address")
password = os.environ.get("NEO4J_PASSWORD", "")
auth = (os.environ.get("NEO4J_USER", "neo4j"), password) if password else None

data = load_dataset(Path(__file__).parents[1] / "data" / "musique-openie")
passages = data.passages[:300]
rows = [{"id": one.id, "title": one.title, "text": one.text} for one in passages]
rules = RuleExtractor(titles=[one.title for one in passages])
extractions = [rules(row["id"], row["title"], row["text"]) for row in rows]
extractions += [Extraction(one.id, triples=data.triples.get(one.id, ())) for one in passages]
records = records_from_extractions(rows, extractions)

with Neo4jConnection.connect(os.environ["NEO4J_URI"], auth=auth, timeout=20.0) as connection:
    first = write_graph(connection, records, corpus=CORPUS)
    again = write_graph(connection, records, corpus=CORPUS)
    print(f"written: {first.written}; written again: {again.written}, unchanged: {again.unchanged}")

    question, vector = data.queries[0].text, data.query_vectors[0]
    cosines = data.passage_vectors[: len(rows)] @ vector
    best = np.argsort(-cosines)[:50]
    dense = Ranking("vector", [passages[row].id for row in best], cosines[best])
    found = Neo4jGraphSource(connection, CORPUS).search(question, 3, {"vector": dense})
    titles = {one.id: one.title for one in passages}
    print(question)
    for name, mass in zip(found.ids, found.scores, strict=True):
        print(f"  {mass:.3f}  {titles[name]}")

    # The same as a retriever of LangChain, texts and all; LlamaIndex has one of the same name.
    graph = EntityGraphRetriever.from_neo4j(connection, CORPUS, k=1)
    for document in graph.invoke(question):
        print(f"in LangChain: {document.metadata['title']}: {document.page_content[:60]}...")

    removed = remove_passages(connection, [found.ids[0]], corpus=CORPUS)
    changes = read_changes(connection, corpus=CORPUS, since=again.revision)
    print(f"removed: {removed.removed}; a reader that refreshes sees: {[titles[one] for one in changes.removed]}")

    drop_corpus(connection, CORPUS)
    print(f"dropped; left of it: {[one for one in list_corpora(connection) if CORPUS in str(one)]}")
