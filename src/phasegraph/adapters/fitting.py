"""Reference calibrators from the rankings of unlabelled queries, with a progress bar where somebody is watching."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

from phasegraph.calibration import ReferenceECDF, fit_reference_ecdf
from phasegraph.candidates import Ranking
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError

ASSUMED_SIZE = 1_000_000
Item = TypeVar("Item")


def fit_calibrators(
    rankings: Iterable[Ranking], /, sizes: Mapping[str, int | None] | None = None
) -> dict[str, ReferenceECDF]:
    """A reference calibrator per source, from its rankings of many queries.

    Parameters
    ----------
    rankings : iterable of Ranking
        Of any number of sources and queries.
    sizes : mapping of str to int or None, optional
        Size of each source's collection, where it is known; else what its rankings state, else 1,000,000.

    Returns
    -------
    dict of str to ReferenceECDF
        In name order, in normal scores. Sources that state their background or give ranks only are left out: the
        first need no sample, the second have no scores.

    Raises
    ------
    InsufficientDataError
        If a source gave fewer than 20 scores, or fewer than two different ones; the message names it.

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
    for ranking in rankings:
        if len(ranking) and not ranking.rank_only and ranking.background is None:
            found.setdefault(ranking.source, []).append(ranking)
    fitted: dict[str, ReferenceECDF] = {}
    for name in sorted(found):
        lists = found[name]
        length = sum(map(len, lists)) / len(lists)
        size = _size(None if sizes is None else sizes.get(name), lists)
        try:
            fitted[name] = fit_reference_ecdf(
                [ranking.scores for ranking in lists],
                normal_scores=True,
                fraction=min(1.0, length / size),
                size=size,
            )
        except InsufficientDataError as error:
            raise InsufficientDataError(f"source {name!r}: {error}") from error
    return fitted


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
