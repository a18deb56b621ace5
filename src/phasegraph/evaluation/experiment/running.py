"""Answering every query with every system, from the same lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType

from phasegraph.errors import InsufficientDataError, InvalidInputError, MissingDependencyError
from phasegraph.evaluation.legs import Bench, Leg, search_legs
from phasegraph.evaluation.systems import System


@dataclass(frozen=True, slots=True)
class Answers:
    """What one system found, and how long it took.

    Parameters
    ----------
    name : str
    found : mapping of str to tuple of str
        Ids in order, by query id.
    milliseconds : float or None
        Mean wall time of a query: the searches of its legs and the fusing; None where it was not measured.
    """

    name: str
    found: Mapping[str, tuple[str, ...]]
    milliseconds: float | None = None


def run_systems(
    bench: Bench, systems: Sequence[System], k: int, legs: Mapping[str, Leg] | None = None
) -> tuple[list[Answers], tuple[str, ...]]:
    """Answer every query of a data set with every system, from the same lists.

    Parameters
    ----------
    bench : Bench
        The data set, the list length and the graph.
    systems : sequence of System
        Names differ.
    k : int
        Ids kept per query.
    legs : mapping of str to Leg, optional
        Rankings already searched; what is lacking is searched.

    Returns
    -------
    list of Answers, tuple of str
        Those that ran, and a line for each that could not: a package is missing, or the data set lacks what a
        leg walks on or a system is fitted on.

    Raises
    ------
    InvalidInputError
        If there is no system, or two have the same name.
    """
    names = [system.name for system in systems]
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"systems must be at least one, with different names; got {names}")
    known = dict(legs or {})
    answers: list[Answers] = []
    left_out: list[str] = []
    for system in systems:
        try:
            known.update(search_legs(bench, [leg for leg in system.legs if leg not in known], known))
        except (MissingDependencyError, InsufficientDataError) as error:
            left_out.append(f"{system.name}: {error}")
            continue
        started = perf_counter()
        try:
            found = system.answer(bench.dataset, {leg: known[leg].rankings for leg in system.legs}, k)
        except (MissingDependencyError, InsufficientDataError) as error:
            left_out.append(f"{system.name}: {error}")
            continue
        per_query = 1000 * (perf_counter() - started) / len(bench.dataset.queries)
        per_query += sum(known[leg].milliseconds for leg in system.legs)
        keys = [query.id for query in bench.dataset.queries]
        answers.append(Answers(system.name, MappingProxyType(dict(zip(keys, found, strict=True))), per_query))
    return answers, tuple(left_out)
