"""From ids to nodes, and from a model of the framework to a plain function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.storage.docstore.types import BaseDocumentStore

from phasegraph import InvalidTypeError
from phasegraph.adapters.embedding import Embedding

Lookup: TypeAlias = Callable[[Sequence[str]], Mapping[str, BaseNode]]


def as_lookup(nodes: object) -> Lookup:
    """A function from ids to the nodes that there are.

    Parameters
    ----------
    nodes : mapping, sequence of nodes, docstore, index or callable
        A callable gets a list of ids and returns a mapping or nodes in that order, None for those it does not know.

    Raises
    ------
    InvalidTypeError
        If it is none of these.
    """
    store = getattr(nodes, "docstore", nodes)
    if isinstance(store, BaseDocumentStore):
        return lambda ids: {n.node_id: n for n in store.get_nodes(list(ids), raise_error=False) if n is not None}
    if isinstance(nodes, Mapping):
        return lambda ids: {one: nodes[one] for one in ids if one in nodes}
    if callable(nodes):
        return lambda ids: _by_id(ids, nodes(list(ids)))
    if isinstance(nodes, Iterable) and not isinstance(nodes, str | bytes):
        found = list(nodes)
        if all(isinstance(node, BaseNode) for node in found):
            held = {node.node_id: node for node in found}
            return lambda ids: {one: held[one] for one in ids if one in held}
    raise InvalidTypeError(
        f"nodes must be a mapping, nodes, a docstore, an index or a function of ids; got {type(nodes).__name__}"
    )


def _by_id(ids: Sequence[str], found: object) -> Mapping[str, BaseNode]:
    if isinstance(found, Mapping):
        return found
    pairs = zip(ids, cast("Iterable[Any]", found), strict=True)
    return {one: node for one, node in pairs if node is not None}


def text_model(llm: BaseLLM) -> Callable[[str], str]:
    """A model of the framework as the core takes it: a function from prompt to text.

    Parameters
    ----------
    llm : BaseLLM

    Returns
    -------
    callable

    Raises
    ------
    InvalidTypeError
        If it is no model.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> text_model(MockLLM())("two words")
    'two words'
    """
    if not isinstance(llm, BaseLLM):
        raise InvalidTypeError(f"llm must be a language model of LlamaIndex; got {type(llm).__name__}")
    return lambda prompt: str(llm.complete(prompt).text)


def embedding_of(embed_model: BaseEmbedding | None) -> Embedding:
    """Vectors of nodes: their own, else by the text that would be embedded.

    Raises
    ------
    InvalidTypeError
        If it is no embedding model.
    """
    if embed_model is None:
        return Embedding("embed_model", vector_of=_own_vector)
    if not isinstance(embed_model, BaseEmbedding):
        raise InvalidTypeError(f"embed_model must be a BaseEmbedding or None; got {type(embed_model).__name__}")
    native = any(  # the framework wraps what a class inherits: identity does not tell whose it is
        not getattr(type(embed_model), name).__qualname__.startswith("BaseEmbedding.")
        for name in ("_aget_text_embedding", "_aget_text_embeddings", "aget_text_embedding_batch")
    )
    return Embedding(
        "embed_model",
        embed_model.get_text_embedding_batch,
        embed_model.aget_text_embedding_batch if native else None,
        _text_of,
        _own_vector,
    )


def _own_vector(hit: object) -> list[float] | None:
    return hit.embedding if isinstance(hit, BaseNode) else None


def _text_of(hit: object) -> str | None:
    return hit.get_content(metadata_mode=MetadataMode.EMBED) if isinstance(hit, BaseNode) else None
