"""Public docstrings are numpydoc: every parameter documented, sections in order, what comes back is said."""

from __future__ import annotations

import importlib
import inspect

import pytest
from numpydoc.validate import validate

PACKAGES = [
    "phasegraph", "phasegraph.ranking", "phasegraph.calibration", "phasegraph.fusion", "phasegraph.priors",
    "phasegraph.acceptance", "phasegraph.selection", "phasegraph.serialization", "phasegraph.pipeline",
    "phasegraph.sources", "phasegraph.graph", "phasegraph.graph.pagerank", "phasegraph.evaluation.experiment",
    "phasegraph.evaluation.significance", "phasegraph.evaluation.report",
]  # fmt: skip
CODES = {"GL07", "GL08", "PR01", "PR02", "PR10", "RT01", "YD01", "SS01"}


def _public() -> list[str]:
    found = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, BaseException)):
                found.append(f"{value.__module__}.{value.__qualname__}")
    return sorted(set(found))


@pytest.mark.parametrize("name", _public())
def test_the_docstring_of_a_public_name_is_complete(name: str) -> None:
    errors = [f"{code}: {message}" for code, message in validate(name)["errors"] if code in CODES]
    errors = [error for error in errors if "{'_" not in error and "'*args'" not in error]  # private; a protocol's own
    docstring = inspect.getdoc(_resolve(name)) or ""
    if "\n" not in docstring.strip() and not docstring.startswith("The "):
        errors = [error for error in errors if not error.startswith(("PR01", "RT01"))]
    assert not errors, "; ".join(errors)


def _resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)
