"""The evaluation protocol of HetDocQA: the tested split, its measures, and the rule for reliable differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.significance import BootstrapResult, holm, paired_bootstrap, sign_flip


@dataclass(frozen=True, slots=True)
class Protocol:
    """The rules by which the benchmark `name` is evaluated.

    `parts` are pairs of splits: the tested split, and a second split on which the sign of a difference must agree. The
    first pair present in the data is used. The first of `measures` is tested, and also `answer_measure` if the data set
    has answers. `level` is the significance level after Holm's correction over all systems, and `resamples` the number
    of resamples of the paired bootstrap. If queries are judged by spans, a passage is relevant if it covers the share
    `span_overlap` of a span.
    """

    name: str
    parts: tuple[tuple[str, str], ...]
    measures: tuple[str, ...]
    answer_measure: str
    level: float = 0.05
    resamples: int = 10_000
    span_overlap: float = 0.3


HETDOCQA = Protocol(
    "hetdocqa", (("test", "dev"), ("dev", "calibration")), ("nDCG@10", "Success@10", "RR@10", "R@10"), "F1"
)
"""The protocol of HetDocQA: nothing is fitted on the tested split, and no collection is in both splits.

References
----------
Singh, Reddy and Chopra (2026), Beyond the Reranker (HetDocQA, SSCC), section 5.
"""
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({HETDOCQA.name: HETDOCQA})


def parts_of(dataset: Dataset, protocol: Protocol, other: Dataset | None = None) -> tuple[Dataset, Dataset, str, str]:
    """Return two parts of the queries as data sets, and the names of both parts.

    The first part is tested, and a difference must have the same sign on the second part. Both parts are splits of
    `dataset`; see :class:`Protocol`. If the data set `other` is given, the second part comes from `other`: its queries
    with the second split or, without splits, all its queries. Raise InvalidInputError if a part is missing, or a
    collection is in both parts.
    """
    names = [str(query.extra.get("split", "")) for query in dataset.queries]
    for tested, signs in protocol.parts:
        if tested in names and (other is not None or signs in names):
            break
    else:
        pairs = ", or ".join(f"{tested!r} and {signs!r}" for tested, signs in protocol.parts)
        there = ", ".join(sorted({name for name in names if name})) or "none"
        raise InvalidInputError(
            f"{protocol.name}: the queries of {dataset.name} must have the splits {pairs}; their splits are: {there} "
            "(the second split may be in another folder: --dev-set)"
        )
    first = _split(dataset, tested)
    second = _split(dataset if other is None else other, signs, or_all=other is not None)
    if other is not None and not second.queries[0].extra.get("split"):
        signs = other.name
    shared = sorted(set(first.groups or ()) & set(second.groups or ()))
    if shared:
        raise InvalidInputError(
            f"{protocol.name}: a collection must be in one part only; {shared[0]!r} is in {tested!r} and {signs!r}"
        )
    return first, second, tested, signs


def _split(dataset: Dataset, name: str, *, or_all: bool = False) -> Dataset:
    rows = [row for row, query in enumerate(dataset.queries) if query.extra.get("split") == name]
    if not rows and or_all and not any("split" in query.extra for query in dataset.queries):
        return dataset
    if not rows:
        raise InvalidInputError(
            f"{dataset.name}: no query has the split {name!r}; the splits of the queries are: "
            f"{', '.join(sorted({str(query.extra.get('split', 'none')) for query in dataset.queries}))}"
        )
    return dataset.subset(rows)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the difference between a system and the baseline, with its figures.

    `difference` is the difference on the tested part; its bootstrap draws single queries, as the protocol demands.
    `p_holm` is the p-value of this difference, corrected over all systems except the baseline. `other` is the mean
    difference on the second part, of which only the sign counts. `changed` is the number of queries of the tested part
    for which the system and the baseline have different values. `p_groups` is the sign-flip p-value over whole
    collections, or None without collections. The protocol draws queries, so `p_groups` does not affect `reliable`.
    """

    difference: BootstrapResult
    p_holm: float
    other: float
    changed: int
    p_groups: float | None
    reliable: bool

    def to_dict(self) -> dict[str, object]:
        """Return the verdict as JSON types; differences are in percentage points."""
        found = self.difference
        return {
            "difference": 100 * found.mean,
            "low": 100 * found.low,
            "high": 100 * found.high,
            "p": found.p,
            "p_holm": self.p_holm,
            "p_groups": self.p_groups,
            "other_difference": 100 * self.other,
            "changed": self.changed,
            "reliable": self.reliable,
        }


def verdicts(tested: Table, signs: Table, measure: Measure, protocol: Protocol = HETDOCQA) -> dict[str, Verdict]:
    """Judge, for each system, whether its difference from the baseline in `measure` is reliable; return all verdicts.

    `tested` is the table of the tested part of the queries, and `signs` the table of the second part. Both tables
    contain `measure`. A difference is reliable if two conditions hold. On the tested part, its p-value from the paired
    bootstrap, after Holm's correction over the systems, is at most the protocol's level. On the second part, the mean
    difference has the same sign, not 0.

    References
    ----------
    Singh, Reddy and Chopra (2026), Beyond the Reranker (HetDocQA, SSCC), section 5.
    """
    names = [row.name for row in tested.rows if row.name != tested.baseline and row.name in signs.values]
    here = {name: _differences(tested, name, measure) for name in names}
    there = {name: float(_differences(signs, name, measure)[0].mean()) for name in names}
    found = {name: paired_bootstrap(here[name][0], resamples=protocol.resamples) for name in names}
    corrected = holm([found[name].p for name in names]).tolist() if names else []
    out = {}
    for name, p_holm in zip(names, corrected, strict=True):
        values, groups = here[name]
        agree = found[name].mean * there[name] > 0
        out[name] = Verdict(
            found[name],
            p_holm,
            there[name],
            int((values != 0).sum()),
            None if groups is None else sign_flip(values, groups=groups),
            bool(p_holm <= protocol.level and agree),
        )
    return out


def _differences(table: Table, name: str, measure: Measure) -> tuple[FloatArray, list[str] | None]:
    """Return a system's value minus the baseline's value for each query that `measure` scores, and the queries' groups.

    The groups are None if the queries have no groups.
    """
    column = table.measures.index(measure)
    values = table.values[name][:, column] - table.values[table.baseline][:, column]
    rows = np.flatnonzero(~np.isnan(values)).tolist()
    return values[rows], None if table.groups is None else [table.groups[row] for row in rows]
