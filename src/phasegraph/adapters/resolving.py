"""What a ``resolve`` of a source gave, by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from phasegraph.errors import InvalidTypeError


def by_id(ids: Sequence[str], found: object, unpack: Callable[[Any], Iterable[Any]]) -> dict[str, Any]:
    """The passages that there are, by id.

    Parameters
    ----------
    ids : (n,) sequence of str
    found : mapping or sequence
        By id, or one per id in the same order; None for those that are not there.
    unpack : callable
        The framework's own reading of an answer that is neither.

    Raises
    ------
    InvalidTypeError
        If there are more or fewer than ids.

    Examples
    --------
    >>> by_id(["a", "b"], ["text", None], list)
    {'a': 'text'}
    """
    if isinstance(found, Mapping):
        return {str(key): value for key, value in found.items() if value is not None}
    values = list(found) if isinstance(found, list | tuple) else list(unpack(found))
    if len(values) != len(ids):
        raise InvalidTypeError(
            f"malformed: resolve must give one passage per id, or a mapping; got {len(values)} for {len(ids)}"
        )
    return {key: value for key, value in zip(ids, values, strict=True) if value is not None}


def note_missing(ids: Sequence[str], found: Mapping[str, Any], notes: list[str]) -> None:
    """Note how many ids were given no passage."""
    missing = sum(one not in found for one in ids)
    if missing:
        notes.append(f"resolve gave no passage for {missing} of {len(ids)} ids")
