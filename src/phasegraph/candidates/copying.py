"""Copying and pickling of frozen values that hold read-only mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any


def by_fields(value: Any) -> tuple[Callable[..., Any], tuple[type, Mapping[str, Any]]]:
    """``__reduce__`` of a frozen dataclass: it is made again, and checked again, from its fields.

    Nothing of this library reads a pickle from a file; it is for worker processes and for ``copy.deepcopy``.
    """
    given = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    plain = {name: dict(one) if isinstance(one, MappingProxyType) else one for name, one in given.items()}
    return _made, (type(value), plain)


def _made(kind: type, given: Mapping[str, Any]) -> Any:
    return kind(**given)
