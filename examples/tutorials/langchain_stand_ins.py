"""The stand-ins of stand_ins.py as LangChain models; replace them by your own models."""

import re

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from stand_ins import count_words, reply


class WordCounts(Embeddings):
    """A stand-in for an embedding model; it counts words and knows no meanings."""

    def embed_documents(self, texts):
        return [count_words(text) for text in texts]

    def embed_query(self, text):
        return count_words(text)


class CopyingChat(BaseChatModel):
    """A stand-in for a chat model; it copies sentences from its prompt and streams them word by word."""

    @property
    def _llm_type(self):
        return "stand-in"

    def _said(self, messages):
        return reply(
            "\n".join(f"{message.type}: {message.text}" for message in messages)
        )

    def _generate(self, messages, stop=None, run_manager=None, **options):
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(self._said(messages)))]
        )

    def _stream(self, messages, stop=None, run_manager=None, **options):
        for word in re.findall(r"\S+\s*", self._said(messages)):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
