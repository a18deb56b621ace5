"""Fill the fields of a prompt template, and check that a template has its fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from phasegraph.errors import InvalidInputError


def filled(template: str, **values: str) -> str:
    """Replace the fields ``{name}`` of a prompt template by values; fields in the values are not replaced.

    >>> filled("{query} {n}", query="{n}?", n="3")
    '{n}? 3'
    """
    return re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), template)


def check_prompt(prompt: object, *fields: Sequence[str]) -> None:
    """Raise InvalidInputError unless the prompt is a text that contains at least one field of each group in `fields`.

    A field is written as ``{name}``; see :func:`filled`.
    """
    if not isinstance(prompt, str) or not all(any(f"{{{one}}}" in prompt for one in group) for group in fields):
        asked = " and ".join(" or ".join(f"{{{one}}}" for one in group) for group in fields)
        raise InvalidInputError(f"prompt must be a text with {asked} in it; got {prompt!r:.80}")
