"""Text of others: its normal form in linear time, and written so that it steers no terminal, log or page."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from operator import mul

# Control signs (C0 without the tab, DEL, C1), line and paragraph separators, signs that turn the direction of writing,
# byte-order marks and halves of characters.
_STEERING = "\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_SIGNS = re.compile(f"[{_STEERING}]")
_SHORT, _MOST = 1_000, 30
"""Characters up to which a text cannot take long; marks in a row that are left alone."""


def composed(text: str) -> str:
    r"""The text in normal form C.

    Sorting the marks of one letter takes time quadratic in their number, and half a megabyte of them minutes. So a run
    of more than 30 marks is parted by U+034F, the "stream-safe" form of Unicode Standard Annex 15, section 13.

    >>> composed("e\u0301") == "\u00e9", composed("e" + 3000 * "\u0301").count("\u034f")
    (True, 99)
    """
    if text.isascii():
        return text
    if len(text) > _SHORT and any(map(mul, *_pairs(text))):
        text = _many_marks().sub("\\g<0>\u034f", text)
    return unicodedata.normalize("NFC", text)


def _pairs(text: str) -> tuple[list[int], list[int]]:
    """Whether each 30th character is a mark, and the next 30th: where both are, a run may be long."""
    sampled = list(map(unicodedata.combining, text[::_MOST]))
    return sampled[:-1], sampled[1:]


@cache
def _many_marks() -> re.Pattern[str]:
    """Thirty characters that stand on the one before them, and one more behind."""
    marks = "".join(map(re.escape, filter(unicodedata.combining, map(chr, range(sys.maxunicode + 1)))))
    return re.compile(f"[{marks}]{{{_MOST}}}(?=[{marks}])")


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
