"""HetDocQA's protocol: which part is tested, what is measured on it, and which differences are called reliable."""

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
    """How a benchmark wants to be run.

    `parts` are pairs of splits, the one that is tested and the one whose signs must agree with it; the first pair that
    is there counts. The first of the `measures` is tested, and `answer_measure` where there are answers; `level` is
    that of the tests, corrected by Holm over all systems, `resamples` those of the paired bootstrap. Where spans are
    what is judged, a relevant passage holds the share `span_overlap` of one.
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
"""Nothing is fitted on the part that is tested, and no collection stands in both parts.

References
----------
Singh, Reddy and Chopra (2026), Beyond the Reranker (HetDocQA, SSCC), section 5.
"""
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({HETDOCQA.name: HETDOCQA})


def parts_of(dataset: Dataset, protocol: Protocol, other: Dataset | None = None) -> tuple[Dataset, Dataset, str, str]:
    """The queries that are tested, those whose signs must agree, and what both are called.

    `other` is where the second part is, if not in `dataset`: its split of that name, or all of it where it has none.
    InvalidInputError if a part is not there, or a collection stands in both.
    """
    names = [str(query.extra.get("split", "")) for query in dataset.queries]
    for tested, signs in protocol.parts:
        if tested in names and (other is not None or signs in names):
            break
    else:
        pairs = ", or ".join(f"{tested!r} and {signs!r}" for tested, signs in protocol.parts)
        there = ", ".join(sorted({name for name in names if name})) or "none"
        raise InvalidInputError(
            f"{protocol.name}: the queries of {dataset.name} must have the splits {pairs}; they have {there} "
            "(the second may be in another folder: --dev-set)"
        )
    first = _split(dataset, tested)
    second = _split(dataset if other is None else other, signs, or_all=other is not None)
    if other is not None and not second.queries[0].extra.get("split"):
        signs = other.name
    shared = sorted(set(first.groups or ()) & set(second.groups or ()))
    if shared:
        raise InvalidInputError(
            f"{protocol.name}: a collection must stand in one part; {shared[0]!r} is in {tested!r} and {signs!r}"
        )
    return first, second, tested, signs


def _split(dataset: Dataset, name: str, *, or_all: bool = False) -> Dataset:
    rows = [row for row, query in enumerate(dataset.queries) if query.extra.get("split") == name]
    if not rows and or_all and not any("split" in query.extra for query in dataset.queries):
        return dataset
    if not rows:
        raise InvalidInputError(f"{dataset.name}: no query has the split {name!r}")
    return dataset.subset(rows)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one system's difference to the baseline is reliable, and by what.

    `difference` is that on the tested part, queries drawn one by one, as the protocol has it, and `p_holm` its p
    corrected over all systems but the baseline; `other` the mean difference on the other part, of which only the sign
    counts. `changed` queries of the tested part differ. `p_groups` is the sign-flip p of whole collections, where
    there are any: no part of the rule, since the protocol draws queries.
    """

    difference: BootstrapResult
    p_holm: float
    other: float
    changed: int
    p_groups: float | None
    reliable: bool

    def to_dict(self) -> dict[str, object]:
        """The verdict as JSON types; differences in percentage points."""
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
    """Which systems differ reliably from the baseline, by `measure`, which both tables have; without the baseline.

    Reliable: Holm's correction over the systems rejects the paired bootstrap's p at the protocol's level on the tested
    part, and the mean difference has the same sign, not 0, on the other.

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
    """System minus baseline on the queries that are scored, and their groups."""
    column = table.measures.index(measure)
    values = table.values[name][:, column] - table.values[table.baseline][:, column]
    rows = np.flatnonzero(~np.isnan(values)).tolist()
    return values[rows], None if table.groups is None else [table.groups[row] for row in rows]
