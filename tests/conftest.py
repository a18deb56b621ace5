"""Shared set-up: the helper modules beside the tests by name, and the real servers, one of each for the whole run."""

from __future__ import annotations

import gc
import os
import re
import sys
import warnings
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
from tests.repeats import repeats
from tests.suites import other_process

sys.path.insert(0, str(Path(__file__).parent))

from real_servers import Address, Missing, RealServers, skip_or_fail

# Imports and collecting make objects that live until the end. The collector of cycles would go through all of them
# again and again, so `pytest_collection` turns it on after them.
gc.disable()

# Before numpy is imported: the threads of a matrix product wait for one another in a busy loop, in which two workers on
# two cores spend many times the product's own time. Workers and the programs of tests inherit it.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# A sync waits for the disk, and matters only after a power failure, which no test makes: the descriptor is looked at.
os.fsync = os.fstat

# Tests make tens of thousands of small files. In memory, a file takes a small part of the processor time that it takes
# on a disk. A container may give its memory little room, or forbid to run programs from it.
_MEMORY, _ROOM = Path("/dev/shm"), 2 * 1024**3
if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
    _state = os.statvfs(_MEMORY)
    if _state.f_bavail * _state.f_frsize >= _ROOM and not _state.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# No test has a stopwatch: a busy machine takes longer than 200 ms over any example.
hypothesis.settings.register_profile("phasegraph", hypothesis.settings(), deadline=None, max_examples=repeats(100, 25))
hypothesis.settings.load_profile("phasegraph")

# Which tests begin first where there are several workers: servers, then files, the longest first; whatever is not named
# follows, a file by itself.
FIRST = [
    "Neo4j", "a second Neo4j", "test_wheels.py", "test_notebooks.py", "neo4j/test_rights.py",
    "reliability/test_runs.py", "PostgreSQL", "distributed/test_local.py", "test_scripts.py",
    "tests/test_corpus.py", "tenancy/test_surfaces.py", "tests/test_stages.py", "tests/test_suite.py",
    "tests/test_cli.py", "cli/test_protocol.py", "graph/test_deltas.py", "acceptance/test_certified.py",
    "cli/test_compare.py",
]  # fmt: skip
GROUPS = "phasegraph/groups"

# The target of the Makefile that runs a folder or a file of tests, as a marker. `make test` runs every other test.
# A test that asks for a real Neo4j or PostgreSQL belongs to `servers`, wherever its file is.
TARGETS = {
    "servers": ["inspecting", "matrix", "neo4j", "report/test_browser.py", "serving"],
    "tools": [
        "collections", "distributed", "examples", "figures", "reliability", "reproduce",
        "cli/test_hostile.py", "evaluation/test_ablation.py", "report/test_hostile_names.py", "sources/test_forking.py",
        "test_bounded_caches.py", "test_demo.py", "test_docs.py", "test_regexes.py", "test_release.py", "test_state.py",
        "test_targets.py",
    ],
    "wheels": ["wheels"],
}  # fmt: skip
FAILED_BEFORE = pytest.StashKey[set[str]]()

# Where `PHASEGRAPH_REQUIRE_ALL=1` (.ci/run), a test may be skipped for these reasons alone.
MAY_SKIP = re.compile(
    "the published (results|scores) are not at hand"  # data that is not in the repository
    "|run(s|) by .?make |make test-(distributed|graphrag|wheels)|the engine is installed"  # another target runs it
    "|there is no Python 3"  # the packages are tried in every Python that the machine has
    "|this GDS takes no masses of seeds"  # an older plugin of Neo4j
    "|no such kind here|the framework (gives|has)|it returns no scores"  # a row of a matrix that does not apply
)


def server_of(item: pytest.Item) -> str:
    """The real server that a test asks for, by one of our fixtures or as a row of the matrix."""
    names = set(getattr(item, "fixturenames", ()))
    if "spare_server" in names:
        return "a second Neo4j"
    if "real_servers" in names and names & {"address", "postgres"}:
        return "Neo4j" if "address" in names else "PostgreSQL"
    given = getattr(item, "callspec", None)
    return next((one.server for one in given.params.values() if getattr(one, "server", "")), "") if given else ""


def target_of(path: Path, server: str) -> str:
    """The marker of the target that runs a test; empty for ``make test``."""
    if server:
        return "servers"
    return _target_of_file(path)


@cache
def _target_of_file(path: Path) -> str:
    places = {path, *path.parents}
    here = Path(__file__).parent
    return next((target for target, names in TARGETS.items() if any(here / name in places for name in names)), "")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of targets that ``-m`` excludes, so that their imports cost nothing."""
    target = _target_of_file(collection_path)
    return True if target and f"not {target}" in config.option.markexpr else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its target, and with ``neo4j`` where it asks for a Neo4j; the first of these waits for Maven.

    With several workers all tests of a server stay with one of them and begin first, so that there is one of each
    server a run and the longest wait is not the last; of the others a file stays with one worker, the longest first.
    """
    servers = {item: server_of(item) for item in items}
    for item, server in servers.items():
        if target := target_of(item.path, server):
            item.add_marker(target)
        if server.endswith("Neo4j"):
            item.add_marker(pytest.mark.neo4j)
            item.add_marker(pytest.mark.timeout(600))
    if not hasattr(config, "workerinput"):
        return

    @cache
    def place(server: str, path: Path) -> int:
        return next((row for row, one in enumerate(FIRST) if one == server or path.match(one)), len(FIRST))

    items.sort(key=lambda item: place(servers[item], item.path))
    config.cache.set(GROUPS, {item.nodeid: servers[item] or str(item.path) for item in items})


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Turn the collector of cycles on, without the objects that imports and collecting made: they live until the end.

    Every full collection would else go through a million objects of the frameworks. The collector also runs less
    often. With the default thresholds it takes a tenth of the tests' processor time, and a third where tests read
    syntax trees.

    xdist's controller collects nothing, but calls this hook too.
    """
    try:
        result = yield
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()
    other_process.start(session)
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A server or a file to a worker, as the workers wrote it down, in the order of `FIRST`.

    xdist's own groups are part of a test's name, which pytest 9.2 no longer lets it change.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return groups()[nodeid]

    groups = cache(lambda: config.cache.get(GROUPS, {}))
    config.option.loadscopereorder = False
    return ByGroup(config, log)


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def required(report: Report) -> Report:
    """The report of a test or a file; a skip for a reason that `MAY_SKIP` does not name fails where all must run."""
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get("PHASEGRAPH_REQUIRE_ALL") != "1":
        return report
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if MAY_SKIP.search(reason) is None:
        report.outcome = "failed"
        report.longrepr = f"this test is required here (PHASEGRAPH_REQUIRE_ALL=1): {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped though it must run."""
    return required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a file that is skipped though it must run."""
    return required((yield))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember which tests failed in the last run, where this run asks them again (``--last-failed``)."""
    config = session.config
    if config.getoption("lf", default=False) and config.cache is not None:
        config.stash[FAILED_BEFORE] = set(config.cache.get("cache/lastfailed", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Count and name the tests that failed in the last run and pass in this run.

    `PHASEGRAPH_RETRIED` names a file that adds up several runs, each with the name of its environment; there "0" is
    printed too.
    """
    before, file = config.stash.get(FAILED_BEFORE, None), os.environ.get("PHASEGRAPH_RETRIED")
    if before is None and file is None:
        return
    passed = sorted({report.nodeid for report in terminalreporter.getreports("passed")} & (before or set()))
    if file is not None:
        with Path(file).open("a+", encoding="utf-8") as names:
            names.writelines(f"{Path(sys.prefix).name}: {name}\n" for name in passed)
            names.seek(0)
            passed = names.read().splitlines()
    terminalreporter.section(f"{len(passed)} failed first and passed when asked again")
    for name in passed:
        terminalreporter.line(name)


@pytest.fixture
def ranx_in_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """ranx as its source says it; compiled by numba it says the same half a minute later, in every process again."""
    import numba

    for name in [name for name in sys.modules if name.partition(".")[0] == "ranx"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of its escape sequences where it compiles it
        import ranx  # noqa: F401
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
