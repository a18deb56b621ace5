"""Give a LlamaIndex agent the retriever as a tool. The language model is a stand-in that calls the tool and answers.

Run: pip install llama-index-core llama-index-retrievers-phasegraph; python llamaindex_agent.py
"""

import asyncio
from zlib import crc32

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import TextNode
from llama_index.core.tools import RetrieverTool

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

QUESTION = "Where was the director of Vertigo born?"
PASSAGES = {
    "Vertigo": "Vertigo is a thriller by Alfred Hitchcock, with Kim Novak.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    "Kim Novak": "Kim Novak is an actress and a painter from Chicago.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
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


def read(passages):
    """Stand in for a language model: return the birth sentence of a person whom another passage also names."""
    born = [line for line in passages.splitlines() if " was born " in line]
    named = [line for line in born if passages.count(line.split(" was born ")[0]) > 1]
    return named[0] if named else "I do not know."


def stand_in(messages, **kwargs):
    """Call the tool with the user's question, then answer from its result; replace this function by your own model."""
    last = messages[-1]
    if last.role == "tool":
        return ChatMessage(role="assistant", content=read(last.content or ""))
    call = ToolCallBlock(tool_call_id="1", tool_name="search", tool_kwargs={"input": last.content})
    return ChatMessage(role="assistant", blocks=[call])


nodes = [TextNode(text=text, id_=title, metadata={"title": title}) for title, text in PASSAGES.items()]
retriever = CalibratedFusionRetriever.from_nodes(nodes, Words(), similarity_top_k=3)
search = RetrieverTool.from_defaults(
    retriever, name="search", description="Passages that answer a question, best first."
)
agent = FunctionAgent(tools=[search], llm=MockFunctionCallingLLM(response_generator=stand_in, is_chat_model=True))


async def main():
    handler = agent.run(QUESTION)
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            print("asked:", event.tool_kwargs["input"])
    print("answer:", (await handler).response.content)


asyncio.run(main())
