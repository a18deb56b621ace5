"""The inspector's data: the start page, questions, their rankings, and the answers under other settings."""

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
from phasegraph._support.renamed import new_system
from phasegraph._support.serialization import encode_document
from phasegraph._support.validation import check_keys, check_query
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.acceptance.confidence import Confidence
from phasegraph.apps.inspector.collection import Collection
from phasegraph.apps.server.view import UNLIKELY
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.query_files import Query
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import KIND, VERSION, FusionPipeline
from phasegraph.fusion.renamed_sources import with_new_source_names
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.walk.walker import Embedder
from phasegraph.lexical import read_hits, tokenizer_of
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport
from phasegraph.result import Result, view_of
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sentences import label_of, path_labels, standings, tell
from phasegraph.sources.gatherer import Gatherer
from phasegraph.sources.settings import SourceSettings

OWN, OTHER = "own", "compared"
PRESETS = ("default", "reciprocal_rank", "min-max-sum", "z-score-sum", "convex", "paper", "paper-2wiki")
LIMIT = 50
"""Number of hits requested from every source."""
MOST_ASKED = 64
"""Maximum number of questions whose rankings are cached."""
LONGEST = 4000
"""Maximum length of a question in characters."""
MOST_FOUND = 20
"""Maximum number of passages that a search by text returns."""
MOST_OFFERED = 8
"""Maximum number of questions on the start page."""
_SETTINGS = ("pipeline", "weights", "thresholds", "final", "common", "confidence", "k")


@dataclass(eq=False)
class Asked:
    """A question with its rankings, the sources' reports, and the other data for the fusion (`context`).

    Changed settings are applied to these rankings without a new search.
    """

    question: str
    rankings: tuple[Ranking, ...]
    reports: tuple[SourceReport, ...]
    context: Context = field(repr=False)


class Inspector:
    """Answer questions over a saved index, and explain the answers for a page.

    Parameters
    ----------
    index : GraphIndex or ChunkGraph
        The index to search. Its sources are ``graph``, ``bm25`` if it has a word index, and ``vector`` if there is an
        `embedder`.
    name : str
        Title of the page.
    embedder : callable, optional
        Function from question to vector. Without it, the walk starts from names and words.
    passages : sequence of Passage
        The texts of a chunk graph, which stores only ids.
    pipeline : FusionPipeline, optional
        The first pipeline of the page; default: the default pipeline. If this pipeline has no weight for a source, the
        page shows the hits of the source without fusing them.
    compared : FusionPipeline, optional
        A second pipeline that can be chosen on the page.
    judged : sequence of Query
        Judged questions for the start page and for :meth:`flips`; the page marks their passages with a star.
    made : sequence of Query
        Questions generated from the passages; the start page lists them after the judged questions.
    command : str
        The command that the page shows if its server does not answer; "" if the page must not know the command.

    Raises
    ------
    InvalidInputError
        If an embedder is given but the index has no embeddings, if a chunk graph has neither an embedder nor passages,
        or if a pipeline's weights name no source of the index.
    """

    def __init__(
        self,
        index: GraphIndex | ChunkGraph,
        name: str,
        *,
        embedder: Embedder | None = None,
        passages: Sequence[Passage] = (),
        pipeline: FusionPipeline | None = None,
        compared: FusionPipeline | None = None,
        judged: Sequence[Query] = (),
        made: Sequence[Query] = (),
        command: str = "",
    ) -> None:
        self.collection = Collection.of(index, passages)
        graph = self.collection.graph
        if embedder is not None and graph.embeddings is None:
            raise InvalidInputError(
                "--embedder needs an index with embeddings, but this index has none: leave it out, or build another "
                "index with phasegraph index FILES --out NEW --embedder NAME"
            )
        if isinstance(index, ChunkGraph) and embedder is None and graph.lexical is None:
            raise InvalidInputError(
                "a chunk graph needs --embedder or --corpus, because the walk starts from the nearest chunks"
            )
        once = None if embedder is None else lru_cache(maxsize=256)(embedder)
        self.name, self.judged, self.made, self.command = name, tuple(judged), tuple(made), command
        self._gold = {query.text.strip(): query for query in (*self.made, *self.judged)}
        self._seeding = ("vector",) * (once is not None) + ("bm25",) * (isinstance(index, ChunkGraph) and not once)
        self.sources: dict[str, Any] = {"graph": self.collection.walker(once, self._seeding)}
        if graph.lexical is not None:
            self.sources["bm25"] = LexicalSource(graph)
        if once is not None:
            self.sources["vector"] = VectorSource(graph, embedder=once)
        own = FusionPipeline() if pipeline is None else pipeline
        given = {OWN: own} | ({} if compared is None else {OTHER: compared})
        named = {name: with_new_source_names(one, self.sources) for name, one in given.items()}
        for one in named.values():
            self._check(one)
        self.pipelines = named | {preset: one for preset in PRESETS if self._fits(one := FusionPipeline.named(preset))}
        self._gatherer = Gatherer(
            {one: SourceSettings(limit=LIMIT, depends_on=self._seeding * (one == "graph")) for one in self.sources},
            timeout=None,
        )
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._judged: list[tuple[Query, Asked]] | None = None
        self._all: tuple[str, dict[str, Ranking]] = ("", {})
        self._turn, self._judging = Lock(), Lock()
        self._tokenize = tokenizer_of("english" if graph.lexical is None else graph.lexical.tokenizer)

    def _fits(self, pipeline: FusionPipeline) -> bool:
        return pipeline.weights is None or any(pipeline.weights.get(name, 0) > 0 for name in self.sources)

    def _check(self, pipeline: FusionPipeline) -> None:
        if not self._fits(pipeline):
            raise InvalidInputError(
                f"the pipeline's weights must name at least one of {sorted(self.sources)}; they name "
                f"{sorted(pipeline.weights or ())}"
                + ("" if "vector" in self.sources else ": --embedder MODULE:OBJECT adds the source 'vector'")
            )

    # Data of the start page.

    def about(self) -> dict[str, Any]:
        """Describe the index for the start page of the inspector: size, sources with colors, pipelines, questions."""
        offered = [*((one, True) for one in self.judged), *((one, False) for one in self.made)]
        return {
            "name": self.name,
            "size": self.collection.size,
            "sources": [{"name": one, "colour": colour} for one, colour in source_colours(self.sources).items()],
            "no_vectors": self.collection.graph.embeddings is not None and "vector" not in self.sources,
            "limit": LIMIT,
            "pipelines": {name: _settings_of(one) for name, one in self.pipelines.items()},
            "judged": len(self.judged),
            "questions": [{"text": one.text, "judged": judged} for one, judged in offered[:MOST_OFFERED]],
            "command": self.command,
        }

    # Asking and deciding.

    def ask(self, question: object) -> Asked:
        """Return a question with its rankings, from the cache or from a new search."""
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
        words = read_hits(question, rankings, self.collection.content)
        context = Context(
            query=question, now=time.time(), words=words, embeddings=self._embeddings,
            metadata_of=lambda record: {"title": record.title, **record.metadata}, text_of=lambda record: record.text,
        )  # fmt: skip
        return Asked(question, rankings, found.reports, context)

    def _with_records(self, ranking: Ranking, paths: bool) -> Ranking:
        """Return a copy of a ranking with the passages as payloads; with `paths`, also with the paths of the walk.

        The paths are computed now, because a lazy path keeps the whole walk in memory.
        """
        records = [self.collection.records.get(name) for name in ranking.ids]
        return replace(ranking, payloads=Payloads(ranking.ids, records, dict(ranking.payloads) if paths else {}))

    def _embeddings(self, ids: Sequence[str]) -> Any:
        graph = self.collection.graph
        if graph.embeddings is None:
            raise InvalidInputError(
                "selection by redundancy needs an index with embeddings; this index has none: build it with "
                "--embedder, or choose another selection"
            )
        return np.asarray(graph.embeddings[[graph.passage_rows[name] for name in ids]], dtype=np.float64)

    def settled(self, settings: object) -> FusionPipeline:
        """Create the pipeline that the settings on the inspector's page describe.

        In `settings`, ``pipeline`` is a key of :attr:`pipelines`. ``weights`` and ``thresholds`` (by source),
        ``final``, ``common``, ``confidence`` and ``k`` replace the values of that pipeline. The value None removes a
        threshold, or restores the weights of the rule. Raise InvalidInputError for an unknown name or invalid value.
        """
        given = check_keys("settings", settings, _SETTINGS)
        name = given.get("pipeline", OWN)
        name = new_system(name) if isinstance(name, str) else name
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
        """Fuse the rankings of a question; return two results: the answer, and a ranking of all candidates.

        The ranking is made without acceptance and selection.
        """
        given = [one for one in asked.rankings if pipeline.weights is None or one.source in pipeline.weights]
        result = pipeline.decide(given, asked.context, reports=asked.reports)
        plain = replace(pipeline, accept=None, selection=None)
        return result, plain.decide(given, asked.context, reports=asked.reports, k=len(result.candidates))

    def view(self, question: object, settings: object) -> dict[str, Any]:
        """Return the data of :func:`phasegraph.result.view_of` with sentences, and the inspector's additional data.

        The additional keys are ``pipeline``, ``settings``, ``why_weights``, ``unlikely``, ``gold``, ``made`` and
        ``missed``. ``why_weights`` says how the weights of the sources were determined. ``unlikely`` is true if the
        answer is probably not in the collection, and ``made`` if the question was generated. For a judged question,
        ``gold`` has an entry per hop: the ``passages`` of the hop, and ``found``, which is true if the answer contains
        such a passage. ``missed`` has one passage for each hop that the answer lacks, with ``id``, ``label``,
        ``text`` and ``why``. The walks of the rows also have ``relations``, a text for each step.
        """
        pipeline, asked = self.settled(settings), self.ask(question)
        result, everything = self.decide(asked, pipeline)
        read = self.collection.read
        found = tell(view_of(result, asked.question, everything=everything, rankings=asked.rankings, read=read))
        for row in found["rows"]:
            if row["walk"] is not None:
                row["walk"]["relations"] = self.collection.relations(row["walk"]["path"])
        confidence = found["confidence"]
        return found | {
            "pipeline": dict(settings).get("pipeline", OWN) if isinstance(settings, Mapping) else OWN,
            "settings": _settings_of(pipeline),
            "why_weights": _why_weights(pipeline, result),
            "unlikely": confidence is not None and confidence < UNLIKELY,
            **self._judgement(asked.question, found["rows"]),
        }

    def _judgement(self, question: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the keys ``gold``, ``made`` and ``missed`` of the result of :meth:`view`.

        `rows` are the candidates, the value of its key ``rows``. For a question without a judgement, ``gold`` and
        ``missed`` are empty, and ``made`` is False.
        """
        query = self._gold.get(question)
        hops = [] if query is None else query.judgement.hops
        answer = {row["id"] for row in rows if row["position"]}
        places = {row["id"]: place for place, row in enumerate(rows, start=1)}
        missed = []
        for hop in hops:
            if answer.isdisjoint(hop):
                name = min(hop, key=lambda one: places.get(one, len(places) + 1))
                title, text = self.collection.read(name)
                why = f"No source returned this passage among its first {LIMIT} hits."
                if name in places:
                    ranks = {source: one["rank"] for source, one in rows[places[name] - 1]["sources"].items()}
                    why = f"Rank {places[name]} of {len(rows)} candidates: {', '.join(standings(ranks))}."
                missed.append({"id": name, "label": label_of(name, title, text), "text": text, "why": why})
        return {
            "gold": [{"passages": list(hop), "found": not answer.isdisjoint(hop)} for hop in hops],
            "made": query is not None and query not in self.judged,
            "missed": missed,
        }

    # Why not this passage?

    def find(self, needle: object) -> list[dict[str, str]]:
        """Return the passage with the id `needle`, as a list of one.

        If there is no such passage, return at most 20 passages whose id, title or text contains `needle`; [] if none
        does.
        """
        if not isinstance(needle, str) or not needle.strip():
            raise InvalidInputError(
                f"the search for a passage needs its id, or words of its title or text; got {needle!r:.80}"
            )
        text = needle.strip()
        records = self.collection.records
        if text in self.collection.graph.passage_rows:
            return [self._named(text)]
        low, found = text.lower(), []
        for record in records.values():
            if low in record.id.lower() or low in record.title.lower() or low in record.text.lower():
                found.append(self._named(record.id))
                if len(found) == MOST_FOUND:
                    break
        return found

    def _named(self, name: str) -> dict[str, str]:
        title, text = self.collection.read(name)
        return {"id": name, "title": title, "text": text, "label": label_of(name, title, text)}

    def why_not(self, question: object, settings: object, name: object) -> dict[str, Any]:
        """Explain why the passage with the id `name` is, or is not, in the answer to a question under `settings`.

        In the result, ``sources`` has the passage's rank in each source, among all passages, and ``said`` has sentences
        about its fused value. ``words`` and ``lacking`` are the words of the question that the passage contains and
        lacks.
        """
        if not isinstance(name, str) or name not in self.collection.graph.passage_rows:
            raise InvalidInputError(f"the passage {name!r:.80} does not exist: check the id")
        pipeline, asked = self.settled(settings), self.ask(question)
        result, everything = self.decide(asked, pipeline)
        there = {one.source: one for one in asked.rankings}
        sources = {one: self._standing(asked, one, there.get(one), name) for one in self.sources}
        words = list(dict.fromkeys(self._tokenize(asked.question)))
        words = words if name in self.collection.records else []
        held = set(self._tokenize(self.collection.content(name)))
        lines = _verdict(name, result, everything)
        return self._named(name) | {
            "sources": sources,
            "words": [word for word in words if word in held],
            "lacking": [word for word in words if word not in held],
            "walk": sources["graph"].pop("walk"),
            "said": lines,
        }

    def _standing(self, asked: Asked, source: str, listed: Ranking | None, name: str) -> dict[str, Any]:
        """Describe the place of the passage `name` in a source: rank, score, and whether it is a hit of the source.

        The rank counts all passages that the source ranks. It is None if the source does not rank the passage. `listed`
        is the ranking that the source returned, or None.
        """
        whole = self._ranked_all(asked)[source]
        row, cut = whole.positions.get(name), 0 if listed is None else len(listed)
        state: dict[str, Any] = {"rank": None, "score": None, "of": len(whole), "listed": False, "last": None}
        if cut and listed is not None:
            state["last"] = float(listed.scores[-1])
        state["listed"] = listed is not None and name in listed.positions
        if source == "graph":
            steps = whole.payloads.get(name)
            path = getattr(steps, "path", ())
            steps = [[one.kind, one.name] for one in path] if row is not None else []
            state["walk"] = path_labels(steps, self.collection.read)
        if row is None:
            why = {"bm25": "the passage contains no word of the question", "graph": "the walk does not reach it"}
            return state | {"said": why.get(source, whole.reason or "the source does not rank it")}
        state |= {"rank": row + 1, "score": float(whole.scores[row])}
        if state["listed"]:
            return state | {"said": f"among the {cut} hits of the source"}
        return state | {
            "said": f"not among the {LIMIT} requested hits of the source; the last of them has the score "
            f"{state['last']:.4g}"
        }

    def _ranked_all(self, asked: Asked) -> dict[str, Ranking]:
        """Rank all passages by each source; return the rankings by source name.

        Only the rankings of the last question are cached, because they are long.
        """
        question, found = self._all
        if question != asked.question:
            upstream = {one.source: one for one in asked.rankings}
            found = {name: one.search(asked.question, None, upstream) for name, one in self.sources.items()}
            self._all = (asked.question, found)
        return found

    # Judged questions.

    def prepare(self, progress: Callable[[Iterable[Any], str], Iterable[Any]] = lambda items, _: items) -> None:
        """Search all sources once for each judged question, and store the rankings without the walks' paths."""
        with self._judging:
            if self._judged is None:
                self._judged = [
                    (query, self._gather(query.text, paths=False))
                    for query in progress(self.judged, "judged questions")
                ]

    def flips(self, settings: object, before: object) -> dict[str, Any]:
        """Compare two settings: return the judged questions that gain or lose a gold passage among the first k.

        In the result, ``questions`` is the number of judged questions, and ``gold`` the number of all their gold
        passages. ``k`` and ``k_before`` are the numbers of results under `settings` and under `before`. ``found`` and
        ``found_before`` are the numbers of gold passages among these results. Each entry of the lists ``gained`` and
        ``lost`` is a question: its ``id``, its text ``question``, and its gained or lost ``passages``. Each of these
        passages has an ``id`` and a ``title``.
        """
        if not self.judged:
            raise InvalidInputError("there are no judged questions: restart with --judged QUESTIONS.jsonl")
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
                    told = [{"id": name, "title": self.collection.read(name)[0]} for name in sorted(names)]
                    where.append({"id": query.id, "question": query.text, "passages": told})
        return {
            "questions": len(self.judged), "k": new.k, "k_before": old.k, "gold": totals[0],
            "found_before": totals[1], "found": totals[2], "gained": gained, "lost": lost,
        }  # fmt: skip

    def _ids(self, pipeline: FusionPipeline, asked: Asked) -> frozenset[str]:
        given = [one for one in asked.rankings if pipeline.weights is None or one.source in pipeline.weights]
        return frozenset(pipeline.decide(given, asked.context, reports=asked.reports).ids)

    def document(self, settings: object) -> bytes:
        """Return the pipeline that `settings` describe, as a file in the format of ``FusionPipeline.save``."""
        return encode_document(KIND, VERSION, self.settled(settings).to_dict())


def _settings_of(pipeline: FusionPipeline) -> dict[str, Any]:
    """Return a pipeline's value for each setting on the inspector's page, by name; None if a value is not set."""
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
        "adaptive": "set for this question: a source counts more if other sources and the words of its hits agree with "
        "it",
        "equal": "equal for all sources",
        "roles": "by role: vector 0.25 and graph 0.75 if the walk states its score background",
    }
)


def _why_weights(pipeline: FusionPipeline, result: Result) -> str:
    if pipeline.weights is not None:
        return "fixed by the settings, divided by their sum over the sources that answered"
    if len(result.candidates.sources) < 2:
        return "only one source answered"
    return _WEIGHTINGS[pipeline.weighting]


def _verdict(name: str, result: Result, everything: Result) -> list[str]:
    """Return sentences that say at which rank the passage `name` is, and why it is not in the answer.

    `everything` is the ranking of all candidates. For a passage outside the answer, the sentences compare its fused
    value with that of the answer's last passage. They also name the source with the largest difference in contribution
    to the two fused values.
    """
    if name in result.ids:
        return [f"The passage is in the answer, at rank {result.ids.index(name) + 1}."]
    if name not in everything.ids:
        return [
            "No fused source returned the passage, so it has no fused value. It must rank higher in one of the sources."
        ]
    place, evidence = everything.ids.index(name) + 1, everything.evidence(name)
    said = [f"The passage has rank {place} of {len(everything)} candidates, with the score {evidence.score:.4f}."]
    outcome: Any = result.extras.get("acceptance")
    if outcome is not None and outcome.verdicts[result.candidates.ids.index(name)] <= 0:
        said.append(
            "A threshold rejected the passage."
            if outcome.reason != "low_confidence"
            else "The confidence of the answer is below the threshold."
        )
    elif result.ids:
        last = result.evidence(result.ids[-1])
        said.append(
            f"The last passage of the answer has {last.score:.4f}: fused {last.fused:.3f} against {evidence.fused:.3f}."
        )
        gaps = {
            one.source: theirs.contribution - one.contribution
            for one, theirs in zip(evidence.sources, last.sources, strict=True)
        }
        worst = max(gaps, key=lambda source: gaps[source])
        if gaps[worst] > 0:
            said.append(
                f"The largest difference is in the contribution of {worst}, which is lower by {gaps[worst]:.3f}."
            )
    return said
