"""The shared tests of the notebook page of ``inspect``, for LlamaIndex."""

from llama_index.core import MockEmbedding
from llama_index.core.schema import TextNode
from tests.suites.notebooks import InspectSuite

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever


class TestInspectLlamaIndex(InspectSuite):
    def made(self, passages, **fields):
        nodes = [TextNode(text=text, id_=name, metadata={"title": title}) for name, (title, text) in passages.items()]
        return CalibratedFusionRetriever.from_nodes(nodes, MockEmbedding(8), **fields)
