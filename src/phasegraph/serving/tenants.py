"""Who may see what, as the server's own configuration says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phasegraph.errors import InvalidInputError

Filter = Mapping[str, Any]


def check_filter(name: str, value: object) -> Filter:
    """A filter: metadata keys to the value a passage must have, or to a list of values of which it must have one."""
    if not isinstance(value, Mapping) or not value:
        raise InvalidInputError(f"{name} must map metadata keys to values, and hold one at least; got {value!r:.80}")
    for key, wanted in value.items():
        options = wanted if isinstance(wanted, list) else [wanted]
        plain = all(isinstance(one, str | int | float) and one == one for one in options)
        if not isinstance(key, str) or not options or not plain:
            raise InvalidInputError(
                f"{name}[{key!r}] must be a text, a number, true or false, or a list of these; got {wanted!r:.80}"
            )
    return value


def lets_through(only: Filter, metadata: Mapping[str, Any]) -> bool:
    """Whether a filter lets a passage through; one that lacks a key never is.

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


def read_tenants(path: Path) -> dict[str, tuple[str, Filter]]:
    """The tenants of a file: by name the token that shows who asks, and what he may see.

    The file is JSON: ``{"red": {"token": "…", "filter": {"team": "red"}}, …}``.

    Raises
    ------
    InvalidInputError
        If it is not of this form, a token is short or not the only one of its kind, or a filter is empty.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: it cannot be read as JSON: {type(error).__name__}") from error
    if not isinstance(state, dict) or not state:
        raise InvalidInputError(f'{path}: it must hold {{"name": {{"token": "...", "filter": {{...}}}}, ...}}')
    tenants: dict[str, tuple[str, Filter]] = {}
    for name, one in state.items():
        if not isinstance(one, dict) or set(one) != {"token", "filter"}:
            raise InvalidInputError(f"{path}: {name!r} must have a token and a filter, and nothing else")
        tenants[name] = (check_token(f"{path}: the token of {name!r}", one["token"]), check_filter(name, one["filter"]))
    if len({token for token, _ in tenants.values()}) < len(tenants):
        raise InvalidInputError(f"{path}: every tenant must have a token of its own")
    return tenants


def check_token(name: str, token: object) -> str:
    """A token: at least 16 visible ASCII characters. It is never repeated in a message."""
    if not isinstance(token, str) or len(token) < 16 or not all("!" <= one <= "~" for one in token):
        raise InvalidInputError(
            f"{name} must be at least 16 visible ASCII characters; python -c "
            "'import secrets; print(secrets.token_urlsafe())' makes one"
        )
    return token
