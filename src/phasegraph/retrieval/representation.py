"""Shorten the arguments of a retriever for ``repr``."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isfunction

from phasegraph.retrieval.source_spec import SourceSpec


class Shown(str):
    """A text whose ``repr`` is the text itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_HELD = ("_source", "vectorstore", "_vector_store")
"""The attributes in which retrievers store their vector store or their source of the core."""
_SHOWN_VALUE, _SHOWN_ALL, _SHOWN_MANY = 60, 200, 9


def shown(fields: Mapping[str, object]) -> list[tuple[str, Shown]]:
    """Shorten a retriever's arguments for ``repr``: small values are unchanged, other objects appear as a type name.

    A function appears as its name. A retriever over a store or a core source appears as its class and the class of the
    store or source. The text has at most about 250 characters, because logs, traces and configurations must never
    contain the corpus.

    >>> from phasegraph import FusionPipeline
    >>> shown({"vector": SourceSpec(retriever=FusionPipeline()), "k": 3})
    [('vector', FusionPipeline), ('k', 3)]
    """
    found: list[tuple[str, Shown]] = []
    room = _SHOWN_ALL
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        if room <= 0:
            return [*found, ("and", Shown(f"{len(given) - len(found)} more"))]
        said = _cut(_shown(value))
        found.append((name, Shown(said)))
        room -= len(name) + len(said) + 3
    return found


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:_SHOWN_VALUE])
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, Mapping | list | tuple) and len(value) > _SHOWN_MANY:
        return f"{len(value)} in a {type(value).__name__}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!s:.30}: {_shown(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, SourceSpec):
        return _shown(value.retriever)
    if isfunction(value):
        return f"function {value.__name__}"
    held = next((one for name in _HELD if (one := getattr(value, name, None)) is not None), None)
    if held is None:
        return type(value).__name__
    return f"{type(value).__name__} of {type(getattr(held, '_now', held)).__name__}"  # _now: the corpus's source


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_VALUE else f"{text[: _SHOWN_VALUE - 1]}…"
