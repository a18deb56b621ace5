"""phasegraph in LlamaIndex: a vector index, an entity graph, one retriever. Bundled data, no server, no model.

Run: python examples/llamaindex_quickstart.py
"""

from pathlib import Path

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph.evaluation.datasets import load_dataset

QUESTION = "In what county is the city where Harris W. Fawell was born?"

data = load_dataset(Path(__file__).parents[1] / "data" / "musique-openie")
known = data.vectors_by_text()


class Bundled(BaseEmbedding):
    """The embeddings of the repository; put your embedding model in its place."""

    def _get_text_embedding(self, text):
        return known[text].tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return known[query].tolist()


texts = {one.id: one.content for one in data.passages}
nodes = [TextNode(id_=one.id, text=texts[one.id]) for one in data.passages]
for node, one in zip(nodes, data.passages, strict=True):
    node.metadata = {"title": one.title}
    node.excluded_embed_metadata_keys = ["title"]
index = VectorStoreIndex(nodes, embed_model=Bundled())

# The three lines. `extractions` are triples, if you have them; without, rules find the entities.
graph = EntityGraphRetriever.from_nodes(nodes, vectors=data.passage_vectors, extractions=data.triples)
retriever = CalibratedFusionRetriever(vector=index.as_retriever(), graph=graph, similarity_top_k=3)
found = retriever.retrieve(QUESTION)

alone = [hit.node.metadata["title"] for hit in index.as_retriever(similarity_top_k=50).retrieve(QUESTION)]
print(QUESTION)
for hit in found:
    title = hit.node.metadata["title"]
    place = alone.index(title) + 1 if title in alone else "none"
    print(f"  {hit.score:.3f}  {title} (place among the vectors: {place})")
