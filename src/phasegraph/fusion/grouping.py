"""Group the passages of an answer by document; a document has its best passage's value, or the sum of the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph._support.validation import KnownFields, check_choice, check_keys, nearest_key
from phasegraph.fusion.context import Context
from phasegraph.fusion.fields import check_field_name

GroupScore: TypeAlias = Literal["best", "sum"]


@dataclass(frozen=True, slots=True)
class GroupBy(KnownFields):
    """The settings that group the passages of an answer by document.

    An answer contains only the best passage of each document, so `k` counts documents. A passage without the metadata
    key counts as a document with a single passage.

    Parameters
    ----------
    key : str
        The metadata key whose value identifies the document of a passage.
    score : {"best", "sum"}, default "best"
        The value of a document. ``best``: the value of its best passage. ``sum``: this value plus the positive values
        of the document's other accepted passages.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from phasegraph import FusionPipeline, Ranking
    >>> hits = {name: {"metadata": {"source": name[0]}} for name in ("a1", "a2", "b1")}
    >>> ranking = Ranking("vector", ["b1", "a1", "a2"], [0.9, 0.8, 0.7], payloads=hits)
    >>> plain = FusionPipeline.reciprocal_rank()
    >>> [replace(plain, group_by=GroupBy("source", score)).decide([ranking]).ids for score in ("best", "sum")]
    [('b1', 'a1'), ('a1', 'b1')]
    """

    key: str
    score: GroupScore = "best"

    def __post_init__(self) -> None:
        check_field_name("GroupBy.key", self.key)
        check_choice("GroupBy.score", self.score, get_args(GroupScore))

    def to_dict(self) -> dict[str, object]:
        """Return the settings in plain JSON types."""
        return {"key": self.key, "score": self.score}

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> GroupBy:
        """Create the settings from the output of :meth:`to_dict`."""
        return cls(**check_keys("GroupBy", data, [item.name for item in fields(cls)]))

    def group(self, ids: Sequence[str], rows: IntArray, final: FloatArray, context: Context) -> Groups:
        """Group the accepted candidates of an answer by document, and return the documents with their passages.

        `rows` are the rows of these candidates in `ids` and in the values `final`, best first.
        """
        members: dict[object, list[int]] = {}
        named = 0
        for row in rows.tolist():
            name = next(iter(context.values(ids[row], self.key)), None)
            named += name is not None
            members.setdefault(row if name is None else str(name), []).append(row)
        groups = {each[0]: each for each in members.values()}
        more = np.zeros(len(final))
        if self.score == "sum":
            for first, each in groups.items():
                more[first] = np.maximum(final[each[1:]], 0.0).sum()
        firsts = np.array(list(groups), dtype=np.intp)
        order = top_order((final + more)[firsts], [ids[row] for row in groups], len(groups))
        warning = "" if named or not len(rows) else _warning(self.key, ids, rows, context)
        return Groups(firsts[order], more, {first: tuple(ids[row] for row in each) for first, each in groups.items()},
                      warning)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The g documents of an answer and their passages.

    Parameters
    ----------
    rows : (g,) array of int
        The row of the best passage of each document, best document first.
    more : (n,) array of float
        The value that the score "sum" adds to each document's best passage for the document's other passages; 0 for
        all other candidates, and with the score "best".
    members : mapping of int to tuple of str
        The ids of the passages of a document, by the row of its best passage.
    warning : str
        A warning if no candidate has the metadata key; else empty.
    """

    rows: IntArray
    more: FloatArray
    members: Mapping[int, tuple[str, ...]]
    warning: str

    def of(self, ids: Sequence[str], rows: IntArray) -> dict[str, tuple[str, ...]]:
        """Return the passage ids of each document in an answer, by the id of the document's best passage.

        `rows` are the rows of these best passages in `ids`.
        """
        return {ids[row]: self.members[row] for row in rows.tolist()}


def _warning(key: str, ids: Sequence[str], rows: IntArray, context: Context) -> str:
    hint = nearest_key(key, (one for row in rows.tolist() for one in _metadata(ids[row], context)))
    return f"group_by: none of {len(rows)} candidates has the metadata key {key!r}, so they are not grouped; {hint}"


def _metadata(identifier: str, context: Context) -> Iterator[Mapping[str, Any]]:
    for ranking in context.rankings:
        hit = ranking.payloads.get(identifier)
        if hit is not None:
            yield context.metadata_of(hit)
