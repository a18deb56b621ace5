"""Reference calibrators from the rankings of unlabelled queries, with a progress bar where somebody is watching."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from phasegraph.acceptance.orientation import check_relevant
from phasegraph.calibration import ReferenceECDF, fit_reference_ecdf
from phasegraph.candidates import Ranking
from phasegraph.errors import (
    DegradedError,
    InsufficientDataError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphWarning,
)
from phasegraph.pipeline import FusionPipeline

ASSUMED_SIZE = 1_000_000
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Fitted:
    """What calibrating gives a pipeline.

    Parameters
    ----------
    calibrators : mapping of str to ReferenceECDF
    agreement_floor : mapping of (str, str) to float
        As in :class:`~phasegraph.FusionPipeline`.
    """

    calibrators: Mapping[str, ReferenceECDF]
    agreement_floor: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def on(self, pipeline: FusionPipeline) -> FusionPipeline:
        """The pipeline with these calibrators besides those it has for other sources, and these floors."""
        calibrators = {**pipeline.calibrators, **self.calibrators}
        return replace(pipeline, calibrators=calibrators, agreement_floor=self.agreement_floor)


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
        What each source's scores come from; see :func:`~phasegraph.adapters.fingerprint.fingerprint_of`.

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
