"""Exact matches: a ranking of the candidates that contain quoted or rare terms of the query."""

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

# Words of questions. They may be rare in passages, but they are not search terms.
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
    """A prior that adds exact matches to the fusion as one more source.

    The source ranks the candidates that literally contain quoted or rare terms of the query.

    Parameters
    ----------
    weight : float, default 1.0
        Weight of this source, >= 0, in the unit of the pipeline's `weights`. If the pipeline computes the weights, the
        unit is the mean of the computed weights.
    key : str, default "text"
        The field in which to search for terms: ``text`` for the text of a hit, or a metadata field.
    rare_share : float, default 0.1
        Largest share of the candidates that may contain a rare word, in [0, 1]. A word in a single candidate is always
        rare.

    Notes
    -----
    The terms of a query are its quoted phrases, the whole query, and its rare words. Rare words have at least three
    letters or a digit; words of questions such as "which" do not count. In Chinese and Japanese text, which does not
    separate words, rare pairs of characters are terms. The comparison ignores case and matches whole words.

    A candidate's score is the number of terms that it contains. A candidate without a term is not returned, and the
    source adds no candidates. Ties share their mean rank, as in every source. With reciprocal rank fusion, a single
    exact match therefore gets ``weight / (rank_constant + 1)``. With z-scores or raw values, a candidate without a term
    is calibrated with the score 0.

    An attribute ``exact`` of the context, True or False, overrides the comparison for its candidate. Reports and
    evidence name the source ``exact_match``. Thresholds, agreement and the consensus bonus ignore this source.

    The design record behind :meth:`FusionPipeline.adr <phasegraph.FusionPipeline.adr>` names the bonus without a
    formula; the formula here is a reconstruction.

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
        """Return the (n,) number of terms that each candidate contains."""
        return self._counted(ids, [_padded(context.text(identifier, self.key)) for identifier in ids], context)

    def ranking(self, ids: Sequence[str], context: Context, /) -> tuple[Ranking, FieldReading]:
        """Return the ranking of the candidates that contain a term, and the counts of candidates with a text.

        If the ranking is empty, its field `reason` says why.
        """
        texts = [_padded(context.text(identifier, self.key)) for identifier in ids]
        counts = self._counted(ids, texts, context)
        rows = np.flatnonzero(counts > 0)
        reason = "" if len(rows) else "no candidate contains a quoted or rare term of the query"
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
        """Return the terms of a query: its quoted phrases, the whole query and its rare words, each padded with blanks.

        Padding makes a substring search match only whole words.
        """
        quoted = [_padded(next(filter(None, groups))) for groups in _QUOTED.findall(query)]
        rest = _QUOTED.sub(" ", query)
        most = max(1, int(self.rare_share * sum(map(bool, texts))))
        words = [f" {word} " for word in _padded(rest).split() if _may_be_rare(word)]
        words += [f" {one} {other} " for run in _RUN.findall(rest) for one, other in pairwise(run)]
        rare = [word for word in words if 1 <= sum(word in text for text in texts) <= most]
        return list(dict.fromkeys(filter(None, [*quoted, _padded(query), *rare])))


def _padded(text: str) -> str:
    """Return the words of a text, and its Chinese and Japanese characters, each with a blank before and after.

    For a text without words, return an empty string.
    """
    words = _WORD.findall(text.casefold())
    return f" {' '.join(words)} " if words else ""


def _may_be_rare(word: str) -> bool:
    return word not in _ASKING and (len(word) >= _SHORTEST or any(map(str.isdigit, word)))
