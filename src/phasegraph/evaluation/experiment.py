"""Experiments: compare retrieval systems on the same queries by several measures in one table.

The table has a baseline, intervals, wins and losses, and corrected p-values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_ids, check_text
from phasegraph.errors import InsufficientDataError, InvalidInputError, MissingDependencyError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import ANSWER_MEASURES, BINARY, DEFAULT_MEASURES, Measure, values_of
from phasegraph.evaluation.runs import check_judged, check_known, write_text
from phasegraph.evaluation.significance import bootstrap_intervals, holm, mcnemar_exact, sign_flips, wins_and_losses
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.evaluation.splits import parts_by
from phasegraph.fusion.pipeline import PIPELINE_NAMES, FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result

Batch: TypeAlias = Mapping[str, Sequence[Ranking]]
Answer: TypeAlias = Callable[[Dataset, Batch, int], "list[tuple[str, ...]]"]
Confidences: TypeAlias = Callable[[Dataset, Batch], "Sequence[float | None]"]


@dataclass(frozen=True, slots=True)
class System:
    """A method that answers every query of a data set.

    Parameters
    ----------
    name : str
        Name of the row in the table.
    sources : tuple of str
        Names of the sources whose rankings the system fuses.
    answer : callable
        ``answer(dataset, rankings by source, k) -> ids per query``.
    about : str
        Description in one line.
    confidence : callable, optional
        ``confidence(dataset, rankings by source)`` returns, for each query, the system's confidence that the corpus
        contains an answer, in any unit. For most systems, it is the score of the best hit, or 0 without hits.
    """

    name: str
    sources: tuple[str, ...]
    answer: Answer
    about: str = ""
    confidence: Confidences | None = None


def source_system(source: str, about: str = "") -> System:
    """Return a system that answers with the ranking of one source."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(ranking.ids[:k]) for ranking in batch[source]]

    def confidence(dataset: Dataset, batch: Batch) -> list[float | None]:
        return [float(ranking.scores[0]) if len(ranking) else 0.0 for ranking in batch[source]]

    return System(source, (source,), answer, about, confidence)


def pipeline_system(
    name: str, pipeline: FusionPipeline, sources: Sequence[str], about: str = "", *, ours: bool = False
) -> System:
    """Return a system that fuses some sources with a pipeline.

    If `ours` is true, the system's confidence in a query is the field `confidence` of the pipeline's result. Otherwise,
    it is the best score of the result.

    Examples
    --------
    >>> pipeline_system("rrf", FusionPipeline.reciprocal_rank(), ["vector", "graph"]).sources
    ('vector', 'graph')
    """

    def decided(dataset: Dataset, batch: Batch, k: int) -> Iterator[Result]:
        for row in range(len(dataset.queries)):
            found = zip(sources, [batch[source][row] for source in sources], strict=True)
            rankings = [one if one.source == source else replace(one, source=source) for source, one in found]
            yield pipeline.decide(rankings, dataset.context(row, rankings), k=k)

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(one.ids) for one in decided(dataset, batch, k)]

    def confidence(dataset: Dataset, batch: Batch) -> list[float | None]:
        results = decided(dataset, batch, 1)
        return [one.confidence if ours else float(one.scores[0]) if len(one) else 0.0 for one in results]

    return System(name, tuple(sources), answer, about, confidence)


TWO = ("vector", "graph")
THREE = ("vector", "graph", "bm25")
WORDS = ("vector", "bm25")


def _own() -> dict[str, System]:
    alone = {
        "vector": "only the cosine similarity of the embeddings",
        "graph": "only our walk",
        "bm25": "only BM25",
        "hipporag2": "only HippoRAG 2's walk, without its filter by a language model",
        "semflow": "only SemFlowRAG's walk, without its filter by a language model",
    }
    rrf, paper, design = FusionPipeline.reciprocal_rank, FusionPipeline.paper, {"vector": 1.0, "graph": 0.35}
    relative = FusionPipeline.named("comb_sum")
    of_words = {
        "rrf-words": (rrf(), "RRF of vectors and BM25, without a walk: the usual setup of EnsembleRetriever"),
        "relative-words": (
            relative,
            "min-max-sum of vectors and BM25, without a walk: QueryFusionRetriever, relative_score",
        ),
    }
    of_two = {
        "rrf": (rrf(), "RRF: equal weights, rank constant 60"),
        "weighted-rrf": (rrf(design), "RRF with weights: vector 1, graph 0.35"),
        "convex": (
            FusionPipeline.convex({"vector": 0.7, "graph": 0.3}),
            "sum of scores scaled from 0 to the best score; vector weighs 0.7 (TM2C2)",
        ),
        "convex-equal": (FusionPipeline.convex({"vector": 0.5, "graph": 0.5}), "convex with equal weights"),
        "min-max-sum": (relative, "sum of scores scaled from each list's lowest to its highest score"),
        "paper": (paper(), "the paper's percentile ranks: vector weighs 0.7, graph capped at 30 hits"),
        "paper-2wiki": (
            paper("2wiki"),
            "the paper's percentile ranks for 2Wiki: vector weighs 0.4, graph capped at 20 hits",
        ),
        "default": (FusionPipeline(), "our default: calibrated scores, weights by agreement, no fitted parameter"),
    }
    of_three = {
        "rrf-three": (rrf(), "rrf with BM25"),
        "relative-three": (relative, "min-max-sum with BM25"),
        "weighted-rrf-three": (rrf({**design, "bm25": 1.0}), "weighted-rrf with BM25, weight 1"),
        "convex-three": (FusionPipeline.convex({"vector": 1.0, "graph": 1.0, "bm25": 1.0}), "convex-equal with BM25"),
        "default-three": (FusionPipeline(), "default with BM25"),
    }
    systems = {name: source_system(name, about) for name, about in alone.items()}
    for sources, pipelines in ((WORDS, of_words), (TWO, of_two), (THREE, of_three)):
        systems |= {
            name: pipeline_system(name, one, sources, about, ours=name in ("default", "default-three"))
            for name, (one, about) in pipelines.items()
        }
    return systems


OWN_SYSTEMS: Mapping[str, System] = MappingProxyType(_own())


def _named() -> dict[str, System]:
    """Return, by name, a system for each preset and each fusion rule that is not in ``OWN_SYSTEMS``.

    A system fuses the sources ``vector`` and ``graph``; the system ``adr`` also fuses ``bm25``.
    """
    others = [name for name in PIPELINE_NAMES if name not in (*OWN_SYSTEMS, "adr")]
    systems = {
        name: pipeline_system(name, FusionPipeline.named(name), TWO, "the preset or rule of this name")
        for name in others
    }
    adr = FusionPipeline.adr({"vector": 1.0, "graph": 0.35, "bm25": 1.0})
    return {**systems, "adr": pipeline_system("adr", adr, THREE, "the preset of the design record, with exact matches")}


NAMED_SYSTEMS: Mapping[str, System] = MappingProxyType(_named())


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


def run_systems(
    inputs: ExperimentInput, systems: Sequence[System], k: int, runs: Mapping[str, SourceRun] | None = None
) -> tuple[list[Answers], tuple[str, ...]]:
    """Answer every query of a data set with every system; all systems fuse the same rankings.

    Parameters
    ----------
    inputs : ExperimentInput
        The data set, the list length and the graph.
    systems : sequence of System
        Systems with distinct names.
    k : int
        Number of ids returned per query.
    runs : mapping of str to SourceRun, optional
        Rankings of sources that were already searched; the other sources are searched now.

    Returns
    -------
    list of Answers, tuple of str
        The answers of the systems that ran, and a line for each system that could not run. A system cannot run if a
        package is missing, or if the data set lacks data that a source or the system's fitting needs.

    Raises
    ------
    InvalidInputError
        If there is no system, or two systems have the same name.
    """
    names = [system.name for system in systems]
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"give at least one system, each with a unique name; got {names}")
    known = dict(runs or {})
    answers: list[Answers] = []
    left_out: list[str] = []
    keys = [query.id for query in inputs.dataset.queries]
    for system in systems:
        try:
            known.update(search_sources(inputs, [source for source in system.sources if source not in known], known))
            started = perf_counter()
            found = system.answer(inputs.dataset, {source: known[source].rankings for source in system.sources}, k)
        except (MissingDependencyError, InsufficientDataError) as error:
            left_out.append(f"{system.name}: {error}")
            continue
        each = 1000 * (perf_counter() - started) / len(keys)
        each += sum(known[source].milliseconds for source in system.sources)
        answers.append(Answers(system.name, MappingProxyType(dict(zip(keys, found, strict=True))), each))
    return answers, tuple(left_out)


def run_within(
    inputs: ExperimentInput, systems: Sequence[System], k: int, name: str
) -> tuple[list[Answers], tuple[str, ...]]:
    """Answer every query of a data set with every system, from the passages of the query's own collection only.

    Parameters
    ----------
    inputs : ExperimentInput
        The inputs without a graph: each collection gets its own graph.
    systems : sequence of System
        Systems with distinct names.
    k : int
        Number of ids returned per query.
    name : str
        The field that names the collection, such as ``collection_id``.

    Returns
    -------
    list of Answers, tuple of str
        The answers, and a line for each system that could not run, as for :func:`run_systems`. A system that cannot run
        in one collection is left out of all collections. A further line counts the queries that are judged by passages
        of other collections, because no system can find these passages.

    Raises
    ------
    InvalidInputError
        If a query or a passage does not have the field, or a graph of the whole corpus is given.
    """
    if inputs.graph is not None:
        raise InvalidInputError(
            f"each {name} gets its own graph, but a graph of the whole corpus was given; pass graph=None"
        )
    found: dict[str, dict[str, tuple[str, ...]]] = {system.name: {} for system in systems}
    spent = dict.fromkeys(found, 0.0)
    left_out: dict[str, None] = {}
    elsewhere = 0
    for part in parts_by(inputs.dataset, name).values():
        own = {passage.id for passage in part.passages}
        elsewhere += sum(not own.issuperset(judgement.passages) for judgement in part.judgements)
        wanted = [system for system in systems if not any(line.startswith(f"{system.name}: ") for line in left_out)]
        answers, lost = run_systems(replace(inputs, dataset=part, progress=None), wanted, k)
        left_out |= dict.fromkeys(lost)
        for one in answers:
            found[one.name] |= one.found
            spent[one.name] += (one.milliseconds or 0.0) * len(one.found)
    total = len(inputs.dataset.queries)
    if elsewhere:
        left_out[f"passages of another {name}: {elsewhere} queries are judged by them"] = None
    whole = [system for system, of in found.items() if len(of) == total]
    return [Answers(system, found[system], spent[system] / total) for system in whole], tuple(left_out)


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
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"give at least one system, each with a unique name; got {names}")
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
    p = dict(zip(pairs, flipped.tolist(), strict=True))
    for key, pair in pairs.items():
        if _test(key[1], groups) == MCNEMAR and not np.isnan(p[key]):
            p[key] = mcnemar_exact(*pair)
    families: dict[object, list[tuple[str, Measure]]] = {}
    for key, value in p.items():
        if key[0] != baseline and not np.isnan(value):
            families.setdefault(MCNEMAR if _test(key[1], groups) == MCNEMAR else key[1], []).append(key)
    corrected = dict(p)
    for family in families.values():
        corrected |= zip(family, holm([p[key] for key in family]).tolist(), strict=True)
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


def _mean(column: FloatArray) -> float:
    return float("nan") if np.isnan(column).all() else float(np.nanmean(column))
