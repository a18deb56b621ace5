"""Experiments: compare retrieval systems on the same queries by several measures in one table.

The table has a baseline, intervals, wins and losses, and corrected p-values.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_ids, check_text
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.judgements import Judgement, check_judged, check_known
from phasegraph.evaluation.measures import ANSWER_MEASURES, BINARY, DEFAULT_MEASURES, Measure, values_of
from phasegraph.evaluation.runs import write_text
from phasegraph.evaluation.significance import bootstrap_intervals, holm, mcnemar_exact, sign_flips, wins_and_losses


@dataclass(frozen=True, slots=True)
class Answers:
    """The ids of passages that one system found, or the texts of its predicted answers.

    Parameters
    ----------
    name : str
        Name of the system.
    found : mapping of str to tuple of str
        Ids or texts, best first, by query id.
    milliseconds : float, optional
        Mean wall time per query in milliseconds, if measured.

    Raises
    ------
    InvalidTypeError
        For an id that is not text, such as an (id, score) pair.
    """

    name: str
    found: Mapping[str, tuple[str, ...]]
    milliseconds: float | None = None

    def __post_init__(self) -> None:
        for query, ids in self.found.items():
            check_text(f"{self.name}: a question's id", query)
            check_ids(f"{self.name}, question {query!r}", ids)


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one system in the table.

    Parameters
    ----------
    name : str
        Name of the system.
    means : mapping of Measure to float
        Means in [0, 1], or mean counts; NaN for a measure that leaves out every query.
    intervals : mapping of Measure to (float, float)
        95 % bootstrap interval of each mean.
    differences : mapping of Measure to (float, float, float)
        Mean difference from the baseline and the ends of its paired 95 % bootstrap interval.
    wins, losses : mapping of Measure to int
        Number of queries with a better and with a worse value than the baseline.
    p, p_holm : mapping of Measure to float
        p-value of the paired test of each measure (:attr:`Table.tests`), uncorrected and corrected (see
        :func:`compare`); NaN if the measure leaves out every query.
    milliseconds : float or None
        Mean wall time per query in milliseconds; None if it was not measured.
    """

    name: str
    means: Mapping[Measure, float]
    intervals: Mapping[Measure, tuple[float, float]]
    differences: Mapping[Measure, tuple[float, float, float]]
    wins: Mapping[Measure, int]
    losses: Mapping[Measure, int]
    p: Mapping[Measure, float]
    p_holm: Mapping[Measure, float]
    milliseconds: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the row as JSON types."""
        out: dict[str, object] = {str(measure): _shown(measure, mean) for measure, mean in self.means.items()}
        for measure, mean in self.means.items():
            if measure.name == "LastHop":
                scored = not np.isnan(mean)
                out[f"wins@{measure.k}"] = self.wins[measure] if scored else None
                out[f"losses@{measure.k}"] = self.losses[measure] if scored else None
                out[f"p@{measure.k}"] = _known(self.p[measure])
                out[f"p_holm@{measure.k}"] = _known(self.p_holm[measure])
        out["ms_per_query"] = self.milliseconds
        out["intervals"] = {str(m): [_shown(m, end) for end in both] for m, both in self.intervals.items()}
        out["differences"] = {str(m): [_shown(m, value) for value in three] for m, three in self.differences.items()}
        out["wins"] = {str(measure): count for measure, count in self.wins.items()}
        out["losses"] = {str(measure): count for measure, count in self.losses.items()}
        out["p"] = {str(measure): _known(p) for measure, p in self.p.items()}
        out["p_holm"] = {str(measure): _known(p) for measure, p in self.p_holm.items()}
        return out


def _shown(measure: Measure, value: float) -> float | None:
    """Return the value of a measure as a percentage, or a count unchanged; None for NaN."""
    return None if np.isnan(value) else measure.unit * value


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The outcome of an experiment per system and per query.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    queries : tuple of str
        Query ids, in order.
    measures : tuple of Measure
        The measures, which are the columns of `values`.
    baseline : str
        Name of the system with which the others are compared.
    rows : tuple of Row
        One row of figures per system.
    values : mapping of str to (n, c) array of float
        For each system, an array with a row per query and a column per measure; NaN if the measure leaves the query
        out.
    found : mapping of str to mapping of str to tuple of str
        Ids by system and query id, best first. A list of ids ends at the largest depth of the measures.
    limit : int or None
        Maximum length of the rankings that were fused; None if unknown.
    left_out : tuple of str
        Systems that could not run, each with the reason.
    groups : tuple of str or None
        The group of each query, such as its collection; None without groups.
    """

    dataset: str
    queries: tuple[str, ...]
    measures: tuple[Measure, ...]
    baseline: str
    rows: tuple[Row, ...]
    values: Mapping[str, FloatArray] = field(repr=False)
    found: Mapping[str, Mapping[str, tuple[str, ...]]] = field(repr=False)
    limit: int | None = None
    left_out: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None

    @property
    def scored(self) -> dict[Measure, int]:
        """The number of queries that each measure scores, by measure."""
        counts = (~np.isnan(self.values[self.baseline])).sum(axis=0).tolist()
        return dict(zip(self.measures, counts, strict=True))

    @property
    def tests(self) -> dict[Measure, str]:
        """The name of the paired test, by measure; a measure that leaves out every query has no test."""
        scored = self.scored
        return {measure: _test(measure, self.groups) for measure in self.measures if scored[measure]}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the figures: number of queries that a measure leaves out, and groups that tests resample."""
        out = []
        names = {measure.name: count for measure, count in self.scored.items() if count < len(self.queries)}
        for name, count in names.items():
            why = WHY_LEFT_OUT.get(name, "the measure does not score them")
            if not count:
                out.append(f"{name} and its test are left out: {why}")
            else:
                out.append(
                    f"{name} covers {count} of {len(self.queries)} queries; the other queries are left out: {why}"
                )
        if self.groups is not None:
            tests = (
                "tests (except that of LastHop)" if "LastHop" in {measure.name for measure in self.tests} else "tests"
            )
            out.append(f"intervals and {tests} resample each of the {len(set(self.groups))} collections as a whole")
        return tuple(out)

    def means_by(self, labels: Sequence[str]) -> dict[str, dict[str, dict[str, float | None]]]:
        """Compute the means of every system over the queries of each label.

        Parameters
        ----------
        labels : sequence of str
            One label per query.

        Returns
        -------
        dict of str to dict
            Percentages and counts by label (ascending), system and measure; None if a measure leaves out every query.
        """
        of = np.array(labels, dtype=object)
        if of.shape != (len(self.queries),):
            raise InvalidInputError(f"labels must have one entry per query ({len(self.queries)}); got {len(labels)}")
        return {
            label: {
                name: {str(m): _shown(m, _mean(values[of == label, c])) for c, m in enumerate(self.measures)}
                for name, values in self.values.items()
            }
            for label in sorted(set(labels))
        }

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise InvalidInputError(f"a system must be one of {[row.name for row in self.rows]}; got {name!r}")

    def to_dict(self) -> dict[str, object]:
        """Return the table as JSON types; values of measures are percentages.

        The entry of a system contains:

        * the value of each measure (None if the measure leaves out every query), and the milliseconds per query
        * for LastHop at each depth: wins, losses, the exact McNemar p-value and the Holm-corrected p-value (None if no
          last hop is known)
        * for each measure: the interval, the difference from the baseline with its interval, wins, losses, and both
          p-values

        The table also contains the number of queries that each measure scores, the name of its test, and the number of
        groups of queries.
        """
        return {
            "dataset": self.dataset,
            "queries": len(self.queries),
            "limit": self.limit,
            "baseline": self.baseline,
            "left_out": list(self.left_out),
            "notes": list(self.notes),
            "scored": {str(measure): count for measure, count in self.scored.items()},
            "tests": {str(measure): test for measure, test in self.tests.items()},
            "groups": None if self.groups is None else len(set(self.groups)),
            "systems": {row.name: row.to_dict() for row in self.rows},
        }

    def write_rows(self, path: str | Path) -> None:
        """Write a JSON line per system and query, with the found ids and the values of all measures.

        The table can be computed again from these lines.
        """
        lines = []
        for name, found in self.found.items():
            for query, values in zip(self.queries, self.values[name].tolist(), strict=True):
                scores = zip(map(str, self.measures), values, strict=True)
                line: dict[str, object] = {"system": name, "query": query, "ids": list(found.get(query, ()))}
                line |= {measure: None if np.isnan(value) else value for measure, value in scores}
                lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        write_text(path, "".join(lines))


WHY_LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "LastHop": "the order of the hops is unknown (fields hop_order_known, last_hop_known)",
        "PageRecall": "the query has no pages (field 'pages'), or no passage with a page (field 'source') is known",
        "Pages": "no passage with a page (field 'source') is known",
        "EM": "the query has no correct answer (field 'answer')",
        "F1": "the query has no correct answer (field 'answer')",
    }
)
MCNEMAR, SIGN_FLIP, BY_GROUP = "exact McNemar", "sign-flip permutation", "sign-flip permutation of whole groups"


def _test(measure: Measure, groups: Sequence[str] | None) -> str:
    """Return the name of the paired test of a measure; `groups` are the groups of the queries, or None.

    LastHop always has McNemar's test, because its p-value is compared with the p-value in the PhaseGraph paper.
    """
    if measure.name == "LastHop" or (groups is None and measure.name in BINARY):
        return MCNEMAR
    return SIGN_FLIP if groups is None else BY_GROUP


def compare(
    answers: Sequence[Answers],
    judgements: Sequence[Judgement],
    *,
    baseline: str = "vector",
    measures: Sequence[Measure] = DEFAULT_MEASURES,
    dataset: str = "",
    limit: int | None = None,
    left_out: Sequence[str] = (),
    groups: Sequence[str] | None = None,
    corpus: Collection[str] = (),
    resamples: int = 10_000,
    rng: int = 0,
) -> Table:
    """Score and compare systems on the same judged queries.

    Parameters
    ----------
    answers : sequence of Answers
        At least one system. Names are distinct and include the baseline. A judged query without an answer counts as an
        empty ranking.
    judgements : sequence of Judgement
        The judgement of each query; at least one.
    baseline : str, default "vector"
        Name of the system with which all others are compared.
    measures : sequence of Measure
        The measures to compute, each at a depth.
    dataset, limit, left_out
        As in :class:`Table`.
    groups : sequence of str, optional
        The group of each judged query, such as its collection. Queries of one group are not independent. The bootstrap
        therefore resamples whole groups, and the sign-flip test flips the signs of whole groups.
    corpus : collection of str, optional
        Ids of the corpus passages. If a system returns ids, at least one must be in the corpus or be judged for some
        question.
    resamples : int, default 10000
        Number of bootstrap resamples and of sign flips.
    rng : int, default 0
        Seed of the bootstrap and of the sign flips; all other figures are exact.

    Returns
    -------
    Table
        Means, intervals and tests by system, and all values by query.

    Raises
    ------
    InvalidInputError
        If a parameter violates its description, or a system answers a query without a judgement. Also if no id of a
        system is in the judgements or the corpus.

    Notes
    -----
    ``p`` is the p-value of a two-sided paired test against the baseline. Without groups, the test is exact McNemar for
    measures with values 0 or 1, and the sign-flip permutation test for all other measures. With groups, it is the
    sign-flip test of whole groups for all measures except LastHop, which keeps McNemar's test. ``p_holm`` is the
    p-value after Holm's correction. All McNemar tests, of all measures and depths, are corrected together. Sign-flip
    tests are corrected separately for each measure. The baseline, and a measure that leaves out every query, do not
    count in a correction.
    """
    names = [one.name for one in answers]
    _check_comparable(answers, judgements, baseline, measures, corpus)
    values = {
        one.name: np.column_stack([values_of(one.found, judgements, measure) for measure in measures])
        for one in answers
    }
    deltas = {name: values[name] - values[baseline] for name in names}
    columns = np.hstack([*values.values(), *deltas.values()])
    ends = bootstrap_intervals(columns, groups=groups, resamples=resamples, rng=rng)
    ends = ends.reshape(2, len(names), len(measures), 2)
    pairs = {
        (name, measure): wins_and_losses(values[name][:, column], values[baseline][:, column])
        for name in names
        for column, measure in enumerate(measures)
    }
    flipped = sign_flips(columns[:, len(names) * len(measures) :], groups=groups, permutations=resamples, rng=rng)
    p = {
        key: mcnemar_exact(*pairs[key]) if _test(key[1], groups) == MCNEMAR and not np.isnan(value) else value
        for key, value in zip(pairs, flipped.tolist(), strict=True)
    }
    corrected = _corrected(p, baseline, groups)
    rows = [
        Row(
            one.name,
            means={m: _mean(values[one.name][:, c]) for c, m in enumerate(measures)},
            intervals={m: tuple(ends[0, place, c].tolist()) for c, m in enumerate(measures)},
            differences={
                m: (_mean(deltas[one.name][:, c]), *ends[1, place, c].tolist()) for c, m in enumerate(measures)
            },
            wins={m: pairs[one.name, m][0] for m in measures},
            losses={m: pairs[one.name, m][1] for m in measures},
            p={m: p[one.name, m] for m in measures},
            p_holm={m: corrected[one.name, m] for m in measures},
            milliseconds=one.milliseconds,
        )
        for place, one in enumerate(answers)
    ]
    return Table(
        dataset,
        tuple(judgement.query for judgement in judgements),
        tuple(measures),
        baseline,
        tuple(rows),
        MappingProxyType(values),
        MappingProxyType({one.name: one.found for one in answers}),
        limit,
        tuple(left_out),
        None if groups is None else tuple(groups),
    )


def check_names(names: Sequence[str]) -> None:
    """Raise InvalidInputError if there is no system, or if two systems have the same name."""
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"give at least one system, each with a unique name; got {names}")


def _check_comparable(
    answers: Sequence[Answers],
    judgements: Sequence[Judgement],
    baseline: str,
    measures: Sequence[Measure],
    corpus: Collection[str],
) -> None:
    """Raise InvalidInputError if :func:`compare` cannot compare these answers by these measures."""
    names = [one.name for one in answers]
    check_names(names)
    if baseline not in names:
        raise InvalidInputError(f"the baseline must be one of the systems {names}; got {baseline!r}")
    if not judgements or not measures:
        raise InvalidInputError(
            f"there must be at least one judged query and one measure; got {len(judgements)} and {len(measures)}"
        )
    for one in answers:
        check_judged(one.found, judgements, one.name)
        if any(measure.name not in ANSWER_MEASURES for measure in measures):
            check_known(one.found, judgements, corpus, repr(one.name))


def _corrected(
    p: Mapping[tuple[str, Measure], float], baseline: str, groups: Sequence[str] | None
) -> dict[tuple[str, Measure], float]:
    """Return p-values, by system and measure, after Holm's correction within families of tests.

    All McNemar tests are one family, and the other tests of each measure are one family. The baseline and NaN values
    are in no family.
    """
    families: dict[object, list[tuple[str, Measure]]] = {}
    for key, value in p.items():
        if key[0] != baseline and not np.isnan(value):
            families.setdefault(MCNEMAR if _test(key[1], groups) == MCNEMAR else key[1], []).append(key)
    out = dict(p)
    for family in families.values():
        out |= zip(family, holm([p[key] for key in family]).tolist(), strict=True)
    return out


def _mean(column: FloatArray) -> float:
    return float("nan") if np.isnan(column).all() else float(np.nanmean(column))
