"""Statements are fixed text: only allow-listed names of labels, types and properties ever enter one, in backticks.

A driver has parameters for values and none for names, so names are where a graph store is usually broken
into. A template marks each name with guillemets, ``(p:«passage»)``; `render` replaces the marks by quoted
names and refuses every name that is not plain words. Values go beside the text, as parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from phasegraph.errors import InvalidInputError, InvalidTypeError

MAX_NAME_LENGTH = 200

# Letters, digits and marks of any script, then also blanks, dots, colons and hyphens between them ("Works
# at", "ns:Thing"). No backtick (it ends a quoted name), no backslash (Cypher decodes \u0060 before it reads
# the text), no control or format character.
_NAME = re.compile(r"[^\W\d](?:[\w .:\-]*\w)?")
_SLOT = re.compile(r"«(\w+)»")


def quote(name: str, field: str) -> str:
    """Return a label, relationship type or property key as Cypher may hold it.

    Parameters
    ----------
    name : str
        Up to 200 characters; a letter or underscore first; then letters, digits, underscores, and blanks,
        dots, colons or hyphens between them.
    field : str
        What the name is for, for the error message.

    Returns
    -------
    str
        The name in backticks.

    Raises
    ------
    InvalidInputError
        If the name holds anything else. The message shows at most its first 40 characters.

    Examples
    --------
    >>> quote("Works at", "relationship type")
    '`Works at`'
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"{field} must be a str; {type(name).__name__} was given")
    if len(name) > MAX_NAME_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"{field} must be plain words (letters, digits, '_', and ' .:-' between them) of at most "
            f"{MAX_NAME_LENGTH} characters; {name[:40]!r} was given"
        )
    return "`" + name.replace("`", "``") + "`"


def render(template: str, names: Mapping[str, str]) -> str:
    """Return a template with each ``«field»`` replaced by the quoted name of that field.

    Parameters
    ----------
    template : str
        Text of this library, never of a caller.
    names : mapping of str to str
        Field to name; names of fields that the template lacks are checked too.

    Returns
    -------
    str
        The statement.

    Raises
    ------
    InvalidInputError
        If a name is not allowed, or a field of the template has no name.

    Examples
    --------
    >>> render("MATCH (p:«passage») RETURN count(p)", {"passage": "Chunk"})
    'MATCH (p:`Chunk`) RETURN count(p)'
    """
    quoted = {field: quote(name, field) for field, name in names.items()}

    def fill(slot: re.Match[str]) -> str:
        field = slot.group(1)
        if field not in quoted:
            raise InvalidInputError(f"every field of a template must be named; {field!r} was not")
        return quoted[field]

    return _SLOT.sub(fill, template)
