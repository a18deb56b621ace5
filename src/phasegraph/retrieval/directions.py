"""Find the direction of a source's scores (higher or lower is better): declared, known from the store, or inferred."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from phasegraph._support.numbers import all_true, as_floats
from phasegraph._support.typing import FloatArray
from phasegraph.retrieval.once import Once

_TELLING_HITS = 3

_SURE = 40.0
"""Maximum evidence for a direction: ln n! for about twenty hits. Later answers can outweigh this evidence."""

_INNER_PRODUCT = 0

Known: TypeAlias = bool | Callable[[object], bool | None]


def infer_direction(scores: Sequence[object], /) -> bool | None:
    """Infer from scores in the store's order, best first, whether a higher score is better.

    Values that are not finite numbers are ignored. Return None if there are fewer than two distinct scores, or if the
    scores neither fall nor rise throughout.

    >>> infer_direction([0.9, 0.5, 0.5]), infer_direction([0.002, 0.586, 3.96]), infer_direction([1.0, 1.0])
    (True, False, None)
    """
    values = _finite(scores)
    if not len(values) or values[0] == values[-1]:
        return None
    falls = bool(values[0] > values[-1])
    before, after = (values[:-1], values[1:]) if falls else (values[1:], values[:-1])
    return falls if all_true(before >= after) else None


def known_direction(store: object, /) -> bool | None:
    """Return True if a higher score of the store is better, False if a lower one is better; None if unknown.

    The frameworks can differ for the same store: LlamaIndex converts the distances of Postgres and Chroma into
    similarities, but LangChain returns the distances.
    """
    for kind in type(store).__mro__:
        root = kind.__module__.partition(".")[0]
        framework = "llama_index" if root.startswith("llama_index") else "langchain"
        if not root.startswith(("langchain", "llama_index")):
            continue
        known = _STORES[framework].get(kind.__name__)
        if known is not None:
            return known if isinstance(known, bool) else known(store)
    return None


class Direction:
    """The direction of one source's scores: declared, known from the store's class, or inferred and remembered.

    Every ordered answer is evidence for a direction. The weight of an answer with n distinct scores is ln n!, because n
    scores in random order fall throughout with probability 1/n!. The direction with more evidence is used. A warning
    reports the first change of an inferred direction. Another warning reports the first answer of at least three hits
    in an order that contradicts the declared direction. Equal scores need no direction. The object is thread-safe.

    >>> direction = Direction()
    >>> direction.of([0.1, 0.2, 0.4])
    (False, 'lower is better: inferred from the order of its scores')
    >>> direction.of([0.3])
    (False, 'lower is better: inferred from the order of its scores')
    """

    __slots__ = ("_agreed", "_declared", "_known", "_lead", "_once", "_reported", "_source")

    def __init__(self, declared: bool | None = None, known: bool | None = None, source: str = "") -> None:
        self._declared = declared
        self._known = known
        self._lead = 0.0  # evidence for "higher is better" minus evidence for the opposite
        self._reported: bool | None = None
        self._agreed = False
        self._source, self._once = source, Once()

    @property
    def higher_is_better(self) -> bool | None:
        """True if a higher score is better, according to declaration, store or evidence so far; None if unknown."""
        if self.stated is not None:
            return self.stated
        return self._lead > 0 if self._lead else None

    @property
    def stated(self) -> bool | None:
        """The direction that is declared or known from the store's class; None if it must be inferred."""
        return self._known if self._declared is None else self._declared

    def of(self, scores: Sequence[object]) -> tuple[bool | None, str]:
        """Return the direction of scores in the source's order, and a note for the report.

        The direction is True if a higher score is better, False if a lower score is better, and None if it is unknown.
        """
        if self._declared is not None:
            return self._declared, self._doubt(self._declared, scores)
        if self._known is not None:
            return self._known, _note(self._known, "known for this store")
        found = None if self._is_sure_of(scores) else infer_direction(scores)
        if found is not None:
            self._learn(found, scores)
        if not self._lead:
            if found is None and not len(_finite(scores)):
                return True, "none of its scores is a number"
            if found is None and not _differ(scores):
                return True, "uninformative: its scores do not differ"
            return None, "rank only: its scores do not tell whether higher or lower is better; declare it"
        higher = self._lead > 0
        self._say_turned(higher)
        opposite = found is not None and found is not higher
        return higher, _note(
            higher,
            "inferred from the order of its scores" + " in earlier answers; the order of this answer says the "
            "opposite" * opposite,
        )

    def warn_of_none(self) -> None:
        """Warn once that the order of the source's hits has no meaning."""
        self._once.warn(
            f"source {self._source!r} returns its hits without an order: all its hits get the same rank",
            key="unordered",
        )

    def falls(self, scores: Sequence[object]) -> bool:
        """Return True if the source returns its highest score first, according to `scores` and all earlier answers."""
        if not _differ(scores):
            return self._lead >= 0
        self._learn(infer_direction(scores) is True, scores)
        return self._lead > 0

    def _is_sure_of(self, scores: Sequence[object]) -> bool:
        """Return True if the direction is known with the highest certainty, and the first and last score agree with it.

        Such scores need not be examined.
        """
        if abs(self._lead) < _SURE or len(scores) < 2:
            return False
        first, last = (scores[0], scores[-1]) if self._lead > 0 else (scores[-1], scores[0])
        return isinstance(first, float) and isinstance(last, float) and math.inf > first > last > -math.inf

    def _learn(self, higher: bool, scores: Sequence[object]) -> None:
        weight = math.lgamma(len(np.unique(_finite(scores))) + 1)
        self._lead = min(max(self._lead + (weight if higher else -weight), -_SURE), _SURE)

    def _say_turned(self, higher: bool) -> None:
        """Warn once if the inferred direction is the opposite of the direction used before.

        `higher` is the inferred direction: True if a higher score is better.
        """
        if self._reported is not None and self._reported is not higher:
            self._once.warn(
                f"source {self._source!r}: {_note(higher, 'inferred from all answers so far')}; earlier answers were "
                "read in the opposite direction: declare fields=HitFields(higher_is_better=...)",
                key="turned",
            )
        self._reported = higher

    def _doubt(self, declared: bool, scores: Sequence[object]) -> str:
        """Return a note if the order of the scores contradicts the declaration, else "".

        `declared` is True if a higher score is declared to be better, and False if a lower score is. After the first
        answer that agrees with the declaration, no further answer is checked.
        """
        if self._agreed or len(scores) < _TELLING_HITS:
            return ""
        found = infer_direction(scores)
        self._agreed = found is declared
        if found is None or found is declared:
            return ""
        note = f"declared higher_is_better={declared}, but the order of its scores says the opposite"
        self._once.warn(f"source {self._source!r}: {note}; the declared direction is used", key="contradicted")
        return f"{note}; the declared direction was used"


def _finite(scores: Sequence[object]) -> FloatArray:
    """Return the finite scores in the source's order."""
    values = as_floats(scores)
    usable = np.isfinite(values)
    return values if all_true(usable) else values[usable]


def _differ(scores: Sequence[object]) -> bool:
    values = _finite(scores)
    return bool((values != values[:1]).any())


def _note(higher: bool, origin: str) -> str:
    return f"{'higher' if higher else 'lower'} is better: {origin}"


def _faiss(attribute: str) -> Callable[[object], bool | None]:
    def read(store: object) -> bool | None:
        metric = getattr(getattr(store, attribute, None), "metric_type", None)
        return None if metric is None else metric == _INNER_PRODUCT

    return read


def postgres_search(store: object) -> object:
    """Return the part of a LangChain ``PGVectorStore`` that has the settings of its search; else the store itself."""
    return getattr(store, "_PGVectorStore__vs", store)


def _pgvector_store(store: object) -> bool | None:
    """Return the direction of a LangChain ``PGVectorStore``; None for a hybrid search or an unknown metric.

    The store returns distances, except for the inner product.
    """
    inner = postgres_search(store)
    if getattr(inner, "hybrid_search_config", None) is not None:
        return None
    name = getattr(getattr(inner, "distance_strategy", None), "name", None)
    return {"COSINE_DISTANCE": False, "EUCLIDEAN": False, "INNER_PRODUCT": True}.get(str(name))


def _qdrant(store: object) -> bool | None:
    distance = getattr(store, "distance", None)
    name = str(getattr(distance, "value", distance)).lower()
    return {"cosine": True, "dot": True, "euclid": False, "manhattan": False}.get(name)


_STORES: Mapping[str, Mapping[str, Known]] = MappingProxyType(
    {
        "langchain": {
            "InMemoryVectorStore": True,
            "FAISS": _faiss("index"),
            "Chroma": False,
            "Qdrant": _qdrant,
            "QdrantVectorStore": _qdrant,
            "PGVector": False,
            "PGVectorStore": _pgvector_store,
            "AsyncPGVectorStore": _pgvector_store,
            "Neo4jVector": True,
            "ElasticsearchStore": True,
        },
        "llama_index": {
            "SimpleVectorStore": True,
            "FaissVectorStore": _faiss("_faiss_index"),
            "ChromaVectorStore": True,
            "PGVectorStore": True,
            "Neo4jVectorStore": True,
        },
    }
)
