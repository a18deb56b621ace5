"""Shared fixtures; this folder is added to ``sys.path``, so that tests can import the helper modules by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.suites import other_process
from tests.suites.manual_time import clock, hang  # noqa: F401 - fixtures

sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("tests.suites.framework")


@pytest.fixture
def store():
    from langchain_stores import in_memory  # not at the top: xdist's controller reads this file, and runs no test

    return in_memory()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the process beside the tests, where these tests run alone."""
    other_process.start(session)
