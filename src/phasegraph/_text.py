"""Unicode normalisation in time linear in the text, whatever the text."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from operator import mul

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
