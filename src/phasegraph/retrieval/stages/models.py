"""Base classes for the functions of stages that call a model, and the passages that a model reads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from phasegraph.errors import InvalidTypeError
from phasegraph.sources.steps import Step


class Passage(NamedTuple):
    """A candidate in the form that a model reads: its id, its text, and the framework's document or node."""

    id: str
    text: str
    hit: Any


class ModelFunction:
    """Base class of functions that wrap a framework's model.

    If `awaits` is True, the model is asynchronous, and the function has a coroutine method ``acall``.
    """

    acall: Callable[..., Any]

    def __init__(self, model: Any, *, awaits: bool) -> None:
        self.model = model
        if awaits:
            self.acall = self._acall

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.model,)

    async def _acall(self, *arguments: Any) -> Any:
        raise NotImplementedError


class OverModel:
    """Base class of functions that call a text model, which is a function from prompt to text.

    An instance has a coroutine method ``acall`` if its model is asynchronous. If the model is a framework's model, the
    retriever converts the model to a function, and calls :meth:`over` with this function.
    """

    acall: Callable[..., Any]

    def __init__(self, model: Any) -> None:
        self.model = model
        step = Step("the model", model, "") if callable(model) and not isinstance(model, type) else None
        self._complete: Any = None if step is None else step.plain
        self._acomplete: Any = None if step is None else step.awaits
        if self._acomplete is not None:
            self.acall = self._acall

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("acall", "_complete", "_acomplete")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        OverModel.__init__(self, self.model)

    def over(self, model: Any) -> Self:
        """Return a copy of this object that uses another model."""
        made = copy.copy(self)
        OverModel.__init__(made, model)
        return made

    def complete(self, prompt: str) -> str:
        """Return the model's answer to a prompt."""
        if self._complete is None:
            raise InvalidTypeError(f"model must be a function from prompt to text; got {type(self.model).__name__}")
        return _text(self._complete(prompt))

    async def acomplete(self, prompt: str) -> str:
        """Return the model's answer to a prompt, without blocking the event loop."""
        return _text(await self._acomplete(prompt))

    async def _acall(self, *arguments: Any) -> Any:
        raise NotImplementedError


def _text(answer: object) -> str:
    if not isinstance(answer, str):
        raise InvalidTypeError(f"a model must answer with text; got {type(answer).__name__}")
    return answer
