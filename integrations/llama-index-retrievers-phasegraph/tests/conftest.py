"""Shared set-up: the helper module beside the tests can be imported by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from llamaindex_stores import simple

pytest.register_assert_rewrite("tests.suites.framework")


@pytest.fixture
def index():
    return simple()
