"""One passage: two questions, each asked until it is answered or the attempts are used up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph.records import Triple
from phasegraph.graph.extraction.model.answers import read_entities, read_triples
from phasegraph.graph.extraction.model.cache import AnswerCache
from phasegraph.graph.extraction.model.prompts import entity_prompt, triple_prompt
from phasegraph.graph.extraction.openie import entity_names, sound_triples

TextModel: TypeAlias = Callable[[str], str]
"""A prompt in, text out; may be called from several threads at once."""


def doubling(attempt: int) -> float:
    """Seconds to wait after attempt 1, 2, 3, …: 1, 2, 4, at most 30."""
    return float(min(2.0 ** (attempt - 1), 30.0))


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is asked.

    Parameters
    ----------
    attempts : int, default 3
        Calls per question before a passage counts as failed; >= 1.
    workers : int, default 4
        Calls at once; >= 1.
    give_up_after : int, default 25
        Passages that fail in a row before the rest is left untried; >= 1.
    backoff : callable
        ``backoff(attempt) -> seconds`` to wait after a failed attempt, counted from 1.
    sleep : callable
        Does the waiting.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is out of range.
    """

    attempts: int = 3
    workers: int = 4
    give_up_after: int = 25
    backoff: Callable[[int], float] = doubling
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        for name in ("attempts", "workers", "give_up_after"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidTypeError(f"ModelSettings.{name} must be a whole number; got {value!r}")
            if value < 1:
                raise InvalidInputError(f"ModelSettings.{name} must be at least 1; got {value}")
        for name in ("backoff", "sleep"):
            if not callable(getattr(self, name)):
                raise InvalidTypeError(f"ModelSettings.{name} must be callable; got {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one passage: names and triples, or the reason why there are none."""

    entities: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()
    malformed: int = 0
    calls: int = 0
    reason: str = ""


def ask(model: TextModel, title: str, text: str, cache: AnswerCache, settings: ModelSettings) -> Outcome:
    """Both questions about a passage.

    Notes
    -----
    Errors of the model end up in `Outcome.reason`; MemoryError and what is no Exception (KeyboardInterrupt) pass.
    """
    calls = 0

    def answered(prompt: str, read: Callable[[str], list[Any] | None]) -> list[Any] | str:
        nonlocal calls
        kept = cache.get(prompt)
        if kept is not None:
            return kept
        reason = ""
        for attempt in range(1, settings.attempts + 1):
            calls += 1
            found, reason = _call(model, prompt, read)
            if found is not None:
                cache.put(prompt, found)
                return found
            if attempt < settings.attempts:
                settings.sleep(settings.backoff(attempt))
        return reason

    named = answered(entity_prompt(title, text), read_entities)
    if isinstance(named, str):
        return Outcome(calls=calls, reason=f"entities: {named}")
    names = list(dict.fromkeys(name.strip() for name in named if isinstance(name, str) and name.strip()))
    stated = answered(triple_prompt(title, text, names), read_triples)
    if isinstance(stated, str):
        return Outcome(calls=calls, reason=f"triples: {stated}")
    triples, malformed = sound_triples(stated)
    return Outcome(tuple(entity_names(names)[0]), tuple(triples), malformed, calls)


def _call(model: TextModel, prompt: str, read: Callable[[str], list[Any] | None]) -> tuple[list[Any] | None, str]:
    """The items of one answer, or None and why; a prompt that the model repeats first is no answer."""
    try:
        answer = model(prompt)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - any error of a model is a reason
        return None, f"{type(error).__name__}: {error}"[:300]
    if not isinstance(answer, str):
        return None, f"the model must answer with text; got {type(answer).__name__}"
    found = read(answer.removeprefix(prompt))
    return found, "" if found is not None else f"the answer must hold a JSON list; got {answer!r:.120}"
