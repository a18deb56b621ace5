"""Fit a calibrator for each source of a retriever, to the scores of many queries without relevance labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from phasegraph._support.progress import with_progress
from phasegraph.acceptance.confidence import LEAST_QUERIES
from phasegraph.acceptance.judged import check_relevant
from phasegraph.calibration import ReferenceECDF, fit_reference_ecdf
from phasegraph.errors import DegradedError, InsufficientDataError, InvalidInputError, InvalidTypeError, warn
from phasegraph.ranking import Ranking

ASSUMED_SIZE = 1_000_000


def fit_calibrators(
    rankings: Iterable[Ranking],
    /,
    sizes: Mapping[str, int | None] | None = None,
    *,
    sources: Sequence[str] = (),
    least: int = 1,
    strict: bool = False,
    normal_scores: bool = True,
    fingerprints: Mapping[str, str] | None = None,
) -> dict[str, ReferenceECDF]:
    """Fit a reference calibrator for each source from rankings of many queries; return them by source, in name order.

    `sizes` are the numbers of passages of the sources, by name. The default is the size that the rankings state, or
    1,000,000. `sources` are the names of the searched sources, because an error must also name a source without any
    hit. Sources that state their background (the mean and deviation of all their scores) need no calibrator, and
    sources that return only ranks have no scores. Both kinds are left out. `normal_scores` says whether calibrators
    return normal quantiles, or percentiles in [0, 1]. `fingerprints` are texts that name the store and the model of
    each source; they are stored in the calibrators.

    A source cannot be fitted if it answered fewer than `least` queries, or has fewer than 20 scores, or fewer than two
    different scores. Such a source is left out with a warning; with `strict`, raise DegradedError. If no source can be
    fitted, raise InsufficientDataError.

    The hits of a ranking are the best of all passages of the source. The mean number of hits divided by the size is
    their share of these passages. With this share, calibrated scores have the scale of the background calibration (see
    :class:`~phasegraph.calibration.ReferenceECDF`).

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
    failed = {name: "it returned no hits" for name in sorted(silent)}
    first: tuple[str, InsufficientDataError] | None = None
    for name, lists in sorted(found.items()):
        length = sum(map(len, lists)) / len(lists)
        stated = [one.size for one in lists if one.size is not None and one.size > 0]
        size = (sizes or {}).get(name) or max(stated, default=ASSUMED_SIZE)
        try:
            if len(lists) < least:
                raise InsufficientDataError(
                    f"calibrating needs at least {least} queries with hits; got {len(lists)}: give more queries"
                )
            made = fit_reference_ecdf(
                [ranking.scores for ranking in lists],
                normal_scores=normal_scores,
                fraction=min(1.0, length / size),
                size=size,
            )
            fitted[name] = replace(made, fingerprint=(fingerprints or {}).get(name, ""))
        except InsufficientDataError as error:
            failed[name] = str(error)
            first = first or (name, error)
    if first is not None and not fitted:
        raise InsufficientDataError(f"source {first[0]!r}: {first[1]}") from first[1]
    if failed:
        listed = "; ".join(f"{name!r}: {failed[name]}" for name in sorted(failed))
        if strict:
            raise DegradedError(
                f"strict=True requires a fitted calibrator for every source; the fit failed for {listed}. Give more "
                "queries, or set strict=False"
            )
        warn(f"sources without a fitted calibrator, which use only each answer's own scores: {listed}")
    return fitted


def calibration_queries(
    queries: Sequence[str], relevant: Mapping[str, Collection[str]] | None, /, progress: bool | None
) -> Iterable[str]:
    """Check the calibration queries, and return an iterable of the queries that shows a progress bar.

    Raise an error if `queries` is a single text, contains a blank text or another type, or has fewer than 20 different
    queries. Also raise an error if `relevant` is not a mapping of some of these queries to ids.
    """
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise InvalidTypeError(f"queries must be a sequence of texts; got {type(queries).__name__}")
    texts = list(queries)
    for query in texts:
        if not isinstance(query, str):
            raise InvalidTypeError(f"queries must be texts; got {type(query).__name__}")
        if not query.strip():
            raise InvalidInputError(f"queries must not be blank; got {query!r}")
    if not texts:
        raise InvalidInputError("queries is empty: give at least one text")
    unknown = [] if relevant is None else [query for query in check_relevant(relevant) if query not in set(texts)]
    if unknown:
        raise InvalidInputError(f"relevant must have keys among the given queries; got {unknown[0]!r}")
    different = len(set(texts))
    if different < LEAST_QUERIES:
        raise InsufficientDataError(
            f"queries must contain at least {LEAST_QUERIES} different texts, and several hundred are better; got "
            f"{different}, and nothing was fitted"
        )
    return with_progress(texts, progress)


def check_found(answers: Sequence[tuple[str, Sequence[Ranking]]], relevant: Mapping[str, Collection[str]], /) -> None:
    """Raise InvalidInputError if `relevant` contains ids, and no answer to any query contains such an id.

    `answers` pairs each query with its rankings. If no id matches, `relevant` uses other ids than the sources, or the
    sources return too few hits.
    """
    wanted = sorted({one for ids in check_relevant(relevant).values() for one in ids})
    found = {name: None for _, rankings in answers for ranking in rankings for name in ranking.ids}
    if wanted and found and found.keys().isdisjoint(wanted):
        raise InvalidInputError(
            f"none of the {len(wanted)} ids in relevant (such as {wanted[0]!r}) is in an answer of a source, whose ids "
            f"are such as {next(iter(found))!r}: give the ids of the sources' passages, or raise fetch_k if these "
            "passages exist"
        )
