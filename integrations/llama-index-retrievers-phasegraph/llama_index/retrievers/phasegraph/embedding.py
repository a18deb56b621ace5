"""Embed queries and nodes with an embedding model of LlamaIndex, a query only once in each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode, MetadataMode, QueryBundle
from llama_index.core.settings import Settings

from llama_index.retrievers.phasegraph.nodes import metadata_of, node_of, text_of
from phasegraph import InvalidTypeError
from phasegraph.retrieval import HitAccess, aquestion_vector, question_vector

if TYPE_CHECKING:
    import phasegraph.graph


def _text_to_embed(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.EMBED)


def _embedding_of(node: BaseNode) -> list[float] | None:
    return node.embedding


_INSTEAD: ContextVar[QueryBundle | None] = ContextVar("phasegraph_embedding_instead", default=None)


@contextmanager
def embedding_instead(bundle: QueryBundle) -> Iterator[None]:
    """Make :class:`Embedder` embed the bundle's ``embedding_strs`` in the ``with`` block, instead of the query.

    A source of the core receives only the query's text, and not the bundle. The bundle's ``embedding`` is not used,
    because a retriever of LlamaIndex stores its own vector there, which may be of another model.
    """
    token = _INSTEAD.set(None if bundle.custom_embedding_strs is None else bundle)
    try:
        yield
    finally:
        _INSTEAD.reset(token)


@dataclass(frozen=True, slots=True)
class Embedder:
    """A LlamaIndex embedding model with the methods that the core calls; unlike bound methods, it can be pickled."""

    model: BaseEmbedding

    @classmethod
    def of(cls, embed_model: object) -> Embedder | None:
        """Wrap an embedding model; return None for None, and raise InvalidTypeError for other types.

        A model without callback handlers gets the callback manager of ``Settings``, as in the framework's indexes. A
        separate manager would store the events of all calls forever.
        """
        if embed_model is None:
            return None
        if not isinstance(embed_model, BaseEmbedding):
            raise InvalidTypeError(f"embed_model must be a BaseEmbedding or None; got {type(embed_model).__name__}")
        if not embed_model.callback_manager.handlers:
            embed_model.callback_manager = Settings.callback_manager
        return cls(embed_model)

    def texts(self, texts: list[str]) -> list[list[float]]:
        """Embed passage texts."""
        return self.model.get_text_embedding_batch(texts)

    async def atexts(self, texts: list[str]) -> list[list[float]]:
        """Run :meth:`texts` asynchronously."""
        return await self.model.aget_text_embedding_batch(texts)

    def records(self, records: Sequence[phasegraph.graph.PassageRecord]) -> list[list[float]]:
        """Embed stored passages, with the text that the framework would embed for each node."""
        return self.texts([_text_to_embed(node_of(one)) for one in records])

    def query(self, query: str) -> list[float]:
        """Embed a query; inside :func:`embedding_instead`, combine the embeddings of the bundle's texts."""
        bundle = _INSTEAD.get()
        if bundle is None or bundle.query_str != query:
            found: list[float] = question_vector(self.model, (query,), partial(self.model.get_query_embedding, query))
            return found
        combined: list[float] = QuestionModel(self.model).get_agg_embedding_from_queries(bundle.embedding_strs)
        return combined

    @property
    def awaits(self) -> bool:
        """True if the model has its own asynchronous method to embed passages."""
        return any(  # compare the names of the methods, because the framework wraps inherited methods in new functions
            not getattr(type(self.model), name).__qualname__.startswith("BaseEmbedding.")
            for name in ("_aget_text_embedding", "_aget_text_embeddings", "aget_text_embedding_batch")
        )


class QuestionModel:
    """A wrapper around an embedding model for one search; the sources of a call embed the same question only once."""

    def __init__(self, model: BaseEmbedding) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # a copy asks for attributes before it has any
            raise AttributeError(name)
        return getattr(self._model, name)

    def get_agg_embedding_from_queries(self, queries: list[str], agg_fn: Callable[..., Any] | None = None) -> Any:
        """Return the combined vector of the texts in `queries`, usually of the question alone."""
        method = self._model.get_agg_embedding_from_queries
        if agg_fn is not None:
            return method(queries, agg_fn)
        return question_vector(
            self._model, self._key(queries, "get_agg_embedding_from_queries"), partial(method, queries)
        )

    async def aget_agg_embedding_from_queries(
        self, queries: list[str], agg_fn: Callable[..., Any] | None = None
    ) -> Any:
        """Run :meth:`get_agg_embedding_from_queries` asynchronously."""
        method = self._model.aget_agg_embedding_from_queries
        if agg_fn is not None:
            return await method(queries, agg_fn)
        key = self._key(queries, "aget_agg_embedding_from_queries")
        return await aquestion_vector(self._model, key, partial(method, queries))

    def _key(self, queries: Sequence[str], method: str) -> tuple[object, ...]:
        """Return the texts, and also the class if it combines vectors by its own `method`."""
        own = not getattr(type(self._model), method).__qualname__.startswith("BaseEmbedding.")
        return (*queries, type(self._model)) if own else tuple(queries)


def access_of(retrievers: Iterable[object] = ()) -> HitAccess:
    """Return the functions with which phasegraph's core reads the text, metadata and embedding of a node.

    The first retriever with an embedding model supplies the model for nodes without an embedding.
    """
    models = (getattr(retriever, "_embed_model", None) for retriever in retrievers)
    model = next((one for one in models if isinstance(one, BaseEmbedding)), None)
    embedder = None if model is None else Embedder(model)
    return HitAccess(
        text_of, metadata_of, to_embed=_text_to_embed, vector=_embedding_of,
        embed=None if embedder is None else embedder.texts,
        aembed=embedder.atexts if embedder is not None and embedder.awaits else None,
    )  # fmt: skip
