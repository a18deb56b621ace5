"""What a model meant by its JSON: fences, prose around it, trailing commas and a cut-off end do no harm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LONGEST, DEEPEST, MOST_STARTS = 400_000, 32, 200
"""Characters read of an answer, levels of nesting, and places at which a value is looked for."""

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}
_ENTITY_KEYS = ("entities", "named_entities", "extracted_entities")
_TRIPLE_KEYS = ("triples", "extracted_triples", "relations")
_PARTS = (
    ("subject", "head", "source"),
    ("predicate", "relation", "relationship", "type"),
    ("object", "tail", "target"),
)


class _Unfinished(Exception):  # noqa: N818 - not an error: the answer ends here
    """The text ends inside a value."""


class _NotJsonError(ValueError):
    """No JSON value stands here."""


def read_entities(answer: str) -> list[Any] | None:
    r"""The list of entities in an answer; None if there is none.

    Examples
    --------
    >>> read_entities('Sure! ```json\n{"entities": ["Ada", "Bo",]}\n```')
    ['Ada', 'Bo']
    >>> read_entities('{"entities": ["Ada", "Bo')
    ['Ada']
    >>> read_entities("I cannot help with that.") is None
    True
    """
    return _listed(answer, _ENTITY_KEYS, str)


def read_triples(answer: str) -> list[Any] | None:
    """The list of triples in an answer, not checked one by one; None if there is none.

    Examples
    --------
    >>> read_triples('{"triples": [["Ada", "met", "Bo"], ["Bo", "sa')
    [['Ada', 'met', 'Bo'], ['Bo']]
    >>> read_triples('[{"subject": "Ada", "relation": "met", "object": "Bo"}]')
    [['Ada', 'met', 'Bo']]
    """
    found = _listed(answer, _TRIPLE_KEYS, list | dict)
    return None if found is None else [_as_list(item) for item in found]


def _listed(answer: str, keys: Sequence[str], kind: Any) -> list[Any] | None:
    """The list under one of the keys; else a bare list of that kind of items; an empty one last."""
    values = list(values_in(answer))
    for value in values:
        if isinstance(value, Mapping):
            for key in keys:
                if isinstance(value.get(key), list):
                    return list(value[key])
    bare = [value for value in values if isinstance(value, list) and all(isinstance(item, kind) for item in value)]
    return next((value for value in bare if value), bare[0] if bare else None)


def _as_list(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    low = {str(key).lower(): value for key, value in item.items()}
    return [next((low[name] for name in names if name in low), None) for names in _PARTS]


def values_in(answer: str) -> Iterator[Any]:
    """The JSON objects and arrays of a text, outermost ones only, from left to right."""
    text = _THOUGHTS.sub(" ", answer[:LONGEST])
    place, tries = 0, 0
    while tries < MOST_STARTS:
        starts = [at for at in (text.find("{", place), text.find("[", place)) if at >= 0]
        if not starts:
            return
        tries += 1
        start = min(starts)
        reader = _Reader(text, start)
        try:
            value = reader.value(0)
        except (_NotJsonError, _Unfinished):
            place = start + 1
            continue
        place = reader.place
        yield value


class _Reader:
    """Reads one JSON value; commas may trail, and a container that the text cuts off keeps what was whole."""

    def __init__(self, text: str, place: int) -> None:
        self.text, self.place = text, place

    def value(self, depth: int) -> Any:
        sign = self._next()
        if sign in "{[":
            if depth >= DEEPEST:
                raise _NotJsonError
            self.place += 1
            return self._object(depth + 1) if sign == "{" else self._array(depth + 1)
        if sign == '"':
            return self._string()
        return self._scalar()

    def _array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        try:
            while self._next() != "]":
                items.append(self.value(depth))
                self._comma("]")
            self.place += 1
        except _Unfinished:
            self.place = len(self.text)
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        try:
            while self._next() != "}":
                if self._next() != '"':
                    raise _NotJsonError
                key = self._string()
                if self._next() != ":":
                    raise _NotJsonError
                self.place += 1
                fields[key] = self.value(depth)
                self._comma("}")
            self.place += 1
        except _Unfinished:
            self.place = len(self.text)
        return fields

    def _comma(self, closing: str) -> None:
        if self._next() == ",":
            self.place += 1
        elif self.text[self.place] != closing:
            raise _NotJsonError

    def _string(self) -> str:
        found = _STRING.match(self.text, self.place)
        if found is None:
            raise _Unfinished
        self.place = found.end()
        try:
            return str(json.loads(f'"{found[1]}"', strict=False))
        except ValueError:
            return found[1].replace("\\", "")

    def _scalar(self) -> Any:
        for word, meaning in _WORDS.items():
            if self.text.startswith(word, self.place):
                self.place += len(word)
                return meaning
        found = _NUMBER.match(self.text, self.place)
        if found is None:
            raise _NotJsonError
        self.place = found.end()
        return float(found[0])

    def _next(self) -> str:
        """The next sign that is no white space."""
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1
        if self.place >= len(self.text):
            raise _Unfinished
        return self.text[self.place]
