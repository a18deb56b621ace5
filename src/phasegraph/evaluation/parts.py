"""Parts of a data set that must not meet: what is tuned on, and what confirms."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from phasegraph._typing import IntArray
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.reading import wrong


def split_by_id(ids: Sequence[str], part: Literal["tune", "confirm"], *, share: float = 0.5) -> IntArray:
    """Rows of the queries of one part; which part is decided by the MD5 of the id alone.

    Parameters
    ----------
    ids : sequence of str
    part : {"tune", "confirm"}
    share : float, default 0.5
        Expected share of the tuning part, in (0, 1).

    Returns
    -------
    array of int
        The two parts are disjoint and together complete, whatever other queries there are.

    Raises
    ------
    InvalidInputError
        For another part or a share outside (0, 1).

    Examples
    --------
    >>> split_by_id(["a", "b", "c", "d"], "tune"), split_by_id(["a", "b", "c", "d"], "confirm")
    (array([0, 2]), array([1, 3]))
    """
    if part not in ("tune", "confirm") or not 0 < share < 1:
        raise InvalidInputError(f"part must be 'tune' or 'confirm', share in (0, 1); got {part!r}, {share!r}")
    tuning = [_unit(name) < share for name in ids]
    return np.flatnonzero(np.array(tuning, dtype=bool) == (part == "tune"))


def _unit(name: str) -> float:
    digest = hashlib.md5(name.encode("utf-8"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def check_disjoint(fitted_on: Dataset, scored_on: Dataset) -> None:
    """Raise where a query stands in both data sets: what is fitted on must not be scored.

    Raises
    ------
    InvalidInputError
        Naming file and line of the first such query.
    """
    scored = {query.id for query in scored_on.queries}
    for query in fitted_on.queries:
        if query.id in scored:
            file = Path(fitted_on.name if fitted_on.path is None else fitted_on.path) / "queries.jsonl"
            message = f"a query must stand in one of the two sets only; {query.id!r} is also in {scored_on.name}"
            raise wrong(file, query.line or None, message)
