"""A list of known names, and where they stand in a sequence of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.graph.checks import check_names, check_rows
from phasegraph.graph.entity_graph.words import CONNECTIVES, STOP_WORDS, Words, normalise_name

Matcher = Literal["auto", "automaton", "python"]

MAX_WORDS = 8
"""Longer names are not looked for."""

_FILLERS = CONNECTIVES | STOP_WORDS


class Gazetteer:
    """Known names, found in text by longest match.

    Parameters
    ----------
    names : iterable of str
        Normalised here; blank ones and those of more than eight words are left out.
    matcher : {"auto", "automaton", "python"}
        ``automaton`` is the Aho–Corasick automaton of pyahocorasick (``phasegraph[graph]``), ``python`` a slower
        search that finds the same; ``auto`` takes the first where it is installed.
    normalised : bool, default False
        The names are in their normal form already.

    Examples
    --------
    >>> from phasegraph.graph.extraction import split_words
    >>> Gazetteer(["New York", "York"]).find(split_words("From New York to York"))
    [(1, 3), (4, 5)]
    """

    def __init__(self, names: Iterable[str] = (), *, matcher: Matcher = "auto", normalised: bool = False) -> None:
        if matcher not in ("auto", "automaton", "python"):
            raise InvalidInputError(f'matcher must be "auto", "automaton" or "python"; got {matcher!r}')
        forms = check_rows("names", names) if normalised else map(normalise_name, check_names("names", names))
        self.names = frozenset(name for name in forms if name and name.count(" ") < MAX_WORDS)
        self.matcher = _chosen(matcher)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def find(self, words: Words, *, lenient: bool = False) -> list[tuple[int, int]]:
        """Where names stand: longest match first, from left to right, without overlap.

        Parameters
        ----------
        words : Words
        lenient : bool
            For queries: names of several words count in lower case, too.

        Returns
        -------
        list of (int, int)
            First word and one past the last. One word must be capitalised and no stop word; of several, two
            must be (or one, beside a number).
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
        """Whether any of the names stands in a sequence of lower-case words, capitals apart."""
        return any(True for _ in self._candidates(texts))

    def _candidates(self, texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
        """Every start at which a name matches, with the lengths, longest first."""
        if not self.names:
            return iter(())
        return self._by_automaton(texts) if self.matcher == "automaton" else self._by_prefix(texts)

    def _by_prefix(self, texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
        longest, names, count = self._longest, self.names, len(texts)
        for start, word in enumerate(texts):
            most = longest.get(word, 0)
            if not most:
                continue
            lengths = [
                length
                for length in range(min(most, count - start), 0, -1)
                if " ".join(texts[start : start + length]) in names
            ]
            if lengths:
                yield start, lengths

    def _by_automaton(self, texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
        line = " " + " ".join(texts) + " "
        ends: dict[int, int] = {}
        place = 0
        for number, word in enumerate(texts):
            place += len(word) + 1
            ends[place] = number
        found: dict[int, list[int]] = {}
        for place, length in self._automaton.iter(line):
            found.setdefault(ends[place] - length + 1, []).append(length)
        for start in sorted(found):
            yield start, sorted(found[start], reverse=True)

    @cached_property
    def _longest(self) -> dict[str, int]:
        longest: dict[str, int] = {}
        for name in self.names:
            first, count = name.partition(" ")[0], name.count(" ") + 1
            if longest.get(first, 0) < count:
                longest[first] = count
        return longest

    @cached_property
    def _automaton(self) -> Any:
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
    """Whether a match reads like the name and not like common words that happen to spell it."""
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
