"""Tokenizers, which split a text into words by the rules of a language, and the positions of words in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from phasegraph._support.text import composed
from phasegraph.errors import InvalidInputError, InvalidTypeError, needed

CJK = "\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORDS = re.compile(r"\w\w+")
_WORDS_OR_RUNS = re.compile(rf"[{CJK}]+|[^\W{CJK}]{{2,}}")
_RUN = re.compile(rf"[{CJK}]")
_LETTERS = rf"[^\W{CJK}]"
_IDENTIFIER = re.compile(r"[_.\-A-Z](?:(?<=_)|(?<=\w\.)\w|(?<=[A-Za-z]-)[0-9]|(?<=[a-z0-9][A-Z]))")
"""A quick test for identifiers: a text without a match has no identifier; a text with a match may have identifiers."""
_COMPOUNDS = re.compile(rf"\b{_LETTERS}+(?:\.{_LETTERS}+)+|\b[A-Za-z]+(?:-[0-9]+)+\b")
"""Dotted names, numbers with dots, and codes such as "ORA-00942", which are words in addition to their parts."""
_TOGETHER = re.compile(rf"{_LETTERS}+(?:[.-]{_LETTERS}+)*")
_ONE_WORD = re.compile(rf"{_LETTERS}{{2,}}")
_WITH_PARTS = re.compile(rf"(?<!{_LETTERS})(?=[^\W_{CJK}]*_|[a-z][a-z0-9]+[A-Z]){_LETTERS}{{2,}}")
_BETWEEN_UNDERSCORES = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[a-z][a-z0-9]+[A-Z]")
_HUMPS = re.compile(r"[A-Z]+[0-9]*(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_ENGLISH = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
# codespell:ignore-begin
_GERMAN = """
aber alle als also am an auch auf aus bei beim bin bis bist da damit das dass dein dem den denn der des die dies diese
diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es für hat hatte hatten habe haben
ich ihm ihn ihr ihre im in ins ist ja kann kein keine man mein mit nach nicht noch nun nur ob oder ohne sehr sein seine
sich sie sind so über um und uns unter vom von vor war waren was wenn wer werden wie wir wird wo wurde wurden zu zum zur
"""
# codespell:ignore-end
Tokenize: TypeAlias = Callable[[str], Sequence[str]]


def split(text: str, identifiers: bool = True) -> list[str]:
    """Split a text into lower-case words of two or more characters; split Chinese and Japanese into character pairs.

    Identifiers are names in snake_case or camelCase, dotted names, versions and codes. An identifier gives several
    words: the whole identifier and its parts. A name such as "TechCrunch" is a single word. If `identifiers` is False,
    identifiers are not recognized; indexes that earlier releases saved need this mode.

    >>> split("Who met Ada-2? 東京都"), split("C")
    (['who', 'met', 'ada', '東京', '京都', 'ada-2'], [])
    >>> split("find_peaks"), split("parseXMLFile"), split("np.abs, 3.12")
    (['find_peaks', 'find', 'peaks'], ['parsexmlfile', 'parse', 'xml', 'file'], ['np', 'abs', '12', 'np.abs', '3.12'])
    """
    if identifiers and _IDENTIFIER.search(text):
        return [*split(text, False), *_parts(text)]
    low = text.lower()
    if low.isascii():
        return _WORDS.findall(low)
    low = composed(low)
    if not _RUN.search(low):
        marked = _with_marks()
        return (marked if marked.search(low) else _WORDS).findall(low)
    out: list[str] = []
    for found in _WORDS_OR_RUNS.findall(low):
        if len(found) > 1 and _RUN.match(found):
            out += [found[place : place + 2] for place in range(len(found) - 1)]
        else:
            out.append(found)
    return out


def _parts(text: str) -> Iterator[str]:
    """Yield the additional words for the identifiers in a text.

    These are the parts of names such as ``find_peaks``, and whole compounds such as ``np.abs`` or ``3.12``.
    """
    whole = composed(text)
    for word in _WITH_PARTS.findall(whole):
        for piece in _BETWEEN_UNDERSCORES.findall(word):
            for part in _HUMPS.findall(piece) if _CAMEL.match(piece) and piece.isascii() else [piece]:
                if len(part) > 1 and part != word:
                    yield part.lower()
    for found in _COMPOUNDS.findall(whole):
        yield found.lower()


@cache
def _with_marks() -> re.Pattern[str]:
    """Return a pattern for words in scripts that write combining marks after letters, such as Hindi."""
    marks = [chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    inside = f"[\\w{re.escape(''.join(marks))}]"
    return re.compile(rf"\w{inside}+")


@dataclass(frozen=True, slots=True)
class _Without:
    """A tokenizer that removes stop words."""

    stop: frozenset[str] = frozenset()
    identifiers: bool = True

    def __call__(self, text: str) -> list[str]:
        return [word for word in split(text, self.identifiers) if word not in self.stop]


@dataclass(frozen=True, slots=True)
class _Stemmed:
    """A tokenizer that stems words by the Snowball algorithm of a language."""

    language: str

    def __call__(self, text: str) -> list[str]:
        stemmer = _snowball().Stemmer(self.language)  # a new stemmer per call, because threads must not share a stemmer
        stemmed: list[str] = stemmer.stemWords(split(text))
        return stemmed


def _snowball() -> Any:
    with needed("a tokenizer that stems needs PyStemmer; pip install 'phasegraph[stemming]'"):
        import Stemmer
    return Stemmer


@cache
def _stemmed(language: str) -> _Stemmed:
    """Return the stemming tokenizer of a language; raise InvalidInputError if Snowball does not support it."""
    known = _snowball().algorithms()
    if language not in known:
        listed = ", ".join(known)
        raise InvalidInputError(f"tokenizer {SNOWBALL + language!r:.80} must name a language of Snowball: {listed}")
    return _Stemmed(language)


STOP_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"english": frozenset(_ENGLISH.split()), "german": frozenset(_GERMAN.split()), "plain": frozenset()}
)
"""The stop words of each tokenizer: Lucene's English stop words, German stop words, or no stop words."""
TOKENIZERS: Mapping[str, Tokenize] = MappingProxyType({name: _Without(stop) for name, stop in STOP_WORDS.items()})
"""The tokenizers by name. ``english`` and ``german`` remove stop words, ``plain`` does not; see :func:`split`."""
SNOWBALL = "snowball:"
"""The prefix of a language for a tokenizer that stems words and removes no stop words, as in ``snowball:french``."""
WITHOUT_PARTS = "-without-parts"
"""The suffix of the name of a tokenizer that does not split identifiers; indexes saved by older versions need it."""
Tokenizer: TypeAlias = str | Tokenize


def tokenizer_of(given: Tokenizer) -> Tokenize:
    """Return the tokenizer function for a name in ``TOKENIZERS`` or ``snowball:LANGUAGE``; return a function unchanged.

    >>> tokenizer_of("snowball:german")("Häuser und Hütten"), tokenizer_of("german")("Häuser und Hütten")
    (['haus', 'und', 'hutt'], ['häuser', 'hütten'])
    """
    if callable(given):
        return given
    if isinstance(given, str):
        if given.startswith(SNOWBALL):
            return _stemmed(given.removeprefix(SNOWBALL))
        name = given.removesuffix(WITHOUT_PARTS)
        if name in TOKENIZERS:
            return TOKENIZERS[name] if name == given else _Without(STOP_WORDS[name], identifiers=False)
    raise InvalidInputError(
        f"tokenizer must be a function or one of {', '.join(TOKENIZERS)}, {SNOWBALL}LANGUAGE; got {given!r:.80}"
    )


def tokens_of(tokenize: Tokenize, text: str) -> Sequence[str]:
    """Return the words of a text; raise InvalidTypeError if the tokenizer does not return a list of words."""
    found = tokenize(text)
    try:
        words = found if isinstance(found, list) else list(found)
        "".join(words)
    except TypeError as error:
        raise InvalidTypeError(f"tokenizer must give a list of words; got {found!r:.80}") from error
    if isinstance(found, str):
        raise InvalidTypeError(f"tokenizer must give a list of words; got {found!r:.80}")
    return words


def places_of(text: str, words: Collection[str], tokenizer: Tokenizer = "english") -> list[tuple[int, int]]:
    """Return the positions (start, end) of words in a text, ascending; matches inside longer words do not count.

    If `words` contains parts of an identifier but not the whole identifier, the positions of the parts are returned.

    >>> places_of("Ada met Bo, and BO sang of Boston.", ["bo", "met"])
    [(4, 7), (8, 10), (16, 18)]
    >>> places_of("find_peaks", ["peaks"]), places_of("find_peaks", ["find_peaks", "find", "peaks"])
    ([(5, 10)], [(0, 10)])
    """
    held = np.zeros(len(text) + 2, dtype=np.int8)
    wanted, tokenize = frozenset(words), tokenizer_of(tokenizer)

    def mark(first: int, last: int, levels: Sequence[re.Pattern[str]]) -> None:
        for found in levels[0].finditer(text, first, last):
            has = tokenize(found[0])
            if has and wanted.issuperset(has):
                held[found.start() + 1 : found.end() + 1] = 1
            elif len(has) > 1 and len(levels) > 1:
                mark(found.start(), found.end(), levels[1:])

    mark(0, len(text), (_TOGETHER, _ONE_WORD, _BETWEEN_UNDERSCORES, _HUMPS))
    for word in filter(_RUN.search, wanted):
        for found in re.finditer(re.escape(word), text):
            held[found.start() + 1 : found.end() + 1] = 1
    edges = np.flatnonzero(np.diff(held)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
