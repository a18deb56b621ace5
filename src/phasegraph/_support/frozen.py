"""Helpers for frozen dataclasses: make their arrays and dictionaries read-only, and pickle them by their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np

_CHANGEABLE = (np.ndarray, dict)


def read_only(value: Any) -> None:
    """Make the arrays and dictionaries of a frozen dataclass read-only; call this in ``__post_init__``."""
    for name in value.__dataclass_fields__:
        one = getattr(value, name)
        if not isinstance(one, _CHANGEABLE):  # most fields, so that a call checks them once
            continue
        if isinstance(one, dict):
            object.__setattr__(value, name, MappingProxyType(one))
        else:
            one.setflags(write=False)


def by_fields(value: Any) -> tuple[Callable[..., Any], tuple[type, Mapping[str, Any]]]:
    """Pickle an object of a frozen dataclass as its class and its fields; use this function as ``__reduce__``.

    Unpickling then calls the constructor, which runs all checks.
    """
    given = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    return _made, (type(value), {name: _plain(one) for name, one in given.items()})


def _plain(value: Any) -> Any:
    """Convert a read-only mapping, and the read-only mappings among its values, to dictionaries."""
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, MappingProxyType) else value


def _made(kind: type, given: Mapping[str, Any]) -> Any:
    return kind(**given)
