"""What a framework's retriever returned, as a ranking: which way its scores run, what they stand for, what hits say."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._shared import go_on
from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, InvalidTypeError, warn
from phasegraph.lexical import HitWords, read_hits
from phasegraph.pipeline import FusionPipeline
from phasegraph.priors import Context
from phasegraph.ranking import Ranking, all_true, as_floats, cap_ranking
from phasegraph.retrieval.identity import Deletions, Identities, LookUps, Payloads
from phasegraph.retrieval.source_config import FieldOf, HitFields
from phasegraph.sources.gatherer import cut_note
from phasegraph.sources.protocol import MalformedAnswerError
from phasegraph.sources.workers import in_thread

SCORE_KEYS: Mapping[str, bool | None] = MappingProxyType(
    {"relevance_score": True, "similarity_score": True, "_score": True, "_similarity_score": True, "score": None}
)
"""Keys under which a score is looked for, and whether higher is better under each; None = it does not tell."""
_MOST_HITS = 100_000
_TELLING_HITS = 3
_SURE = 40.0
"""Evidence for a direction counts up to this, that of an answer of some twenty hits: others can outweigh it."""
_INNER_PRODUCT = 0
Known: TypeAlias = bool | Callable[[object], bool | None]


def infer_direction(scores: Sequence[object], /) -> bool | None:
    """Whether higher is better, from scores in the order a store returned them: best first; only numbers count.

    None where the order does not tell: fewer than two different values, or neither falling nor rising throughout.

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
    """Whether higher is better in the raw scores of a store's own score search; None where its class does not tell.

    The same class can differ between the frameworks: LlamaIndex turns the distances of Postgres and Chroma into
    similarities, LangChain hands them over as they are.
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
    """The direction of one source's scores: declared, known by the store's class, or inferred and remembered.

    Every answer in one order is evidence, as much as it is unlikely by chance (the logarithm of n! for n different
    scores), and the direction is the one that has more of it so far: one answer of three hits decides nothing for
    good. Where it turns, a warning says so; so does one, once, where an answer of at least three hits stands in the
    order opposite to what is declared. Scores that do not differ need no direction: they are taken as they are. Safe
    for any number of threads: they all infer from best-first answers.

    >>> direction = Direction()
    >>> direction.of([0.1, 0.2, 0.4])
    (False, 'lower is better: inferred from the order of its scores')
    >>> direction.of([0.3])
    (False, 'lower is better: inferred from the order of its scores')
    """

    __slots__ = ("_agreed", "_declared", "_known", "_lead", "_source", "_told", "_turned", "_warned")

    def __init__(self, declared: bool | None = None, known: bool | None = None, source: str = "") -> None:
        self._declared = declared
        self._known = known
        self._lead = 0.0  # evidence for "higher is better" less that for the opposite
        self._told: bool | None = None
        self._agreed = self._turned = self._warned = False
        self._source = source

    @property
    def higher_is_better(self) -> bool | None:
        """What is known so far."""
        if self.stated is not None:
            return self.stated
        return self._lead > 0 if self._lead else None

    @property
    def stated(self) -> bool | None:
        """What is known without any answer."""
        return self._known if self._declared is None else self._declared

    def of(self, scores: Sequence[object]) -> tuple[bool | None, str]:
        """Whether higher is better in scores in the source's order, None where unknown, and a note for the report."""
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
            "inferred from the order of its scores" + " in earlier answers; this one says the opposite" * opposite,
        )

    def falls(self, scores: Sequence[object]) -> bool:
        """Whether these scores and those before, by the weight of their evidence, fell along the list."""
        if not _differ(scores):
            return self._lead >= 0
        self._learn(infer_direction(scores) is True, scores)
        return self._lead > 0

    def _is_sure_of(self, scores: Sequence[object]) -> bool:
        """Whether nothing is left to learn from them: all evidence that counts is there, and they run that way, too."""
        if abs(self._lead) < _SURE or len(scores) < 2:
            return False
        first, last = (scores[0], scores[-1]) if self._lead > 0 else (scores[-1], scores[0])
        return isinstance(first, float) and isinstance(last, float) and math.inf > first > last > -math.inf

    def _learn(self, higher: bool, scores: Sequence[object]) -> None:
        weight = math.lgamma(len(np.unique(_finite(scores))) + 1)
        self._lead = min(max(self._lead + (weight if higher else -weight), -_SURE), _SURE)

    def _say_turned(self, higher: bool) -> None:
        """Warn once where later answers say the opposite of what earlier ones were read by."""
        if self._told is not None and self._told is not higher and not self._turned:
            self._turned = True
            warn(
                f"source {self._source!r}: {_note(higher, 'as its answers say by now')}; earlier ones were read the "
                "other way: declare fields=HitFields(higher_is_better=...)",
                stacklevel=6,
            )
        self._told = higher

    def _doubt(self, declared: bool, scores: Sequence[object]) -> str:
        """A note where the order says the opposite; once it has agreed it is not looked at again."""
        if self._agreed or len(scores) < _TELLING_HITS:
            return ""
        found = infer_direction(scores)
        self._agreed = found is declared
        if found is None or found is declared:
            return ""
        note = f"declared higher_is_better={declared}, but the order of its scores says the opposite"
        if not self._warned:
            self._warned = True
            warn(f"source {self._source!r}: {note}; the declaration is believed", stacklevel=5)
        return f"{note}; the declaration was believed"


def _finite(scores: Sequence[object]) -> FloatArray:
    """The usable scores in the order they came."""
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


@dataclass(frozen=True, slots=True)
class HitReader:
    """Reads the answers of one source; remembers its direction, and that it warned about ids.

    `known` says whether higher is better, as the class of the source's store has it.
    """

    name: str
    fields: HitFields
    known: bool | None
    metadata: Callable[[Any], Mapping[str, Any]]
    text: Callable[[Any], str]
    direction: Direction = field(init=False)
    identities: Identities = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", Direction(self.fields.higher_is_better, self.known, self.name))
        object.__setattr__(self, "identities", Identities(self.name))

    def ids(self, hits: Sequence[Any], own: Sequence[object], notes: list[str], *, parts: bool = False) -> list[str]:
        """The ids of hits that carry `own`, or what :class:`HitFields` says in their place.

        With `parts`, hits of one id may have different texts: they are what is known of a passage, not itself.
        """
        check_length(hits)
        if self.fields.id is not None:
            own = [self._field(self.fields.id, hit) for hit in hits]
        ids = self.identities.read(own, lambda row: self._looked_into(hits[row]), notes)
        if not parts and len(set(ids)) < len(ids):
            self.identities.repeated(ids, lambda row: self.text(hits[row]), notes)
        return ids

    def _looked_into(self, hit: Any) -> tuple[Mapping[str, Any], str]:
        go_on()
        return self.metadata(hit), self.text(hit)

    def scores(self, hits: Sequence[Any]) -> list[object] | None:
        """The scores that :class:`HitFields` names, or None where it names none."""
        where = self.fields.score
        return None if where is None else [self._field(where, hit) for hit in hits]

    def stated_scores(
        self, hits: Sequence[Any], notes: list[str]
    ) -> tuple[list[object] | None, tuple[bool, str] | None]:
        """Scores under a known metadata key that holds a number in every hit, and their direction where it is told.

        A field that is called ``score`` and nothing more may be a film's: it is believed as far as it falls along the
        lists that the source gives.
        """
        first = self.metadata(hits[0]) if hits else {}
        if SCORE_KEYS.keys().isdisjoint(first):
            return None, None
        rows = [self.metadata(hit) for hit in hits]
        key = next((key for key in SCORE_KEYS if all(is_number(row.get(key)) for row in rows)), None)
        if key is None:
            return None, None
        scores, higher = [row[key] for row in rows], SCORE_KEYS[key]
        if higher is not None:
            return scores, (higher, f"higher is better: known for metadata key {key!r}")
        if self.direction.stated is None and not self.direction.falls(scores):
            notes.append(f"rank only: metadata {key!r} does not fall along the list, and may say something else")
            return None, None
        return scores, (True, _note(True, "inferred from the order of its scores"))

    def _field(self, where: FieldOf, hit: Any) -> object:
        go_on()
        return self.metadata(hit).get(where) if isinstance(where, str) else where(hit)

    def ranking(
        self,
        ids: Sequence[str],
        scores: Sequence[Any] | None,
        payloads: Payloads,
        limit: int | None,
        notes: list[str],
        *,
        order: Sequence[object] | None = None,
        told: tuple[bool, str] | None = None,
    ) -> Ranking:
        """The n hits as a ranking; what had to be handled is added to `notes`.

        Without scores, or with None for every hit, only their order is known. Hits beyond the `limit` are cut, and
        noted. The direction is told by `order`, where that is not the scores; `told` says it, with a note, where the
        answer itself does; a declaration wins.
        """
        scores, joined = self._known_scores(scores, notes, len(ids)), order is not None
        higher: bool | None = True
        if scores is not None:
            if told is not None and self.direction.stated is None:
                higher, note = told
            else:
                higher, note = self.direction.of(scores if order is None else order)
            if note and ids:
                notes.append(note)
            if higher is None:
                scores = None
        found = Ranking.from_hits(
            self.name, ids, scores, higher_is_better=higher is not False, size=self.fields.size, payloads=payloads
        )
        if scores is not None and len(found) < len(ids):
            values = as_floats(scores)
            payloads.best_first(values if higher is not False else -values)
        if found.ids == tuple(ids):
            payloads.follow(found)
        elif scores is not None and not joined and _contradicts(found, ids):
            notes.append("its order contradicts its scores; the scores were believed")
        return limited(found, limit, notes)

    def _known_scores(self, scores: Sequence[Any] | None, notes: list[str], hits: int) -> Sequence[Any] | None:
        """The scores; None, with a note that says where they were looked for, if there are none at all."""
        if scores is not None and not (scores and all(score is None for score in scores)):
            return scores
        if hits:
            where = self.fields.score
            looked = "it returns no scores" if where is None else "fields.score gave none"
            notes.append(f"rank only: no score under {where!r}" if isinstance(where, str) else f"rank only: {looked}")
        return None


def limited(ranking: Ranking, limit: int | None, notes: list[str]) -> Ranking:
    """The ranking's best `limit` hits, which is noted; all of them where it is None."""
    if limit is None or len(ranking) <= limit:
        return ranking
    notes.append(cut_note(len(ranking), limit))
    return cap_ranking(ranking, limit, "list", frozenset())


def note_dropped(dropped: int, count: int, notes: list[str]) -> None:
    """Note hits that a source returned although they do not match the filter."""
    if dropped:
        notes.append(f"{dropped} of {count} hits dropped: they do not match the filter")


def _contradicts(ranking: Ranking, ids: Sequence[str]) -> bool:
    """Whether the order in which hits came differs from the order of their scores, ties apart."""
    place = {identifier: row for row, identifier in enumerate(reversed(ids))}
    at = np.array([-place[identifier] for identifier in ranking.ids])
    scores = ranking.scores
    return bool(((at[1:] < at[:-1]) & (scores[1:] < scores[:-1])).any())


def with_passages(
    ranking: Ranking,
    found: object,
    unpack: Callable[[Any], Iterable[Any]],
    made: Callable[[str, Any], Any],
    notes: list[str],
) -> Ranking:
    """The ranking with the passages that ``resolve(ids)`` gave; a hit without one keeps its own payload.

    They are found by id, or one per id in the same order, None for those that are not there; `unpack` reads any other
    answer as the framework does, and ``made(id, value)`` makes the framework's own passage. `notes` takes how many ids
    were given none. InvalidTypeError if there are more or fewer than ids.
    """
    if isinstance(found, Mapping):
        given = {str(key): value for key, value in found.items() if value is not None}
    else:
        values = list(found) if isinstance(found, list | tuple) else list(unpack(found))
        if len(values) != len(ranking.ids):
            raise InvalidTypeError(
                f"resolve must give one passage per id, or a mapping; got {len(values)} for {len(ranking.ids)} ids"
            )
        given = {key: value for key, value in zip(ranking.ids, values, strict=True) if value is not None}
    missing = sum(one not in given for one in ranking.ids)
    if missing:
        notes.append(f"resolve gave no passage for {missing} of {len(ranking.ids)} ids")
    payloads = ranking.payloads
    ids = [one for one in ranking.ids if one in given or one in payloads]
    hits = [made(one, given[one]) if one in given else payloads[one] for one in ids]
    return replace(ranking, payloads=Payloads(ids, hits, getattr(payloads, "evidence", payloads)))


def within_filter(ranking: Ranking, passes: Callable[[Any], bool], notes: list[str]) -> Ranking:
    """The ranking without the hits that ``resolve`` gave a passage which the filter does not let through.

    `passes` says of a payload whether it has what the filter asks for; `notes` takes how many were dropped.
    """
    payloads = ranking.payloads
    gone = [one for one in ranking.ids if (held := payloads.get(one)) is None or not passes(held)]
    if not gone:
        return ranking
    said = (
        f"{len(gone)} of {len(ranking)} hits dropped: what resolve gave for them does not match the filter, or does "
        "not say (it must have the metadata that the filter asks for)"
    )
    notes.append(said)
    kept = ranking.without(frozenset(gone))
    held = Payloads(kept.ids, [payloads[one] for one in kept.ids], getattr(payloads, "evidence", payloads))
    return replace(kept, payloads=held, reason=kept.reason if len(kept) else said)


def completed(
    ranking: Ranking,
    upstream: Iterable[Ranking | None],
    look_ups: LookUps,
    notes: list[str],
    deletions: Deletions,
    *,
    own: bool = False,
) -> Ranking:
    """The ranking with the passages that it names and does not hold, as far as other sources have them.

    What those found for the same query, `upstream`, is looked at first; then the `look_ups` are asked in turn for what
    is still missing, and one that fails is noted. Those that none of the stores has are dropped by `deletions`. `own`
    says whether the source has a store of its own, which was asked before.
    """
    payloads = ranking.payloads
    missing = [one for one in ranking.ids if payloads.get(one) is None]
    if not missing:
        return ranking
    found: dict[str, Any] = {}
    known = own or bool(look_ups)
    for other in upstream:
        held = {} if other is None or other.source == ranking.source else other.payloads
        found |= {one: held[one] for one in missing if one not in found and isinstance(held, Payloads) and one in held}
    for name, look_up in look_ups.items():
        left = [one for one in missing if one not in found]
        if not left:
            break
        try:
            given = look_up(left)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the ranking stands without the texts
            notes.append(f"source {name!r} could not be asked for the texts of passages ({type(error).__name__})")
            known = False
            continue
        new = {one: given[one] for one in left if given.get(one) is not None}
        if new:
            notes.append(f"texts of {len(new)} of {len(ranking)} passages from source {name!r}")
        found |= new
    if found:
        hits = [found.get(one) if payloads.get(one) is None else payloads[one] for one in ranking.ids]
        ranking = replace(ranking, payloads=Payloads(ranking.ids, hits, getattr(payloads, "evidence", payloads)))
    return deletions.without(ranking, [one for one in missing if one not in found] if known else (), notes)


def is_number(value: object) -> bool:
    """Whether a value can be a score."""
    return hasattr(value, "__float__") and not isinstance(value, bool | str)


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none where it does not tell."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def check_length(hits: Sized) -> None:
    """MalformedAnswerError for more hits than can be read without holding everything else up."""
    if len(hits) > _MOST_HITS:
        raise MalformedAnswerError(
            f"the source returned {len(hits):,} hits, and at most {_MOST_HITS:,} are read: have it return its best"
        )


def drained(answer: Iterable[object]) -> list[object]:
    """What an iterator of hits yields; MalformedAnswerError if it raises, or does not end within 100,000 hits."""
    items: list[object] = []
    try:
        items.extend(islice(answer, _MOST_HITS + 1))
    except MemoryError:
        raise
    except Exception as error:
        raise MalformedAnswerError(f"{type(error).__name__} raised while its hits were iterated over") from error
    if len(items) > _MOST_HITS:
        raise MalformedAnswerError(f"the source yielded more than {_MOST_HITS:,} hits")
    return items


EXPECTED = (  # whole in a source's report, which cuts at 200 characters
    "texts, dicts (text or id), triples, or pairs of these and a score; or one text, or a dict of id to score"
)


def answer_items(answer: object, hits: str) -> list[Any] | tuple[Any, ...]:
    """The hits of an answer, as they were given: one text, ids with scores, or anything that yields hits.

    MalformedAnswerError if it is none of these; it says what was expected, by what the framework calls its `hits`.

    >>> answer_items("the answer", "documents"), answer_items({"p": 0.5}, "documents")
    (['the answer'], [{'id': 'p', 'score': 0.5}])
    """
    if isinstance(answer, list | tuple | Mapping):
        check_length(answer)
    if isinstance(answer, list | tuple):
        return answer
    if isinstance(answer, str):
        return [answer] if answer.strip() else []
    if isinstance(answer, Mapping) and answer and all(map(is_number, answer.values())):
        return [{"id": str(name), "score": value} for name, value in answer.items()]
    if isinstance(answer, bytes | Mapping) or not isinstance(answer, Iterable):
        said = f"a dict of {list(answer)!r:.50}" if isinstance(answer, Mapping) else type(answer).__name__
        raise MalformedAnswerError(f"a retriever must return a list of {hits}, {EXPECTED}; got {said}")
    return drained(answer)


EmbedTexts: TypeAlias = Callable[[list[str]], ArrayLike]
AwaitTexts: TypeAlias = Callable[[list[str]], Awaitable[ArrayLike]]
LONGEST_TEXT = 200_000
"""Characters of a hit that are looked through for the query's words."""


def _no_metadata(_: object) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class HitAccess:
    """How to look into a framework's own documents or nodes: the text of a hit, "" for one that only names its passage.

    `to_embed` is the text that is embedded, by default the same; `vector` the embedding that a hit carries, or None.
    ``embed(texts) -> (n, d)`` is of the model that one of the sources embeds with, `aembed` the same as a coroutine
    function, where the model has one of its own; else `embed` runs in a worker.
    """

    text: Callable[[Any], str] = str
    metadata: Callable[[Any], Mapping[str, Any]] = _no_metadata
    to_embed: Callable[[Any], str] | None = None
    vector: Callable[[Any], Sequence[float] | None] | None = None
    embed: EmbedTexts | None = None
    aembed: AwaitTexts | None = None

    def check(self, pipeline: FusionPipeline) -> None:
        """Refuse a selection that needs embeddings where there can be none."""
        policy = pipeline.selection
        if policy is not None and policy.needs_embeddings and self.embed is None and self.vector is None:
            raise InvalidInputError(
                f"selection by {policy.method} needs embeddings of the candidates, and no source has an embedding "
                "model: use a vector store that has one, or a selection without redundancy"
            )

    def carried(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[Any] | None:
        """The embeddings that hits carry themselves, if all of them do and agree on their length."""
        if self.vector is None:
            return None
        found = []
        for identifier in ids:
            vectors = (self.vector(one.payloads[identifier]) for one in rankings if identifier in one.payloads)
            found.append(next((vector for vector in vectors if vector is not None and len(vector)), None))
        known = [len(vector) for vector in found if vector is not None]
        return found if len(known) == len(ids) and len(set(known)) == 1 else None

    def texts(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[str]:
        """The text of each candidate, from the first source that has it."""
        read, found = self.to_embed or self.text, []
        for identifier in ids:
            texts = (read(one.payloads[identifier]) for one in rankings if identifier in one.payloads)
            found.append(next(filter(None, texts), ""))
        return found

    def context(self, query: str) -> Context:
        """What deciding may look at: the query, the time, and how to read the hits."""
        return Context(query=query, now=time.time(), metadata_of=self.metadata, text_of=self.text)

    def words(self, query: str, rankings: Sequence[Ranking]) -> HitWords:
        """What the texts of the hits, and their titles, say about the query's words."""

        def text(identifier: str) -> str:
            go_on()
            for hit in (one.payloads[identifier] for one in rankings if identifier in one.payloads):
                held, title = self.text(hit)[:LONGEST_TEXT], self.metadata(hit).get("title")
                if held:
                    return f"{title}\n{held}" if isinstance(title, str) and not held.startswith(f"{title}\n") else held
            return ""

        return read_hits(query, rankings, text)

    def vectors(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> ArrayLike:
        """Embeddings of the candidates: their own, else from the model, without which it is an InvalidInputError."""
        carried = self.carried(ids, rankings)
        if carried is not None:
            return carried
        if self.embed is None:
            raise InvalidInputError(
                "selection needs embeddings: no source has an embedding model, and not all hits one"
            )
        return self.embed(self.texts(ids, rankings))

    async def avectors(self, ids: Sequence[str], rankings: Sequence[Ranking], seconds: float | None) -> ArrayLike:
        """As :meth:`vectors`, without holding up the event loop; TimeoutError if it takes longer than `seconds`."""
        if self.embed is None or self.carried(ids, rankings) is not None:
            return self.vectors(ids, rankings)
        texts = self.texts(ids, rankings)
        made = in_thread(self.embed, texts) if self.aembed is None else self.aembed(texts)
        return await asyncio.wait_for(made, seconds)
