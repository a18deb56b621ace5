"""Engines that a plain environment does not have: their tests are skipped and say why, or fail where they must run."""

from __future__ import annotations

import importlib.util
import os

import pytest

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # read when ray is imported: all of it on loopback
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def require(*modules: str) -> None:
    """Skip the module without these packages; fail with ``PHASEGRAPH_REQUIRE_DISTRIBUTED=1``."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            if os.environ.get("PHASEGRAPH_REQUIRE_DISTRIBUTED") == "1":
                pytest.fail(f"these tests are required here: the package {module} is not installed", pytrace=False)
            pytest.skip(f"the package {module} is not installed (make test-distributed)", allow_module_level=True)


def absent(module: str) -> bool:
    """Whether a package is not there."""
    return importlib.util.find_spec(module) is None
