"""Entities and triples from LangChain's side: graph documents, and chat models as plain text models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel, BaseLanguageModel, BaseLLM
from langchain_core.messages import BaseMessage

import phasegraph
from phasegraph import InvalidTypeError
from phasegraph.retrieval import resolve_id

if TYPE_CHECKING:
    import phasegraph.graph


def extractions_of(graph_documents: Iterable[Any]) -> list[phasegraph.graph.Extraction]:
    """What LangChain's graph transformers found, as the core's extractions.

    Parameters
    ----------
    graph_documents : iterable of GraphDocument
        With ``nodes``, ``relationships`` and the ``source`` document they were found in, as ``LLMGraphTransformer``
        gives them; several of one source add up.

    Returns
    -------
    list of Extraction
        One per graph document; the passage id is the source document's, as the retriever resolves it.

    Raises
    ------
    InvalidTypeError
        If one lacks a part.
    """
    from phasegraph.graph import Extraction, normalise_name

    found = []
    for row, one in enumerate(graph_documents):
        nodes, edges, source = (getattr(one, name, None) for name in ("nodes", "relationships", "source"))
        if nodes is None or edges is None or source is None:
            raise InvalidTypeError(
                f"graph_documents must have nodes, relationships and a source; got {type(one).__name__} at {row}"
            )
        names = [normalise_name(str(node.id)) for node in nodes]
        triples = [(str(edge.source.id), str(edge.type), str(edge.target.id)) for edge in edges]
        passage, _ = resolve_id(source.id, source.metadata, source.page_content)
        found.append(Extraction(passage, [name for name in names if name], triples))
    return found


def text_model(model: BaseLanguageModel[Any]) -> Callable[[str], str]:
    """A LangChain language model as a function from prompt to text, for the core's model-based extractor.

    Parameters
    ----------
    model : BaseLanguageModel
        A chat model or a text model.

    Returns
    -------
    callable
        ``prompt -> text``.

    Raises
    ------
    InvalidTypeError
        If it is not a language model.

    Examples
    --------
    >>> from langchain_core.language_models import FakeListChatModel
    >>> text_model(FakeListChatModel(responses=["[]"]))("Which entities?")
    '[]'
    """
    if not isinstance(model, BaseLanguageModel):
        raise InvalidTypeError(f"model must be a LangChain language model; got {type(model).__name__}")

    return TextModel(model)


class TextModel:
    """A language model as a function; with a coroutine method ``acall`` where its class has one of its own."""

    def __init__(self, model: BaseLanguageModel[Any]) -> None:
        self.model = model
        bases = (BaseChatModel, BaseLLM)
        if not any(isinstance(model, base) and type(model)._agenerate is base._agenerate for base in bases):
            self.acall = self._acall

    def __reduce__(self) -> tuple[object, ...]:
        return TextModel, (self.model,)

    def __call__(self, prompt: str) -> str:
        """Its answer."""
        return _text_of(self.model.invoke(prompt))

    async def _acall(self, prompt: str) -> str:
        return _text_of(await self.model.ainvoke(prompt))


def _text_of(answer: Any) -> str:
    return str(answer.text) if isinstance(answer, BaseMessage) else str(answer)
