"""Ablation of the retrieval stages: answer the same queries with all stages, then without each stage.

Without models passed by the caller, simple deterministic functions (stand-ins) replace language models and
cross-encoders. With stand-ins, an ablation tests the wiring and the statistics. Its figures say nothing about a model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import FloatArray
from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.evaluation.answering import extract_answer, word_share
from phasegraph.evaluation.measures import ndcg, token_f1
from phasegraph.evaluation.significance import holm, paired_bootstrap
from phasegraph.evaluation.source_runs import ExperimentInput, graph_of
from phasegraph.evaluation.triple_facts import load_facts
from phasegraph.graph import EntityGraph, FactIndex, GraphSource, SummaryTree, VectorSource
from phasegraph.graph.model.words import normalise_name
from phasegraph.graph.walk.fact_filter import NOT_FILTERED
from phasegraph.ranking import Ranking
from phasegraph.result import Result
from phasegraph.retrieval import Corrective, FusionEngine, HitAccess, Rerank, SourceSpec
from phasegraph.retrieval.provenance import plain
from phasegraph.retrieval.stages.routing import neighbour_entropy_router
from phasegraph.sources.protocol import Upstream

STAGES: Mapping[str, str] = MappingProxyType(
    {
        "rewrite": "HyDE: a second vector search with BM25's best passage; both rankings fused by reciprocal rank",
        "rerank": "rerank the top 30 by word overlap with the query plus cosine, averaged with the fused score",
        "route": "search only the vectors if the entropy of the 20 nearest neighbors is below 1.8, otherwise all "
        "sources",
        "correct": "grade the top 3 by word overlap with the query; below 25, search with BM25's best passage",
        "summaries": "a summary tree of extracted sentences; its leaves are an additional source",
        "facts": "the nearest facts that share a word with the query seed the walk",
        "graph": "the walk over the entity graph",
    }
)
"""The stages that an ablation can switch off, each with the description of its stand-in."""
PUBLISHED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rewrite": ("hyde", "dphf", "modality_hyde"),
        "rerank": ("rerank",),
        "correct": ("sscc", "crag"),
        "summaries": ("raptor", "cross_doc"),
        "graph": ("graph",),
    }
)
"""For each stage, the rows of a published table that were measured without this stage; the prefix ``wo_`` of the names
is omitted."""
MODELS = ("rewrite", "rerank", "grade", "facts", "embed")
"""The names of the functions that the caller can pass instead of stand-ins."""
_ASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"rewrite": ("rewrite",), "rerank": ("rerank",), "correct": ("grade", "rewrite"), "facts": ("facts",)}
)
_FULL, _K, _SEED, _BLEND = "full", 10, 0, 0.5


@dataclass(frozen=True, slots=True)
class AblationRow:
    """The figures of one configuration: ``full``, or ``- stage`` for the configuration without a stage.

    All figures are given by measure. `means` are in [0, 1] (NaN without a judged query). `differences` contains the
    mean difference from ``full`` and the ends of its 95 % bootstrap interval; the row ``full`` has no differences. `p`
    is the p-value of the paired bootstrap, and `p_holm` is this p-value corrected over the rows of the measure.
    """

    name: str
    means: Mapping[str, float]
    differences: Mapping[str, tuple[float, float, float]]
    p: Mapping[str, float]
    p_holm: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ablation:
    """The table of an ablation of the data set `name` with `queries` queries; the first row is ``full``.

    `notes` describe the function behind each stage, and the stages that were left out.
    """

    name: str
    queries: int
    rows: tuple[AblationRow, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> AblationRow:
        """Return the row of the configuration `name`."""
        return next(row for row in self.rows if row.name == name)

    def to_dict(self) -> dict[str, object]:
        """Return the table as JSON types, with None instead of NaN."""
        rows = {
            one.name: plain({"means": one.means, "differences": one.differences, "p": one.p, "p_holm": one.p_holm})
            for one in self.rows
        }
        return {"dataset": self.name, "queries": self.queries, "rows": rows, "notes": list(self.notes)}


def compare_ablations(
    name: str,
    values: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    notes: Sequence[str] = (),
    resamples: int = 10_000,
) -> Ablation:
    """Compare every configuration with ``full``, query by query.

    `name` is the name of the data set. `values` are in [0, 1], by configuration (including ``full``), measure and
    query. The tests follow "Beyond the Reranker": a paired bootstrap of the differences, with Holm's correction over
    the rows of each measure. The bootstrap is :func:`~phasegraph.evaluation.significance.paired_bootstrap` with the
    seed 0. A query is left out of a comparison if one of the two configurations has no value for it.

    Examples
    --------
    >>> table = compare_ablations(
    ...     "toy", {"full": {"F1": {"a": 1.0, "b": 0.5}}, "- rerank": {"F1": {"a": 0.0, "b": 0.5}}}
    ... )
    >>> table["- rerank"].differences["F1"][0]
    -0.5
    """
    if _FULL not in values or len(values) < 2:
        raise InvalidInputError(
            f"an ablation needs the configuration {_FULL!r} and at least one other; got {list(values)}"
        )
    full, measures = values[_FULL], list(values[_FULL])
    tests: dict[tuple[str, str], Any] = {}
    for row, of in values.items():
        for measure in measures if row != _FULL else ():
            shared = [query for query in full[measure] if query in of[measure]]
            changes = [of[measure][query] - full[measure][query] for query in shared]
            tests[row, measure] = paired_bootstrap(changes, resamples=resamples, rng=_SEED) if changes else None
    corrected: dict[tuple[str, str], float] = {}
    for measure in measures:
        keys = [key for key, found in tests.items() if key[1] == measure and found is not None]
        corrected |= zip(keys, holm([tests[key].p for key in keys]).tolist() if keys else [], strict=True)
    rows = []
    for row, of in values.items():
        known = {measure: found for measure in measures if (found := tests.get((row, measure))) is not None}
        rows.append(
            AblationRow(
                row,
                {one: float(np.mean(list(of[one].values()))) if of[one] else float("nan") for one in measures},
                {one: (found.mean, found.low, found.high) for one, found in known.items()},
                {one: found.p for one, found in known.items()},
                {one: corrected[row, one] for one in known},
            )
        )
    return Ablation(name, max(len(each) for each in full.values()), tuple(rows), tuple(notes))


def published_ablation(path: str | Path, stages: Sequence[str]) -> Ablation:
    """Compute an ablation from a JSON file with published values of each configuration for each query.

    The file has the form ``{"qids": [...], "configs": {"full": {"ndcg": {...}, "f1": {...}}, "wo_…": {...}}}``, with
    the values by query id. `stages` are keys of ``STAGES``, row names without their prefix ``wo_``, or ``all`` for the
    eight ``wo_`` rows of the paper. A key of ``STAGES`` may select several rows. Raise InvalidInputError if the file
    has another form, or no row for a stage.
    """
    file = Path(path)
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        found = {
            name: {
                measure: {query: float(one[key][query]) for query in state.get("qids", one[key]) if query in one[key]}
                for measure, key in (("nDCG@10", "ndcg"), ("F1", "f1"))
            }
            for name, one in state["configs"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            f"{file} is not a table of configurations with ndcg and f1 per query "
            f"({type(error).__name__}: {error}): check the path"
        ) from error
    values = {_FULL: found.get(_FULL, {})}
    for stage in (name for one in stages for name in (_EIGHT if one == "all" else (one,))):
        rows = [row for row in PUBLISHED.get(stage, (stage,)) if f"wo_{row}" in found]
        if not rows:
            known = ", ".join(name.removeprefix("wo_") for name in found if name.startswith("wo_"))
            raise InvalidInputError(f"{file} has no row for an ablation of {stage!r}; it has rows for {known}")
        values |= {f"- {row}": found[f"wo_{row}"] for row in rows}
    title = f"{file.stem} (published)"
    return compare_ablations(title, values, notes=["differences are computed per query from published values"])


_EIGHT = ("rerank", "hyde", "raptor", "sscc", "cross_doc", "graph", "crag", "dphf")


def ablate(
    inputs: ExperimentInput,
    stages: Sequence[str],
    *,
    models: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    resamples: int = 10_000,
) -> Ablation:
    """Answer every query with all stages on, then with each stage off.

    F1 rates an answer that :func:`~phasegraph.evaluation.answering.extract_answer` takes from the first three passages.
    The answer is a name or number that is not in the query; the sentences that contain it share the most words with the
    query.

    Parameters
    ----------
    inputs : ExperimentInput
        The data set and the length of the rankings.
    stages : sequence of str
        Keys of ``STAGES``, at least one, or ``all``. Stages that are not named are off in every configuration, except
        the graph.
    models : mapping of str to callable, optional
        Functions that replace the stand-ins, by the keys of ``MODELS``. ``rewrite(query)`` returns one text or several.
        ``rerank(query, texts)`` returns a score per text, and ``grade(query, texts)`` a grade in [1, 100].
        ``facts(query, facts)`` returns the facts to keep. ``embed(text)`` returns the vector of a text that a model
        wrote. Wrap each function in :class:`~phasegraph.retrieval.ModelAnswers` to record its replies;
        ``offline=True`` then replays the experiment from the file without a model.
    resamples : int, default 10000
        Number of bootstrap resamples.

    Returns
    -------
    Ablation
        The nDCG@10 and F1 of each configuration, and their differences from ``full``.

    Raises
    ------
    InsufficientDataError
        If models are passed and a stage fails for a query, because the figure would not describe the stage.
    """
    wrong = [one for one in models if one not in MODELS]
    if wrong:
        raise InvalidInputError(f"models must be among {', '.join(MODELS)}; got {', '.join(wrong)}")
    wanted = list(dict.fromkeys(name for one in stages for name in (STAGES if one == "all" else (one,))))
    unknown = [one for one in wanted if one not in STAGES]
    if unknown or not wanted:
        raise InvalidInputError(
            f"stages must be 'all', or among {', '.join(STAGES)}; got {', '.join(unknown) or 'none'}"
        )
    bench, notes = _Bench(inputs, models), []
    if "facts" in wanted:
        try:
            _ = bench.facts
        except InsufficientDataError as error:
            wanted.remove("facts")
            notes.append(f"left out: facts: {error}")
    if not wanted:
        raise InsufficientDataError("; ".join(notes))
    asked = {one: [name for name in _ASKS.get(one, ()) if name in models] for one in wanted}
    notes += [f"{one}: {'by the model that was passed' if asked[one] else STAGES[one]}" for one in wanted]
    if not any(asked.values()):
        notes.append("stand-ins replace the models: the figures say nothing about the effect of a model")
    on = frozenset(wanted) | {"graph"}
    values = {_FULL: bench.measured(on)} | {f"- {one}": bench.measured(on - {one}) for one in wanted}
    return compare_ablations(inputs.dataset.name, values, notes=notes, resamples=resamples)


@dataclass(frozen=True, slots=True)
class _Texted:
    """A wrapper of a source that gives each hit its passage's text, for the stages that read texts.

    `contents` maps passage ids to texts.
    """

    source: Any
    contents: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.source.name)

    @property
    def depends_on(self) -> Sequence[str]:
        return tuple(getattr(self.source, "depends_on", ()))

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        found: Ranking = self.source.search(query, limit, upstream)
        return replace(found, payloads={one: self.contents[one] for one in found.ids})


class _Bench:
    """The data set of an ablation, with the graph, summary tree, facts and models that the stages need.

    The tree and the facts are built once, on first use.
    """

    def __init__(self, inputs: ExperimentInput, models: Mapping[str, Callable[..., Any]]) -> None:
        if inputs.graph is not None and not isinstance(inputs.graph, EntityGraph):
            raise InvalidInputError("an ablation needs an entity graph; the given graph is a chunk graph")
        self.inputs, self.dataset = inputs, inputs.dataset
        self.vectors = self.dataset.vectors_by_text()
        self.graph = graph_of(self.dataset) if inputs.graph is None else inputs.graph
        self.contents = dict(self.dataset.contents)
        self.models = models
        own = {"rewrite": self.best_by_words, "rerank": self.rerank, "grade": self.grade, "facts": self.keep}
        self.asks: dict[str, Any] = own | dict(models)

    @lazy_property
    def tree(self) -> SummaryTree:
        data = self.dataset
        return SummaryTree.build(data.passages, data.passage_vectors)

    @lazy_property
    def facts(self) -> FactIndex:
        """The index of the data set's embedded facts whose entities are in the graph."""
        found, rows = load_facts(self.dataset), self.graph.entity_rows
        places = np.array([rows.get(normalise_name(name), -1) for name in found.entities], dtype=np.int32)
        ends = places[found.pairs]
        known = (ends >= 0).all(axis=1)
        return FactIndex(ends[known], found.vectors[known])

    def embed(self, text: str) -> Any:
        """Return the stored vector of a question or passage; for other texts, call the caller's function ``embed``."""
        return self.vectors[text] if text in self.vectors or "embed" not in self.models else self.models["embed"](text)

    def best_by_words(self, query: str) -> str:
        """Return the content of the best passage by BM25, or the query if no passage contains a word of the query."""
        lexical: Any = self.graph.lexical
        scores: FloatArray = lexical.look_up(query).scores
        if not len(scores) or scores.max() <= 0:
            return query
        return self.contents[self.graph.passages[int(scores.argmax())]]

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return, for each text, the share of the query's words in the text plus the cosine of text and query."""
        vector = self.embed(query)
        return [word_share(query, text) + float(self.embed(text) @ vector) for text in texts]

    def grade(self, query: str, texts: Sequence[str]) -> float:
        """Return the percentage of the query's words that occur in the texts, at least 1."""
        return max(1.0, 100 * word_share(query, " ".join(texts)))

    def keep(self, query: str, facts: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return the facts that share a word with the query."""
        return [fact for fact in facts if word_share(query, " ".join(fact)) > 0]

    def engine(self, on: frozenset[str]) -> tuple[FusionEngine, dict[str, Any]]:
        """Return a fusion engine whose only stages are those in `on`, and the sources that it searches, by name."""
        facts = self.facts if "facts" in on else None
        sources: dict[str, Any] = {"vector": VectorSource(self.graph, embedder=self.embed)}
        if "graph" in on:
            sources["graph"] = GraphSource(
                self.graph, embedder=self.embed, facts=facts, fact_filter=None if facts is None else self.asks["facts"]
            )
        if "summaries" in on:
            sources["summaries"] = self.tree.source(self.embed)
        rewrite: dict[str, Any] = {"rewrite": self.asks["rewrite"], "combine": "rrf"} if "rewrite" in on else {}
        specs = {
            name: SourceSpec(
                retriever=None, depends_on=tuple(getattr(one, "depends_on", ())),
                **(rewrite if name == "vector" else {}),
            )
            for name, one in sorted(sources.items())
        }  # fmt: skip
        engine = FusionEngine.of(
            specs, k=_K, fetch_k=self.inputs.limit, timeout=None,
            access=HitAccess(text=lambda hit: hit if isinstance(hit, str) else ""),
            route=neighbour_entropy_router("vector", list(sources), list(sources)) if "route" in on else None,
            rerank=Rerank(self.asks["rerank"], blend=_BLEND) if "rerank" in on else None,
            corrective=Corrective(self.asks["grade"], self.asks["rewrite"]) if "correct" in on else None,
        )  # fmt: skip
        return engine, {name: _Texted(one, self.contents) for name, one in sources.items()}

    def measured(self, on: frozenset[str]) -> dict[str, dict[str, float]]:
        """Answer all queries with only the stages in `on`; return nDCG@10 and F1 in [0, 1], by measure and query id.

        F1 is given only for queries with a known answer.
        """
        engine, sources = self.engine(on)
        found: dict[str, dict[str, float]] = {f"nDCG@{_K}": {}, "F1": {}}
        rows: Any = range(len(self.dataset.queries))
        show: Callable[..., Any] | None = self.inputs.progress
        for row in rows if show is None else show(rows, f"{len(on)} stages"):
            query = self.dataset.queries[row]
            result = engine.retrieve(query.text, sources)[0]
            self._check(query.id, result)
            ids = result.ids
            found[f"nDCG@{_K}"][query.id] = ndcg(ids, query.judgement, _K)
            read = token_f1([extract_answer(query.text, [self.contents[one] for one in ids])], query.judgement)
            if read is not None:
                found["F1"][query.id] = read
        return found

    def _check(self, query: str, result: Result) -> None:
        """Raise InsufficientDataError if models were passed and a stage of the answer failed."""
        stages: Any = result.extras.get("stages", ())
        failed = [f"{one.stage} {one.status} ({one.reason})" for one in stages if one.status != "ok"]
        failed += [f"{one.source}: {one.reason}" for one in result.reports if NOT_FILTERED in one.reason]
        if self.models and failed:
            raise InsufficientDataError(
                f"query {query!r}: {failed[0]}; an ablation with models needs every stage to succeed for every query"
            )
