"""The engine of a fusing retriever: settled settings, and one call from query to result."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import warnings
from asyncio import wait_for
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from inspect import isawaitable, iscoroutine
from itertools import islice
from time import monotonic
from typing import Any, Self, TypeAlias, TypeVar, cast

from numpy.typing import ArrayLike

from phasegraph._validation import check_count
from phasegraph.acceptance import AcceptancePolicy, Threshold, check_orientations
from phasegraph.acceptance.judged import check_relevant
from phasegraph.calibration import ReferenceECDF, fit_reference_ecdf
from phasegraph.errors import (
    AllSourcesFailed,
    DegradedError,
    InsufficientDataError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphError,
    PhasegraphWarning,
)
from phasegraph.fusion import FUSION_RULES
from phasegraph.pipeline import FusionPipeline, check_weights_mapping, fit_min_agreement
from phasegraph.priors import Context
from phasegraph.ranking import Ranking, SourceReport, by_fields
from phasegraph.result import Result
from phasegraph.retrieval.provenance import with_notes, with_text_warnings
from phasegraph.retrieval.source_config import (
    Reading,
    SourceSpec,
    check_fingerprints,
    check_names,
    check_pipeline,
    check_weights,
    fingerprints,
    needs_of,
)
from phasegraph.selection import SelectionPolicy
from phasegraph.sources import Gathered, Gatherer
from phasegraph.sources.protocol import AnySource, MalformedAnswerError
from phasegraph.sources.workers import pool

_MOST_LAZY_HITS = 100_000


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none where it does not tell."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def drained(answer: Iterable[object]) -> list[object]:
    """What an iterator of hits gives.

    Raises
    ------
    MalformedAnswerError
        If it raises, or does not end within 100,000 hits.
    """
    items: list[object] = []
    try:
        items.extend(islice(answer, _MOST_LAZY_HITS + 1))
    except MemoryError:
        raise
    except Exception as error:
        raise MalformedAnswerError(f"malformed: {type(error).__name__} raised by an iterator of hits") from error
    if len(items) > _MOST_LAZY_HITS:
        raise MalformedAnswerError(f"malformed: an iterator of hits must end within {_MOST_LAZY_HITS}; it went on")
    return items


EmbedTexts: TypeAlias = Callable[[list[str]], ArrayLike]
AwaitTexts: TypeAlias = Callable[[list[str]], Awaitable[ArrayLike]]
VectorOf: TypeAlias = Callable[[Any], "Sequence[float] | None"]


class VectorsWanted(BaseException):
    """Raised in the place of vectors that must be awaited first; no error, so that no handler of errors takes it.

    Parameters
    ----------
    ids : sequence of str
        Candidates whose vectors are wanted.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(f"vectors of {len(ids)} candidates")
        self.ids = list(ids)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Where the vectors of a framework's own objects come from.

    Parameters
    ----------
    field : str
        The argument under which the framework's retriever takes an embedder, for errors.
    embed : callable, optional
        ``embed(texts) -> (n, d)``.
    aembed : callable, optional
        The same as a coroutine function, where the embedder has one of its own; else `embed` runs in a worker.
    text_of : callable
        The text of a hit to be embedded, or None.
    vector_of : callable, optional
        The vector that a hit carries, or None. Used where every candidate has one.

    Examples
    --------
    >>> ranking = Ranking.from_hits("v", ["a"], [1.0], payloads={"a": "a text"})
    >>> Embedding("embeddings", embed=lambda texts: [[float(len(text))] for text in texts]).vectors(["a"], [ranking])
    [[6.0]]
    """

    field: str = "embeddings"
    embed: EmbedTexts | None = None
    aembed: AwaitTexts | None = None
    text_of: Callable[[Any], str | None] = str
    vector_of: VectorOf | None = None

    def check(self, selection: SelectionPolicy | None) -> None:
        """Refuse a selection that needs vectors where there can be none."""
        if selection is None or not selection.needs_embeddings:
            return
        if self.embed is None and self.vector_of is None:
            raise InvalidInputError(
                f"selection by {selection.method} needs embeddings: {self.field}=, or context=; got neither"
            )

    def context(self, given: Context, rankings: Sequence[Ranking], *, later: bool = False) -> Context:
        """The context with vectors of the candidates, where it has none of its own.

        Parameters
        ----------
        given : Context
        rankings : sequence of Ranking
            Their payloads are the framework's own objects.
        later : bool
            Raise :class:`VectorsWanted` in place of asking the embedder.

        Raises
        ------
        InvalidInputError
            If there is no embedder, and no hit carries a vector.
        """
        if callable(given.embeddings) or given.embeddings:
            return given
        held = self._carried(rankings)
        if self.embed is None:
            if not held and any(map(len, rankings)):
                raise InvalidInputError(f"selection needs embeddings: {self.field}=, or context=; got neither")
            return replace(given, embeddings=held)

        def vectors(ids: Sequence[str]) -> ArrayLike:
            own = [held[one] for one in ids if one in held]
            if len(own) == len(ids) and len(set(map(len, own))) == 1:
                return own
            if later:
                raise VectorsWanted(ids)
            return self.vectors(ids, rankings)

        return replace(given, embeddings=vectors)

    def _carried(self, rankings: Sequence[Ranking]) -> dict[str, Any]:
        """The vectors that hits carry themselves, by id: of the first source that gives one."""
        found: dict[str, Any] = {}
        if self.vector_of is not None:
            for identifier, hit in (pair for one in rankings for pair in one.payloads.items()):
                vector = None if identifier in found else self.vector_of(hit)
                if vector is not None and len(vector):
                    found[identifier] = vector
        return found

    def vectors(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> ArrayLike:
        """Vectors of the candidates, from the embedder."""
        return () if self.embed is None else self.embed(self._texts(ids, rankings))

    async def avectors(self, ids: Sequence[str], rankings: Sequence[Ranking], seconds: float | None) -> ArrayLike:
        """As :meth:`vectors`, without holding up the event loop; TimeoutError if it takes longer than `seconds`."""
        if self.embed is None:
            return ()
        texts = self._texts(ids, rankings)
        made = in_worker(self.embed, texts) if self.aembed is None else self.aembed(texts)
        return await asyncio.wait_for(made, seconds)

    def _texts(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[str]:
        """Text of each candidate, from the first source that has it."""
        payloads = [one.payloads for one in rankings]
        found = []
        for identifier in ids:
            texts = (self.text_of(held[identifier]) for held in payloads if identifier in held)
            found.append(next(filter(None, texts), ""))
        return found


async def in_worker(function: Callable[[Any], Any], argument: object) -> Any:
    """What a plain function gives, on a daemon worker; cancelled, the worker's answer is dropped."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Any] = loop.create_future()

    def run(given: object) -> tuple[Any, BaseException | None]:
        try:
            return context.run(function, given), None
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            return None, error

    def then(_: object, outcome: tuple[Any, BaseException | None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_settle, future, outcome)

    pool().submit(run, then, argument)
    return await future


def _settle(future: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if future.done():
        return
    value, error = outcome
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


ASSUMED_SIZE = 1_000_000
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Fitted:
    """What calibrating gives a pipeline.

    Parameters
    ----------
    calibrators : mapping of str to ReferenceECDF
    min_agreement : mapping of (str, str) to float
        As in :class:`~phasegraph.FusionPipeline`.
    """

    calibrators: Mapping[str, ReferenceECDF]
    min_agreement: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def on(self, pipeline: FusionPipeline) -> FusionPipeline:
        """The pipeline with these calibrators besides those it has for other sources, and these floors."""
        calibrators = {**pipeline.calibrators, **self.calibrators}
        return replace(pipeline, calibrators=calibrators, min_agreement=self.min_agreement)


def fit_calibrators(
    rankings: Iterable[Ranking],
    /,
    sizes: Mapping[str, int | None] | None = None,
    *,
    sources: Sequence[str] = (),
    strict: bool = False,
    normal_scores: bool = True,
    fingerprints: Mapping[str, str] | None = None,
) -> dict[str, ReferenceECDF]:
    """A reference calibrator per source, from its rankings of many queries.

    Parameters
    ----------
    rankings : iterable of Ranking
        Of any number of sources and queries.
    sizes : mapping of str to int or None, optional
        Size of each source's collection, where it is known; else what its rankings state, else 1,000,000.
    sources : sequence of str
        Sources that were asked: one that returned nothing at all is named too.
    strict : bool, default False
        Raise where a source cannot be fitted.
    normal_scores : bool, default True
        False for percentiles, which rules over [0, 1] want.
    fingerprints : mapping of str to str, optional
        What each source's scores come from; see :func:`~phasegraph.retrieval.source_config.fingerprint_of`.

    Returns
    -------
    dict of str to ReferenceECDF
        In name order. Sources that state their background or give ranks only are left out: the first need no
        sample, the second have no scores. So is, with a warning, one that cannot be fitted while another can.

    Raises
    ------
    InsufficientDataError
        If every source gave fewer than 20 scores, or fewer than two different ones; the message names one.
    DegradedError
        If `strict` and a source cannot be fitted.

    Notes
    -----
    A list of n hits is the top of its source's distribution: the share of the collection that it holds, mean list
    length by size, puts it on the scale of the background calibration (see
    :class:`~phasegraph.calibration.ReferenceECDF`).

    Examples
    --------
    >>> lists = [Ranking("v", [f"p{i}" for i in range(10)], [q - i / 10 for i in range(10)]) for q in range(3)]
    >>> fit_calibrators(lists, {"v": 1000})["v"].fraction
    0.01
    """
    found: dict[str, list[Ranking]] = {}
    silent = set(sources)
    for ranking in rankings:
        silent.discard(ranking.source)
        if len(ranking) and not ranking.rank_only and ranking.background is None:
            found.setdefault(ranking.source, []).append(ranking)
    fitted: dict[str, ReferenceECDF] = {}
    failed = {name: "it returned nothing" for name in sorted(silent)}
    first: InsufficientDataError | None = None
    for name in sorted(found):
        lists = found[name]
        length = sum(map(len, lists)) / len(lists)
        size = _size(None if sizes is None else sizes.get(name), lists)
        try:
            made = fit_reference_ecdf(
                [ranking.scores for ranking in lists],
                normal_scores=normal_scores,
                fraction=min(1.0, length / size),
                size=size,
            )
            fitted[name] = replace(made, fingerprint=(fingerprints or {}).get(name, ""))
        except InsufficientDataError as error:
            failed[name] = str(error)
            first = error if first is None else first
    if first is not None and not fitted:
        name = next(name for name, why in failed.items() if why == str(first))
        raise InsufficientDataError(f"source {name!r}: {first}") from first
    if failed:
        _say_unfitted(failed, strict)
    return fitted


def _say_unfitted(failed: Mapping[str, str], strict: bool) -> None:
    listed = "; ".join(f"{name!r}: {failed[name]}" for name in sorted(failed))
    if strict:
        raise DegradedError(f"strict=True wants every source to be fitted; got {listed}")
    warnings.warn(f"sources left to calibration by their list alone: {listed}", PhasegraphWarning, stacklevel=3)


def _size(given: int | None, lists: Sequence[Ranking]) -> int:
    if given is not None:
        return given
    stated = [ranking.size for ranking in lists if ranking.size is not None and ranking.size > 0]
    return max(stated, default=ASSUMED_SIZE)


def with_progress(queries: Iterable[Item], /, show: bool | None, *, label: str = "calibrate") -> Iterable[Item]:
    """`queries`, with a bar on the terminal while they are gone through.

    Parameters
    ----------
    queries : iterable
    show : bool or None
        True: where standard error is a terminal and tqdm is installed. False: never.
    label : str
        In front of the bar.

    Returns
    -------
    iterable
    """
    if not show or not sys.stderr.isatty():
        return queries
    try:
        from tqdm import tqdm
    except ImportError:
        return queries
    return cast("Iterable[Item]", tqdm(queries, desc=label, unit="query"))


def calibration_queries(
    queries: Sequence[str], relevant: Mapping[str, Collection[str]] | None, /, progress: bool | None
) -> Iterable[str]:
    """The queries to calibrate with, both arguments checked before the first is asked, with a bar.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As for :func:`check_queries`; if `relevant` is no mapping of some of them to ids.
    """
    texts = check_queries(queries)
    unknown = [] if relevant is None else [query for query in check_relevant(relevant) if query not in set(texts)]
    if unknown:
        raise InvalidInputError(f"relevant must name queries among those given; {unknown[0]!r} is not")
    return with_progress(texts, progress)


def check_queries(queries: Sequence[str], /) -> list[str]:
    """`queries` as a list of different, non-blank texts.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is a single text, holds something else than text, or nothing at all.
    """
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise InvalidTypeError(f"queries must be a sequence of texts; got {type(queries).__name__}")
    found = list(queries)
    for query in found:
        if not isinstance(query, str):
            raise InvalidTypeError(f"queries must be texts; got {type(query).__name__}")
        if not query.strip():
            raise InvalidInputError("queries must not be blank; got one without a visible character")
    if not found:
        raise InvalidInputError("queries must hold at least one text; got none")
    return found


Accept: TypeAlias = AcceptancePolicy | Mapping[str, Threshold | float]
Correct: TypeAlias = Callable[[Result], "str | Awaitable[str | None] | None"]


@dataclass(frozen=True, slots=True)
class Choosing:
    """What happens after fusing.

    Parameters
    ----------
    accept : AcceptancePolicy or mapping of str to threshold, optional
        Thresholds by source, on its own scores.
    selection : SelectionPolicy or str, optional
        Or the name of its method.
    correct : callable, optional
        Called with the result of a query of which everything was rejected; the query it returns is asked once.
    embedding : Embedding
        Where vectors come from, for a selection that weighs redundancy.
    """

    accept: Accept | None = None
    selection: SelectionPolicy | str | None = None
    correct: Correct | None = None
    embedding: Embedding = field(default_factory=Embedding)

    def of_pipeline(self, pipeline: FusionPipeline, sources: Sequence[str]) -> FusionPipeline:
        """The pipeline with these stages in place of its own; an error names the field."""
        if self.correct is not None and not callable(self.correct):
            raise InvalidTypeError(f"correct must be a function or None; got {self.correct!r}")
        if self.accept is not None:
            pipeline = replace(pipeline, accept=_policy(self.accept, sources))
        if self.selection is not None:
            pipeline = replace(pipeline, selection=_selection(self.selection))
        return pipeline

    def again(self, result: Result) -> Any:
        """What `correct` says of a result of which everything was rejected: a query, None, an awaitable, its error."""
        if self.correct is None or result.reason != "all_rejected":
            return None
        try:
            return self.correct(result)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - what corrects never costs the answer there is
            return error


class UncorrectedError(PhasegraphError):
    """What `correct` gave cannot be asked; the first result stands."""


async def awaited(said: Awaitable[Any], seconds: float | None) -> Any:
    """What an awaitable gives within `seconds`, or the error it ends with."""
    try:
        return await wait_for(said, seconds)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - as in a call that is not asynchronous
        return error


def check_correction(said: object, seconds: float | None) -> str:
    """The query that `correct` gave, or UncorrectedError where there is none or no time is left to ask it."""
    if isinstance(said, TimeoutError) or (seconds is not None and seconds <= 0):
        why = "left no time to ask again"
    elif isinstance(said, Exception):
        why = f"raised {type(said).__name__}"
    elif isinstance(said, str):
        if said.strip():
            return said
        why = "returned a blank query"
    elif iscoroutine(said):
        why = "returned a coroutine, which only asynchronous calls await"
    else:
        why = f"must return a query or None; it returned {type(said).__name__}"
    if iscoroutine(said):
        said.close()
    raise UncorrectedError(f"correct {why}")


def uncorrected(result: Result, error: PhasegraphError) -> Result:
    """The first result, which says why it was not corrected."""
    why = str(error) if isinstance(error, UncorrectedError) else "correct gave a query that no source answered"
    return replace(result, warnings=(*result.warnings, f"{why}; the first result is kept"))


def _policy(given: Accept, sources: Sequence[str]) -> AcceptancePolicy:
    if isinstance(given, AcceptancePolicy):
        policy = given
    elif isinstance(given, Mapping):
        policy = AcceptancePolicy(given)
    else:
        raise InvalidTypeError(f"accept must be a mapping of source to threshold or an AcceptancePolicy; got {given!r}")
    unknown = sorted(set(policy.thresholds) - set(sources))
    if unknown:
        raise InvalidInputError(f"accept must name sources among {list(sources)}; got {unknown}")
    return policy


def _selection(given: SelectionPolicy | str) -> SelectionPolicy:
    if isinstance(given, SelectionPolicy):
        return given
    if not isinstance(given, str):
        raise InvalidTypeError(f"selection must be a SelectionPolicy or the name of a method; got {given!r}")
    return SelectionPolicy(given)  # type: ignore[arg-type]


Notes: TypeAlias = dict[str, list[str]]
Bind: TypeAlias = Callable[[str, list[str]], AnySource]
MakeContext: TypeAlias = Callable[[str], Context | Awaitable[Context]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Gatherer and pipeline of one fusing retriever; the sources themselves are bound at each call.

    Parameters
    ----------
    specs : mapping of str to SourceSpec
        In name order.
    asked : tuple of str
        Those that a call asks: weight above 0, or needed by one that is.
    gatherer : Gatherer
    pipeline : FusionPipeline
    context : callable or None
        ``context(query)`` gives the core's ``Context``.
    choosing : Choosing
        Acceptance, selection and correction.
    k, weights : int or None, mapping or None
        As they were given; None = the pipeline's.
    foreign : mapping of str to str
        By source, what to note of a calibrator that was fitted to scores of something else.

    Examples
    --------
    >>> from phasegraph.sources import CallableSource
    >>> plan = Plan.of({"v": SourceSpec(retriever=None)})
    >>> plan.ask("who?", 1, lambda name, notes: CallableSource(name, lambda query, limit: [("a", 2.0)])).ids
    ('a',)
    """

    specs: Mapping[str, SourceSpec]
    asked: tuple[str, ...]
    gatherer: Gatherer
    pipeline: FusionPipeline
    context: MakeContext | None = None
    choosing: Choosing = field(default_factory=Choosing)
    k: int | None = None
    weights: Mapping[str, float] | None = None
    foreign: Mapping[str, str] = field(default_factory=dict)

    __reduce__ = by_fields

    @classmethod
    def of(
        cls,
        specs: Mapping[str, SourceSpec],
        *,
        k: int | None = None,
        weights: Mapping[str, float] | None = None,
        pipeline: FusionPipeline | str | os.PathLike[str] | None = None,
        limit: int | None = 50,
        timeout: float | None = 10.0,
        strict: bool = False,
        context: MakeContext | None = None,
        choosing: Choosing | None = None,
    ) -> Plan:
        """The plan of a retriever's arguments, or an error that names the field.

        Parameters
        ----------
        specs : mapping of str to SourceSpec
        k : int, optional
            Default: the pipeline's.
        weights, pipeline, limit, deadline, strict, context
            As in the retrievers.
        choosing : Choosing, optional
        """
        settings = {name: spec.settings(limit, needs_of(name, spec, specs)) for name, spec in specs.items()}
        gatherer = Gatherer(settings, timeout=timeout, strict=strict)
        after = Choosing() if choosing is None else choosing
        bare = cls(specs, (), gatherer, FusionPipeline(), context, after, k, check_weights(weights, specs))
        return bare.with_pipeline(FusionPipeline() if pipeline is None else pipeline)

    @property
    def strict(self) -> bool:
        """Whether any degradation is an error."""
        return self.gatherer.strict or self.pipeline.strict

    def known(self) -> Plan:
        """The same plan, which says whose calibrators were fitted to scores of something else; an error if strict."""
        return replace(self, foreign=check_fingerprints(self.pipeline, self.specs, strict=self.strict))

    @property
    def sizes(self) -> dict[str, int | None]:
        """Stated size of each source's collection."""
        return {name: spec.size for name, spec in self.specs.items()}

    def fit(
        self,
        answers: Sequence[tuple[str, Sequence[Ranking]]],
        relevant: Mapping[str, Collection[str]] | None = None,
    ) -> Fitted:
        """Reference calibrators of the sources that can be fitted, and how far they agree.

        Parameters
        ----------
        answers : sequence of (query, sequence of Ranking)
        relevant : mapping of str to collection of str, optional
            Ids of relevant passages by query, to see that no source is read the wrong way round.
        """
        if relevant is not None:
            check_orientations(answers, relevant)
        calibrators = fit_calibrators(
            [ranking for _, rankings in answers for ranking in rankings],
            self.sizes,
            sources=self.asked,
            strict=self.strict,
            normal_scores=FUSION_RULES[self.pipeline.rule].expects not in ("bounded", "percentile"),
            fingerprints=fingerprints(self.specs),
        )
        return Fitted(calibrators, fit_min_agreement([rankings for _, rankings in answers], self.pipeline))

    def with_fitted(self, fitted: Fitted) -> Plan:
        """The same plan with these calibrators in place of, or besides, those it has."""
        return replace(self, pipeline=fitted.on(self.pipeline)).known()

    def with_pipeline(self, pipeline: FusionPipeline | str | os.PathLike[str]) -> Plan:
        """The same plan, deciding by another pipeline; what was given besides a pipeline stays in force."""
        chosen = check_pipeline(pipeline, self.weights, self.specs, strict=self.gatherer.strict)
        chosen = self.choosing.of_pipeline(chosen, list(self.specs))
        if self.k is not None:
            chosen = replace(chosen, k=self.k)
        check_names(chosen, self.specs)
        if self.context is None:
            self.choosing.embedding.check(chosen.selection)
        return replace(self, pipeline=chosen, asked=_asked(self.gatherer, chosen)).known()

    def with_k(self, k: int) -> Plan:
        """The same plan with another number of results, as if it had been given."""
        return replace(self, k=k, pipeline=replace(self.pipeline, k=k))

    def ask(self, query: str, k: int, bind: Bind) -> Result:
        """Ask the sources and decide.

        Parameters
        ----------
        query : str
        k : int
        bind : callable
            ``bind(name, notes)`` gives the source of this call; what it notes goes to its report.
        """
        begun = monotonic()
        result = self._ask(query, k, bind, self.gatherer.timeout)
        said = self.choosing.again(result)
        if said is None:
            return result
        left = self._left(begun)
        try:
            return self._ask(check_correction(said, left), k, bind, left)
        except (UncorrectedError, AllSourcesFailed) as error:
            return uncorrected(result, error)

    async def aask(self, query: str, k: int, bind: Bind) -> Result:
        """As :meth:`ask`, on the caller's event loop; there, what corrects may be a coroutine."""
        begun = monotonic()
        result = await self._aask(query, k, bind, self.gatherer.timeout)
        said = self.choosing.again(result)
        if isawaitable(said):
            said = await awaited(said, self._left(begun))
        if said is None:
            return result
        left = self._left(begun)
        try:
            return await self._aask(check_correction(said, left), k, bind, left)
        except (UncorrectedError, AllSourcesFailed) as error:
            return uncorrected(result, error)

    def _left(self, begun: float) -> float | None:
        """Seconds left of a call's deadline; None = there is none."""
        limit = self.gatherer.timeout
        return None if limit is None else max(0.0, limit - (monotonic() - begun))

    def rankings(self, query: str, bind: Bind) -> Sequence[Ranking]:
        """What the sources answer, undecided."""
        return self.gatherer.gather(self._bind(bind)[0], query).rankings

    async def arankings(self, query: str, bind: Bind) -> Sequence[Ranking]:
        """As :meth:`rankings`."""
        return (await self.gatherer.agather(self._bind(bind)[0], query)).rankings

    def _bind(self, bind: Bind) -> tuple[dict[str, AnySource], Notes]:
        notes: Notes = {name: [] for name in self.asked}
        for name in self.foreign:
            notes.setdefault(name, []).append(self.foreign[name])
        return {name: bind(name, notes[name]) for name in self.asked}, notes

    def _ask(self, query: str, k: int, bind: Bind, seconds: float | None) -> Result:
        bound, notes = self._bind(bind)
        found = self.gatherer.gather(bound, query, seconds=seconds)
        context = Context(query=query) if self.context is None else check_context(self.context(query))
        if self._needs_vectors:
            context = self.choosing.embedding.context(context, found.rankings)
        return self._decide(found, notes, context, k)

    async def _aask(self, query: str, k: int, bind: Bind, seconds: float | None) -> Result:
        bound, notes = self._bind(bind)
        begun = monotonic()
        found = await self.gatherer.agather(bound, query, seconds=seconds)
        made = Context(query=query) if self.context is None else self.context(query)
        context = check_context(await made if isawaitable(made) else made)
        if not self._needs_vectors:
            return self._decide(found, notes, context, k)
        try:
            later = self.choosing.embedding.context(context, found.rankings, later=True)
            return self._decide(found, notes, later, k)
        except VectorsWanted as wanted:
            ids = wanted.ids
        left = None if seconds is None else max(0.0, seconds - (monotonic() - begun))
        outcome: Exception | ArrayLike
        try:
            outcome = await self.choosing.embedding.avectors(ids, found.rankings, left)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the core says that selection failed
            outcome = error
        return self._decide(found, notes, replace(context, embeddings=lambda _: _raised(outcome)), k)

    @property
    def _needs_vectors(self) -> bool:
        return self.pipeline.selection is not None and self.pipeline.selection.needs_embeddings

    def _decide(self, found: Gathered, notes: Notes, context: Context, k: int) -> Result:
        reports = with_notes(found.reports, notes)
        wanted = None if k == self.pipeline.k else k  # varying the pipeline is not free
        return self.pipeline.decide(found.rankings, context, reports=reports, k=wanted)


def check_context(made: object) -> Context:
    """What `context` returned, or an error that names the field."""
    if isinstance(made, Context):
        return made
    if iscoroutine(made):
        made.close()
        raise InvalidTypeError("context must return a Context; got a coroutine, which only asynchronous calls await")
    raise InvalidTypeError(f"context must return a Context; got {type(made).__name__}")


def _raised(outcome: Exception | ArrayLike) -> ArrayLike:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def with_fitted(given: FusionPipeline | str | os.PathLike[str] | None, fitted: Fitted) -> FusionPipeline:
    """The pipeline as it was given, with what was fitted and nothing else of a retriever's."""
    return fitted.on(check_pipeline(FusionPipeline() if given is None else given, None, {}))


def _asked(gatherer: Gatherer, pipeline: FusionPipeline) -> tuple[str, ...]:
    weights = pipeline.weights
    wanted = [name for name in gatherer.settings if weights is None or weights[name] > 0]
    if not wanted:
        raise InvalidInputError("weights must not all be 0 for the sources at hand")
    for name in wanted:
        wanted.extend(need for need in gatherer.settings[name].depends_on if need not in wanted)
    return tuple(sorted(wanted))


def settled(result: Result, winners_of: Callable[[Result], list[Any]]) -> tuple[Result, list[Any]]:
    """A result that says which of its winners came with differing texts, and the winners in the framework's words."""
    winners = winners_of(result)
    return with_text_warnings(result, winners), winners


class Calibrating:
    """Part of a retriever that has a plan, binds its sources to a query, and takes what was fitted.

    A retriever inherits it beside its framework's class and fills in :meth:`_planned`, :meth:`_bound`, :meth:`_take`
    and :meth:`_decide_by`.
    """

    __slots__ = ()

    def calibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """Fit each source's reference calibrator, and how far sources agree, from unlabelled queries.

        Parameters
        ----------
        queries : sequence of str
            At least enough for 20 scores per source; some hundred are better.
        relevant : mapping of str to collection of str, optional
            By query, the ids that answer it, where some are judged. For one purpose: a source whose scores fall where
            relevance rises is refused (distances read as similarities).
        progress : bool, default True
            Show a bar where standard error is a terminal and tqdm is installed.

        Returns
        -------
        Self
            The retriever, fitted. Sources that state their background or give ranks only are left as they are, and so
            is, with a warning, one whose scores cannot be fitted while another's can.
        """
        asked = calibration_queries(queries, relevant, progress)
        answers = [(query, self._planned().rankings(query, self._bound(query))) for query in asked]
        self._take(self._planned().fit(answers, relevant))
        return self

    async def acalibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """As :meth:`calibrate`."""
        asked = calibration_queries(queries, relevant, progress)
        answers = [(query, await self._planned().arankings(query, self._bound(query))) for query in asked]
        self._take(self._planned().fit(answers, relevant))
        return self

    @property
    def fusion(self) -> FusionPipeline:
        """The pipeline that decides, with the weights and calibrators in use."""
        return self._planned().pipeline

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted pipeline, weights and number of results included, to one JSON file."""
        self._planned().pipeline.save(path)

    def load(self, path: str | os.PathLike[str]) -> Self:
        """Take the pipeline that :meth:`save` wrote; IntegrityError if the file is damaged, foreign or newer.

        What the constructor was given (weights, number of results, `accept`, `selection`) wins over the file.
        """
        self._decide_by(FusionPipeline.load(path))
        return self

    def _planned(self) -> Plan:
        """The plan in use."""
        raise NotImplementedError

    def _bound(self, query: str) -> Bind:
        """What binds the sources to a query of the calibration."""
        raise NotImplementedError

    def _take(self, fitted: Fitted) -> None:
        """Go on with what was fitted."""
        raise NotImplementedError

    def _decide_by(self, pipeline: FusionPipeline) -> None:
        """Go on with another pipeline."""
        raise NotImplementedError


class Listener:
    """An ``on_result`` of a retriever; what it raises becomes a warning.

    Parameters
    ----------
    on_result : callable or None
        Called with every result; a coroutine function is awaited in asynchronous calls, and cannot be in others.

    Raises
    ------
    InvalidTypeError
        If it is something else.

    Examples
    --------
    >>> seen = []
    >>> Listener(seen.append).tell("a result")
    >>> seen
    ['a result']
    """

    __slots__ = ("_function", "_warned")

    def __init__(self, on_result: Callable[[Result], Any] | None) -> None:
        if on_result is not None and not callable(on_result):
            raise InvalidTypeError(f"on_result must be a function or None; got {on_result!r}")
        self._function = on_result
        self._warned = False

    def tell(self, result: Result) -> None:
        """Call it; what it would have to await is closed, with a warning the first time."""
        if self._function is None:
            return
        try:
            told = self._function(result)
        except Exception as error:  # noqa: BLE001 - a listener never costs the answer
            _warn(error)
            return
        if inspect.isawaitable(told):
            if inspect.iscoroutine(told):
                told.close()
            if not self._warned:
                self._warned = True
                warnings.warn(
                    "on_result is a coroutine function, which a synchronous call cannot await: it was not run; give a "
                    "plain function, or ask asynchronously",
                    PhasegraphWarning,
                    stacklevel=3,
                )

    async def atell(self, result: Result) -> None:
        """Call it, and await what it gives back."""
        if self._function is None:
            return
        try:
            told = self._function(result)
            if inspect.isawaitable(told):
                await told
        except Exception as error:  # noqa: BLE001 - a listener never costs the answer
            _warn(error)


def _warn(error: Exception) -> None:
    warnings.warn(f"on_result raised {type(error).__name__}", PhasegraphWarning, stacklevel=4)


def list_pipeline(
    pipeline: FusionPipeline | None, weights: Mapping[str, float] | None, k: int | None, *, field: str = "k"
) -> FusionPipeline:
    """The pipeline of a fusion of lists, or an error that names the field.

    Parameters
    ----------
    pipeline : FusionPipeline, optional
    weights : mapping of str to float, optional
        In place of the pipeline's.
    k : int, optional
        In place of the pipeline's.
    field : str
        What `k` is called there.

    Examples
    --------
    >>> list_pipeline(FusionPipeline(k=4), None, None).k
    4
    """
    chosen = FusionPipeline() if pipeline is None else pipeline
    if not isinstance(chosen, FusionPipeline):
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or None; got {type(chosen).__name__}")
    if weights is not None:
        chosen = replace(chosen, weights=check_weights_mapping(weights))
    return chosen if k is None else replace(chosen, k=check_count(field, k))


def check_readings(readings: Mapping[str, Reading] | None) -> dict[str, Reading]:
    """How each list is read, by name, or an error that names the list."""
    for name, reading in (readings or {}).items():
        if not isinstance(reading, Reading):
            raise InvalidTypeError(f"readings[{name!r}] must be a Reading; got {type(reading).__name__}")
    return dict(readings or {})


def decide_lists(
    pipeline: FusionPipeline, lists: Mapping[str, Any], read: Callable[[str, list[str]], Ranking], query: str | None
) -> Result:
    """Read every list, in name order, and decide.

    Parameters
    ----------
    pipeline : FusionPipeline
    lists : mapping of str to list
    read : callable
        ``read(name, notes)`` gives the ranking of a list; what it notes goes to its report.
    query : str, optional
        For priors that read it.
    """
    if not isinstance(lists, Mapping):
        raise InvalidTypeError(f"lists must be a mapping of names to lists; got {type(lists).__name__}")
    if not lists:
        raise InvalidInputError("lists must hold at least one list; got none")
    notes: dict[str, list[str]] = {name: [] for name in sorted(lists)}
    rankings = [read(name, found) for name, found in notes.items()]
    reports = with_notes([SourceReport.of(one) for one in rankings], notes)
    return pipeline.decide(rankings, Context(query=query or ""), reports=reports)
