"""Identify the model that embedded a corpus, by name and settings, and embed passages with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, Self

from phasegraph._support.shared import lazy_property, portable

_NAME = ("model_name", "model", "model_id", "deployment")
_UNNAMED = "unknown"
"""The name that LlamaIndex gives to a model without a name."""
_SETTINGS = (
    "dimensions", "encode_kwargs", "query_encode_kwargs", "normalize", "normalize_embeddings", "embed_instruction",
    "query_instruction", "text_instruction", "doc_embed_type", "input_type", "task_type", "pooling", "revision",
    "max_length", "truncate",
)  # fmt: skip
_DEEPEST = 4


def read_attribute(holder: object, name: str, /) -> object:
    """Return the attribute `name` of a foreign object, or None if the attribute is missing or cannot be read."""
    try:
        return getattr(holder, name, None)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a property of a foreign class can raise any error
        return None


def model_name(model: object, /) -> str:
    """Return a description of an embedding model: its class and, if the model has a name, this name.

    For a function, return its module and its qualified name.

    >>> from types import SimpleNamespace
    >>> model_name(SimpleNamespace(model_name="all-MiniLM-L6-v2"))
    'SimpleNamespace all-MiniLM-L6-v2'
    >>> model_name(read_attribute)
    'phasegraph.embedding.identity:read_attribute'
    """
    if isinstance(model, FunctionType):
        return f"{model.__module__}:{model.__qualname__}"
    read = (read_attribute(model, key) for key in _NAME)
    named = next((name for name in read if isinstance(name, str) and name != _UNNAMED), "")
    return f"{type(model).__name__} {named}".strip()


@dataclass(frozen=True)
class ModelIdentity:
    """The embedding model of a corpus: name and settings.

    Parameters
    ----------
    name : str
        The description that :func:`model_name` returns.
    settings : mapping of str to value, default {}
        Settings that affect the vectors, if the model exposes them; never an API key or a network address.
    given : bool, default False
        Whether the caller supplied the vectors. Such vectors may embed other texts than the passages.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    given: bool = False

    @classmethod
    def of(cls, model: object, /, *, given: bool = False) -> Self:
        """Create the identity of a model of LangChain, LlamaIndex or any other library."""
        read = ((key, read_attribute(model, key)) for key in _SETTINGS)
        return cls(model_name(model), {key: value for key, value in read if value is not None and _plain(value)}, given)

    @classmethod
    def from_json(cls, stored: object, /) -> Self | None:
        """Create the identity from the output of :meth:`to_json`.

        Return None for any other value, for example for the value in a folder of an older version.
        """
        if not isinstance(stored, Mapping) or not isinstance(stored.get("name"), str):
            return None
        settings = stored.get("settings")
        return cls(stored["name"], settings if isinstance(settings, Mapping) else {}, stored.get("given") is True)

    def to_json(self) -> dict[str, object]:
        """Return the identity in JSON types.

        >>> ModelIdentity("Model a").to_json()
        {'name': 'Model a', 'settings': {}, 'given': False}
        """
        return {"name": self.name, "settings": dict(self.settings), "given": self.given}

    def differences(self, other: ModelIdentity, /) -> list[str]:
        """Return a description of each setting in which two models differ.

        >>> ModelIdentity("a", {"dimensions": 64}).differences(ModelIdentity("a"))
        ['dimensions was 64 and is None']
        """
        return [
            f"{key} was {self.settings.get(key)!r:.80} and is {other.settings.get(key)!r:.80}"
            for key in sorted({*self.settings, *other.settings})
            if self.settings.get(key) != other.settings.get(key)
        ]

    def as_given(self) -> Self:
        """Return a copy of the identity with `given` set, for vectors that the caller supplied."""
        return replace(self, given=True)


@dataclass(frozen=True, eq=False)
class EmbeddingModel:
    """An adapter of a framework's embedding model for a corpus; a call with a query returns the query's vector.

    Parameters
    ----------
    model : object
        The framework's model.
    query : callable
        ``query(text)`` returns the (d,) vector of a query.
    passages : callable
        ``passages(records)`` returns the (n, d) vectors of passages, embedded as the framework embeds documents.
    """

    model: Any
    query: Callable[[Any], Any]
    passages: Callable[[Sequence[Any]], Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "query", portable(self.query))

    def __call__(self, query: Any) -> Any:
        """Return the (d,) vector of a query."""
        return self.query(query)

    @lazy_property
    def identity(self) -> ModelIdentity:
        """The name and the settings of the model."""
        return ModelIdentity.of(self.model)


def _plain(value: object, depth: int = 0) -> bool:
    """Return True if a value has a JSON type and is not nested more deeply than 4 levels."""
    if isinstance(value, Mapping):
        return depth < _DEEPEST and all(isinstance(key, str) and _plain(one, depth + 1) for key, one in value.items())
    if isinstance(value, list):
        return depth < _DEEPEST and all(_plain(one, depth + 1) for one in value)
    return isinstance(value, str | bool | int | float)
