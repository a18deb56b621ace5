"""Normalize text of any origin in linear time, and escape characters that control a terminal, a log or a page."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from operator import mul

# Control characters (C0 without the tab, DEL, C1), line and paragraph separators, characters that change the direction
# of writing, byte-order marks and lone surrogates.
_STEERING = "\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_SIGNS = re.compile(f"[{_STEERING}]")
_SHORT, _MOST = 1_000, 30
"""Maximum length of a text that is normalized without a check, and maximum number of consecutive combining marks."""


def composed(text: str) -> str:
    r"""Return the text in Unicode normalization form C (NFC), in linear time.

    Normalization sorts the combining marks of a letter in a time that is quadratic in their number; half a megabyte of
    marks takes minutes. Therefore, U+034F is inserted after every 30 consecutive marks. This is the "stream-safe" text
    format of Unicode Standard Annex 15, section 13.

    >>> composed("e\u0301") == "\u00e9", composed("e" + 3000 * "\u0301").count("\u034f")
    (True, 99)
    """
    if text.isascii():
        return text
    if len(text) > _SHORT and any(map(mul, *_pairs(text))):
        text = _many_marks().sub("\\g<0>\u034f", text)
    return unicodedata.normalize("NFC", text)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun; the plural is the noun with an "s", unless `plural` is given.

    >>> counted(1, "passage"), counted(2, "passage"), counted(0, "query", "queries")
    ('1 passage', '2 passages', '0 queries')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _pairs(text: str) -> tuple[list[int], list[int]]:
    """Return two lists: the Unicode combining classes of every 30th character, and of the characters 30 places later.

    More than 30 consecutive marks are possible only if both values at some position are above 0.
    """
    sampled = list(map(unicodedata.combining, text[::_MOST]))
    return sampled[:-1], sampled[1:]


@cache
def _many_marks() -> re.Pattern[str]:
    """Return a pattern for 30 consecutive combining marks that are followed by another combining mark."""
    marks = "".join(map(re.escape, filter(unicodedata.combining, map(chr, range(sys.maxunicode + 1)))))
    return re.compile(f"[{marks}]{{{_MOST}}}(?=[{marks}])")


def legible(text: str) -> str:
    r"""Return the text on one line, with escapes for characters that control a terminal or cannot be encoded.

    >>> legible("a\x1b]0;title\x07\nb\u202e \ud800"), legible("Zoë, 東京\t!")
    ('a\\x1b]0;title\\x07\\nb\\u202e \\ud800', 'Zoë, 東京\t!')
    """
    if text.isascii() and text.isprintable():
        return text
    return _SIGNS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def legible_json(text: str) -> str:
    r"""Escape, in JSON text, the characters that :func:`legible` escapes, except line breaks; its value is unchanged.

    >>> legible_json('["\u202e"]\n')
    '["\\u202e"]\n'
    """
    return _SIGNS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
