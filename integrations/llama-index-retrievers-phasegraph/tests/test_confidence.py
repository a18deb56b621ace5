"""The shared tests of confidence, for LlamaIndex."""

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llamaindex_stores import TextModel
from tests.suites.confidence import TEXTS, ConfidenceSuite, counted

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever


class Words(TextModel):
    def _get_text_embedding(self, text: str) -> list[float]:
        return counted(text)


class TestConfidence(ConfidenceSuite):
    retriever = CalibratedFusionRetriever

    def sources(self):
        nodes = [TextNode(id_=name, text=text, metadata={"title": title}) for name, (title, text) in TEXTS.items()]
        index = VectorStoreIndex(nodes, embed_model=Words())
        return {"vector": index.as_retriever(similarity_top_k=4), "graph": EntityGraphRetriever.from_nodes(nodes)}

    def ask(self, retriever, query):
        return retriever.retrieve(query)

    async def aask(self, retriever, query):
        return await retriever.aretrieve(query)
