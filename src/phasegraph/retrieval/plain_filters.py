"""The core's own filters: metadata keys with a required value or a list of allowed values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phasegraph.errors import InvalidInputError

Filter = Mapping[str, Any]


def check_filter(name: str, value: object) -> Filter:
    """Check a filter, and return it: a mapping of metadata keys to a required value or a list of allowed values.

    `name` is the argument that an error message names.
    """
    if not isinstance(value, Mapping) or not value:
        raise InvalidInputError(f"{name} must map at least one metadata key to a value; got {value!r:.80}")
    for key, wanted in value.items():
        options = wanted if isinstance(wanted, list) else [wanted]
        plain = all(isinstance(one, str | int | float) and one == one for one in options)
        if not isinstance(key, str) or not options or not plain:
            raise InvalidInputError(
                f"{name}[{key!r}] must be a text, a number, true or false, or a list of such values; got {wanted!r:.80}"
            )
    return value


def lets_through(only: Filter, metadata: Mapping[str, Any]) -> bool:
    """Return True if a passage with this metadata matches the filter `only`.

    A passage without one of the filter's keys does not match.

    >>> lets_through({"team": ["red", "blue"]}, {"team": "red"}), lets_through({"team": "red"}, {})
    (True, False)
    >>> lets_through({"level": 1}, {"level": True})
    False
    """

    def same(one: object, other: object) -> bool:
        return one == other and isinstance(one, bool) == isinstance(other, bool)

    return all(
        key in metadata and any(same(metadata[key], one) for one in (wanted if isinstance(wanted, list) else [wanted]))
        for key, wanted in only.items()
    )


@dataclass(frozen=True)
class PlainFilter:
    """A checked filter with the interface of :class:`~phasegraph.retrieval.framework.HitFilter`."""

    only: Filter

    @property
    def key(self) -> str:
        """The filter as JSON text, which identifies it in a cache."""
        return json.dumps(dict(self.only), sort_keys=True)

    @property
    def names(self) -> list[str]:
        """The metadata keys that the filter reads."""
        return list(self.only)

    @property
    def compared(self) -> dict[str, Sequence[Any]]:
        """The values with which the filter compares each metadata key."""
        return {key: wanted if isinstance(wanted, list) else [wanted] for key, wanted in self.only.items()}

    def rows(self, hits: Sequence[Any]) -> list[int]:
        """Return the positions of the hits whose metadata match the filter."""
        return [row for row, one in enumerate(hits) if lets_through(self.only, one.metadata)]
