"""The answers of systems to all queries of a data set, from the whole corpus or from each query's own collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from types import MappingProxyType

from phasegraph.errors import InsufficientDataError, InvalidInputError, MissingDependencyError
from phasegraph.evaluation.experiment import Answers, check_names
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.evaluation.splits import parts_by
from phasegraph.evaluation.systems import System


def run_systems(
    inputs: ExperimentInput, systems: Sequence[System], k: int, runs: Mapping[str, SourceRun] | None = None
) -> tuple[list[Answers], tuple[str, ...]]:
    """Answer every query of a data set with every system; all systems fuse the same rankings.

    Parameters
    ----------
    inputs : ExperimentInput
        The data set, the list length and the graph.
    systems : sequence of System
        Systems with distinct names.
    k : int
        Number of ids returned per query.
    runs : mapping of str to SourceRun, optional
        Rankings of sources that were already searched; the other sources are searched now.

    Returns
    -------
    list of Answers, tuple of str
        The answers of the systems that ran, and a line for each system that could not run. A system cannot run if a
        package is missing, or if the data set lacks data that a source or the system's fitting needs.

    Raises
    ------
    InvalidInputError
        If there is no system, or two systems have the same name.
    """
    check_names([system.name for system in systems])
    known = dict(runs or {})
    answers: list[Answers] = []
    left_out: list[str] = []
    keys = [query.id for query in inputs.dataset.queries]
    for system in systems:
        try:
            known.update(search_sources(inputs, [source for source in system.sources if source not in known], known))
            started = perf_counter()
            found = system.answer(inputs.dataset, {source: known[source].rankings for source in system.sources}, k)
        except (MissingDependencyError, InsufficientDataError) as error:
            left_out.append(f"{system.name}: {error}")
            continue
        each = 1000 * (perf_counter() - started) / len(keys)
        each += sum(known[source].milliseconds for source in system.sources)
        answers.append(Answers(system.name, MappingProxyType(dict(zip(keys, found, strict=True))), each))
    return answers, tuple(left_out)


def run_within(
    inputs: ExperimentInput, systems: Sequence[System], k: int, name: str
) -> tuple[list[Answers], tuple[str, ...]]:
    """Answer every query of a data set with every system, from the passages of the query's own collection only.

    Parameters
    ----------
    inputs : ExperimentInput
        The inputs without a graph: each collection gets its own graph.
    systems : sequence of System
        Systems with distinct names.
    k : int
        Number of ids returned per query.
    name : str
        The field that names the collection, such as ``collection_id``.

    Returns
    -------
    list of Answers, tuple of str
        The answers, and a line for each system that could not run, as for :func:`run_systems`. A system that cannot run
        in one collection is left out of all collections. A further line counts the queries that are judged by passages
        of other collections, because no system can find these passages.

    Raises
    ------
    InvalidInputError
        If a query or a passage does not have the field, or a graph of the whole corpus is given.
    """
    if inputs.graph is not None:
        raise InvalidInputError(
            f"each {name} gets its own graph, but a graph of the whole corpus was given; pass graph=None"
        )
    found: dict[str, dict[str, tuple[str, ...]]] = {system.name: {} for system in systems}
    spent = dict.fromkeys(found, 0.0)
    left_out: dict[str, None] = {}
    elsewhere = 0
    for part in parts_by(inputs.dataset, name).values():
        own = {passage.id for passage in part.passages}
        elsewhere += sum(not own.issuperset(judgement.passages) for judgement in part.judgements)
        wanted = [system for system in systems if not any(line.startswith(f"{system.name}: ") for line in left_out)]
        answers, lost = run_systems(replace(inputs, dataset=part, progress=None), wanted, k)
        left_out |= dict.fromkeys(lost)
        for one in answers:
            found[one.name] |= one.found
            spent[one.name] += (one.milliseconds or 0.0) * len(one.found)
    total = len(inputs.dataset.queries)
    if elsewhere:
        left_out[f"passages of another {name}: {elsewhere} queries are judged by them"] = None
    whole = [system for system, of in found.items() if len(of) == total]
    return [Answers(system, found[system], spent[system] / total) for system in whole], tuple(left_out)
