"""Whether higher is better: declared, known by the store's class, inferred from an order, or not known at all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import PhasegraphWarning
from phasegraph.ranking import Ranking

_REMEMBERED_HITS = 3
_INNER_PRODUCT = 0
Known: TypeAlias = "bool | Callable[[object], bool | None]"


def infer_direction(scores: Sequence[object], /) -> bool | None:
    """Whether higher is better, from scores in the order a store returned them: best first.

    Parameters
    ----------
    scores : (n,) sequence of object
        Values that are not finite numbers are passed over.

    Returns
    -------
    bool or None
        True for falling scores, False for rising ones (distances), None where the order does not tell: fewer than
        two different values, or neither falling nor rising throughout.

    Examples
    --------
    >>> infer_direction([0.9, 0.5, 0.5]), infer_direction([0.002, 0.586, 3.96]), infer_direction([1.0, 1.0])
    (True, False, None)
    """
    steps = np.diff(_finite(scores))
    if not (steps != 0).any():
        return None
    if (steps <= 0).all():
        return True
    return False if (steps >= 0).all() else None


def known_direction(store: object, /) -> bool | None:
    """Whether higher is better in the scores of a store's own score search, where its class tells.

    Parameters
    ----------
    store : object
        A vector store of LangChain or LlamaIndex.

    Returns
    -------
    bool or None
        None for a class that is not known, or whose metric cannot be read.

    Notes
    -----
    What counts is the raw score of the score search. The same class can differ between the frameworks: LlamaIndex
    turns the distances of Postgres and Chroma into similarities, LangChain hands them over as they are.
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
    """The direction of one source's scores; inferred at most once, and then remembered.

    Parameters
    ----------
    declared : bool or None
        What the caller says.
    known : bool or None
        What the store's class says.
    source : str
        Name of the source, for the warning.

    Warns
    -----
    PhasegraphWarning
        Once, when an answer of at least three hits stands in the order opposite to what is declared.

    Notes
    -----
    An answer of at least three hits in one order is remembered for good; one of two hits is believed for itself
    only. Scores that do not differ need no direction: they are taken as they are. Safe for any number of threads: they
    all infer from best-first answers.

    Examples
    --------
    >>> direction = Direction()
    >>> direction.of([0.1, 0.2, 0.4])
    (False, 'lower is better: inferred from the order of its scores')
    >>> direction.of([0.3])
    (False, 'lower is better: inferred from the order of its scores')
    """

    __slots__ = ("_declared", "_inferred", "_known", "_source", "_warned")

    def __init__(self, declared: bool | None = None, known: bool | None = None, source: str = "") -> None:
        self._declared = declared
        self._known = known
        self._inferred: bool | None = None
        self._source = source
        self._warned = False

    @property
    def higher_is_better(self) -> bool | None:
        """What is known so far."""
        for value in (self._declared, self._known):
            if value is not None:
                return value
        return self._inferred

    def of(self, scores: Sequence[object]) -> tuple[bool | None, str]:
        """Whether higher is better (None = it cannot be told), and a note for the report.

        Parameters
        ----------
        scores : (n,) sequence of object
            In the order the source returned them.
        """
        if self._declared is not None:
            return self._declared, self._doubt(self._declared, scores)
        if self._known is not None:
            return self._known, _note(self._known, "known for this store")
        if self._inferred is None:
            found = infer_direction(scores)
            if found is None and not len(_finite(scores)):
                return True, "none of its scores is a number"
            if found is None and not _differ(scores):
                return True, "uninformative: its scores do not differ"
            if found is None:
                return None, "rank only: its scores do not tell whether higher or lower is better; declare it"
            if len(scores) < _REMEMBERED_HITS:
                return found, _note(found, "inferred from the order of its scores")
            self._inferred = found
        return self._inferred, _note(self._inferred, "inferred from the order of its scores")

    def _doubt(self, declared: bool, scores: Sequence[object]) -> str:
        """A note where the order says the opposite; once it has agreed it is not looked at again."""
        if self._inferred is declared or len(scores) < _REMEMBERED_HITS:
            return ""
        found = infer_direction(scores)
        if found is declared:
            self._inferred = found
        if found is None or found is declared:
            return ""
        note = f"declared higher_is_better={declared}, but the order of its scores says the opposite"
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"source {self._source!r}: {note}; the declaration is believed", PhasegraphWarning, stacklevel=5
            )
        return f"{note}; the declaration was believed"


def _finite(scores: Sequence[object]) -> FloatArray:
    """The usable scores in the order they came."""
    ranking = Ranking.from_hits("order", [str(row) for row in range(len(scores))], list(scores))
    if ranking.rank_only:
        return np.empty(0)
    return ranking.scores[np.argsort([int(identifier) for identifier in ranking.ids])]


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


def _pgvector_store(store: object) -> bool | None:
    """LangChain's newer store hands over distances, but the inner product itself; hybrid scores are of neither kind."""
    inner = getattr(store, "_PGVectorStore__vs", None)
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
