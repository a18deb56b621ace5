"""Every error that the library raises.

Each error is also the standard error that a caller would expect. ``except ValueError`` therefore works without an
import of this library::

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

A message says what happened and what to do about it. The message for a wrong value states the requirement and the given
value. Every error survives ``pickle`` with its type, message, attributes and causes, so an error from a worker process
reaches the caller complete.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy

from phasegraph._support.text import legible
from phasegraph._support.user_line import warn_at_user_line

_logger = logging.getLogger("phasegraph")


class PhasegraphError(Exception):
    """Base class of every error of this library."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args, dict(vars(self)), portable(self.__cause__))


class InvalidInputError(PhasegraphError, ValueError):
    """A value is outside the accepted range; the message names the field."""


class InvalidTypeError(InvalidInputError, TypeError):
    """A value has an unsupported type; the message names the field."""


class InsufficientDataError(InvalidInputError):
    """There are too few observations; the message says how many are needed."""


class IntegrityError(InvalidInputError):
    """A stored file is damaged, not a file of phasegraph, or from a newer version; no part of the file was used."""


class AllSourcesFailed(PhasegraphError, RuntimeError):  # noqa: N818 - the name the documentation promises
    """Every source failed; the message gives the reason of each source.

    The message quotes errors of this library. For other errors, the message only names the class, because the text may
    contain an address, a password or the query. `causes` contains all errors. The first error is the ``__cause__``, and
    the notes of the exception contain the other errors. A traceback therefore shows every error.

    Parameters
    ----------
    causes : mapping of str to BaseException
        The error of each source, by source name; a ``TimeoutError`` if the source missed its deadline.
    """

    def __init__(self, causes: Mapping[str, BaseException]) -> None:
        self.causes = dict(causes)
        super().__init__(
            "all sources failed. " + "; ".join(f"{name}: {_reason(name, one)}" for name, one in causes.items())
        )
        blame(self, causes)

    def __reduce__(self) -> tuple[object, ...]:
        causes = {name: portable(error) for name, error in self.causes.items()}
        state = dict(vars(self)) | {"causes": causes, "args": self.args}
        return _rebuilt, (type(self), (causes,), state, portable(self.__cause__))


def blame(error: Exception, causes: Mapping[str, BaseException]) -> None:
    """Set the first of the `causes` as ``__cause__`` of `error`; add a note with class and text of each other cause."""
    first, *others = causes.items()
    error.__cause__ = first[1]
    for name, cause in others:
        error.add_note(f"{name}: {type(cause).__name__}: {text_of(cause)}")


def refusal(reasons: str) -> str:
    """Return the message of the DegradedError for a degraded answer.

    >>> print(refusal("graph: error"))
    strict=True refuses a degraded answer: graph: error. Remove the cause, or set strict=False to accept the answer
    """
    return (
        f"strict=True refuses a degraded answer: {reasons}. Remove the cause, or set strict=False to accept the answer"
    )


def text_of(error: BaseException) -> str:
    """Return the text of an error; empty if the error cannot be converted to text."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a foreign error's own code
        return ""


def too_late(name: str) -> TimeoutError:
    """Create the error for a source that missed its deadline."""
    return TimeoutError(f"source {name!r} did not answer in time")


def _reason(name: str, error: BaseException) -> str:
    said = text_of(error)
    if not isinstance(error, PhasegraphError) and (type(error), said) != (TimeoutError, str(too_late(name))):
        said = ""
    return said.removeprefix(f"source {name!r} ") or type(error).__name__


def portable(error: BaseException | None) -> BaseException | None:
    """Return the error, or, if it cannot be pickled, a RuntimeError with the error's class name and text.

    For None, return None.
    """
    if error is None:
        return None
    from multiprocessing.reduction import ForkingPickler

    try:
        deepcopy(error)  # creates the error again, as unpickling does
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
    """An answer is degraded, for example because a source failed, but `strict=True` requires a complete answer."""


class NotConvergedError(PhasegraphError, RuntimeError):
    """An iteration stopped before it reached its tolerance; the unconverged value is not returned."""


class StoreError(PhasegraphError, RuntimeError):
    """A database or store failed; the driver's error is the ``__cause__``."""


class MissingDependencyError(PhasegraphError, ImportError):
    """An optional dependency is not installed; the message contains the command that installs it."""


@contextmanager
def needed(message: str) -> Iterator[None]:
    """Convert an ImportError in the ``with`` block to a MissingDependencyError with the given message."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(message) from error


class PhasegraphWarning(UserWarning):
    """The library handled a problem that the caller should know about."""


def warn(text: str, *, cause: BaseException | None = None) -> None:
    """Issue a :class:`PhasegraphWarning`, and also log it on the logger ``phasegraph`` if logging is configured.

    The warning names the line of the user's code that called phasegraph. In a worker thread, which runs no such line,
    the warning names the line that called this function.

    Without logging handlers, the text is not logged, so the interpreter prints it only as a warning. Equal warnings are
    shown each time. A program with handlers can read the log and
    ignore the category: ``warnings.simplefilter("ignore", PhasegraphWarning)``.

    Parameters
    ----------
    text : str
        The message.
    cause : BaseException, optional
        The ``__cause__`` of the warning. Its traceback is logged only at the level DEBUG, because the text of the cause
        may contain an address, a password or the query.
    """
    text = legible(text)
    if _logger.hasHandlers():  # without handlers, the interpreter would print both the log record and the warning
        _logger.warning("%s", text)
    if cause is not None:
        _logger.debug("%s", text, exc_info=cause)
    warning = PhasegraphWarning(text)
    warning.__cause__ = cause
    warn_at_user_line(warning, again=True)  # a source that fails anew must not fail unseen
