"""The inspector's data: asked questions, their rankings, and the answers that other settings give."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph._support.markup import source_colours
from phasegraph._support.serialization import encode_document
from phasegraph._support.validation import check_keys, check_query
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.acceptance.confidence import Confidence
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.evaluation.datasets import Query
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import KIND, VERSION, FusionPipeline
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import Embedder
from phasegraph.lexical import read_hits, tokenizer_of
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport
from phasegraph.result import Result, view_of
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sources.gatherer import Gatherer
from phasegraph.sources.settings import SourceSettings

OWN, OTHER = "own", "compared"
PRESETS = ("default", "reciprocal_rank", "min-max-sum", "z-score-sum", "convex", "phasegraph", "phasegraph-2wiki")
LIMIT = 50
"""Hits requested from every source."""
MOST_ASKED = 64
"""Questions whose rankings are cached."""
LONGEST = 4000
"""Maximum length of a question, in characters."""
MOST_FOUND = 20
"""Maximum number of passages that a search by text returns."""
_SETTINGS = ("pipeline", "weights", "thresholds", "final", "common", "confidence", "k")


@dataclass(eq=False)
class Asked:
    """A question with its rankings, on which every change of settings is decided again."""

    question: str
    rankings: tuple[Ranking, ...]
    reports: tuple[SourceReport, ...]
    context: Context = field(repr=False)


class Inspector:
    """Answers questions over a saved index, and explains the answers for a page.

    Parameters
    ----------
    index : GraphIndex
        Its sources are ``graph``, ``lexical`` if it has an index of words, and ``vector`` if there is an `embedder`.
    name : str
        Title of the page.
    embedder : callable, optional
        Function from question to vector. Without it, the walk starts from names and words.
    pipeline : FusionPipeline, optional
        Default: the default pipeline. Sources that its weights do not name are shown but not fused.
    compared : FusionPipeline, optional
        A second pipeline to choose on the page.
    judged : sequence of Query
        Questions for :meth:`flips`.
    questions : sequence of str
        Example questions of the start page.

    Raises
    ------
    InvalidInputError
        If there is an embedder and the index has no embeddings, or a pipeline's weights name no source of the index.
    """

    def __init__(
        self,
        index: GraphIndex,
        name: str,
        *,
        embedder: Embedder | None = None,
        pipeline: FusionPipeline | None = None,
        compared: FusionPipeline | None = None,
        judged: Sequence[Query] = (),
        questions: Sequence[str] = (),
    ) -> None:
        graph = index.graph
        if embedder is not None and graph.embeddings is None:
            raise InvalidInputError(
                "--embedder needs an index with embeddings (phasegraph index --embeddings); this one has none"
            )
        once = None if embedder is None else lru_cache(maxsize=256)(embedder)
        self.index, self.name, self.judged, self.questions = index, name, tuple(judged), tuple(questions)
        self.sources: dict[str, Any] = {"graph": GraphSource(graph, embedder=once).prepare()}
        if graph.lexical is not None:
            self.sources["lexical"] = LexicalSource(graph)
        if once is not None:
            self.sources["vector"] = VectorSource(graph, embedder=once)
        own = FusionPipeline() if pipeline is None else pipeline
        named = {OWN: own} | ({} if compared is None else {OTHER: compared})
        for one in named.values():
            self._check(one)
        self.pipelines = named | {
            preset: made for preset in PRESETS if self._fits(made := FusionPipeline.named(preset))
        }
        self._gatherer = Gatherer(
            {one: SourceSettings(limit=LIMIT, depends_on=("vector",) * self._waits(one)) for one in self.sources},
            timeout=None,
        )
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._judged: list[tuple[Query, Asked]] | None = None
        self._all: tuple[str, dict[str, Ranking]] = ("", {})
        self._turn, self._judging = Lock(), Lock()
        self._tokenize = tokenizer_of("english" if graph.lexical is None else graph.lexical.tokenizer)

    def _waits(self, name: str) -> bool:
        return name == "graph" and "vector" in self.sources

    def _fits(self, pipeline: FusionPipeline) -> bool:
        return pipeline.weights is None or any(pipeline.weights.get(name, 0) > 0 for name in self.sources)

    def _check(self, pipeline: FusionPipeline) -> None:
        if not self._fits(pipeline):
            raise InvalidInputError(
                f"the pipeline's weights must name one of {sorted(self.sources)}; they name "
                f"{sorted(pipeline.weights or ())}"
                + ("" if "vector" in self.sources else ": --embedder MODULE:OBJECT brings the source 'vector'")
            )

    # Data of the start page.

    def about(self) -> dict[str, Any]:
        """Describe the index: passages, sources with colours, pipelines with settings, and judged questions."""
        return {
            "name": self.name,
            "passages": len(self.index.graph.passages),
            "entities": len(self.index.graph.entities),
            "sources": [{"name": one, "colour": colour} for one, colour in source_colours(self.sources).items()],
            "no_vectors": self.index.graph.embeddings is not None and "vector" not in self.sources,
            "limit": LIMIT,
            "pipelines": {name: _settings_of(one) for name, one in self.pipelines.items()},
            "judged": len(self.judged),
            "questions": list(self.questions),
        }

    # Asking and deciding.

    def ask(self, question: object) -> Asked:
        """Get the rankings of a question from the cache or the sources."""
        text = check_query(question).strip()
        if len(text) > LONGEST:
            raise InvalidInputError(f"a question must have at most {LONGEST} characters; got {len(text)}")
        with self._turn:
            found = self._asked.get(text)
            if found is None:
                found = self._asked[text] = self._gather(text)
                while len(self._asked) > MOST_ASKED:
                    self._asked.popitem(last=False)
            self._asked.move_to_end(text)
            return found

    def _gather(self, question: str, *, paths: bool = True) -> Asked:
        found = self._gatherer.gather(self.sources, question)
        rankings = tuple(self._with_records(one, paths) for one in found.rankings)
        words = read_hits(question, rankings, self._content)
        context = Context(
            query=question, now=time.time(), words=words, embeddings=self._embeddings,
            metadata_of=lambda record: {"title": record.title, **record.metadata}, text_of=lambda record: record.text,
        )  # fmt: skip
        return Asked(question, rankings, found.reports, context)

    def _with_records(self, ranking: Ranking, paths: bool) -> Ranking:
        """Add the passages as payloads; compute the paths now, because a lazy path keeps the whole walk in memory."""
        records = [self.index.records.get(name) for name in ranking.ids]
        return replace(ranking, payloads=Payloads(ranking.ids, records, dict(ranking.payloads) if paths else {}))

    def _content(self, name: str) -> str:
        record = self.index.records.get(name)
        return "" if record is None else record.content

    def read(self, name: str) -> tuple[str, str]:
        """Title and text of a passage; "" for an unknown id."""
        record = self.index.records.get(name)
        return ("", "") if record is None else (record.title, record.text)

    def _embeddings(self, ids: Sequence[str]) -> Any:
        graph = self.index.graph
        if graph.embeddings is None:
            raise InvalidInputError("selection by redundancy needs an index with embeddings")
        return np.asarray(graph.embeddings[[graph.passage_rows[name] for name in ids]], dtype=np.float64)

    def settled(self, settings: object) -> FusionPipeline:
        """Make the pipeline of the page's settings; raise for an unknown name or a value out of range.

        ``pipeline`` is one of :attr:`pipelines`. ``weights`` and ``thresholds`` (by source), ``final``, ``common``,
        ``confidence`` and ``k`` replace its own values. None removes a threshold, or restores the rule's weights.
        """
        given = check_keys("settings", settings, _SETTINGS)
        name = given.get("pipeline", OWN)
        if not isinstance(name, str) or name not in self.pipelines:
            raise InvalidInputError(f"settings.pipeline must be one of {list(self.pipelines)}; got {name!r:.80}")
        chosen = replace(self.pipelines[name], strict=False)
        if "k" in given:
            chosen = replace(chosen, k=given["k"])
        if "weights" in given:
            chosen = replace(chosen, weights=self._by_source("weights", given["weights"]))
        policy = chosen.accept or AcceptancePolicy()
        if "thresholds" in given:
            policy = replace(policy, thresholds=self._by_source("thresholds", given["thresholds"]) or {})
        for key in ("final", "common"):
            if key in given:
                policy = replace(policy, **{key: given[key]})
        if "confidence" in given:
            least = given["confidence"]
            policy = replace(policy, confidence=None if least is None else Confidence(min=least))
        return replace(chosen, accept=None if policy == AcceptancePolicy() else policy)

    def _by_source(self, name: str, value: object) -> Mapping[str, float] | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise InvalidTypeError(f"settings.{name} must map sources to numbers; got {value!r:.80}")
        unknown = sorted(set(value) - set(self.sources))
        if unknown:
            raise InvalidInputError(
                f"settings.{name} must name sources among {sorted(self.sources)}; got {unknown[0]!r}"
            )
        return value

    def decide(self, asked: Asked, pipeline: FusionPipeline) -> tuple[Result, Result]:
        """Decide the answer, and the order of all candidates without acceptance and selection."""
        given = [one for one in asked.rankings if pipeline.weights is None or one.source in pipeline.weights]
        result = pipeline.decide(given, asked.context, reports=asked.reports)
        plain = replace(pipeline, accept=None, selection=None)
        return result, plain.decide(given, asked.context, reports=asked.reports, k=len(result.candidates))

    def view(self, question: object, settings: object) -> dict[str, Any]:
        """Like :func:`phasegraph.result.view_of`, with ``pipeline``, ``settings`` and the reason for the weights."""
        pipeline, asked = self.settled(settings), self.ask(question)
        result, everything = self.decide(asked, pipeline)
        found = view_of(result, asked.question, everything=everything, rankings=asked.rankings, read=self.read)
        return found | {
            "pipeline": dict(settings).get("pipeline", OWN) if isinstance(settings, Mapping) else OWN,
            "settings": _settings_of(pipeline),
            "why_weights": _why_weights(pipeline, result),
        }

    # Why not this passage?

    def find(self, needle: object) -> list[dict[str, str]]:
        """Find a passage by id, otherwise at most 20 passages whose id, title or text contains the text."""
        if not isinstance(needle, str) or not needle.strip():
            raise InvalidInputError("give the id of a passage, or words of its title or text")
        text = needle.strip()
        records = self.index.records
        if text in records:
            return [self._named(text)]
        low, found = text.lower(), []
        for record in records.values():
            if low in record.id.lower() or low in record.title.lower() or low in record.text.lower():
                found.append(self._named(record.id))
                if len(found) == MOST_FOUND:
                    break
        return found

    def _named(self, name: str) -> dict[str, str]:
        title, text = self.read(name)
        return {"id": name, "title": title, "text": text}

    def why_not(self, question: object, settings: object, name: object) -> dict[str, Any]:
        """Explain a passage's place: its rank in each source among all passages, its fused value, and what it lacks."""
        if not isinstance(name, str) or name not in self.index.records:
            raise InvalidInputError(f"there is no passage {name!r:.80}")
        pipeline, asked = self.settled(settings), self.ask(question)
        result, everything = self.decide(asked, pipeline)
        there = {one.source: one for one in asked.rankings}
        sources = {one: self._standing(asked, one, there.get(one), name) for one in self.sources}
        words = list(dict.fromkeys(self._tokenize(asked.question)))
        held = set(self._tokenize(self._content(name)))
        lines = _verdict(name, result, everything)
        return self._named(name) | {
            "sources": sources,
            "words": [word for word in words if word in held],
            "lacking": [word for word in words if word not in held],
            "walk": sources["graph"].pop("walk"),
            "said": lines,
        }

    def _standing(self, asked: Asked, source: str, listed: Ranking | None, name: str) -> dict[str, Any]:
        """The rank of a passage among all that a source ranks, and whether the source's list reaches that far."""
        whole = self._ranked_all(asked)[source]
        row, cut = whole.positions.get(name), 0 if listed is None else len(listed)
        state: dict[str, Any] = {"rank": None, "score": None, "of": len(whole), "listed": False, "last": None}
        if cut and listed is not None:
            state["last"] = float(listed.scores[-1])
        state["listed"] = listed is not None and name in listed.positions
        if source == "graph":
            steps = whole.payloads.get(name)
            path = getattr(steps, "path", ())
            state["walk"] = [[one.kind, one.name] for one in path] if row is not None else []
        if row is None:
            why = {"lexical": "the passage has no word of the question", "graph": "the walk does not reach it"}
            return state | {"said": why.get(source, whole.reason or "the source does not rank it")}
        state |= {"rank": row + 1, "score": float(whole.scores[row])}
        if state["listed"]:
            return state | {"said": f"in its list of {cut}"}
        return state | {"said": f"beyond the {LIMIT} hits asked for: the last of them scores {state['last']:.4g}"}

    def _ranked_all(self, asked: Asked) -> dict[str, Ranking]:
        """Rank all passages by each source; only the last question is cached, because the rankings are long."""
        question, found = self._all
        if question != asked.question:
            upstream = {one.source: one for one in asked.rankings}
            found = {name: one.search(asked.question, None, upstream) for name, one in self.sources.items()}
            self._all = (asked.question, found)
        return found

    # Judged questions.

    def prepare(self, progress: Callable[[Iterable[Any], str], Iterable[Any]] = lambda items, _: items) -> None:
        """Ask the judged questions once, and keep their rankings without paths."""
        with self._judging:
            if self._judged is None:
                self._judged = [
                    (query, self._gather(query.text, paths=False))
                    for query in progress(self.judged, "judged questions")
                ]

    def flips(self, settings: object, before: object) -> dict[str, Any]:
        """Compare two settings: judged questions that gain or lose a gold passage among the first k.

        ``questions``, ``k``, ``k_before``, ``gold``; ``found_before``, ``found``: gold passages among the k;
        ``gained`` and ``lost``: ``id``, ``question`` and ``passages``, with id and title.
        """
        if not self.judged:
            raise InvalidInputError("there are no judged questions: start with --judged QUESTIONS.jsonl")
        self.prepare()
        new, old = self.settled(settings), self.settled(before)
        gained: list[dict[str, Any]] = []
        lost: list[dict[str, Any]] = []
        totals = [0, 0, 0]
        for query, asked in self._judged or ():
            gold = query.judgement.passages
            had, has = gold & self._ids(old, asked), gold & self._ids(new, asked)
            totals = [totals[0] + len(gold), totals[1] + len(had), totals[2] + len(has)]
            for names, where in ((has - had, gained), (had - has, lost)):
                if names:
                    told = [{"id": name, "title": self.read(name)[0]} for name in sorted(names)]
                    where.append({"id": query.id, "question": query.text, "passages": told})
        return {
            "questions": len(self.judged), "k": new.k, "k_before": old.k, "gold": totals[0],
            "found_before": totals[1], "found": totals[2], "gained": gained, "lost": lost,
        }  # fmt: skip

    def _ids(self, pipeline: FusionPipeline, asked: Asked) -> frozenset[str]:
        given = [one for one in asked.rankings if pipeline.weights is None or one.source in pipeline.weights]
        return frozenset(pipeline.decide(given, asked.context, reports=asked.reports).ids)

    def document(self, settings: object) -> bytes:
        """The pipeline of the settings, as ``FusionPipeline.save`` writes it."""
        return encode_document(KIND, VERSION, self.settled(settings).to_dict())


def _settings_of(pipeline: FusionPipeline) -> dict[str, Any]:
    """The pipeline's values of the settings on the page."""
    policy = pipeline.accept or AcceptancePolicy()

    def value(one: Any) -> float | None:
        number = getattr(one, "value", one)
        return None if number is None or not np.isfinite(number) else float(number)

    return {
        "rule": pipeline.rule,
        "weighting": pipeline.weighting,
        "weights": None if pipeline.weights is None else dict(pipeline.weights),
        "thresholds": {name: value(one) for name, one in policy.thresholds.items()},
        "final": value(policy.final),
        "common": value(policy.common),
        "confidence": None if policy.confidence is None else policy.confidence.min,
        "k": pipeline.k,
    }


_WEIGHTINGS = MappingProxyType(
    {
        "adaptive": "set for this question: a source counts more if other sources and the words of the texts agree",
        "equal": "equal for all sources",
        "roles": "by role: vector .25 and graph .75 if the walk states its background",
    }
)


def _why_weights(pipeline: FusionPipeline, result: Result) -> str:
    if pipeline.weights is not None:
        return "given, and divided by the sum over the sources that answered"
    if len(result.candidates.sources) < 2:
        return "one source answered"
    return _WEIGHTINGS[pipeline.weighting]


def _verdict(name: str, result: Result, everything: Result) -> list[str]:
    """Sentences on the place of a passage in the answer, and on what it lacks."""
    if name in result.ids:
        return [f"It is in the answer, at place {result.ids.index(name) + 1}."]
    if name not in everything.ids:
        return ["No fused list holds it: it could not be fused. It would have to come further up in one of them."]
    place, evidence = everything.ids.index(name) + 1, everything.evidence(name)
    said = [f"It is at place {place} of {len(everything)} candidates, with the score {evidence.score:.4f}."]
    outcome: Any = result.extras.get("acceptance")
    if outcome is not None and outcome.verdicts[result.candidates.ids.index(name)] <= 0:
        said.append("A threshold rejected it." if outcome.reason != "low_confidence" else "The confidence is too low.")
    elif result.ids:
        last = result.evidence(result.ids[-1])
        said.append(
            f"The last of the answer has {last.score:.4f}: fused {last.fused:.3f} against {evidence.fused:.3f}."
        )
        gaps = {
            one.source: theirs.contribution - one.contribution
            for one, theirs in zip(evidence.sources, last.sources, strict=True)
        }
        worst = max(gaps, key=lambda source: gaps[source])
        if gaps[worst] > 0:
            said.append(f"It lacks most in {worst}: a contribution lower by {gaps[worst]:.3f}.")
    return said
