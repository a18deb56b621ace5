"""Frozen dataclasses: read-only contents, and pickling by fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np


def read_only(value: Any) -> None:
    """As ``__post_init__`` of a frozen dataclass, leave nobody to write into its arrays and dictionaries."""
    for name in value.__dataclass_fields__:
        one = getattr(value, name)
        if isinstance(one, np.ndarray):
            one.setflags(write=False)
        elif isinstance(one, dict):
            object.__setattr__(value, name, MappingProxyType(one))


def by_fields(value: Any) -> tuple[Callable[..., Any], tuple[type, Mapping[str, Any]]]:
    """As ``__reduce__`` of a frozen dataclass, make it again, with all its checks, from its fields."""
    given = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    return _made, (type(value), {name: _plain(one) for name, one in given.items()})


def _plain(value: Any) -> Any:
    """A read-only mapping, and those in it, as dicts."""
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, MappingProxyType) else value


def _made(kind: type, given: Mapping[str, Any]) -> Any:
    return kind(**given)
