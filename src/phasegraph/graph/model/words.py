"""Split text into words, and find names in it: known names, capital letters, joining words and stop words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from operator import itemgetter
from typing import Any, Literal

from phasegraph._support.packed import ChangedNames, NameRows
from phasegraph._support.shared import LOADING, lazy_property
from phasegraph._support.text import composed
from phasegraph._support.validation import check_names, check_rows
from phasegraph.errors import InvalidInputError, MissingDependencyError

_WORD = re.compile(r"((?:[^\W\d_]\.){2,}|[^\W_]+)")
_UNDOTTED = re.compile(r"([^\W_]+)")
_DOTTED = re.compile(r"\.[^\W\d_]\.")
"""A pattern for words with dots; in a text without a match, the faster pattern `_UNDOTTED` finds all words."""
_GAPS = (" ", "-", "–", "'", "’", " & ", "&", " '", " ’", " -", "- ", "\n", "  ")
_DOT_ABOVE = "\u0307"
_JOINING = frozenset(_GAPS)
_POSSESSIVE = frozenset({"'", "’", " '", " ’", "' ", "’ "})
_UNSURE = _POSSESSIVE | {". ", "."}
_SHORTENED = "st jr sr dr mr mrs ms vs mt ft gen col sgt lt capt prof rev hon no vol"
_ABBREVIATIONS = frozenset(_SHORTENED.split())
_CONNECTIVES = "of the de la le du des von van der den di da del della for y e al el bin ibn a d l do dos das und et"
CONNECTIVES = frozenset(_CONNECTIVES.split())
"""Lower-case words that can be inside a name, such as "of"."""
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
"""Words that are no name on their own and that no name starts with; case is ignored."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, as three parallel lists.

    `texts` are the words in lower case, without the dots of abbreviations ("U.S." is "us") and without a possessive s.
    `capital` is True for a word that starts with an upper-case letter. `joined` is True for a word that can belong to
    the same name as the previous word. Only a space or a hyphen, for example, is then between the two words.
    """

    texts: list[str]
    capital: list[bool]
    joined: list[bool]


def split_words(text: str) -> Words:
    """Split a text into words.

    >>> words = split_words("Queen Anne's U.S. tour")
    >>> words.texts, words.joined
    (['queen', 'anne', 'us', 'tour'], [False, True, False, True])
    """
    whole = text if text.isascii() else _composed(text)
    parts = (_WORD if _DOTTED.search(whole) else _UNDOTTED).split(whole)
    gaps, found = parts[0:-1:2], parts[1::2]
    texts = "\n".join(found).lower().replace(_DOT_ABOVE, "").replace(".", "").split("\n") if found else []
    capital = [*map(str.isupper, map(itemgetter(0), found))]
    joined = [*map(_JOINING.__contains__, gaps)]
    joined[:1] = [False] * bool(found)
    owned = []
    for place in [place for place, gap in enumerate(gaps) if gap in _UNSURE and place]:
        if gaps[place] not in _POSSESSIVE:  # the full stop may mark an abbreviation instead of a sentence's end
            joined[place] = len(texts[place - 1]) == 1 or texts[place - 1] in _ABBREVIATIONS
        elif texts[place] == "s":
            owned.append(place)
    for place in owned:
        joined[place + 1 : place + 2] = [False] * (place + 1 < len(texts))
    if owned:
        stays = bytearray(b"\x01") * len(texts)
        for place in owned:
            stays[place] = 0
        return Words(
            list(compress(texts, stays)), list(compress(capital, stays)), list(compress(joined, stays))
        )  # fmt: skip
    return Words(texts, capital, joined)


def word_texts(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return split_words(text).texts


def _composed(text: str) -> str:
    """Combine letters and their combining marks into single characters, because a separate mark would end a word."""
    return composed(text).replace("i" + _DOT_ABOVE, "i")


def normalise_name(name: str) -> str:
    """Normalize a name for comparison: lower-case words with single spaces; "" for a name without a letter or digit.

    >>> normalise_name("St. Mary's (U.S.)")
    'st mary us'
    """
    return " ".join(split_words(name).texts)


def capitalised_spans(words: Words, taken: Sequence[bool] | bytearray) -> list[tuple[int, int]]:
    """Find runs of capitalized words; connectives such as "of" may join them.

    Words at positions that are `taken`, that is, part of a known name, do not count. A run is returned as (position of
    the first word, position after the last word). It starts with a capitalized word that is not a stop word, and ends
    with a capitalized word.
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


Matcher = Literal["auto", "automaton", "python"]
MAX_WORDS = 8
"""Maximum number of words in a known name; longer names are not searched."""
_FILLERS = CONNECTIVES | STOP_WORDS


class Gazetteer:
    """A set of known names that are found in texts by longest match.

    Parameters
    ----------
    names : iterable of str
        The names, which are normalized; blank names and names of more than eight words are left out.
    matcher : {"auto", "automaton", "python"}
        ``automaton`` uses the Aho–Corasick automaton of pyahocorasick (``phasegraph[graph]``). ``python`` is a slower
        search with the same result. ``auto`` uses the automaton if it is installed.
    normalised : bool, default False
        If True, the names are already normalized.

    Examples
    --------
    >>> from phasegraph.graph.model.words import split_words
    >>> Gazetteer(["New York", "York"]).find(split_words("From New York to York"))
    [(1, 3), (4, 5)]
    """

    names: Collection[str]

    def __init__(self, names: Iterable[str] = (), *, matcher: Matcher = "auto", normalised: bool = False) -> None:
        if matcher not in ("auto", "automaton", "python"):
            raise InvalidInputError(f'matcher must be "auto", "automaton" or "python"; got {matcher!r}')
        forms = check_rows("names", names) if normalised else map(normalise_name, check_names("names", names))
        self.names = frozenset(name for name in forms if name and name.count(" ") < MAX_WORDS)
        self.matcher: str = _chosen(matcher)

    @classmethod
    def of_rows(cls, rows: NameRows) -> Gazetteer:
        """Create a gazetteer that searches a table of ascending normalized names without copying the names."""
        made = object.__new__(cls)
        made.names, made.matcher = rows, "bisection"
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.names, NameRows):
            return Gazetteer.of_rows, (self.names,)
        matcher: Matcher = "python" if self.matcher == "python" else "auto"
        return partial(Gazetteer, matcher=matcher, normalised=True), (self.names,)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def find(self, words: Words, *, lenient: bool = False) -> list[tuple[int, int]]:
        """Find known names in the words of a text, from left to right, by longest match and without overlap.

        A name is returned as (position of the first word, position after the last word). A name of one word must be
        capitalized and not a stop word. In a name of several words, two words must be capitalized, or a single word if
        another word is a number. With `lenient`, for queries, names of several words are also found in lower case.
        """
        spans: list[tuple[int, int]] = []
        end = 0
        for start, lengths in self._candidates(words.texts):
            if start < end:
                continue
            for length in lengths:
                if _acceptable(words, start, length, lenient):
                    end = start + length
                    spans.append((start, end))
                    break
        return spans

    def stands_in(self, texts: Sequence[str]) -> bool:
        """Return True if a known name occurs in `texts`, the words of a text in lower case."""
        return any(True for _ in self._candidates(texts))

    def standing_in(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield the known names in `texts` (the words of a text in lower case), once for each occurrence."""
        for start, lengths in self._candidates(texts):
            yield from (" ".join(texts[start : start + length]) for length in lengths)

    def _candidates(self, texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
        """Yield each position at which known names start, with the lengths of these names in words, longest first."""
        if not self.names:
            return iter(())
        if isinstance(self.names, ChangedNames):
            return self._by_parts(texts, self.names)
        if isinstance(self.names, NameRows):
            return self._by_bisection(texts, self.names)
        return self._by_automaton(texts) if self.matcher == "automaton" else self._by_prefix(texts)

    def _by_bisection(self, texts: Sequence[str], names: NameRows) -> Iterator[tuple[int, list[int]]]:
        for start in range(len(texts)):
            lengths: list[int] = []
            row = 0
            for length in range(1, min(MAX_WORDS, len(texts) - start) + 1):
                row, begins, whole = names.begun(" ".join(texts[start : start + length]), row)
                if not begins:
                    break
                if whole:
                    lengths.insert(0, length)
            if lengths:
                yield start, lengths

    def _by_parts(self, texts: Sequence[str], names: ChangedNames) -> Iterator[tuple[int, list[int]]]:
        found: dict[int, list[int]] = {}
        for part in map(Gazetteer.of_rows, names.parts):
            for start, lengths in part._candidates(texts):
                found.setdefault(start, []).extend(lengths)
        for start in sorted(found):
            there = (length for length in found[start] if " ".join(texts[start : start + length]) not in names.gone)
            if lengths := sorted(there, reverse=True):
                yield start, lengths

    def _by_prefix(self, texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
        longest, names, count = self._longest, self.names, len(texts)
        for start, word in enumerate(texts):
            most = longest.get(word, 0)
            if not most:
                continue
            tried = range(min(most, count - start), 0, -1)
            lengths = [length for length in tried if " ".join(texts[start : start + length]) in names]
            if lengths:
                yield start, lengths

    def _by_automaton(self, texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
        line = " " + " ".join(texts) + " "
        found: dict[int, list[int]] = {}
        counted, words = 1, 0  # `words` is the number of words that end before `counted`; matches are in order
        for place, length in self._automaton.iter(line):
            words += line.count(" ", counted, place)
            counted = place
            found.setdefault(words - length + 1, []).append(length)
        for start in sorted(found):
            yield start, sorted(found[start], reverse=True)

    @lazy_property
    def _longest(self) -> dict[str, int]:
        longest: dict[str, int] = {}
        for name in self.names:
            first, count = name.partition(" ")[0], name.count(" ") + 1
            if longest.get(first, 0) < count:
                longest[first] = count
        return longest

    @lazy_property
    def _automaton(self) -> Any:
        with LOADING:
            import ahocorasick

        automaton = ahocorasick.Automaton()
        for name in sorted(self.names):
            automaton.add_word(f" {name} ", name.count(" ") + 1)
        automaton.make_automaton()
        return automaton


def _chosen(matcher: Matcher) -> Literal["automaton", "python"]:
    if matcher == "python":
        return "python"
    try:
        import ahocorasick  # noqa: F401
    except ImportError as error:
        if matcher == "automaton":
            raise MissingDependencyError(
                "matcher='automaton' needs pyahocorasick; pip install 'phasegraph[graph]'"
            ) from error
        return "python"
    return "automaton"


def _acceptable(words: Words, start: int, length: int, lenient: bool) -> bool:
    """Return True if the words of a match are capitalized as in a name.

    A match is the known name of `length` words from position `start`. With `lenient`, for queries, a match of several
    words may also be in lower case. :meth:`Gazetteer.find` states all conditions.
    """
    first = words.texts[start]
    if length == 1:
        return words.capital[start] and first not in STOP_WORDS and len(first) > 1
    inside = range(start, start + length)
    body = sum(words.texts[here] not in _FILLERS for here in inside)
    if not body:
        return False
    capitals = sum(words.capital[here] for here in inside)
    if capitals >= 2 or (capitals and any(words.texts[here].isdigit() for here in inside)):
        return True
    return lenient and body >= 2


_TITLE_CASE = 0.7
"""Share of capitalized words after the first word above which a text counts as a title in title case."""
_LONG, _FEW_CAPITALS = 20, 0.02
"""Minimum number of words, and maximum share of capitalized words, of a text that counts as all lower case."""


def find_names(text: str, gazetteer: Gazetteer, *, query: bool = False) -> list[str]:
    """Find the names in a text, and return them normalized, once for each occurrence, known names first.

    Known names are the names of the gazetteer. Other names are runs of capitalized words. A known name of several words
    splits a run. A known name of one word is found in addition to the run that contains it: both "London" and
    "University of London" are found. In a `query`, a known name of one word is not found inside a longer run. Known
    names of several words are also found in lower case in a query, and in a lower-case text of at least twenty words.

    >>> find_names("At Queen Mary University of London.", Gazetteer(["London", "Queen Mary"]))
    ['queen mary', 'london', 'university of london']
    """
    return names_among(split_words(text), gazetteer, query=query)


def names_among(words: Words, gazetteer: Gazetteer, *, query: bool = False) -> list[str]:
    """Find the names in the words of a text that is already split; see :func:`find_names`."""
    known = gazetteer.find(words, lenient=query or _in_lower_case(words))
    taken = bytearray(len(words.texts))
    for start, end in known:
        if end - start > 1:
            taken[start:end] = b"\x01" * (end - start)
    runs = capitalised_spans(words, taken)
    inside = {place for start, end in runs if end - start > 1 for place in range(start, end)}
    if inside and query and not _title_case(words):
        known = [(start, end) for start, end in known if end - start > 1 or start not in inside]
    alone = {start for start, end in known if end - start == 1 and start not in inside}
    spans = known + [(start, end) for start, end in runs if start not in alone]
    names = (" ".join(words.texts[start:end]) for start, end in spans)
    return [name for name in names if len(name) > 1]


def _in_lower_case(words: Words) -> bool:
    """Return True if a text of at least 20 words has hardly any capital letters; capitals then identify no names."""
    count = len(words.capital)
    return count >= _LONG and sum(words.capital) <= _FEW_CAPITALS * count


def _title_case(words: Words) -> bool:
    """Return True if most words after the first word are capitalized; capitals then cannot identify names."""
    rest = words.capital[1:]
    return sum(rest) > _TITLE_CASE * len(rest)
