"""Warnings that a retriever gives once, for example for each pair of sources, and not in every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from phasegraph._support.shared import fork_safe_lock
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.errors import warn
from phasegraph.fusion.decide import Shortlist
from phasegraph.ranking import Ranking
from phasegraph.result import Result
from phasegraph.retrieval.identity import text_id
from phasegraph.retrieval.once import Once, warn_of_settings
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sources.workers import Late

Item = TypeVar("Item")

_FIRST_ANSWERS = 3


class FirstAnswers:
    """A check that warns if no hit in a source's first three answers reaches the source's acceptance threshold.

    Examples
    --------
    >>> watch = FirstAnswers()
    >>> watch.see(AcceptancePolicy({"v": 0.5}), [Ranking("v", ["a"], [0.1])])  # the first of three
    """

    __slots__ = ("_rejected",)

    def __init__(self) -> None:
        self._rejected: dict[str, int | None] = {}

    def see(self, policy: AcceptancePolicy, rankings: Sequence[Ranking]) -> None:
        """Count each source's answers in which no hit reaches its threshold, and warn at the third such answer.

        Counting stops when a hit reaches the threshold.
        """
        for ranking in rankings:
            count, threshold = self._rejected.get(ranking.source, 0), policy.threshold_of(ranking)
            if count is None or threshold is None or not len(ranking):
                continue
            best = float(ranking.scores[0])
            count = None if threshold.accepts(best) else count + 1
            self._rejected[ranking.source] = None if count == _FIRST_ANSWERS else count
            if count == _FIRST_ANSWERS:
                nearest = best if ranking.raw is None or ranking.rank_only else float(ranking.raw[0])
                bound = f"at most {-threshold.value:g}" if ranking.distances else f"at least {threshold.value:g}"
                text = (
                    f"the threshold of {ranking.source!r} rejected all hits of this source in its first {count} "
                    f"answers: it accepts scores of {bound}, and the best hit now has {nearest:g}. Check the "
                    "threshold, or fit it again"
                )
                warn(text)


def warn_of_thresholds(thresholds: Mapping[str, object], asked: Sequence[str]) -> None:
    """Warn if some of the sources that are `asked` have no threshold, and so accept all their hits."""
    others = [repr(name) for name in asked if name not in thresholds]
    if others and not thresholds.keys().isdisjoint(asked):
        warn_of_settings(
            f"accept has no threshold for {' and '.join(others)}, and a passage stays in the answer if one source "
            f"accepts it: to reject the hits of these sources unless {' or '.join(map(repr, thresholds))} accepts "
            "them, give accept=AcceptancePolicy({...}, unknown_source='reject'), or give each source a threshold"
        )


_NO_WEIGHT = 0.06  # adaptive weights give every source except the graph walk at least .05


class LostWeightWarning:
    """A check that warns if a source loses nearly all weight because it shares no ids with other sources.

    It warns once after three consecutive answers in which the source has nearly no weight. It warns again when the
    source has a normal weight.

    Examples
    --------
    >>> from phasegraph import FusionPipeline
    >>> LostWeightWarning().see(FusionPipeline().decide([Ranking("v", ["a"], [0.1])]))  # a single source has all weight
    """

    __slots__ = ("_in_a_row",)

    def __init__(self) -> None:
        self._in_a_row: dict[str, int] = {}

    def see(self, result: Result | Shortlist) -> None:
        """Count consecutive answers in which a source has a weight below .06 and shares no hit with other sources.

        Warn at the third such answer, and again when the source has a normal weight.
        """
        rankings = result.candidates.rankings
        for ranking, weight in zip(rankings, result.weights.tolist(), strict=True):
            name, before = ranking.source, self._in_a_row.get(ranking.source, 0)
            own = frozenset(ranking.ids) if weight < _NO_WEIGHT else None
            if own is not None and all(one is ranking or own.isdisjoint(one.ids) for one in rankings):
                self._in_a_row[name] = before + 1
                if before + 1 == _FIRST_ANSWERS:
                    warn(
                        f"source {name!r} has almost no weight ({weight:.2g}): in {_FIRST_ANSWERS} consecutive "
                        "answers, no other source returned any of its ids. Give the sources the same corpus and the "
                        "same ids (fields=HitFields(id=...)), or set weights="
                    )
            elif before:
                self._in_a_row[name] = 0
                if before >= _FIRST_ANSWERS:
                    warn(f"source {name!r} has a normal weight again ({weight:.2g})")


_FEWEST = 5


class IdOverlapWarning:
    """A check that warns, once for each pair of sources, if the first answers of both sources share no id.

    Such sources probably use different ids for the same passages, so their hits cannot be joined. If two sources
    return the same text under different ids, the warning is immediate. Otherwise it follows three answers with at
    least five hits from each source.

    Examples
    --------
    >>> IdOverlapWarning().see([Ranking("v", ["a"], [0.1]), Ranking("w", ["a"], [0.1])], str)
    """

    __slots__ = ("_apart",)

    def __init__(self) -> None:
        self._apart: dict[tuple[str, str], int | None] = {}

    def see(self, rankings: Sequence[Ranking], text: Callable[[Any], str]) -> None:
        """Check whether each pair of rankings of a query shares an id; warn about sources that never share an id.

        ``text(hit)`` returns the text of a hit; equal texts under different ids cause a warning at once.
        After its first common id or its warning, a pair of sources is not checked again.
        """
        for row, one in enumerate(rankings):
            for other in rankings[:row]:
                pair = (other.source, one.source)
                count = self._apart.get(pair, 0)
                if count is None or not len(one) or not len(other):
                    continue
                if not one.positions.keys().isdisjoint(other.positions):
                    self._apart[pair] = None
                    continue
                twice = _one_text(one, other, text)
                count += min(len(one), len(other)) >= _FEWEST
                self._apart[pair] = None if twice or count == _FIRST_ANSWERS else count
                if twice:
                    warn(
                        f"sources {pair[0]!r} and {pair[1]!r} share no id, and return the same text under two ids "
                        f"({twice[0]!r} and {twice[1]!r}): a common hit counts as two passages; use the same "
                        "ids, or set fields=HitFields(id=...) to a common key"
                    )
                elif count == _FIRST_ANSWERS:
                    warn(
                        f"sources {pair[0]!r} and {pair[1]!r} shared no id in their first {count} answers: if they "
                        f"search the same passages, give them the same ids ({other.ids[0]!r} and {one.ids[0]!r})"
                    )


def _one_text(one: Ranking, other: Ranking, text: Callable[[Any], str]) -> tuple[str, str] | None:
    """Return an id of `other` and an id of `one` that have the same text; None if the rankings share no text."""
    if not isinstance(one.payloads, Payloads) or not isinstance(other.payloads, Payloads):
        return None
    kept = (  # the payloads also contain hits that were dropped, for example because of their scores
        [(identifier, text(hit)) for identifier, hit in each.payloads.items() if identifier in each.positions]
        for each in (other, one)
    )
    others, ones = ([(identifier, text_id(said)) for identifier, said in each if said] for each in kept)
    named = {said: identifier for identifier, said in others}
    found = ((named.get(said), identifier) for identifier, said in ones)
    return next(((first, second) for first, second in found if first is not None), None)


class GroupKeyWarning:
    """A check that warns, once for each key, if no candidate has the metadata key by which passages are grouped.

    Examples
    --------
    >>> from phasegraph.fusion.decide import make_shortlist
    >>> from phasegraph import FusionPipeline
    >>> GroupKeyWarning().see(make_shortlist(FusionPipeline(), [Ranking("v", ["a"], [0.1])]))
    """

    __slots__ = ("_once",)

    def __init__(self) -> None:
        self._once = Once()

    def see(self, shortlist: Shortlist) -> None:
        """Check the candidates of a query, and warn if none of them has the key of `group_by`."""
        group_by, said = shortlist.pipeline.group_by, shortlist.adjusted.group_warning
        if group_by is not None and said:
            self._once.warn(said, key=group_by.key)


_MOST_STEPS = 256

HITS_IF_LATE = 1_000

FUSING_WAS_LATE = (
    "fusing the hits missed the deadline: the answer ignores priors, the words of the query, and the hits of each "
    f"source after its best {HITS_IF_LATE:,}"
)


class DeadlineGuard:
    """A limit on late computations that still run in the background, and a check that warns about missed deadlines.

    Examples
    --------
    >>> DeadlineGuard().bounded(lambda: 3)()
    3
    """

    __slots__ = ("_late", "_lock", "_outstanding")

    def __init__(self) -> None:
        self._late = False
        self._lock = fork_safe_lock()
        self._outstanding = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return DeadlineGuard, ()

    def see(self, late: bool) -> None:
        """Warn when fusing starts or stops missing the deadline; `late` is True if fusing was late in this call."""
        if late is not self._late:
            self._late = late
            said = (
                f"{FUSING_WAS_LATE}. Raise timeout=, or lower fetch_k="
                if late
                else ("fusing the hits meets the deadline again")
            )
            warn(said)

    def bounded(self, function: Callable[[], Item]) -> Callable[[], Item]:
        """Wrap a function to count its running calls; a call raises Late if 256 calls are already running."""
        with self._lock:
            if self._outstanding >= _MOST_STEPS:
                raise Late
            self._outstanding += 1

        def step() -> Item:
            try:
                return function()
            finally:
                with self._lock:
                    self._outstanding -= 1

        return step


@dataclass(slots=True)
class Notices:
    """The checks of a retriever's answers that warn once, for example for each pair of sources, and not in every call.

    `shared_ids` are the warnings about ids that name different texts in several sources. `fetch_k` are the
    warnings about numbers of results that the sources cannot give. `few_groups` is the warning that an answer has too
    few documents.
    """

    answers: FirstAnswers = field(default_factory=FirstAnswers)
    shared_ids: Once = field(default_factory=Once)
    fetch_k: Once = field(default_factory=Once)
    id_overlap: IdOverlapWarning = field(default_factory=IdOverlapWarning)
    lost_weight: LostWeightWarning = field(default_factory=LostWeightWarning)
    group_key: GroupKeyWarning = field(default_factory=GroupKeyWarning)
    few_groups: Once = field(default_factory=Once)
    guard: DeadlineGuard = field(default_factory=DeadlineGuard)
