"""Prepare docstrings for the site: numpydoc's roles become code, and no text is read as Markdown by accident."""

from __future__ import annotations

import re
from typing import Any

import griffe


class PlainDocstrings(griffe.Extension):
    """An extension of griffe that cleans every docstring of phasegraph after griffe has read it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Clean the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    r"""Return a docstring without marks that Markdown does not know or would misinterpret.

    >>> as_markdown("See :meth:`~phasegraph.Result.evidence`.")
    'See `Result.evidence`.'
    >>> as_markdown("    >= 0, not all 0")
    '    \\>= 0, not all 0'
    """
    text = re.sub(r":(?:class|func|meth|attr|mod|data|exc|obj):`~?([^`]+)`", _short, docstring)
    return re.sub(r"^(\s*)>(?!>>)", r"\1\\>", text, flags=re.MULTILINE)


def _short(role: re.Match[str]) -> str:
    """Return the name that a Sphinx role displays: the last part of the name, and for a method also its class."""
    parts = role[1].split(".")
    shown = parts[-2:] if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1:]
    return f"`{'.'.join(shown)}`"
