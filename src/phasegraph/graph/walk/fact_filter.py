"""Let a model choose which of the facts nearest to a query supply seeds of the walk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from phasegraph._support.clock import DEADLINE
from phasegraph._support.frozen import by_fields
from phasegraph._support.typing import Float32Array, FloatArray, IntArray
from phasegraph._support.validation import check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.facts import FactIndex, nearest_facts
from phasegraph.sources.steps import Step

Fact: TypeAlias = tuple[str, ...]
KeepFacts: TypeAlias = Callable[[str, Sequence[Fact]], Any]
"""A function or coroutine function ``keep(query, facts) -> facts`` that returns the facts relevant to the query."""
_HALF = 0.5
"""The filter's share of the source's remaining time; the rest is for the walk."""
NOT_FILTERED = "the facts are not filtered"
NONE_KEPT = "the fact filter kept none of {} facts: passages are ranked by their similarity to the query, as published"


@dataclass(frozen=True, slots=True, eq=False)
class FactFilter:
    """A filter of the facts nearest to a query; the accepted facts supply seeds, as in HippoRAG 2 and SemFlowRAG.

    Parameters
    ----------
    keep : callable
        ``keep(query, facts)`` returns the facts that are relevant to the query. A fact is the tuple (subject,
        predicate, object), or (subject, object) if the predicate is unknown. `keep` may be a coroutine function. For a
        language model, use :func:`~phasegraph.graph.filter_facts_with`.
    timeout : float, default 10
        Time limit in seconds; never more than half of the source's remaining time.

    Notes
    -----
    The filter runs in a worker thread. It fails if it raises an error, exceeds its time, or returns something other
    than a subset of the facts. After a failure, all facts supply seeds, and the ranking's reason names the failure.
    There is one warning until the filter works again. (The published programs skip the walk in this case.) After 10
    failures in a row, the filter is skipped, and one query in 30 s tries it again. If the filter returns no fact,
    passages are ranked by similarity, as published.

    References
    ----------
    HippoRAG 2, arXiv:2502.14802; SemFlowRAG, arXiv:2606.28447.

    Examples
    --------
    >>> def keep(query, facts):
    ...     return [fact for fact in facts if fact[0] in query]
    >>> FactFilter(keep).rows("Who met ada?", [("ada", "met", "bo"), ("cy", "met", "bo")])
    ([0], '')
    """

    keep: KeepFacts
    timeout: float = 10.0
    _step: Step = field(init=False, repr=False)

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        if not callable(self.keep):
            raise InvalidTypeError(f"fact_filter must be a function of a query and facts; got {self.keep!r:.80}")
        check_range("FactFilter.timeout", self.timeout, ends="(]")
        object.__setattr__(self, "_step", Step("the fact filter", self.keep, NOT_FILTERED))

    @classmethod
    def of(cls, given: object) -> FactFilter | None:
        """Convert a function to a filter; return a filter or None unchanged."""
        return given if given is None or isinstance(given, FactFilter) else cls(given)  # type: ignore[arg-type]

    def rows(self, query: str, facts: Sequence[Fact]) -> tuple[list[int], str]:
        """Call the filter; return the ascending positions of the accepted facts in `facts`, and a note.

        The note is empty if the filter succeeded. If the filter fails, all facts are accepted, and the note says why.
        """
        deadline = DEADLINE.get().part(_HALF).part(most=self.timeout)
        tried = self._step.run((query, list(facts)), deadline, partial(_places, facts))
        self._step.announce()
        if tried.error is None:
            return tried.value, ""
        how = "was not asked" if tried.status == "skipped" else "failed"
        return list(range(len(facts))), f"the fact filter {how} ({tried.reason}): {NOT_FILTERED}"


def _places(facts: Sequence[Fact], kept: Any) -> list[int]:
    """Return the ascending positions in `facts` of the facts that a filter returned.

    Raises InvalidTypeError or InvalidInputError if `kept`, the value that the filter returned, is not a list of some of
    the `facts`.
    """
    if isinstance(kept, str | bytes) or not isinstance(kept, Iterable):
        raise InvalidTypeError(f"fact_filter must return a list of facts; got {type(kept).__name__}")
    given = [tuple(fact) for fact in islice(kept, len(facts) + 1)]
    if len(given) > len(facts):
        raise InvalidInputError(
            f"fact_filter must return at most the {len(facts)} facts of its input; it returned more"
        )
    unknown = sum(fact not in facts for fact in given)
    if unknown:  # the message does not repeat texts of a model
        raise InvalidTypeError(
            f"fact_filter must return only facts from its input; it returned {unknown} other fact(s)"
        )
    return [place for place, fact in enumerate(facts) if fact in given]


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """The facts and names that seed a walk, after filtering.

    `rows` are their rows in the :class:`FactIndex`, nearest to the query first. `note` describes a problem, or is
    empty. `none` is True if the filter accepted no fact.
    """

    rows: IntArray
    note: str = ""
    none: bool = False


def kept_facts(
    fact_filter: FactFilter | None,
    query: str,
    graph: EntityGraph,
    facts: FactIndex,
    near: Float32Array | FloatArray,
    top: int,
) -> KeptFacts:
    """Select the `top` facts and names with the highest similarities `near`, and remove facts that the filter rejects.

    Ties are broken by row. Names are never removed.
    """
    best = nearest_facts(near, top)
    shown = [place for place, row in enumerate(best.tolist()) if facts.ends.shape[1] == 2 and facts.ends[row, 1] >= 0]
    if fact_filter is None or not shown:
        return KeptFacts(best)
    found, note = fact_filter.rows(query, [facts.text(graph, int(best[place])) for place in shown])
    gone = set(shown).difference(shown[place] for place in found)
    rows = best[[place for place in range(len(best)) if place not in gone]]
    return KeptFacts(rows, note if len(rows) else NONE_KEPT.format(len(shown)), not len(rows))
