"""Fuse a vector store and an entity graph in LangChain, without a server and without a model to download.

Run: pip install langchain-phasegraph; python langchain_quickstart.py
"""

from zlib import crc32

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever

QUESTION = "Where was the director of Vertigo born?"
PASSAGES = {
    "Vertigo": "Vertigo is a thriller with Kim Novak. Its director is Alfred Hitchcock.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    "Kim Novak": "Kim Novak is an actress and a painter from Chicago.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
    "Akira Kurosawa": "The director Akira Kurosawa was born in Tokyo.",
    "Agnès Varda": "The director Agnès Varda was born in Ixelles.",
    "Orson Welles": "The director Orson Welles was born in Kenosha.",
    "Hollywood": "Hollywood is a part of Los Angeles.",
}


class Words(Embeddings):
    """A stand-in for an embedding model, which counts words; replace it by your own embedding model."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        vector = [0.0] * 512
        for word in text.lower().replace(".", " ").replace("?", " ").split():
            vector[crc32(word.encode()) % 512] += 1.0
        return vector


documents = [Document(text, id=title, metadata={"title": title}) for title, text in PASSAGES.items()]
store = InMemoryVectorStore.from_documents(documents, Words())

# The next two lines add the graph. Rules find the names in the passages.
graph = EntityGraphRetriever.from_documents(documents)
retriever = PhaseGraphRetriever(vector=store, graph=graph, k=2, score_key="score")
found = retriever.invoke(QUESTION)

alone = [document.id for document in store.similarity_search(QUESTION, k=len(documents))]
print(QUESTION)
for document in found:
    place = alone.index(document.id) + 1
    print(f"  {document.metadata['score']:.3f}  {document.id} (vectors alone: {place} of {len(alone)})")
