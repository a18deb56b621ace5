"""Use a summary tree and a fact filter in LangChain, without data or a server. The chat model has fixed answers.

Run: pip install 'langchain-phasegraph' 'phasegraph[summaries]'; python langchain_summaries.py
"""

from zlib import crc32

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, text_model
from phasegraph.graph import (
    ClusterSettings,
    Extraction,
    FactIndex,
    GraphSource,
    SummaryTree,
    filter_facts_with,
    graph_from_extractions,
)

TOWNS = ["Bergen", "Turku", "Riga", "Lund", "Visby", "Tromso"]
PASSAGES = {f"{what} {town}": f"The {what} of {town}. A {what} is {use}." for town in TOWNS
            for what, use in (("harbour", "where ships lie"), ("mill", "where corn is ground"))}  # fmt: skip


class Words(Embeddings):
    """A stand-in for an embedding model, which counts words; replace it by your own embedding model."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        vector = [0.0] * 64
        for word in text.lower().replace(".", " ").replace("?", " ").split():
            vector[crc32(word.encode()) % 64] += 1.0
        return vector


model = Words()
documents = [Document(text, id=name) for name, text in PASSAGES.items()]
vectors = model.embed_documents(list(PASSAGES.values()))
passages = [{"id": name, "text": text} for name, text in PASSAGES.items()]

tree = SummaryTree.build(passages, vectors, clusters=ClusterSettings(reducer="pca"))
for one in tree.summaries:
    print(f"level {one.level}, {len(one.passages)} passages: {one.text[:48]}…")

# With resolve="summaries", the retriever returns summaries as hits, next to the passages of the store.
store = InMemoryVectorStore.from_documents(documents, model)
source = tree.source(model.embed_query, resolve="summaries")
retriever = PhaseGraphRetriever(retrievers={"vector": store, "summaries": source}, k=4)
for document in retriever.invoke("What is a harbour, where ships lie?"):
    print("  ", document.metadata.get("summary_of", document.id))

# Add a passage to the tree. Only the summary of the passage's group changes.
new = {"id": "mill Oulu", "text": "The mill of Oulu. A mill is where corn is ground."}
grown = tree.add([new], model.embed_documents([new["text"]]))
print("summaries kept:", sum(one in tree.summaries for one in grown.summaries), "of", len(grown.summaries))

# With a fact filter, a chat model chooses the facts at which the walk starts. This stand-in chooses the first fact.
facts = [("Bergen", "has", "harbour"), ("Lund", "has", "mill")]
records = [Extraction(f"{end} {start}", triples=[(start, verb, end)]) for start, verb, end in facts]
graph = graph_from_extractions(list(PASSAGES), records, embeddings=vectors)
index = FactIndex.of_extractions(graph, records, model.embed_documents)
llm = FakeListChatModel(responses=['{"facts": [1]}'])
walk = GraphSource(graph, embedder=model.embed_query, facts=index, fact_filter=filter_facts_with(text_model(llm)))
found = EntityGraphRetriever(graph=walk, documents=documents, k=1).invoke("Which town has a mill?")
print("walked to:", found[0].id)
