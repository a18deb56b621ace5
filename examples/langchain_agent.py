"""Give a LangChain agent the retriever as a tool. The chat model is a stand-in that calls the tool once and answers.

Run: pip install langchain langchain-phasegraph; python langchain_agent.py
"""

from zlib import crc32

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import create_retriever_tool

from langchain_phasegraph import PhaseGraphRetriever

QUESTION = "Where was the director of Vertigo born?"
PASSAGES = {
    "Vertigo": "Vertigo is a thriller by Alfred Hitchcock, with Kim Novak.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    "Kim Novak": "Kim Novak is an actress and a painter from Chicago.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
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


def read(passages):
    """Stand in for a language model: return the birth sentence of a person whom another passage also names."""
    born = [line for line in passages.splitlines() if " was born " in line]
    named = [line for line in born if passages.count(line.split(" was born ")[0]) > 1]
    return named[0] if named else "I do not know."


class StandIn(BaseChatModel):
    """A stand-in for a chat model, which calls the tool and reads the result; replace it by your own chat model."""

    @property
    def _llm_type(self):
        return "stand-in"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if last.type == "tool":
            answer = AIMessage(read(last.text))
        else:
            answer = AIMessage("", tool_calls=[{"name": "search", "args": {"query": last.text}, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


documents = [Document(text, id=title, metadata={"title": title}) for title, text in PASSAGES.items()]
retriever = PhaseGraphRetriever.from_documents(documents, Words(), k=3)
search = create_retriever_tool(retriever, "search", "Passages of the collection that answer a question, best first.")
agent = create_agent(StandIn(), [search], system_prompt="Answer from the passages that search gives, or say you can't.")

messages = agent.invoke({"messages": [("user", QUESTION)]})["messages"]
print("asked:", messages[1].tool_calls[0]["args"]["query"])
print("answer:", messages[-1].text)
