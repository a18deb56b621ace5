"""Any value as plain JSON types, whatever it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np

_DEEPEST = 16


def plain(value: object, /) -> object:
    """`value` in JSON types: None, bool, int, float, str, list, dict.

    Parameters
    ----------
    value : object
        Numpy values become native ones, NaN and infinity None, sets sorted lists, dates ISO text; an object that
        JSON has no word for becomes its type's name, a cycle or a nesting beyond 16 levels ``"…"``.

    Returns
    -------
    object
        Something that ``json.dumps(..., allow_nan=False)`` takes. `value` is not changed.

    Examples
    --------
    >>> plain({"score": np.float32(0.5), "tags": {"b", "a"}, "bad": float("nan")})
    {'score': 0.5, 'tags': ['a', 'b'], 'bad': None}
    """
    return _plain(value, 0, ())


def _plain(value: object, depth: int, above: tuple[int, ...]) -> object:
    if value is None or isinstance(value, bool | str):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return _plain(value.item(), depth, above) if not isinstance(value, np.void) else "void"
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if depth >= _DEEPEST or id(value) in above:
        return "…"
    inside = (*above, id(value))
    if isinstance(value, np.ndarray):
        return _plain(value.tolist(), depth, inside)
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(item, depth + 1, inside) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, depth + 1, inside) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1, inside) for item in value]
    return type(value).__name__


def _text(value: str) -> str:
    """The text itself, lone surrogates replaced: they cannot be written as UTF-8."""
    return str(value) if value.isascii() else value.encode("utf-8", "replace").decode()
