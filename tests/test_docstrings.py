"""Public docstrings are numpydoc: every parameter documented, sections in order, what comes back is said."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest
from numpydoc.validate import validate

MODULES = [
    "phasegraph", "phasegraph.ranking", "phasegraph.candidates", "phasegraph.reports", "phasegraph._support.ordering",
    "phasegraph.calibration", "phasegraph.fusion",
    "phasegraph.fusion.experimental", "phasegraph.fusion.weighting", "phasegraph.acceptance",
    "phasegraph.fusion.context", "phasegraph.fusion.fields", "phasegraph.fusion.prior", "phasegraph.fusion.priors",
    "phasegraph.fusion.exact_match", "phasegraph.fusion.superposition", "phasegraph.fusion.stored_priors",
    "phasegraph.selection", "phasegraph._support.serialization", "phasegraph.fusion.pipeline",
    "phasegraph.fusion.decide", "phasegraph.sources",
    "phasegraph.graph", "phasegraph.pagerank", "phasegraph.evaluation", "phasegraph.fusion.rules",
    "phasegraph.calibration.per_list", "phasegraph.acceptance.certified", "phasegraph.acceptance.fitting",
    "phasegraph.acceptance.judged", "phasegraph.pagerank.workspace",
    "phasegraph.evaluation.experiment", "phasegraph.evaluation.systems", "phasegraph.evaluation.system_runs",
    "phasegraph.evaluation.significance", "phasegraph.evaluation.report", "phasegraph.evaluation.report_page",
]  # fmt: skip
#: Modules without an ``__all__`` of which a user needs these names only; the rest are parts of the room.
ONLY = {
    "phasegraph.fusion.pipeline": ["FusionPipeline"],
    "phasegraph.fusion.decide": ["Shortlist"],
    "phasegraph.fusion.context": ["Context"],
    "phasegraph.fusion.fields": ["FieldReading"],
    "phasegraph.fusion.priors": ["RecencyPrior", "UnitPrior", "importance_multiplier", "recency"],
    "phasegraph.fusion.rules": [
        "boltzmann",
        "boltzmann_temperature",
        "borda",
        "comb_anz",
        "comb_med",
        "comb_mnz",
        "comb_sum",
        "dbsf",
        "inverse_square_rank",
        "linear",
        "reciprocal_rank",
    ],
    "phasegraph.calibration.per_list": [
        "log_z_score",
        "max_normalise",
        "min_max",
        "percentile_rank",
        "theoretical_min_max",
        "z_score",
    ],
    "phasegraph.acceptance.certified": ["betting", "hoeffding_bentkus"],
    "phasegraph.acceptance.fitting": ["area_under_curve"],
    "phasegraph.pagerank.workspace": ["PushWorkspace"],
    "phasegraph.acceptance.judged": ["check_orientation", "check_orientations", "query_losses"],
}
HELPERS = {"phasegraph.evaluation.systems.pipeline_system"}
CODES = {"GL07", "GL08", "PR01", "PR02", "PR10", "RT01", "YD01", "SS01"}


def _names_in(module: ModuleType) -> list[str]:
    """What the module exports; where it does not say, the public functions and classes that it defines."""
    exported = getattr(module, "__all__", None) or ONLY.get(module.__name__)
    if exported is not None:
        return list(exported)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def _public() -> list[str]:
    found = []
    for module in map(importlib.import_module, MODULES):
        for name in _names_in(module):
            value = getattr(module, name)
            if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, BaseException)):
                found.append(f"{value.__module__}.{value.__qualname__}")
    return sorted(set(found) - HELPERS)


@pytest.mark.parametrize("name", _public())
def test_the_docstring_of_a_public_name_is_complete(name: str) -> None:
    errors = [f"{code}: {message}" for code, message in validate(name)["errors"] if code in CODES]
    errors = [error for error in errors if "{'_" not in error and "'*args'" not in error]  # private; a protocol's own
    docstring = inspect.getdoc(_resolve(name)) or ""
    if "\n" not in docstring.strip() and not docstring.startswith("The "):
        errors = [error for error in errors if not error.startswith(("PR01", "RT01"))]
    assert not errors, "; ".join(errors)


def test_every_module_that_is_listed_has_something_to_check() -> None:
    assert [name for name in MODULES if not _names_in(importlib.import_module(name))] == []


def _resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)
