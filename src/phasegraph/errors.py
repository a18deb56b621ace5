"""Every error the library raises.

Each is also the standard error a caller would expect, so that ``except ValueError`` works
without importing us::

    Exception
    └── PhasegraphError
        ├── InvalidInputError (ValueError)
        │   ├── InvalidTypeError (TypeError)
        │   ├── InsufficientDataError
        │   └── IntegrityError
        ├── AllSourcesFailed (RuntimeError)
        ├── DegradedError (RuntimeError)
        ├── NotConvergedError (RuntimeError)
        ├── StoreError (RuntimeError)
        └── MissingDependencyError (ImportError)
    Warning
    └── PhasegraphWarning (UserWarning)

A message says what happened and what to do about it; for a value, what must hold and what was given. Every error
survives ``pickle`` with its type, message, attributes and causes, so that one raised in a worker process arrives whole.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy

from phasegraph._support.text import legible

_logger = logging.getLogger("phasegraph")


class PhasegraphError(Exception):
    """Base of every error of this library."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args, dict(vars(self)), _portable(self.__cause__))


class InvalidInputError(PhasegraphError, ValueError):
    """A value is outside what the function accepts; the message names the field."""


class InvalidTypeError(InvalidInputError, TypeError):
    """A value has a type the function does not accept; the message names the field."""


class InsufficientDataError(InvalidInputError):
    """There are too few observations for what was asked; the message says how many are needed."""


class IntegrityError(InvalidInputError):
    """A stored file is damaged, foreign or newer than this version; nothing of it was used."""


class AllSourcesFailed(PhasegraphError, RuntimeError):  # noqa: N818 - the name the documentation promises
    """Every source failed; the message gives each one's reason.

    An error of this library is quoted. Of any other only the class is named, because its text may hold an address, a
    password or the query; it is in `causes`. The first is the ``__cause__``, the text of the others is in notes, so
    that a traceback shows each.

    Parameters
    ----------
    causes : mapping of str to BaseException
        Source name to what it raised (a ``TimeoutError`` for one that missed its deadline).
    """

    def __init__(self, causes: Mapping[str, BaseException]) -> None:
        self.causes = dict(causes)
        super().__init__(
            "all sources failed. " + "; ".join(f"{name}: {_reason(name, one)}" for name, one in causes.items())
        )
        blame(self, causes)

    def __reduce__(self) -> tuple[object, ...]:
        portable = {name: _portable(error) for name, error in self.causes.items()}
        state = dict(vars(self)) | {"causes": portable, "args": self.args}
        return _rebuilt, (type(self), (portable,), state, _portable(self.__cause__))


def blame(error: Exception, causes: Mapping[str, BaseException]) -> None:
    """Make the first of the causes the error's ``__cause__``, and give it a note with class and text of each other."""
    first, *others = causes.items()
    error.__cause__ = first[1]
    for name, cause in others:
        error.add_note(f"{name}: {type(cause).__name__}: {text_of(cause)}")


def text_of(error: BaseException) -> str:
    """What the error says; empty where even that raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a foreign error's own code
        return ""


def too_late(name: str) -> TimeoutError:
    """What stands for the answer of a source that missed its deadline."""
    return TimeoutError(f"source {name!r} did not answer in time")


def _reason(name: str, error: BaseException) -> str:
    said = text_of(error)
    if not isinstance(error, PhasegraphError) and (type(error), said) != (TimeoutError, str(too_late(name))):
        said = ""
    return said.removeprefix(f"source {name!r} ") or type(error).__name__


def _portable(error: BaseException | None) -> BaseException | None:
    """The error, or a RuntimeError with its class and text where another process could not make it again."""
    if error is None:
        return None
    from multiprocessing.reduction import ForkingPickler

    try:
        deepcopy(error)  # makes it anew, as unpickling does
        ForkingPickler.dumps(error)
    except Exception:  # noqa: BLE001 - whatever a foreign error does when it is copied
        return RuntimeError(f"{type(error).__name__}: {text_of(error)}")
    return error


def _rebuilt(
    kind: type[PhasegraphError], arguments: tuple[object, ...], state: dict[str, object], cause: BaseException | None
) -> PhasegraphError:
    error = kind(*arguments)
    for name, value in state.items():
        setattr(error, name, value)
    error.__cause__ = cause
    return error


class DegradedError(PhasegraphError, RuntimeError):
    """`strict=True` was asked for and the answer would have been degraded."""


class NotConvergedError(PhasegraphError, RuntimeError):
    """An iteration stopped before it reached its tolerance; no unconverged value is returned."""


class StoreError(PhasegraphError, RuntimeError):
    """A database or store failed; the driver's error is the ``__cause__``."""


class MissingDependencyError(PhasegraphError, ImportError):
    """An optional dependency is not installed; the message holds the command that installs it."""


@contextmanager
def needed(message: str) -> Iterator[None]:
    """Import inside what may not be installed: MissingDependencyError with this message where it is not."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(message) from error


class PhasegraphWarning(UserWarning):
    """Something was handled, and the caller should know."""


def warn(text: str, *, cause: BaseException | None = None, stacklevel: int = 1) -> None:
    """Warn by :class:`PhasegraphWarning`; log the same on the logger ``phasegraph`` if the program has set logging up.

    A program without logging handlers sees each warning once, from the interpreter. One that has handlers reads the log
    and ignores the category: ``warnings.simplefilter("ignore", PhasegraphWarning)``.

    Parameters
    ----------
    text : str
    cause : BaseException, optional
        What is behind it: the ``__cause__`` of the warning, logged with its traceback at the level DEBUG only, because
        its text may hold an address, a password or the query.
    stacklevel : int, default 1
        Whose line the warning names: 1 that of the caller of this function, 2 that of its caller, and so on.
    """
    text = legible(text)
    if _logger.hasHandlers():  # else the interpreter would print the record beside the warning
        _logger.warning("%s", text)
    if cause is not None:
        _logger.debug("%s", text, exc_info=cause)
    warning = PhasegraphWarning(text)
    warning.__cause__ = cause
    frame = sys._getframe()
    for _ in range(stacklevel):
        frame = frame.f_back or frame
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(  # with no registry: the same change may happen again, and is shown again
        warning, PhasegraphWarning, frame.f_code.co_filename, frame.f_lineno, module, registry={}
    )
