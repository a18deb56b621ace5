"""Fill the fields of a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from phasegraph.errors import InvalidInputError


def filled(template: str, **values: str) -> str:
    """A prompt with its places filled in, once: what is put in is not looked at again.

    >>> filled("{query} {n}", query="{n}?", n="3")
    '{n}? 3'
    """
    return re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), template)


def check_prompt(prompt: object, *fields: Sequence[str]) -> None:
    """Refuse a prompt that is no text, or lacks every field of a group of `fields`: ``{name}``, for :func:`filled`."""
    if not isinstance(prompt, str) or not all(any(f"{{{one}}}" in prompt for one in group) for group in fields):
        asked = " and ".join(" or ".join(f"{{{one}}}" for one in group) for group in fields)
        raise InvalidInputError(f"prompt must be a text with {asked} in it; got {prompt!r:.80}")
