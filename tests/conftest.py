"""Shared set-up: the helper modules beside the tests by name, and the real servers, one of each for the whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from real_servers import Address, Missing, RealServers, skip_or_fail

SERVERS = {"address", "spare_server", "servers", "postgres"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever asks for a Neo4j is marked, so that ``-m "not neo4j"`` leaves it out; the first one waits for Maven.

    With several workers a file stays with one of them, and all files that ask for a server come first and stay
    together: one server a run.
    """
    for item in items:
        if {"address", "spare_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.neo4j)
            item.add_marker(pytest.mark.timeout(600))
    if not config.pluginmanager.hasplugin("xdist"):
        return
    served = {item.path for item in items if SERVERS & set(getattr(item, "fixturenames", ()))}
    for item in items:
        item.add_marker(pytest.mark.xdist_group("servers" if item.path in served else str(item.path)))
    items.sort(key=lambda item: item.path not in served)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where Neo4j is required, so is what its tests import: a library that has gone missing is no reason to skip."""
    report = yield
    missing = report.skipped and "could not import" in str(report.longrepr)
    if missing and item.get_closest_marker("neo4j") and os.environ.get("PHASEGRAPH_REQUIRE_NEO4J") == "1":
        report.outcome = "failed"
        report.longrepr = str(report.longrepr)
    return report


@pytest.fixture
def ranx_in_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """ranx as its source says it; compiled by numba it says the same half a minute later, in every process again."""
    import numba

    for name in [name for name in sys.modules if name.partition(".")[0] == "ranx"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "ranx"]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def real_servers() -> Iterator[RealServers]:
    with RealServers() as servers:
        yield servers


@pytest.fixture(scope="session")
def address(real_servers: RealServers) -> Address:
    """A Neo4j with authentication on, empty: whoever writes to it clears it again.

    Where there is none these tests skip and say why; with ``PHASEGRAPH_REQUIRE_NEO4J=1`` that is a failure.
    """
    try:
        return real_servers.neo4j
    except Missing as missing:
        skip_or_fail(missing, "NEO4J")


@pytest.fixture(scope="session")
def postgres(real_servers: RealServers) -> str:
    """A PostgreSQL with pgvector, as `address`; required by ``PHASEGRAPH_REQUIRE_MATRIX=1``."""
    try:
        return real_servers.postgres
    except Missing as missing:
        skip_or_fail(missing, "MATRIX")
