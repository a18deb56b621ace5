"""Text of others on a terminal, in a log or on a page: what would steer these is written out and not obeyed."""

from __future__ import annotations

import re

# Control signs (C0 without the tab, DEL, C1), line and paragraph separators, signs that turn the direction of writing,
# byte-order marks and halves of characters.
_STEERING = "\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_SIGNS = re.compile(f"[{_STEERING}]")


def legible(text: str) -> str:
    r"""The text on one line, with every sign that would steer a terminal or cannot be written as an escape.

    >>> legible("a\x1b]0;title\x07\nb\u202e \ud800"), legible("Zoë, 東京\t!")
    ('a\\x1b]0;title\\x07\\nb\\u202e \\ud800', 'Zoë, 東京\t!')
    """
    if text.isascii() and text.isprintable():
        return text
    return _SIGNS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def legible_json(text: str) -> str:
    r"""JSON that says the same with these signs as its own escapes; line breaks between its values stay.

    >>> legible_json('["\u202e"]\n')
    '["\\u202e"]\n'
    """
    return _SIGNS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
