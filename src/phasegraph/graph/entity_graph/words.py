"""Text to words: what a name is made of, and which words of a text belong together."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"((?:[^\W\d_]\.){2,}|[^\W_]+)")
_GAPS = (" ", "-", "–", "'", "’", " & ", "&", " '", " ’", " -", "- ", "\n", "  ")
_DOT_ABOVE = "\u0307"
_JOINING = frozenset(_GAPS)
_POSSESSIVE = frozenset({"'", "’", " '", " ’", "' ", "’ "})
_SHORTENED = "st jr sr dr mr mrs ms vs mt ft gen col sgt lt capt prof rev hon no vol"
_ABBREVIATIONS = frozenset(_SHORTENED.split())

_CONNECTIVES = "of the de la le du des von van der den di da del della for y e al el bin ibn a d l do dos das und et"
CONNECTIVES = frozenset(_CONNECTIVES.split())
"""Lower-case words that may stand inside a name."""

_STOP_WORDS = """
the a an in on at of and or but for from to with by as is was are were be been its he she his her they their
them this that these those there then when where while who which what how why after before during since until
also both each all some many most other one three four five six seven eight nine ten first second third if
although because however not no yes do does did has have had can will would could should must we my our your
into over under between among about against through than such so out only according born died january february
march april june july august september october november december monday tuesday wednesday thursday friday
saturday sunday early late following despite upon within without along unlike like though once more several
still just nor yet later another any every few here hers him me now less located others whose well being
having today s
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that are no name by themselves and that a name does not start with, capitalised or not."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, three parallel lists.

    Parameters
    ----------
    texts : list of str
        Lower case; abbreviations without their dots ("U.S." is "us"); the s of a possessive left out.
    capital : list of bool
        Whether the word starts with an upper-case letter.
    joined : list of bool
        Whether it may continue a name that the word before it belongs to.
    """

    texts: list[str]
    capital: list[bool]
    joined: list[bool]


def split_words(text: str) -> Words:
    """Split a text into words.

    Parameters
    ----------
    text : str

    Returns
    -------
    Words

    Examples
    --------
    >>> words = split_words("Queen Anne's U.S. tour")
    >>> words.texts, words.joined
    (['queen', 'anne', 'us', 'tour'], [False, True, False, True])
    """
    parts = _WORD.split(text if text.isascii() else _composed(text))
    texts: list[str] = []
    capital: list[bool] = []
    joined: list[bool] = []
    before, possessive = "", False
    for gap, word in zip(parts[0:-1:2], parts[1::2], strict=True):
        low = word.lower().replace(_DOT_ABOVE, "")
        if low == "s" and texts and gap in _POSSESSIVE:
            before, possessive = low, True
            continue
        if word[-1] == ".":
            low = low.replace(".", "")
        capital.append(word[0].isupper())
        joined.append(bool(texts) and not possessive and (gap in _JOINING or _abbreviated(gap, before)))
        texts.append(low)
        before, possessive = low, False
    return Words(texts, capital, joined)


def _composed(text: str) -> str:
    """Letters as one character each: a combining mark would end the word, and so would the dot of a lowered İ."""
    return unicodedata.normalize("NFC", text).replace("i" + _DOT_ABOVE, "i")


def _abbreviated(gap: str, before: str) -> bool:
    """Whether a full stop only marks the word before it as shortened."""
    return gap in (". ", ".") and (len(before) == 1 or before in _ABBREVIATIONS)


def normalise_name(name: str) -> str:
    """The form in which names are compared: lower-case words, one space between them.

    Parameters
    ----------
    name : str

    Returns
    -------
    str
        Empty where the name holds no letter or digit.

    Examples
    --------
    >>> normalise_name("St. Mary's (U.S.)")
    'st mary us'
    """
    return " ".join(split_words(name).texts)


def capitalised_spans(words: Words, taken: Sequence[bool] | bytearray) -> list[tuple[int, int]]:
    """Runs of capitalised words, connectives inside them included.

    Parameters
    ----------
    words : Words
    taken : sequence of bool
        Words that belong to a name already: no span crosses them.

    Returns
    -------
    list of (int, int)
        First word and one past the last, in order. A span starts with no stop word and ends capitalised.
        A number never starts one.
    """
    texts, capital, joined = words.texts, words.capital, words.joined
    spans: list[tuple[int, int]] = []
    count, start = len(texts), 0
    while start < count:
        if not capital[start] or taken[start] or texts[start] in STOP_WORDS:
            start += 1
            continue
        last, here = start, start + 1
        while here < count and joined[here] and not taken[here]:
            if capital[here]:
                last = here
            elif texts[here] not in CONNECTIVES or here - last > 2:
                break
            here += 1
        spans.append((start, last + 1))
        start = last + 1
    return spans
