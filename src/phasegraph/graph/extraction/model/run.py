"""Many passages: a bounded number at once, and a report of what became of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event
from time import perf_counter
from types import MappingProxyType
from typing import Any

from phasegraph.adapters import with_progress
from phasegraph.errors import InvalidTypeError
from phasegraph.graph.entity_graph.records import Extraction
from phasegraph.graph.extraction.corpus import read_passages
from phasegraph.graph.extraction.model.asking import ModelSettings, Outcome, TextModel, ask
from phasegraph.graph.extraction.model.cache import AnswerCache
from phasegraph.sources.workers import WorkerPool

_Key = tuple[str, str]
_GLANCE = 0.2
"""Seconds between looks for an interrupt."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What became of the passages.

    Parameters
    ----------
    passages : int
    done : int
        With an extraction.
    cached : int
        Of those, how many needed no call.
    failed : mapping of str to str
        Reason by passage id.
    untried : int
        Left out because too many failed in a row.
    calls : int
        Calls of the model, failed ones included.
    malformed_triples : int
        Triples left out because they are not three strings, or name nothing at one end.
    seconds : float
    """

    passages: int
    done: int
    cached: int
    failed: Mapping[str, str]
    untried: int
    calls: int
    malformed_triples: int
    seconds: float = field(compare=False)

    def __str__(self) -> str:
        parts = [f"{self.done} of {self.passages} passages done ({self.cached} from the cache, {self.calls} calls)"]
        if self.failed:
            name, reason = next(iter(self.failed.items()))
            parts.append(f"{len(self.failed)} failed ({name}: {reason})")
        if self.untried:
            parts.append(f"{self.untried} not tried")
        if self.malformed_triples:
            parts.append(f"{self.malformed_triples} malformed triples left out")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class ModelRun:
    """Extractions in the order of the passages, those that failed left out, and the report."""

    extractions: tuple[Extraction, ...]
    report: ModelReport


def extract_with_model(
    passages: Iterable[Any],
    model: TextModel,
    *,
    model_name: str,
    cache: str | os.PathLike[str] | None = None,
    settings: ModelSettings | None = None,
    progress: bool | None = None,
) -> ModelRun:
    """Have a text model find the entities and triples of passages.

    Parameters
    ----------
    passages : iterable of mapping or object
        As for :func:`~phasegraph.graph.build_graph`.
    model : callable
        ``model(prompt) -> text``; called from several threads at once.
    model_name : str
        Part of the cache's keys; not blank.
    cache : path, optional
        A folder for the answers. A later run asks only for what is not there, so that one that was interrupted,
        or failed in part, goes on; a damaged entry is asked for again.
    settings : ModelSettings, optional
    progress : bool, optional
        Show a bar on a terminal.

    Returns
    -------
    ModelRun
        For ``build_graph(passages, triples=run.extractions)``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        For passages that are none, a model that is not callable, or a cache that is a file.
    OSError
        If the cache cannot be written.

    Notes
    -----
    Two calls per passage: names, then triples. A passage's failure is a line in the report and stops nothing.
    KeyboardInterrupt passes through; calls under way are abandoned, and what was answered is in the cache. Passages
    of the same text are asked about once.

    Examples
    --------
    >>> def model(prompt):
    ...     return '{"entities": ["Ada", "Bo"], "triples": [["Ada", "met", "Bo"]]}'
    >>> run = extract_with_model([{"id": "1", "text": "Ada met Bo."}], model, model_name="fixed")
    >>> run.extractions[0].triples
    (('Ada', 'met', 'Bo'),)
    >>> print(run.report)
    1 of 1 passages done (0 from the cache, 2 calls)
    """
    if not callable(model):
        raise InvalidTypeError(f"model must be a function from prompt to text; got {type(model).__name__}")
    rows = read_passages(passages)
    chosen = settings if settings is not None else ModelSettings()
    kept = AnswerCache(cache, model_name)
    started = perf_counter()
    texts = list(dict.fromkeys((title, text) for _, title, text in rows))
    asked = _asked(texts, model, kept, chosen)
    outcomes = dict(with_progress(_counted(asked, len(texts)), progress, label="extract"))
    return _gathered(rows, outcomes, perf_counter() - started)


class _counted:  # noqa: N801 - an iterable with a length, for the bar
    def __init__(self, items: Iterator[tuple[_Key, Outcome]], length: int) -> None:
        self.items, self.length = items, length

    def __iter__(self) -> Iterator[tuple[_Key, Outcome]]:
        return self.items

    def __len__(self) -> int:
        return self.length


def _asked(
    texts: Sequence[_Key], model: TextModel, cache: AnswerCache, settings: ModelSettings
) -> Iterator[tuple[_Key, Outcome]]:
    """Outcomes as they come, at most `workers` passages under way; stops early where all fail."""
    waiting, answers = deque(texts), SimpleQueue[tuple[_Key, Outcome | BaseException]]()
    pool, stopped = WorkerPool(), Event()

    def work(key: Any) -> Outcome | BaseException:
        if stopped.is_set():
            return Outcome(reason="stopped")
        try:
            title, text = key
            return ask(model, title, text, cache, settings)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
            return error

    under_way = in_a_row = 0
    try:
        while waiting or under_way:
            while waiting and under_way < settings.workers and in_a_row < settings.give_up_after:
                pool.submit(work, lambda key, outcome: answers.put((key, outcome)), waiting.popleft())
                under_way += 1
            if not under_way:
                return
            try:
                key, outcome = answers.get(timeout=_GLANCE)
            except Empty:
                continue
            under_way -= 1
            if isinstance(outcome, BaseException):
                raise outcome
            in_a_row = in_a_row + 1 if outcome.reason else 0
            yield key, outcome
    finally:
        stopped.set()


def _gathered(rows: Sequence[tuple[str, str, str]], outcomes: Mapping[_Key, Outcome], seconds: float) -> ModelRun:
    extractions: list[Extraction] = []
    failed: dict[str, str] = {}
    cached = malformed = untried = 0
    for name, title, text in rows:
        outcome = outcomes.get((title, text))
        if outcome is None:
            untried += 1
        elif outcome.reason:
            failed[name] = outcome.reason
        else:
            cached += not outcome.calls
            malformed += outcome.malformed
            extractions.append(Extraction(name, outcome.entities, outcome.triples))
    calls = sum(outcome.calls for outcome in outcomes.values())
    report = ModelReport(
        len(rows), len(extractions), cached, MappingProxyType(failed), untried, calls, malformed, seconds
    )
    return ModelRun(tuple(extractions), report)
