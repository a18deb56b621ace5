"""The shared tests of the fact filter, for LlamaIndex."""

from typing import Any

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode
from tests.suites.fact_filter import TEXTS, FactFilterSuite

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, text_model

NODES = [TextNode(text=text, id_=str(row)) for row, text in enumerate(TEXTS)]


class Saying(CustomLLM):
    """A language model that always returns the same answer."""

    answer: str

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        return CompletionResponse(text=self.answer)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        raise NotImplementedError


class TestFactFilter(FactFilterSuite):
    def fused(self, source):
        index = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=2))
        return CalibratedFusionRetriever(vector=index, graph=EntityGraphRetriever(source, NODES))

    def model(self, answer):
        return text_model(Saying(answer=answer))

    async def hits(self, retriever, query):
        return await retriever.aretrieve(query)
