"""The passages that one caller may see, and the answers to the caller's requests as JSON types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from time import time
from typing import Any

import numpy as np

from phasegraph._support.clock import Deadline
from phasegraph._support.typing import Float32Array
from phasegraph._support.validation import check_count, check_names, check_query
from phasegraph.apps.server.json_answers import answer_json
from phasegraph.errors import InvalidInputError, PhasegraphError, StoreError
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import PassageRecord, PassageRecords
from phasegraph.graph.walk.paths import WalkPath
from phasegraph.lexical import read_hits
from phasegraph.result import WHY_EMPTY, Evidence, Result
from phasegraph.retrieval.access import LONGEST_TEXT
from phasegraph.retrieval.plain_filters import Filter, lets_through
from phasegraph.retrieval.provenance import plain
from phasegraph.sources import Gatherer, SourceSettings
from phasegraph.sources.settings import CALL_TIMEOUT
from phasegraph.sources.workers import Late, within

MOST_RESULTS, MOST_IDS, LONGEST_QUERY = 100, 100, 4_000
"""The limits of a request: maximum passages per answer, ids per request, and (default) characters of a query."""
UNLIKELY = 0.2
"""Confidence below which an answer is probably not in the collection, with default confidences from cosines."""


class PassingIds:
    """A cache of the ids of the passages that match each of `filters`; only changed passages are tested again."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self._base: Collection[str] = ()
        self._packed: list[frozenset[str]] = []

    def of(self, records: PassageRecords) -> list[frozenset[str]]:
        """Return, for each filter, the set of the ids of the passages in `records` that match it."""
        held = records.held
        if records.base is not self._base or not self._packed:
            packed = ((name, metadata) for name, _, metadata in records.contents())
            self._base, self._packed = records.base, self._passing(packed)
        changed = self._passing((name, one.metadata) for name, one in held.items())
        return [
            frozenset(name for name in base if name in records and name not in held) | more
            for base, more in zip(self._packed, changed, strict=True)
        ]

    def _passing(self, passages: Iterable[tuple[str, Mapping[str, Any]]]) -> list[frozenset[str]]:
        found: list[list[str]] = [[] for _ in self._filters]
        for name, metadata in passages:
            for only, names in zip(self._filters, found, strict=True):
                if lets_through(only, metadata):
                    names.append(name)
        return [frozenset(names) for names in found]


class View:
    """The passages of an index that one caller may see; hidden passages have no effect on any answer.

    `embed` is the embedding function, from text to vector, of the model that embedded the passages. Without it, the
    search uses only names and words. `only` is the metadata that a passage must have (:func:`check_filter`); None shows
    all passages. `ids` are the ids of the passages that match `only`, if already known. `pipeline` fuses the sources;
    None means the default pipeline. `timeout` is the time limit of an answer in seconds. `max_query_length` is the
    maximum number of characters of a query, because a long query costs much processor time. `metadata` are the keys of
    the metadata that the answers contain.
    """

    def __init__(
        self,
        index: GraphIndex,
        embed: Callable[[str], Any] | None = None,
        *,
        only: Filter | None = None,
        ids: Collection[str] | None = None,
        pipeline: FusionPipeline | None = None,
        timeout: float | None = CALL_TIMEOUT,
        max_query_length: int = LONGEST_QUERY,
        metadata: Sequence[str] = (),
    ) -> None:
        if embed is not None and index.graph.view.embeddings is None:
            raise InvalidInputError(
                "an embedder needs an index with embeddings; this index has none: leave out the embedder, or build "
                "the index with embeddings"
            )
        self._records: Mapping[str, PassageRecord] = index.records
        self._ids: Collection[str] = index.records
        if only is not None:
            self._ids = PassingIds([only]).of(index.records)[0] if ids is None else ids
        corpus = Corpus(index, None if embed is None else _once(embed))
        sources: dict[str, Any] = {"graph": corpus.graph}
        if index.graph.view.lexical is not None:
            sources["bm25"] = corpus.bm25
        if embed is not None:
            sources["vector"] = corpus.vector
        if only is not None:
            sources = {name: source.within(self._ids) for name, source in sources.items()}
        self._sources = sources
        depends = {"graph": ("vector",)} if embed is not None else {}
        settings = {name: SourceSettings(depends_on=depends.get(name, ())) for name in sources}
        self._gatherer = Gatherer(settings, timeout=timeout, max_query_length=max_query_length)
        self._timeout, self._longest = timeout, max_query_length
        self._pipeline = pipeline or FusionPipeline()
        self._metadata = metadata

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def has_vectors(self) -> bool:
        """Whether the search compares vectors, and not only names and words."""
        return "vector" in self._sources

    def search(self, query: str, k: int = 5) -> dict[str, Any]:
        """Find the best k passages (1 to 100) for a query of at most `max_query_length` characters.

        The result has ``passages`` (id, title, text, chosen metadata, score in [0, 1]) and ``warnings``. ``degraded``
        is True if a source failed, was skipped, or searched only in part; ``warnings`` then names the source.
        ``confidence``, in [0, 1], estimates whether the passages contain an answer. ``reason`` says why there are no
        passages.
        """
        result = self._ask(query, k)
        return self._told(result, [self._passage(name) for name in result.ids])

    def explain(self, query: str, k: int = 5) -> dict[str, Any]:
        """Return the result of :meth:`search`, with an explanation of the answer.

        Each passage also has its score, calibrated value and contribution for each source, and the paths of the graph
        walk to the passage. The result also has ``confidence_evidence``, ``agreement`` (a share for each pair of
        sources) and ``sources`` (a report per source).
        """
        result = self._ask(query, k)
        passages = [self._passage(name) | as_passage(result.evidence(name)) for name in result.ids]
        fields = ("source", "status", "reason", "hits", "calibration", "milliseconds")
        return self._told(result, passages) | {
            "confidence_evidence": plain(asdict(result.confidence_evidence)),
            "agreement": {f"{one} in {other}": share for (one, other), share in result.agreement.items()},
            "sources": [{name: getattr(one, name) for name in fields} for one in result.reports],
        }

    def passages(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the id, title and text of each passage with one of these ids, as the list ``passages``.

        The list ``missing`` has the ids that do not exist or that the caller may not see.
        """
        wanted = check_names("ids", ids)
        if not 1 <= len(wanted) <= MOST_IDS:
            raise InvalidInputError(f"ids must contain 1 to {MOST_IDS} ids; got {len(wanted)}")
        return {
            "passages": [self._passage(name) for name in wanted if name in self._ids],
            "missing": [name for name in wanted if name not in self._ids],
        }

    def answer(self, method: str, body: bytes) -> str:
        """Answer a JSON request with the method `method`, such as "search"; see :func:`answer_json`."""
        return answer_json(self, method, body)

    def _ask(self, query: str, k: int) -> Result:
        check_query(query)
        if len(query) > self._longest:
            raise InvalidInputError(
                f"query must have at most {self._longest:,} characters; got {len(query):,}. Shorten the query, or give "
                "the server a larger --max-query-length"
            )
        if check_count("k", k, minimum=1) > MOST_RESULTS:
            raise InvalidInputError(f"k must be at most {MOST_RESULTS}; got {k}")
        deadline = Deadline.after(self._gatherer.clock, self._timeout)
        try:
            found = self._gatherer.gather(self._sources, query)
        except PhasegraphError as error:
            raise StoreError(f"no source could answer: {error}") from error

        late: tuple[str, ...] = ()
        try:
            words = within(lambda: read_hits(query, found.rankings, self._read), deadline)
        except Late:
            words, late = None, ("the passage texts were not read in time, so the confidence ignores their words",)
        context = Context(query=query, now=time(), words=words)
        result = self._pipeline.decide(found.rankings, context, reports=found.reports, k=k)
        return replace(result, warnings=(*result.warnings, *late))

    def _read(self, name: str) -> str:
        record = self._records[name]
        return record.content[:LONGEST_TEXT]

    def _passage(self, name: str) -> dict[str, Any]:
        record = self._records[name]
        told: dict[str, Any] = {"id": name, "title": record.title, "text": record.text}
        if self._metadata:
            told["metadata"] = plain({key: record.metadata[key] for key in self._metadata if key in record.metadata})
        return told

    def _told(self, result: Result, passages: list[dict[str, Any]]) -> dict[str, Any]:
        failed = [
            f"source {one.source!r}: {one.status}" + f" ({one.reason})" * bool(one.reason)
            for one in result.reports
            if one.degraded
        ]
        scored = [one | {"score": score} for one, score in zip(passages, result.scores.tolist(), strict=True)]
        return {
            "passages": scored,
            "confidence": result.confidence,
            "reason": WHY_EMPTY.get(result.reason, result.reason),
            "degraded": result.degraded,
            "warnings": [*result.warnings, *failed],
        }


def _once(embed: Callable[[str], Any]) -> Callable[[str], Float32Array]:
    """Return an embedding function that caches vectors, because several sources embed the same query."""

    @lru_cache(maxsize=64)
    def asked(query: str) -> Float32Array:
        vector: Float32Array = np.asarray(embed(query), dtype=np.float32)
        vector.setflags(write=False)
        return vector

    return asked


def as_passage(evidence: Evidence) -> dict[str, Any]:
    """Return the evidence for one passage as JSON types."""
    fields = ("source", "rank", "raw", "score", "calibrated", "weight", "contribution")
    return {
        "id": evidence.id,
        "position": evidence.position,
        "score": evidence.score,
        "fused": evidence.fused,
        "bonus": evidence.bonus,
        "prior": evidence.prior,
        "sources": [{name: getattr(one, name) for name in fields} for one in evidence.sources],
        "paths": paths_of(evidence),
    }


def paths_of(evidence: Evidence) -> list[str]:
    """Return one line per source with the path of its walk to a passage."""
    found = [(one.source, _path_of(one.payload)) for one in evidence.sources]
    return [f"{source}: {path}" for source, path in found if path]


def _path_of(payload: object) -> str:
    """Return a walk's path as text; `payload` is a WalkPath, or a document whose metadata contains the path."""
    if isinstance(payload, WalkPath):
        return str(payload)
    metadata = getattr(payload, "metadata", None)
    block = metadata.get("phasegraph") if isinstance(metadata, dict) else None
    steps = block.get("path", []) if isinstance(block, dict) else []
    return " > ".join(f"[{name}]" if kind == "passage" else name for kind, name in steps)
