"""Systems x queries x measures in one table, with a baseline, intervals, wins and losses and corrected p."""

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
from phasegraph._support.validation import check_text
from phasegraph.errors import InsufficientDataError, InvalidInputError, MissingDependencyError
from phasegraph.evaluation.datasets import Dataset, Judgement, check_ids, parts_by
from phasegraph.evaluation.measures import ANSWER_MEASURES, BINARY, DEFAULT_MEASURES, Measure, values_of
from phasegraph.evaluation.runs import check_judged, check_known, write_text
from phasegraph.evaluation.significance import bootstrap_intervals, holm, mcnemar_exact, sign_flips, wins_and_losses
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.fusion.pipeline import PIPELINE_NAMES, FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result

Batch: TypeAlias = Mapping[str, Sequence[Ranking]]
Answer: TypeAlias = Callable[[Dataset, Batch, int], "list[tuple[str, ...]]"]
Confidences: TypeAlias = Callable[[Dataset, Batch], "Sequence[float | None]"]


@dataclass(frozen=True, slots=True)
class System:
    """One way to answer every query.

    Parameters
    ----------
    name : str
        Row of the table.
    sources : tuple of str
        The sources it fuses.
    answer : callable
        ``answer(dataset, rankings by source, k) -> ids per query``.
    about : str
        One line.
    confidence : callable, optional
        ``confidence(dataset, rankings by source)``: per query how sure it is that the corpus holds an answer, in any
        unit; for most the score of the best hit, 0 where there is none.
    """

    name: str
    sources: tuple[str, ...]
    answer: Answer
    about: str = ""
    confidence: Confidences | None = None


def source_system(source: str, about: str = "") -> System:
    """One source alone, in its own order."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(ranking.ids[:k]) for ranking in batch[source]]

    def confidence(dataset: Dataset, batch: Batch) -> list[float | None]:
        return [float(ranking.scores[0]) if len(ranking) else 0.0 for ranking in batch[source]]

    return System(source, (source,), answer, about, confidence)


def pipeline_system(
    name: str, pipeline: FusionPipeline, sources: Sequence[str], about: str = "", *, ours: bool = False
) -> System:
    """A pipeline over some sources; if `ours`, its confidence is that of its results, else their best score.

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
        "vector": "cosine of the embeddings alone",
        "graph": "our walk alone",
        "bm25": "BM25 alone",
        "hipporag2": "HippoRAG 2's walk alone, without a model's filter",
        "semflow": "SemFlowRAG's walk alone, without a model's filter",
    }
    rrf, paper, design = FusionPipeline.reciprocal_rank, FusionPipeline.paper, {"vector": 1.0, "graph": 0.35}
    relative = FusionPipeline.named("comb_sum")
    of_words = {
        "rrf-words": (rrf(), "RRF of vectors and BM25, no walk: EnsembleRetriever as most people use it"),
        "relative-words": (relative, "min-max-sum of vectors and BM25, no walk: QueryFusionRetriever, relative_score"),
    }
    of_two = {
        "rrf": (rrf(), "RRF: equal weights, rank constant 60"),
        "weighted-rrf": (rrf(design), "RRF with vector 1, graph .35"),
        "convex": (
            FusionPipeline.convex({"vector": 0.7, "graph": 0.3}),
            "scores from 0 to the best, added: vector .7 (TM2C2)",
        ),
        "convex-equal": (FusionPipeline.convex({"vector": 0.5, "graph": 0.5}), "the same, equal weights"),
        "min-max-sum": (relative, "scores from each list's least to its best, added"),
        "paper": (paper(), "percentile ranks, the paper's: vector .7, graph capped at 30"),
        "paper-2wiki": (paper("2wiki"), "percentile ranks, the paper's for 2Wiki: vector .4, graph capped at 20"),
        "default": (FusionPipeline(), "ours: calibrated scores, weights by agreement, nothing fitted"),
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
    """Every preset and rule that is not there under its own name, over vector and graph; the record's over three."""
    others = [name for name in PIPELINE_NAMES if name not in (*OWN_SYSTEMS, "adr")]
    systems = {name: pipeline_system(name, FusionPipeline.named(name), TWO, "by its name") for name in others}
    adr = FusionPipeline.adr({"vector": 1.0, "graph": 0.35, "bm25": 1.0})
    return {**systems, "adr": pipeline_system("adr", adr, THREE, "the design record's, exact matches included")}


NAMED_SYSTEMS: Mapping[str, System] = MappingProxyType(_named())


@dataclass(frozen=True, slots=True)
class Answers:
    """What one system found.

    Parameters
    ----------
    name : str
    found : mapping of str to tuple of str
        Ids in order, by query id.
    milliseconds : float, optional
        Mean wall time a query, where it was measured.

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
    """Answer every query of a data set with every system, from the same lists.

    Parameters
    ----------
    inputs : ExperimentInput
        The data set, the list length and the graph.
    systems : sequence of System
        Names differ.
    k : int
        Ids kept per query.
    runs : mapping of str to SourceRun, optional
        Rankings already searched; what is lacking is searched.

    Returns
    -------
    list of Answers, tuple of str
        Those that ran, and a line for each that could not: a package is missing, or the data set lacks what a
        source walks on or a system is fitted on.

    Raises
    ------
    InvalidInputError
        If there is no system, or two have the same name.
    """
    names = [system.name for system in systems]
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"give at least one system, each with a name of its own; got {names}")
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
    """Answer every query from the passages of its own collection alone; otherwise as :func:`run_systems`.

    Parameters
    ----------
    inputs : ExperimentInput
        Without a graph: each collection gets its own.
    systems : sequence of System
    k : int
    name : str
        The field that tells collections apart, such as ``collection_id``.

    Returns
    -------
    list of Answers, tuple of str
        A system that cannot run in one collection is left out of all. A line says how many queries are judged by
        passages of other collections, which no system can find.

    Raises
    ------
    InvalidInputError
        If a query or a passage does not have the field, or a graph of the whole corpus is given.
    """
    if inputs.graph is not None:
        raise InvalidInputError(f"within {name} every part gets its own graph; one of the whole corpus was given")
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
        left_out[f"passages of another {name}, by which {elsewhere} queries are judged"] = None
    whole = [system for system, of in found.items() if len(of) == total]
    return [Answers(system, found[system], spent[system] / total) for system in whole], tuple(left_out)


@dataclass(frozen=True, slots=True)
class Row:
    """One system in the table.

    Parameters
    ----------
    name : str
    means : mapping of Measure to float
        In [0, 1], counts as they are; NaN for a measure that leaves out every query.
    intervals : mapping of Measure to (float, float)
        Bootstrap interval of each mean.
    differences : mapping of Measure to (float, float, float)
        Mean difference to the baseline with its paired interval.
    wins, losses : mapping of Measure to int
        Queries better and worse than the baseline.
    p, p_holm : mapping of Measure to float
        Of the paired test of each measure (:attr:`Table.tests`), as it is and corrected (see :func:`compare`); NaN
        where the measure leaves out every query.
    milliseconds : float or None
        Per query.
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
        """The row as JSON types."""
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
    """A percentage, or a count as it is."""
    return None if np.isnan(value) else measure.unit * value


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The outcome of an experiment, per system and per query.

    Parameters
    ----------
    dataset : str
    queries : tuple of str
        Ids, in order.
    measures : tuple of Measure
    baseline : str
        Name of the system the others are compared with.
    rows : tuple of Row
    values : mapping of str to (n, c) array of float
        Per system, query and measure; NaN where the measure leaves the query out.
    found : mapping of str to mapping of str to tuple of str
        Ids by system and query, to the depth of the deepest measure.
    limit : int or None
        Length of the lists that were fused.
    left_out : tuple of str
        Systems that could not run, each with its reason.
    groups : tuple of str or None
        The group of each query, such as its collection, where they were given.
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
        """How many queries each measure is scored on."""
        counts = (~np.isnan(self.values[self.baseline])).sum(axis=0).tolist()
        return dict(zip(self.measures, counts, strict=True))

    @property
    def tests(self) -> dict[Measure, str]:
        """The paired test of each measure; a measure that leaves out every query has none."""
        scored = self.scored
        return {measure: _test(measure, self.groups) for measure in self.measures if scored[measure]}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know: queries left out of a measure, and groups."""
        out = []
        names = {measure.name: count for measure, count in self.scored.items() if count < len(self.queries)}
        for name, count in names.items():
            why = WHY_LEFT_OUT.get(name, "it does not score them")
            if not count:
                out.append(f"{name} and its test are left out: {why}")
            else:
                out.append(f"{name} is of {count} of {len(self.queries)} queries, the others left out: {why}")
        if self.groups is not None:
            tests = "tests (LastHop's excepted)" if "LastHop" in {measure.name for measure in self.tests} else "tests"
            out.append(f"intervals and {tests} take the {len(set(self.groups))} collections whole")
        return tuple(out)

    def means_by(self, labels: Sequence[str]) -> dict[str, dict[str, dict[str, float | None]]]:
        """The means of every system over the queries of each label.

        Parameters
        ----------
        labels : sequence of str
            One per query.

        Returns
        -------
        dict of str to dict
            By label, ascending, system and measure: percentages and counts, None where a measure leaves out every
            query.
        """
        of = np.array(labels, dtype=object)
        if of.shape != (len(self.queries),):
            raise InvalidInputError(f"labels must hold one per query ({len(self.queries)}); got {len(labels)}")
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
        """The table as JSON types: percentages and counts, null where a measure leaves out every query.

        Per system: each measure; wins, losses, exact McNemar p and Holm-corrected p of LastHop at each depth (null
        where no query's last hop is known); milliseconds per query; of each measure the interval, that of its
        difference to the baseline, wins, losses, p and Holm-corrected p. Beside the systems: on how many queries each
        measure is scored, its test, and how many groups the queries fall into.
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
        """Write one JSON line per system and query: ids and every measure, so that anyone can recompute."""
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
        "LastHop": "no hop order is known (hop_order_known, last_hop_known)",
        "PageRecall": "no page that answers is known (pages, and source of a passage)",
        "Pages": "no passage names its page (source)",
        "EM": "no right answer is given (answer)",
        "F1": "no right answer is given (answer)",
    }
)
MCNEMAR, SIGN_FLIP, BY_GROUP = "exact McNemar", "sign-flip permutation", "sign-flip permutation of whole groups"


def _test(measure: Measure, groups: Sequence[str] | None) -> str:
    """LastHop's is McNemar's whatever the groups: its p is the one that is compared with the paper's."""
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
        At least one, names differ, the baseline among them. A judged query that a system did not answer
        counts as nothing found.
    judgements : sequence of Judgement
        At least one.
    baseline : str, default "vector"
    measures : sequence of Measure
    dataset, limit, left_out
        As in :class:`Table`.
    groups : sequence of str, optional
        The group of each judged query, such as its collection. Queries of one group are no independent draws: whole
        groups are resampled, and change sign together.
    corpus : collection of str, optional
        Ids of the passages there are. A system that returns ids must return at least one of these, or one that is
        judged for some question.
    resamples : int, default 10000
        Of the bootstrap and of the sign flips.
    rng : int, default 0
        Seed of both; everything else is exact.

    Returns
    -------
    Table

    Raises
    ------
    InvalidInputError
        If a parameter breaks what is said above, a run answers a query without a judgement, or no id of a system is
        known to the judgements or the corpus.

    Notes
    -----
    p is that of a two-sided paired test against the baseline: exact McNemar for measures that are 0 or 1, the
    sign-flip permutation test for all others; with groups the sign-flip test of whole groups for all but LastHop.
    ``p_holm`` corrects McNemar's tests for all of them in the table (all systems but the baseline, all depths), and
    a sign-flip test for those of all systems on the same measure. A measure that leaves out every query is not tested,
    and counts in no correction.
    """
    names = [one.name for one in answers]
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"give at least one system, each with a name of its own; got {names}")
    if baseline not in names:
        raise InvalidInputError(f"the baseline must be one of the systems {names}; got {baseline!r}")
    if not judgements or not measures:
        raise InvalidInputError("there must be at least one judged query and one measure")
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
