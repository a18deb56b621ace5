"""Find the names in a passage's title and at the start of its text; the default extractor also finds other names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from phasegraph._support.validation import check_names
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.graph.model.words import (
    CONNECTIVES,
    STOP_WORDS,
    Gazetteer,
    Matcher,
    Words,
    names_among,
    normalise_name,
    split_words,
)

_VERB = re.compile(r"\b(?:is|was|are|were|refers|may refer|born)\b|\(")
_ARTICLES = frozenset({"the", "a", "an"})
_LEAD_CHARACTERS, _LEAD_WORDS = 160, 8


def title_names(title: str) -> tuple[str, ...]:
    """Return the normalized names of a title's subject.

    The names are the title, the title without text in brackets at its end, and the part before its first comma. If a
    name starts with "the", the name without "the" is added. A blank title has no names.

    >>> title_names("The Fall (band)")
    ('the fall band', 'the fall', 'fall band', 'fall')
    >>> title_names("Columbia, South Carolina")
    ('columbia south carolina', 'columbia')
    """
    bare = _without_bracket(title).strip() or title
    forms = [*map(normalise_name, dict.fromkeys((title, bare, bare.partition(",")[0])))]
    forms += [form[4:] for form in forms if form.startswith("the ")]
    return tuple(dict.fromkeys(form for form in forms if form))


def _without_bracket(title: str) -> str:
    """Return the title without text in brackets at its end."""
    bare = title.rstrip()
    opened = bare.rfind("(")
    closed = bare.find(")", opened)
    return bare[:opened] if opened >= 0 and 0 <= closed == len(bare) - 1 else title


def lead_name(title: str, text: str) -> str:
    """Return the normalized name at the start of a passage if a verb or bracket follows it; otherwise "".

    If the title has a letter or digit, the name must share a word with the title.

    >>> lead_name("Keala Settle", "Keala Joan Settle (born 1975) is an American actress.")
    'keala joan settle'
    """
    return _lead(title_names(title), text)


def _lead(named: Sequence[str], text: str) -> str:
    verb = _VERB.search(text, 0, _LEAD_CHARACTERS)
    if verb is None:
        return ""
    words = split_words(text[: verb.start()])
    first = 1 if words.texts[:1] and words.texts[0] in _ARTICLES else 0
    texts = words.texts[first:]
    if not texts or len(texts) > _LEAD_WORDS or texts[0] in STOP_WORDS or not words.capital[first]:
        return ""
    rest = range(first + 1, len(words.texts))
    if not all(words.joined[n] and (words.capital[n] or words.texts[n] in CONNECTIVES) for n in rest):
        return ""
    if named and not set(named[0].split()) & set(texts):
        return ""
    return " ".join(texts)


class RuleExtractor:
    """An extractor that finds names with a gazetteer (a list of known names) and by capital letters.

    The names of the gazetteer are found by longest match. In the rest of the text, runs of capitalized words are names;
    words such as "of" can join them. Numbers and dates are not names. Words such as "However", which are capitalized
    only at the start of a sentence, are not names either. The result for a passage depends only on the passage and the
    gazetteer.

    Parameters
    ----------
    names : iterable of str
        Names that the user adds to the gazetteer.
    titles : iterable of str
        Titles of the corpus; their names (`title_names`) are also in the gazetteer.
    matcher : {"auto", "automaton", "python"}
        How known names are searched; see :class:`Gazetteer`.

    Examples
    --------
    >>> extract = RuleExtractor(titles=["Ada Lovelace", "Analytical Engine"])
    >>> extract("p1", "", "Ada Lovelace wrote about the Analytical Engine of Charles Babbage.").entities
    ('ada lovelace', 'analytical engine', 'charles babbage')
    """

    def __init__(self, names: Iterable[str] = (), *, titles: Iterable[str] = (), matcher: Matcher = "auto") -> None:
        forms = {normalise_name(name) for name in check_names("names", names)}
        for title in titles:
            forms.update(title_names(title))
        self.gazetteer = Gazetteer(forms, matcher=matcher, normalised=True)

    def __call__(self, passage_id: str, title: str, text: str, /) -> Extraction:
        """Return the extraction of a passage: its names, without triples."""
        return extracted(passage_id, title, text, split_words(text), self.gazetteer)


def extracted(passage_id: str, title: str, text: str, words: Words, gazetteer: Gazetteer) -> Extraction:
    """Return the extraction of a passage whose text is already split into `words`."""
    titles = title_names(title)
    return Extraction(passage_id, names_among(words, gazetteer), titles=titles, lead=_lead(titles, text))
