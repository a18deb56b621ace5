"""phasegraph in LangChain: a vector store, an entity graph, one retriever. Bundled data, no server, no model.

Run: python examples/langchain_quickstart.py
"""

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph.evaluation.datasets import load_dataset

QUESTION = "What is the name of the waterfall in the country where the Bubye River is found?"

data = load_dataset(Path(__file__).parents[1] / "data" / "musique-openie")
known = data.vectors_by_text()


class Bundled(Embeddings):
    """The embeddings of the repository; put your embedding model in its place."""

    def embed_documents(self, texts):
        return [known[text].tolist() for text in texts]

    def embed_query(self, text):
        return known[text].tolist()


documents = [Document(one.content, id=one.id, metadata={"title": one.title}) for one in data.passages]
store = InMemoryVectorStore.from_documents(documents, Bundled())

# The three lines. `extractions` are triples, if you have them; without, rules find the entities.
graph = EntityGraphRetriever.from_documents(documents, embeddings=Bundled(), extractions=data.triples)
retriever = PhaseGraphRetriever(vector=store, graph=graph, k=3, score_key="score")
found = retriever.invoke(QUESTION)

alone = [document.metadata["title"] for document in store.similarity_search(QUESTION, k=50)]
print(QUESTION)
for document in found:
    title = document.metadata["title"]
    place = alone.index(title) + 1 if title in alone else "none"
    print(f"  {document.metadata['score']:.3f}  {title} (place among the vectors: {place})")
