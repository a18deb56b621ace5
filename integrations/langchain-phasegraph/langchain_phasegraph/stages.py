"""Adapt LangChain models, compressors and runnables to the stages rewriting, routing, reranking and correction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, var_child_runnable_config

from phasegraph import InvalidTypeError, Ranking
from phasegraph.retrieval import ModelFunction, Passage, StageAdapter, read_kept

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLanguageModel

    LanguageModel: TypeAlias = BaseLanguageModel[Any]
else:  # imported at the first use of a stage, because the import takes longer than the rest of this package
    LanguageModel = Any

_ROW = "phasegraph_row"


@contextmanager
def inherited(config: RunnableConfig) -> Iterator[None]:
    """In the ``with`` block, trace calls of models and runnables as child runs of the run in `config`."""
    manager: Any = config.get("callbacks")
    if manager is None:
        yield
        return
    token = var_child_runnable_config.set({**config, "callbacks": manager.get_child()})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def text_model(model: LanguageModel) -> Callable[[str], str]:
    """Convert a LangChain language model to a function from prompt to text, for the core's extractor.

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
        If `model` is not a language model.

    Examples
    --------
    >>> from langchain_core.language_models import FakeListChatModel
    >>> text_model(FakeListChatModel(responses=["[]"]))("Which entities?")
    '[]'
    """
    from langchain_core.language_models import BaseLanguageModel

    if not isinstance(model, BaseLanguageModel):
        raise InvalidTypeError(f"model must be a LangChain language model; got {type(model).__name__}")

    return TextModel(model)


class TextModel(ModelFunction):
    """A function from prompt to text that calls a language model."""

    def __init__(self, model: LanguageModel) -> None:
        from langchain_core.language_models import BaseChatModel, BaseLLM

        bases = (BaseChatModel, BaseLLM)
        inherits = any(isinstance(model, base) and type(model)._agenerate is base._agenerate for base in bases)
        super().__init__(model, awaits=not inherits)

    def __call__(self, prompt: str) -> str:
        """Return the model's answer to a prompt."""
        return str(_plain(self.model.invoke(prompt)))

    async def _acall(self, prompt: str) -> str:
        return str(_plain(await self.model.ainvoke(prompt)))


def _plain(answer: Any) -> Any:
    """Return the output of a runnable; if the output is a message, return its text."""
    return str(answer.text) if isinstance(answer, BaseMessage) else answer


class RunnableStep(ModelFunction):
    """A function that calls a runnable with one argument, or with a mapping of several named arguments."""

    def __init__(self, runnable: Runnable[Any, Any], names: tuple[str, ...] = ()) -> None:
        super().__init__(runnable, awaits=type(runnable).ainvoke is not Runnable.ainvoke)
        self.names = names

    def __reduce__(self) -> tuple[object, ...]:
        return RunnableStep, (self.model, self.names)

    def __call__(self, *given: Any) -> Any:
        """Return the output of the runnable."""
        return _plain(self.model.invoke(self._input(given)))

    async def _acall(self, *given: Any) -> Any:
        return _plain(await self.model.ainvoke(self._input(given)))

    def _input(self, given: Sequence[Any]) -> Any:
        return dict(zip(self.names, given, strict=True)) if self.names else given[0]


class CrossEncoderModel:
    """A reranker that calls a LangChain cross-encoder."""

    def __init__(self, model: BaseCrossEncoder) -> None:
        self.model = model

    def __call__(self, query: str, texts: Sequence[str]) -> Any:
        """Return a score for each text."""
        return self.model.score([(query, text) for text in texts])


class CompressorModel(ModelFunction):
    """A reranker that calls a document compressor; it ranks by scores in the metadata, or by the returned order."""

    reads_hits = True

    def __init__(self, model: BaseDocumentCompressor) -> None:
        own = type(model).acompress_documents is not BaseDocumentCompressor.acompress_documents
        super().__init__(model, awaits=own)

    def __call__(self, query: str, passages: Sequence[Passage]) -> Ranking:
        """Return the ranking of the documents that the compressor keeps."""
        callbacks = ensure_config().get("callbacks")
        return _ranked(passages, self.model.compress_documents(_documents(passages), query, callbacks))

    async def _acall(self, query: str, passages: Sequence[Passage]) -> Ranking:
        callbacks = ensure_config().get("callbacks")
        return _ranked(passages, await self.model.acompress_documents(_documents(passages), query, callbacks))


def _documents(passages: Sequence[Passage]) -> list[Document]:
    """Convert passages to documents, with their positions in the metadata, because compressors often drop ids."""
    held = [one.hit.metadata if isinstance(one.hit, Document) else {} for one in passages]
    return [
        Document(one.text, id=one.id, metadata={**metadata, _ROW: row})
        for row, (one, metadata) in enumerate(zip(passages, held, strict=True))
    ]


def _ranked(passages: Sequence[Passage], kept: Any) -> Ranking:
    def read(document: object) -> tuple[str | None, object]:
        if not isinstance(document, Document):
            raise InvalidTypeError(f"a compressor must return documents; got {type(document).__name__}")
        row = document.metadata.get(_ROW)
        name = passages[row].id if isinstance(row, int) and 0 <= row < len(passages) else None
        return name, document.metadata.get("relevance_score")

    return read_kept(kept, read, model="compressor", hits="documents", identified_by="metadata")


class LangChainStages(StageAdapter):
    """Conversion of LangChain objects for the stages: language models, runnables, compressors and cross-encoders."""

    def is_model(self, given: Any) -> bool:
        """Return True if the argument is a chat model, a text model, or None.

        None takes the place of the model in an offline replay, which uses only cached answers.
        """
        from langchain_core.language_models import BaseLanguageModel

        return given is None or isinstance(given, BaseLanguageModel)

    def text_model(self, given: Any) -> Any:
        """Convert a language model to a function from prompt to text."""
        return text_model(given)

    def other(self, given: Any, names: tuple[str, ...]) -> Any:
        """Convert a runnable to a function with the parameters `names`; other objects are returned unchanged.

        The runnable gets a single argument as it is, and several arguments as a mapping by name.
        """
        if not isinstance(given, Runnable):
            return given
        return RunnableStep(given, names if len(names) > 1 else ())

    def reranker(self, given: Any) -> Any:
        """Return a reranker for a compressor, a cross-encoder, or any argument that the base class accepts."""
        if isinstance(given, BaseDocumentCompressor):
            return CompressorModel(given)
        return CrossEncoderModel(given) if isinstance(given, BaseCrossEncoder) else super().reranker(given)
