"""The page: one template, one script, one style; served in parts, or written as one file that needs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from phasegraph.markup import escaped

STATIC = {
    "inspector.css": "text/css",
    "inspector.js": "text/javascript",
    "cytoscape.min.js": "text/javascript",
    "cytoscape.LICENSE": "text/plain",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the served page may load: its own parts, and nothing from elsewhere."""
_ESCAPES = {ord(one): f"\\u{ord(one):04x}" for one in "<>&"}
"""What could end a script's element, in JSON's other words."""


@lru_cache(maxsize=8)
def part(name: str) -> str:
    """The text of one of the page's files."""
    return (files("phasegraph.inspecting") / "static" / name).read_text(encoding="utf-8")


def embedded_json(data: object) -> str:
    r"""Data as JSON that stands in a page as it is: no character of it ends the element or a line.

    >>> embedded_json({"text": "</script><!-- \u2028"})
    '{"text": "\\u003c/script\\u003e\\u003c!-- \\u2028"}'
    """
    return json.dumps(data, allow_nan=False).translate(_ESCAPES)


def served_page() -> str:
    """The page as the server gives it: it asks for its parts and its data."""
    head = (
        '<link rel="stylesheet" id="__________cytoscape_stylesheet" href="static/inspector.css">'
        '<link rel="icon" href="data:,">'
        '<script defer src="static/cytoscape.min.js"></script><script defer src="static/inspector.js"></script>'
    )
    return _filled("phasegraph inspect", head, "")


def offline_page(data: Mapping[str, Any]) -> str:
    """One file with everything in it, which asks nobody for anything: a policy in its head says so to the browser.

    Parameters
    ----------
    data : mapping
        ``about``, ``view`` and, where two pipelines are compared, ``other``, as :class:`Inspector` gives them.
    """
    style = part("inspector.css")
    scripts = [part("cytoscape.min.js"), part("inspector.js")]
    allowed = " ".join(map(_digest, scripts))
    policy = f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; img-src data:; base-uri 'none'"
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<style id="__________cytoscape_stylesheet">{style}</style>'
    )
    foot = f'<script type="application/json" id="data">{embedded_json(data)}</script>'
    foot += "".join(f"<script>{one}</script>" for one in scripts)
    return _filled(f"{data['view']['question']} – phasegraph", head, foot)


def _filled(title: str, head: str, foot: str) -> str:
    before, rest = part("page.html").split("<!--head-->")
    middle, after = rest.split("<!--foot-->")
    return f"{before}<title>{escaped(title)}</title>{head}{middle}{foot}{after}"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
