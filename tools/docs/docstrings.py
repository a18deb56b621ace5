"""Docstrings as the site shows them: numpydoc's roles as code, and no accidental Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe


class PlainDocstrings(griffe.Extension):
    """Clean every docstring of ours when griffe has read it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Clean the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """A docstring without the marks that Markdown does not know, or reads as something else.

    >>> as_markdown("See :meth:`~phasegraph.Result.evidence`.")
    'See `Result.evidence`.'
    >>> as_markdown("    >= 0, not all 0")
    '    \\\\>= 0, not all 0'
    """
    text = re.sub(r":(?:class|func|meth|attr|mod|data|exc|obj):`~?([^`]+)`", _short, docstring)
    return re.sub(r"^(\s*)>(?!>>)", r"\1\\>", text, flags=re.MULTILINE)


def _short(role: re.Match[str]) -> str:
    """The name that a role shows: the last part, and the class of a method."""
    parts = role[1].split(".")
    shown = parts[-2:] if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1:]
    return f"`{'.'.join(shown)}`"
