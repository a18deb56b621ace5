"""Exact matches: the candidates that hold the query's quoted or rare terms, as one more ranked source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_number, check_range
from phasegraph.fusion.context import TEXT, Context
from phasegraph.fusion.fields import FieldReading, check_field_name
from phasegraph.fusion.prior import StoredPrior
from phasegraph.lexical import CJK
from phasegraph.ranking import Ranking

EXACT_MATCH = "exact_match"

_QUOTED = re.compile(r'"([^"]+)"|“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|(?<!\w)\'([^\']+)\'(?!\w)')

_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+(?:[-./_+#]+[^\W{CJK}]+)*[+#]*")

_RUN = re.compile(rf"[{CJK}]{{2,}}")

# Words of questions: rare in passages, and no terms.
_ASKING = frozenset(
    _WORD.findall(
        "about and are between both can could did does for from had has have how into its many much more most name "
        "named of often the their there these this those was were what when where which while who whom whose why will "
        "with would"
    )
)

_SHORTEST = 3


@dataclass(frozen=True, slots=True)
class ExactMatchBonus(StoredPrior):
    """One more ranked source: the candidates that hold the query's quoted or rare terms, letter for letter.

    Parameters
    ----------
    weight : float, default 1.0
        >= 0, in the unit of the weights of the sources: 1 beside weights of 1 each counts as much as one of them,
        whichever of them answered. Where the pipeline sets the weights itself, their mean counts 1.
    key : str, default "text"
        The text of the hits, or the metadata field that is compared.
    rare_share : float, default 0.1
        In [0, 1]; a word of the query is rare where at most this share of the candidates, or one of them, holds it.

    Notes
    -----
    Terms are what stands in quotation marks, the query as a whole, and its rare words of three letters or more (or
    with a digit), words of questions such as "which" left out; of Chinese and Japanese, which part no words, its rare
    pairs of characters. Terms are compared word by word (character by character), letter case apart. A candidate ranks
    by how many terms it holds; one that holds none is not returned. It adds no candidate. Ties share their mean rank,
    as in every source: under reciprocal rank a single exact hit gets ``weight / (rank_constant + 1)``. Under a z-score
    or raw values a candidate that is not returned counts with its 0 terms.

    An attribute ``exact`` of the context, true or false, decides for its candidate instead. In the reports and the
    evidence the source is named ``exact_match``; thresholds, agreement and the consensus bonus leave it out.

    The design record names the bonus and gives no formula: reconstructed as one more source.

    Examples
    --------
    >>> bonus = ExactMatchBonus(weight=0.5)
    >>> context = Context(query='Who wrote "The Deep Sea"?', attributes={"a": {"text": "The deep sea, a novel."}})
    >>> bonus(["a", "b"], context)
    array([1., 0.])
    """

    name: ClassVar[str] = EXACT_MATCH
    weight: float = 1.0
    key: str = TEXT
    rare_share: float = 0.1

    def __post_init__(self) -> None:
        check_number("weight", self.weight)
        check_field_name("key", self.key)
        check_range("rare_share", self.rare_share, 0, 1)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """(n,) array: the number of terms each candidate holds."""
        return self._counted(ids, [_padded(context.text(identifier, self.key)) for identifier in ids], context)

    def ranking(self, ids: Sequence[str], context: Context, /) -> tuple[Ranking, FieldReading]:
        """The candidates that hold a term, and how many had a text; the ranking's reason says why it is empty."""
        texts = [_padded(context.text(identifier, self.key)) for identifier in ids]
        counts = self._counted(ids, texts, context)
        rows = np.flatnonzero(counts > 0)
        reason = "" if len(rows) else "no candidate holds a quoted or rare term of the query"
        found = sum(map(bool, texts))
        made = Ranking(EXACT_MATCH, [ids[row] for row in rows.tolist()], counts[rows], reason=reason)
        return made, FieldReading(self.name, self.key, found, len(texts) - found, 0)

    def _counted(self, ids: Sequence[str], texts: Sequence[str], context: Context) -> FloatArray:
        terms = self._terms(context.query, texts)
        out = np.array([float(sum(term in text for term in terms)) for text in texts])
        for row, identifier in enumerate(ids):
            stated = context.attributes.get(identifier, {}).get("exact")
            if isinstance(stated, bool):
                out[row] = max(len(terms), 1) if stated else 0.0
        return out

    def _terms(self, query: str, texts: Sequence[str]) -> list[str]:
        """Quoted phrases, the whole query and its rare words, each padded with blanks."""
        quoted = [_padded(next(filter(None, groups))) for groups in _QUOTED.findall(query)]
        rest = _QUOTED.sub(" ", query)
        most = max(1, int(self.rare_share * sum(map(bool, texts))))
        words = [f" {word} " for word in _padded(rest).split() if _may_be_rare(word)]
        words += [f" {one} {other} " for run in _RUN.findall(rest) for one, other in pairwise(run)]
        rare = [word for word in words if 1 <= sum(word in text for text in texts) <= most]
        return list(dict.fromkeys(filter(None, [*quoted, _padded(query), *rare])))


def _padded(text: str) -> str:
    """The words of a text, and its Chinese and Japanese characters, with one blank around each; empty without any."""
    words = _WORD.findall(text.casefold())
    return f" {' '.join(words)} " if words else ""


def _may_be_rare(word: str) -> bool:
    return word not in _ASKING and (len(word) >= _SHORTEST or any(map(str.isdigit, word)))
