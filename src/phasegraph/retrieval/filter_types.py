"""Warn if a filter compares a metadata key with values of a type that no passage has under this key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from phasegraph.retrieval.framework import HitFilter
from phasegraph.retrieval.once import Once

_KINDS = {str: "text", bool: "number", int: "number", float: "number", list: "list", tuple: "list", dict: "mapping"}
_once: WeakKeyDictionary[object, Once] = WeakKeyDictionary()
"""For each corpus, the warnings about metadata keys and required types."""


def warn_of_types(corpus: object, wanted: HitFilter, records: Sequence[Any]) -> None:
    """Warn if a filter requires another type of value than all `records` have under a metadata key.

    Numbers, true and false are of the same type, because they can be equal. A key that is in no record is not checked.
    Each key causes only one warning for a required type.
    """
    for name, asked, held in _differences(wanted.compared, records):
        _once.setdefault(corpus, Once()).warn(
            f"no passage has a {asked} under the filter key {name!r} (the values are {held})", key=(name, asked)
        )


def _differences(compared: Mapping[str, Iterable[Any]], records: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
    """Return each key that has no value of a required type, with the required types and the types of its values."""
    for name, values in sorted(compared.items()):
        asked, held = {_kind(one) for one in values if one is not None}, set[str]()
        for record in records:
            value = record.metadata.get(name)
            if value is not None:
                held.add(_kind(value))
                if not held.isdisjoint(asked):
                    break
        if asked and held and held.isdisjoint(asked):
            yield name, " or a ".join(sorted(asked)), " and ".join(f"{one}s" for one in sorted(held))


def _kind(value: object) -> str:
    return next((kind for one, kind in _KINDS.items() if isinstance(value, one)), type(value).__name__)
