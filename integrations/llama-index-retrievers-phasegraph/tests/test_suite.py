"""What our retrievers promise in any framework, in LlamaIndex."""

from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_stores import Listed, Looked, passages

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph.testing.framework_suite import FrameworkSuite, Hit


class Embedding(BaseEmbedding):
    embed: Any

    def _get_text_embedding(self, text):
        return self.embed(text)

    def _get_query_embedding(self, query):
        return self.embed(query)

    async def _aget_query_embedding(self, query):
        return self.embed(query)


class Native(Embedding):
    aembed: Any

    async def _aget_text_embedding(self, text):
        return await self.aembed(text)


class TestLlamaIndex(FrameworkSuite):
    retriever = CalibratedFusionRetriever
    noun = "node"

    def document(self, name, text, **metadata):
        return TextNode(id_=name, text=text, metadata=metadata)

    def listed(self, answer):
        if isinstance(answer, dict):
            return Listed(self.nodes(self.pairs(**answer)))
        return Listed((lambda: self.nodes(answer())) if callable(answer) else answer)

    def nodes(self, pairs):
        return [NodeWithScore(node=node, score=score) for node, score in pairs]

    def ask(self, retriever, query="q", **call):
        return [hit_of(hit) for hit in retriever.retrieve(query, **call)]

    async def aask(self, retriever, query="q", **call):
        return [hit_of(hit) for hit in await retriever.aretrieve(query, **call)]

    def store(self, **model):
        return VectorStoreIndex(passages(), embed_model=Looked(**model))

    def embedding(self, found, embed, aembed=None):
        vector = self.listed(found)
        vector._embed_model = Native(embed=embed, aembed=aembed) if aembed else Embedding(embed=embed)
        return {"vector": vector}


def hit_of(hit):
    return Hit(hit.node_id, hit.text, hit.metadata, hit.score, hit)
