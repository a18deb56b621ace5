"""Embedding models by name; they run locally, without PyTorch or an API key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from phasegraph._support.validation import check_choice

__all__ = [
    "EMBEDDERS",
    "named_embedder",
]


def _minilm() -> Any:
    from phasegraph.embedding.minilm import MiniLM

    return MiniLM()


def _fastembed() -> Any:
    from phasegraph.embedding.fastembed import FastEmbed

    return FastEmbed()


EMBEDDERS: Mapping[str, Callable[[], Any]] = MappingProxyType({"minilm": _minilm, "fastembed": _fastembed})
"""Loader of each model, by the model's name."""


def named_embedder(name: str) -> Any:
    """Load an embedding model by its name.

    Parameters
    ----------
    name : {"minilm", "fastembed"}
        Name of the model.

    Returns
    -------
    object
        A model with ``embed_documents(texts) -> (n, d)`` and ``embed_query(text) -> (d,)``, as in LangChain.

    Raises
    ------
    InvalidInputError
        If the name is unknown.
    MissingDependencyError
        If a package of the model is not installed; the message gives the pip command.
    StoreError
        If the model's weights cannot be found or downloaded.

    Examples
    --------
    >>> sorted(EMBEDDERS)
    ['fastembed', 'minilm']
    """
    check_choice("embedder", name, EMBEDDERS)
    return EMBEDDERS[name]()
