"""Routers, which choose the sources of a query: their protocol, and the routers that need no framework."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.prompts import filled
from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_count, check_flag, check_flat, check_number, check_range
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError
from phasegraph.ranking import Ranking
from phasegraph.retrieval.stages.models import OverModel
from phasegraph.sources.steps import Step

Route: TypeAlias = str | Sequence[str] | Mapping[str, float]
Routed: TypeAlias = Mapping[str, float | None]
_EPSILON = 1e-12
"""Constant added inside the logarithm of the entropy, as in the EGR paper's code; it lowers the entropy by 2e-11."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The router as a step of a call; `reads_ranking` is True if the router reads the first source's ranking."""

    step: Step
    reads_ranking: bool

    @classmethod
    def of(cls, given: Any) -> Routing:
        """Create the routing step from `given`, the retriever's argument ``route``."""
        return cls(Step("the router", given, "all sources are asked"), _takes_two(given))


def _takes_two(given: Any) -> bool:
    try:
        found = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):  # a built-in function
        return False
    plain = [one for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len([one for one in plain if one.default is one.empty]) >= 2 or any(one.name == "ranking" for one in plain)


def read_route(sources: Collection[str], answer: object) -> Routed:
    """Check a router's answer, and return the weight of each chosen source by name.

    A weight of None means the pipeline's weight. Sources with weight 0 are left out. Raise an error if the answer names
    an unknown source, or no source.
    """
    if isinstance(answer, Mapping):
        weights = {name: check_number(f"a route's weight of {name!r}", weight) for name, weight in answer.items()}
        found: dict[Any, float | None] = {name: weight for name, weight in weights.items() if weight > 0}
    elif isinstance(answer, str):
        found = {answer: None}
    elif isinstance(answer, list | tuple | set | frozenset):
        found = dict.fromkeys(answer)
    else:
        raise InvalidTypeError(
            f"a router must return names of sources, or weights by source name; got {type(answer).__name__}"
        )
    unknown = sum(not isinstance(name, str) or name not in sources for name in found)
    if unknown:  # the message does not contain text of a model
        raise InvalidInputError(
            f"a router must name sources among {sorted(sources)}; it returned {unknown} unknown name(s)"
        )
    if not found:
        raise InvalidInputError("a router must name at least one source with a weight above 0; got no source")
    return dict(sorted(found.items()))


class KeywordRouter:
    """A router that chooses sources by words of the query; :func:`keyword_router` creates it."""

    def __init__(self, rules: Mapping[str, Route], default: Route) -> None:
        if not isinstance(rules, Mapping) or not rules:
            raise InvalidInputError(f"rules must map at least one phrase to sources; got {rules!r:.80}")
        for phrase in rules:
            if not isinstance(phrase, str) or not phrase.strip():
                raise InvalidTypeError(f"rules must have phrases that are not blank; got {phrase!r}")
        self.rules, self.default = dict(rules), default
        self._patterns = [
            (re.compile(rf"(?<!\w){re.escape(phrase.strip().casefold())}(?!\w)"), route)
            for phrase, route in rules.items()
        ]

    def check(self, sources: Collection[str]) -> None:
        """Raise InvalidInputError if a route names a source that is not in `sources`."""
        for route in (*self.rules.values(), self.default):
            unknown = [name for name in ([route] if isinstance(route, str) else route) if name not in sources]
            if unknown:
                raise InvalidInputError(f"keyword_router must name sources among {sorted(sources)}; got {unknown[0]!r}")

    def __call__(self, query: str) -> Route:
        """Return the route of the first phrase that occurs in the query, or the default route."""
        text = query.casefold()
        return next((route for pattern, route in self._patterns if pattern.search(text)), self.default)


def keyword_router(rules: Mapping[str, Route], default: Route) -> KeywordRouter:
    """Create a router that chooses sources by words of the query, without a model call.

    Parameters
    ----------
    rules : mapping of str to route
        Routes by word or phrase. Case is ignored, and only whole words match. The first phrase in the mapping that
        occurs in the query decides. A route is the name of a source, a list of names, or weights by name.
    default : route
        The route if no phrase occurs in the query.

    Examples
    --------
    >>> router = keyword_router({"def": "code", "who": ["graph", "vector"]}, default="vector")
    >>> router("Who wrote it?"), router("a whole page")
    (['graph', 'vector'], 'vector')
    """
    return KeywordRouter(rules, default)


def neighbour_entropy(distances: ArrayLike, temperature: float = 1.0, *, normalise: bool = True) -> float:
    """Compute the entropy of softmax(-d / T) over the distances d of a query's nearest neighbors, in nats.

    With `normalise`, d is replaced by (d - min) / std. Without `normalise`, the formula is that of the paper "Beyond
    the Reranker", which uses T = 1 and raw distances. Raw distances differ little, so all entropies are nearly equal:
    for 200 queries with 20 neighbors, they lie between 2.990759 and 2.995707, and the maximum is ln 20 = 2.995732. All
    queries then get the same route. With normalized distances and T = 1, entropies lie between .99 and 2.78, and the
    paper's thresholds (gates) separate the queries.

    Parameters
    ----------
    distances : (n,) array_like of float
        Distances of the query's n nearest neighbours, n >= 1.
    temperature : float, default 1
        The temperature T, > 0.
    normalise : bool, default True
        If True, subtract the minimum from the distances, and divide them by their standard deviation.

    Returns
    -------
    float
        The entropy, in [0, ln n].

    Examples
    --------
    >>> distances = [0.40, 0.50, 0.53, 0.55, 0.55]
    >>> round(neighbour_entropy(distances, normalise=False), 4), round(neighbour_entropy(distances), 4)
    (1.6078, 0.978)
    """
    found = check_flat("distances", distances)
    if not len(found):
        raise InvalidInputError("distances is empty: give at least one distance")
    check_range("temperature", temperature, ends="(]")
    if check_flag("normalise", normalise):
        spread = float(found.std())
        found = (found - found.min()) / spread if spread > 0 else np.zeros(len(found))
    shares = np.exp(-(found - found.min()) / temperature)
    shares /= shares.sum()
    return float(-(shares * np.log(shares + _EPSILON)).sum())


_CAPITALISED = re.compile(r"\b[A-Z][a-zA-Z]{2,}\b")
_SEVERAL = (" and ", " vs ", " versus ", "compare", "difference between", "both")


def is_multi_hop(query: str) -> bool:
    """Return True if a query looks like a multi-hop question, by the rule in the code of "Beyond the Reranker".

    The query must contain two different capitalized words of at least three letters; the first word of the query
    counts, too. Alternatively, it contains "and", "vs", "versus", "compare", "difference between" or "both".

    >>> is_multi_hop("Where was the director of Vertigo born?"), is_multi_hop("who wrote it, and when?")
    (True, True)
    >>> is_multi_hop("who wrote Vertigo?")
    False
    """
    lowered = query.lower()
    return len(set(_CAPITALISED.findall(query))) >= 2 or any(cue in lowered for cue in _SEVERAL)


class EntropyGates(NamedTuple):
    """The entropy thresholds `low` and `high`, in nats, that were fitted to calibration queries.

    `agreement` is the share of the calibration queries that the two thresholds send to their best route, in [0, 1].
    """

    low: float
    high: float
    agreement: float


def fit_entropy_gates(entropies: ArrayLike, best: ArrayLike, *, grid: int = 40) -> EntropyGates:
    """Fit the two thresholds (gates) of :func:`neighbour_entropy_router` to the best routes of calibration queries.

    Parameters
    ----------
    entropies : (n,) array of float
        The :func:`neighbour_entropy` of each query, with the settings that the router will use.
    best : (n,) array of int
        The best route of each query: 0 for `single`, 1 for `fusion`, 2 for `step_back`.
    grid : int, default 40
        Number of equally spaced values from the lowest to the highest entropy. Every pair of values is tried as gates.

    Returns
    -------
    EntropyGates
        The pair with the highest agreement; among equal pairs, the first, as in the code of "Beyond the Reranker".

    Raises
    ------
    InsufficientDataError
        If all entropies are equal, or fewer than 20 queries are given.

    Examples
    --------
    >>> entropies = [0.5] * 10 + [1.5] * 10 + [2.5] * 10
    >>> fit_entropy_gates(entropies, [0] * 10 + [1] * 10 + [2] * 10).agreement
    1.0
    """
    values, wanted = check_flat("entropies", entropies), np.asarray(best)
    check_count("grid", grid, minimum=2)
    if wanted.shape != values.shape or not np.isin(wanted, (0, 1, 2)).all():
        raise InvalidInputError(f"best must contain 0, 1 or 2 for each of {len(values)} entropies; got {best!r:.80}")
    if len(values) < 20 or values.min() == values.max():
        raise InsufficientDataError(
            f"gates need at least 20 queries and two different entropies; got {len(values)} queries with "
            f"{len(np.unique(values))} different entropies"
        )
    gates = np.linspace(values.min(), values.max(), grid)
    passed = values[:, None] >= gates
    pairs = [(row, column) for row in range(grid) for column in range(row + 1, grid)]
    agreements = [float(np.mean(passed[:, row].astype(int) + passed[:, column] == wanted)) for row, column in pairs]
    first = int(np.argmax(agreements))
    low, high = pairs[first]
    return EntropyGates(float(gates[low]), float(gates[high]), agreements[first])


class NeighbourEntropyRouter:
    """A router that chooses by the entropy of the best hits' distances; :func:`neighbour_entropy_router` creates it."""

    def __init__(
        self,
        single: Route,
        fusion: Route,
        step_back: Route,
        *,
        multi_hop: Route | None = None,
        low: float = 1.8,
        high: float = 2.6,
        neighbours: int = 20,
        temperature: float = 1.0,
        normalise: bool = True,
    ) -> None:
        if not check_number("low", low) < check_number("high", high):
            raise InvalidInputError(f"low must be less than high; got {low} and {high}")
        neighbour_entropy([1.0], temperature, normalise=normalise)
        self.routes, self.gates = (single, fusion, step_back), (low, high)
        self.multi_hop = multi_hop
        self.neighbours, self.temperature, self.normalise = neighbours, temperature, normalise

    def __call__(self, query: str, ranking: Ranking) -> Route:
        """Return the route of a query from the first source's ranking."""
        scores = ranking.scores[: self.neighbours]
        cosines = not ranking.distances and not self.normalise and bool((scores > 0).all())
        return self.by_distances(1.0 / scores - 1.0 if cosines else -scores, query)

    def by_distances(self, distances: ArrayLike, query: str = "") -> Route:
        """Return the route of a query from the distances of its nearest neighbors.

        The text `query` is read only if the route can be `multi_hop`.
        """
        entropy = neighbour_entropy(distances, self.temperature, normalise=self.normalise)
        passed = sum(entropy >= gate for gate in self.gates)
        if passed == len(self.gates) and self.multi_hop is not None and is_multi_hop(query):
            return self.multi_hop
        return self.routes[passed]


def neighbour_entropy_router(
    single: Route,
    fusion: Route,
    step_back: Route,
    *,
    multi_hop: Route | None = None,
    low: float = 1.8,
    high: float = 2.6,
    neighbours: int = 20,
    temperature: float = 1.0,
    normalise: bool = True,
) -> NeighbourEntropyRouter:
    """Create a router that chooses by the :func:`neighbour_entropy` of the first source's best hits.

    It follows the router EGR of the paper "Beyond the Reranker". A low entropy means that a few hits are much nearer to
    the query than the other hits. No model is called.

    Parameters
    ----------
    single, fusion, step_back : route
        The route for an entropy below `low`, the route for an entropy in [`low`, `high`), and the route for higher
        entropies. A route is the name of a source, a list of names, or weights by name.
    multi_hop : route, optional
        The route instead of `step_back` if :func:`is_multi_hop` is True for the query. Default: `step_back`. In the
        paper's code, this case adds passages along entailment edges, which its benchmark graphs do not have.
    low, high : float, default 1.8 and 2.6
        The gates, which are thresholds for the entropy, in nats. :func:`fit_entropy_gates` fits the gates to queries.
    neighbours : int, default 20
        Number of hits of the first source from which the entropy is computed.
    temperature : float, default 1
        The temperature of the softmax, > 0.
    normalise : bool, default True
        If True, normalize the distances; see :func:`neighbour_entropy`. False is the paper's formula, with which every
        query gets `step_back`. A positive score s is then converted to the distance 1/s - 1, as in the paper's code.

    Notes
    -----
    The default gates are those of the paper, which were not fitted to data. On the paper's 200 published MuSiQue
    queries, no router beats the best fixed strategy (nDCG .6886; oracle: .7080), not even with fitted gates. See
    docs/reproduction/routing.md.

    Examples
    --------
    >>> router = neighbour_entropy_router("vector", ["vector", "hyde"], "stepback")
    >>> router("who?", Ranking("vector", ["a", "b", "c"], [0.9, 0.2, 0.1]))
    'vector'
    """
    return NeighbourEntropyRouter(
        single, fusion, step_back, multi_hop=multi_hop, low=low, high=high, neighbours=neighbours,
        temperature=temperature, normalise=normalise,
    )  # fmt: skip


def oracle_router(rewards: Mapping[str, Mapping[str, float]]) -> Callable[[str], str]:
    """Create a router that sends every query to the source with the best measured value in `rewards`.

    No real router can be better, so its result is an upper bound.

    Parameters
    ----------
    rewards : mapping of str to mapping of str to float
        The value of a quality measure, such as nDCG, by source name and query.

    Examples
    --------
    >>> oracle_router({"vector": {"q": 0.2}, "graph": {"q": 0.9}})("q")
    'graph'
    """
    if not isinstance(rewards, Mapping) or not rewards:
        raise InvalidInputError("rewards is empty: give the values of a measure for at least one source")
    return partial(_best, {name: dict(by_query) for name, by_query in rewards.items()})


def _best(rewards: Mapping[str, Mapping[str, float]], query: str) -> str:
    known = {name: by_query[query] for name, by_query in rewards.items() if query in by_query}
    if not known:
        raise InvalidInputError(
            "the oracle router has no value of the measure for this query: add the query to rewards"
        )
    return max(known, key=known.__getitem__)


_CUES = (
    "who", "what", "when", "where", "which", "why", "how", "code", "function", "class", "table", "compare",
    "difference", "between", "both", "before", "after", "first", "all", "overview",
)  # fmt: skip


def query_features(query: str, ranking: Ranking | None = None) -> FloatArray:
    """Compute the features of a query, as an array of shape (26,).

    The first 20 features are 1 if a cue word such as "who" occurs in the query, else 0. The last six describe the
    distances of the 20 best hits in `ranking`: minimum, mean, standard deviation, the gap between the first two, the
    gap between first and last, and the :func:`neighbour_entropy`. A distance is a negated score. Without a ranking of
    at least two hits, the last six features are 0.
    """
    words = set(re.findall(r"\w+", query.casefold()))
    near = np.zeros(6)
    if ranking is not None and len(ranking) > 1:
        d = -ranking.scores[:20]
        near = np.array([d[0], d.mean(), d.std(), d[1] - d[0], d[-1] - d[0], neighbour_entropy(d)])
    return np.concatenate([[float(cue in words) for cue in _CUES], near])


class CompositionalRouter:
    """A router that chooses the source with the best predicted quality; :func:`compositional_router` creates it."""

    def __init__(
        self, names: Sequence[str], coefficients: FloatArray, features: Callable[[str, Ranking | None], ArrayLike]
    ) -> None:
        self.names, self.coefficients, self.features = tuple(names), coefficients, features

    def __call__(self, query: str, ranking: Ranking | None = None) -> str:
        """Return the name of the source whose answer has the highest predicted quality."""
        seen = np.append(np.asarray(self.features(query, ranking), dtype=np.float64), 1.0)
        return self.names[int(np.argmax(self.coefficients @ seen))]


def compositional_router(
    rewards: Mapping[str, Mapping[str, float]],
    rankings: Mapping[str, Ranking] | None = None,
    *,
    features: Callable[[str, Ranking | None], ArrayLike] = query_features,
    alpha: float = 1.0,
) -> CompositionalRouter:
    """Fit a router that predicts the quality of each source's answer, by ridge regression on features of the query.

    The router chooses the source with the highest prediction.

    Parameters
    ----------
    rewards : mapping of str to mapping of str to float
        The value of a quality measure, such as nDCG, by source name and query. Only queries with a value for every
        source are used.
    rankings : mapping of str to Ranking, optional
        The first source's ranking by query, for features that read the ranking.
    features : callable, default :func:`query_features`
        ``features(query, ranking)`` returns the features as an array of shape (d,).
    alpha : float, default 1
        Ridge penalty, > 0; the intercept is not penalized.

    Raises
    ------
    InsufficientDataError
        If fewer than 20 queries have a value for every source.

    Notes
    -----
    Evaluate the router on queries that were not used for fitting. The paper "Beyond the Reranker" uses five-fold
    cross-fitting, and finds the router no better than the best fixed strategy.

    Examples
    --------
    >>> queries = [f"who is {n}" for n in range(10)] + [f"code of {n}" for n in range(10)]
    >>> rewards = {"graph": {q: float("who" in q) for q in queries}, "code": {q: float("code" in q) for q in queries}}
    >>> router = compositional_router(rewards)
    >>> router("who was it?"), router("the code of it")
    ('graph', 'code')
    """
    if not isinstance(rewards, Mapping) or not rewards:
        raise InvalidInputError("rewards is empty: give the values of a measure for at least one source")
    check_range("alpha", alpha, ends="(]")
    common = sorted(set.intersection(*(set(by_query) for by_query in rewards.values())))
    if len(common) < 20:
        raise InsufficientDataError(
            f"rewards must contain at least 20 queries with a value for every source; got {len(common)}"
        )
    known = rankings or {}
    seen = np.array([np.asarray(features(query, known.get(query)), dtype=np.float64) for query in common])
    wanted = np.array([[by_query[query] for query in common] for by_query in rewards.values()])
    mean, middle = seen.mean(axis=0), wanted.mean(axis=1)
    centred = seen - mean
    gram = centred.T @ centred + alpha * np.eye(seen.shape[1])
    slopes = np.linalg.solve(gram, centred.T @ (wanted - middle[:, None]).T).T
    return CompositionalRouter(tuple(rewards), np.column_stack([slopes, middle - slopes @ mean]), features)


CHAT_ROUTE_PROMPT = (
    "Choose the sources that can answer the question. Reply with their names only, separated by commas.\n\n"
    "Sources:\n{sources}\n\nQuestion: {query}"
)


class ChatRouter(OverModel):
    """A router that asks a language model to choose the sources; :func:`chat_router` creates it."""

    def __init__(self, model: Any, descriptions: Mapping[str, str], prompt: str = CHAT_ROUTE_PROMPT) -> None:
        super().__init__(model)
        if not isinstance(descriptions, Mapping) or not descriptions:
            raise InvalidInputError("descriptions is empty: describe at least one source")
        self.descriptions, self.prompt = dict(descriptions), prompt

    def __call__(self, query: str) -> list[str]:
        """Return the names of the sources that occur in the model's answer."""
        return self._named(self.complete(self._asked(query)))

    async def _acall(self, query: str) -> list[str]:
        return self._named(await self.acomplete(self._asked(query)))

    def _asked(self, query: str) -> str:
        listed = "\n".join(f"- {name}: {said}" for name, said in self.descriptions.items())
        return filled(self.prompt, sources=listed, query=query)

    def _named(self, answer: str) -> list[str]:
        text = answer.casefold()
        return [name for name in self.descriptions if re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text)]


def chat_router(model: Any, descriptions: Mapping[str, str], *, prompt: str = CHAT_ROUTE_PROMPT) -> ChatRouter:
    """Create a router that asks a language model to choose the sources, with one model call per query.

    Parameters
    ----------
    model : callable, or a language model of the framework
        A function from prompt to text.
    descriptions : mapping of str to str
        A description of the contents of each source, by source name.
    prompt : str
        The prompt; it must contain ``{sources}`` and ``{query}``.

    Examples
    --------
    >>> chat_router(lambda prompt: "Graph.", {"graph": "who knows whom", "vector": "texts"})("Who knows Ada?")
    ['graph']
    """
    return ChatRouter(model, descriptions, prompt)
