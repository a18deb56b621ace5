"""What one caller may see of a folder's passages, and the answers to what he asks, in JSON's types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from time import monotonic, time
from typing import Any

import numpy as np

from phasegraph._typing import Float32Array
from phasegraph._validation import check_count, check_names, check_query
from phasegraph.errors import InvalidInputError, PhasegraphError, StoreError
from phasegraph.graph.corpus import Corpus
from phasegraph.graph.index import GraphIndex
from phasegraph.graph.records import PassageRecord
from phasegraph.graph.source import WalkPath
from phasegraph.lexical import read_hits
from phasegraph.pipeline import FusionPipeline
from phasegraph.priors import Context
from phasegraph.result import WHY_EMPTY, Evidence, Result
from phasegraph.retrieval.provenance import plain
from phasegraph.retrieval.reading import LONGEST_TEXT
from phasegraph.sources import Gatherer, SourceSettings
from phasegraph.sources.workers import Late, awithin

MOST_RESULTS, MOST_IDS, LONGEST_QUERY = 100, 100, 20_000
"""Limits of a request: passages of an answer, ids asked for at once, characters of a query."""
_FOREVER = 1e6

Filter = Mapping[str, Any]


def check_filter(name: str, value: object) -> Filter:
    """A filter: metadata keys to the value a passage must have, or to a list of values of which it must have one."""
    if not isinstance(value, Mapping) or not value:
        raise InvalidInputError(f"{name} must map metadata keys to values, and hold one at least; got {value!r:.80}")
    for key, wanted in value.items():
        options = wanted if isinstance(wanted, list) else [wanted]
        plain = all(isinstance(one, str | int | float) and one == one for one in options)
        if not isinstance(key, str) or not options or not plain:
            raise InvalidInputError(
                f"{name}[{key!r}] must be a text, a number, true or false, or a list of these; got {wanted!r:.80}"
            )
    return value


def lets_through(only: Filter, metadata: Mapping[str, Any]) -> bool:
    """Whether a filter lets a passage through; one that lacks a key never is.

    >>> lets_through({"team": ["red", "blue"]}, {"team": "red"}), lets_through({"team": "red"}, {})
    (True, False)
    >>> lets_through({"level": 1}, {"level": True})
    False
    """

    def same(one: object, other: object) -> bool:
        return one == other and isinstance(one, bool) == isinstance(other, bool)

    return all(
        key in metadata and any(same(metadata[key], one) for one in (wanted if isinstance(wanted, list) else [wanted]))
        for key, wanted in only.items()
    )


class View:
    """The passages of an index that one caller may see; what he may not is as if it had never been there.

    `embed` is the model that embedded the passages, a function from text to vector; without it names and words alone
    are looked for. `only` is metadata that a passage must have (:func:`check_filter`), `timeout` the seconds an answer
    may take.
    """

    def __init__(
        self,
        index: GraphIndex,
        embed: Callable[[str], Any] | None = None,
        *,
        only: Filter | None = None,
        pipeline: FusionPipeline | None = None,
        timeout: float | None = 10.0,
    ) -> None:
        if embed is not None and index.graph.view.embeddings is None:
            raise InvalidInputError("an embedder is of use with an index that has embeddings; this one has none")
        self._records: Mapping[str, PassageRecord] = index.records
        self._ids: Collection[str] = index.records
        if only is not None:
            self._ids = frozenset(name for name, one in index.records.items() if lets_through(only, one.metadata))
        corpus = Corpus(index, None if embed is None else _once(embed))
        sources: dict[str, Any] = {"graph": corpus.graph}
        if index.graph.view.lexical is not None:
            sources["lexical"] = corpus.lexical
        if embed is not None:
            sources["vector"] = corpus.vector
        if only is not None:
            sources = {name: source.within(self._ids) for name, source in sources.items()}
        self._sources = sources
        depends = {"graph": ("vector",)} if embed is not None else {}
        settings = {name: SourceSettings(depends_on=depends.get(name, ())) for name in sources}
        self._gatherer, self._timeout = Gatherer(settings, timeout=timeout), timeout
        self._pipeline = pipeline or FusionPipeline()

    def __len__(self) -> int:
        return len(self._ids)

    async def search(self, query: str, k: int = 5) -> dict[str, Any]:
        """The best k passages (1 to 100) for a query of at most 20,000 characters.

        ``passages`` (id, title, text, score in [0, 1]), ``confidence`` in [0, 1] that the passages hold an answer,
        ``reason`` where there are none, ``degraded`` and ``warnings``.
        """
        result = await self._ask(query, k)
        return self._told(result, [self._passage(name) for name in result.ids])

    async def explain(self, query: str, k: int = 5) -> dict[str, Any]:
        """As :meth:`search`, with what each source gave, how it was read, and the path to each passage."""
        result = await self._ask(query, k)
        passages = [self._passage(name) | as_passage(result.evidence(name)) for name in result.ids]
        fields = ("source", "status", "reason", "hits", "calibration", "milliseconds")
        return self._told(result, passages) | {
            "confidence_evidence": plain(asdict(result.confidence_evidence)),
            "agreement": {f"{one} in {other}": share for (one, other), share in result.agreement.items()},
            "sources": [{name: getattr(one, name) for name in fields} for one in result.reports],
        }

    def passages(self, ids: Sequence[str]) -> dict[str, Any]:
        """Passages by id; ``missing`` are those that there are not, or that the caller may not see."""
        wanted = check_names("ids", ids)
        if not 1 <= len(wanted) <= MOST_IDS:
            raise InvalidInputError(f"ids must be 1 to {MOST_IDS}; got {len(wanted)}")
        return {
            "passages": [self._passage(name) for name in wanted if name in self._ids],
            "missing": [name for name in wanted if name not in self._ids],
        }

    async def _ask(self, query: str, k: int) -> Result:
        check_query(query)
        if len(query) > LONGEST_QUERY:
            raise InvalidInputError(f"query must have at most {LONGEST_QUERY:,} characters; got {len(query):,}")
        if check_count("k", k, minimum=1) > MOST_RESULTS:
            raise InvalidInputError(f"k must be at most {MOST_RESULTS}; got {k}")
        end = monotonic() + (_FOREVER if self._timeout is None else self._timeout)
        try:
            found = await self._gatherer.agather(self._sources, query)
        except PhasegraphError as error:
            raise StoreError(f"no source could answer: {error}") from error

        late: tuple[str, ...] = ()
        try:  # on a worker, or everybody else would wait meanwhile
            words = await awithin(lambda: read_hits(query, found.rankings, self._read), end - monotonic())
        except Late:
            words, late = None, ("the passages were not read in time: the confidence is without their words",)
        context = Context(query=query, now=time(), words=words)
        result = self._pipeline.decide(found.rankings, context, reports=found.reports, k=k)
        return replace(result, warnings=(*result.warnings, *late))

    def _read(self, name: str) -> str:
        record = self._records[name]
        return record.content[:LONGEST_TEXT]

    def _passage(self, name: str) -> dict[str, Any]:
        record = self._records[name]
        return {"id": name, "title": record.title, "text": record.text}

    def _told(self, result: Result, passages: list[dict[str, Any]]) -> dict[str, Any]:
        scored = [one | {"score": score} for one, score in zip(passages, result.scores.tolist(), strict=True)]
        return {
            "passages": scored,
            "confidence": result.confidence,
            "reason": WHY_EMPTY.get(result.reason, result.reason),
            "degraded": result.degraded,
            "warnings": list(result.warnings),
        }


def _once(embed: Callable[[str], Any]) -> Callable[[str], Float32Array]:
    """The same model, asked once for a query that several sources embed."""

    @lru_cache(maxsize=64)
    def asked(query: str) -> Float32Array:
        vector: Float32Array = np.asarray(embed(query), dtype=np.float32)
        vector.setflags(write=False)
        return vector

    return asked


def as_passage(evidence: Evidence) -> dict[str, Any]:
    """What is known of one passage of a result, as JSON types."""
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
    """One line for every source that says by which path it came to a passage."""
    found = [(one.source, _path_of(one.payload)) for one in evidence.sources]
    return [f"{source}: {path}" for source, path in found if path]


def _path_of(payload: object) -> str:
    """The path a walk left in a payload: its own, or what a framework's document carries of it."""
    if isinstance(payload, WalkPath):
        return str(payload)
    metadata = getattr(payload, "metadata", None)
    block = metadata.get("phasegraph") if isinstance(metadata, dict) else None
    steps = block.get("path", []) if isinstance(block, dict) else []
    return " > ".join(f"[{name}]" if kind == "passage" else name for kind, name in steps)
