"""Fuse a vector index and an entity graph in LlamaIndex, without a server and without a model to download.

Run: pip install llama-index-retrievers-phasegraph; python llamaindex_quickstart.py
"""

from zlib import crc32

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever

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


class Words(BaseEmbedding):
    """A stand-in for an embedding model, which counts words; replace it by your own embedding model."""

    def _get_text_embedding(self, text):
        vector = [0.0] * 512
        for word in text.lower().replace(".", " ").replace("?", " ").split():
            vector[crc32(word.encode()) % 512] += 1.0
        return vector

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


nodes = [TextNode(text=text, id_=title, metadata={"title": title}) for title, text in PASSAGES.items()]
for node in nodes:
    node.excluded_embed_metadata_keys = ["title"]
index = VectorStoreIndex(nodes, embed_model=Words())

# The next two lines add the graph. Rules find the names in the passages.
graph = EntityGraphRetriever.from_nodes(nodes)
retriever = CalibratedFusionRetriever(vector=index, graph=graph, similarity_top_k=2)
found = retriever.retrieve(QUESTION)

alone = [hit.node_id for hit in index.as_retriever(similarity_top_k=len(nodes)).retrieve(QUESTION)]
print(QUESTION)
for hit in found:
    print(f"  {hit.score:.3f}  {hit.node_id} (vectors alone: {alone.index(hit.node_id) + 1} of {len(alone)})")
