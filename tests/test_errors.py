from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from phasegraph import errors
from phasegraph.errors import (
    AllSourcesFailed,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphError,
    PhasegraphWarning,
    StoreError,
    too_late,
    warn,
)

CLASSES = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
BUILT_IN = {
    "InvalidInputError": ValueError, "InvalidTypeError": TypeError, "InsufficientDataError": ValueError,
    "IntegrityError": ValueError, "AllSourcesFailed": RuntimeError, "DegradedError": RuntimeError,
    "NotConvergedError": RuntimeError, "StoreError": RuntimeError, "MissingDependencyError": ImportError,
    "PhasegraphError": Exception, "PhasegraphWarning": UserWarning,
}  # fmt: skip


def test_every_error_is_ours_and_the_standard_one_that_a_caller_expects() -> None:
    assert {one.__name__ for one in CLASSES} == set(BUILT_IN)
    for one in CLASSES:
        assert issubclass(one, BUILT_IN[one.__name__])
        assert issubclass(one, PhasegraphWarning if one is PhasegraphWarning else PhasegraphError)


def test_the_tree_in_the_docstring_names_every_class() -> None:
    assert [one.__name__ for one in CLASSES if one.__name__ not in (errors.__doc__ or "")] == []


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.deepcopy])  # noqa: S301 - our own bytes
@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_keeps_type_message_and_causes_through_pickle_and_deepcopy(kind: type[Exception], again) -> None:
    if kind is AllSourcesFailed:
        given: Exception = AllSourcesFailed({"v": InvalidTypeError("k must be an integer; got '3'"), "g": OSError(5)})
    else:
        given = kind("k must be >= 0; got -1")
    found = again(given)
    assert type(found) is kind
    assert str(found) == str(given)
    if isinstance(given, AllSourcesFailed):
        assert {name: (type(one), one.args) for name, one in found.causes.items()} == {
            "v": (InvalidTypeError, ("k must be an integer; got '3'",)),
            "g": (OSError, (5,)),
        }


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.deepcopy])  # noqa: S301 - our own bytes
@pytest.mark.parametrize("kind", [one for one in CLASSES if one is not PhasegraphWarning])
def test_an_error_keeps_attributes_notes_and_what_it_came_from(kind: type[Exception], again) -> None:
    given = kind({"v": OSError(5), "g": TimeoutError("2 s")}) if kind is AllSourcesFailed else kind("k must be >= 0")
    given.passage, given.__cause__ = "p1", OSError("no route to host")  # type: ignore[attr-defined]
    given.add_note("while saving")
    found = again(given)
    assert (found.passage, found.__notes__, str(found)) == ("p1", given.__notes__, str(given))  # type: ignore[attr-defined]
    assert (type(found.__cause__), str(found.__cause__)) == (OSError, "no route to host")


def test_a_cause_of_a_class_that_has_no_name_elsewhere_is_told_in_words() -> None:
    class LocalError(Exception):
        pass

    given = StoreError("the store failed")
    given.__cause__ = LocalError("disk 3")
    found = pickle.loads(pickle.dumps(AllSourcesFailed({"v": given, "g": LocalError("disk 4")})))  # noqa: S301
    assert str(found.causes["v"].__cause__) == "LocalError: disk 3"
    assert str(found.causes["g"]) == "LocalError: disk 4"


def test_our_own_reasons_are_quoted_and_of_foreign_errors_only_the_class_is_named() -> None:
    own, foreign = InvalidInputError("filter= is not supported by FunctionRetriever"), OSError("password=hunter2")
    error = AllSourcesFailed({"vector": own, "x": foreign, "y": TimeoutError(), "z": too_late("z")})
    assert str(error) == (
        "all sources failed. vector: filter= is not supported by FunctionRetriever; x: OSError; y: TimeoutError; "
        "z: did not answer in time"
    )
    assert error.__cause__ is own
    assert "hunter2" in str(error.causes["x"])


class NeedsAKeyword(Exception):
    """As many clients' errors: pickle can write it and not read it."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


def test_a_foreign_error_that_cannot_be_rebuilt_does_not_break_the_others() -> None:
    given = AllSourcesFailed(
        {"v": NeedsAKeyword("no such index", status=404), "g": InvalidInputError("k must be >= 0")}
    )
    found = pickle.loads(pickle.dumps(given))  # noqa: S301 - our own bytes
    assert str(found) == str(given) == "all sources failed. v: NeedsAKeyword; g: k must be >= 0"
    assert str(found.causes["v"]) == "NeedsAKeyword: no such index"
    assert type(found.causes["g"]) is InvalidInputError


WARNS = "from phasegraph.errors import PhasegraphWarning, warn\nwarn('source v failed')\n"


def _printed(text: str) -> int:
    """Return how often the warning was printed; newer versions of Python also print the line of code."""
    return sum(line.endswith("source v failed") for line in text.splitlines())


@pytest.mark.parametrize(
    "setup",
    [
        "",
        "import logging; logging.basicConfig()\nimport warnings\nfrom phasegraph import PhasegraphWarning\n"
        "warnings.simplefilter('ignore', PhasegraphWarning)\n",
    ],
    ids=["no logging", "logging"],
)
def test_a_warning_is_printed_once(setup: str) -> None:
    """By the interpreter where a program has not set logging up; by its handlers where it ignores the category."""
    done = subprocess.run([sys.executable, "-c", setup + WARNS], capture_output=True, text=True, check=True)
    assert _printed(done.stderr) == 1


def test_a_change_that_happens_again_is_printed_again() -> None:
    """The interpreter shows equal warnings of one line once; a source that fails anew must not fail unseen."""
    again = "from phasegraph.errors import warn\nfor _ in range(3):\n    warn('source v failed')\n"
    done = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True)
    assert _printed(done.stderr) == 3


def warned(call: Callable[[], object]) -> list[warnings.WarningMessage]:
    """Return the warnings of a call under the interpreter's default filter, which shows equal warnings once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        call()
    return [one for one in caught if issubclass(one.category, PhasegraphWarning)]


def in_module(name: str, text: str) -> Callable[..., Any]:
    """Return the function `inner` of a new module."""
    names: dict[str, Any] = {"__name__": name, "warn": warn}
    exec(compile(text, f"{name}.py", "exec"), names)  # noqa: S102 - the texts of this file
    return names["inner"]


OURS = in_module("phasegraph.retrieval.engine", "def inner():\n    warn('source v failed')")
BETWEEN = "def inner(call):\n    return call()"


@pytest.mark.parametrize(
    "between",
    ["phasegraph", "langchain_phasegraph.retriever", "llama_index.retrievers.phasegraph.retriever",
     "langchain_core.retrievers", "llama_index.core.base.base_retriever", "asyncio.runners",
     "workflows.runtime.types.step_function", "workflows.context.context", "concurrent.futures.thread"],
)  # fmt: skip
def test_a_warning_names_the_line_of_the_user_at_any_depth(between: str) -> None:
    through = in_module(between, BETWEEN)

    def ask() -> None:
        through(OURS)

    (seen,) = warned(ask)
    assert (seen.filename, seen.lineno) == (__file__, ask.__code__.co_firstlineno + 1)


@pytest.mark.parametrize("module", ["phasegraphs", "llama_index.retrievers.bm25", "threadings", "workflows.nightly"])
def test_a_module_with_a_similar_name_is_the_users(module: str) -> None:
    (seen,) = warned(lambda: in_module(module, BETWEEN)(OURS))
    assert seen.filename == f"{module}.py"


def test_a_worker_thread_without_a_line_of_the_user_names_the_line_that_warned() -> None:
    def ask() -> None:
        worker = threading.Thread(target=OURS)
        worker.start()
        worker.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(OURS).result()

    assert [(one.filename, one.lineno) for one in warned(ask)] == [("phasegraph.retrieval.engine.py", 2)] * 2


def test_a_warning_keeps_to_the_filters() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PhasegraphWarning, match="said"):
            warn("said")
