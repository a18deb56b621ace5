"""The stand-ins of stand_ins.py as LlamaIndex models; replace them by your own models."""

import re

from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CustomLLM
from stand_ins import count_words, reply


class WordCounts(BaseEmbedding):
    """A stand-in for an embedding model; it counts words and knows no meanings."""

    def _get_text_embedding(self, text):
        return count_words(text)

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return count_words(query)


class CopyingChat(CustomLLM):
    """A stand-in for a language model; it copies sentences from its prompt and streams them word by word."""

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **options):
        return CompletionResponse(text=reply(prompt))

    def stream_complete(self, prompt, formatted=False, **options):
        said = ""
        for word in re.findall(r"\S+\s*", reply(prompt)):
            said += word
            yield CompletionResponse(text=said, delta=word)
