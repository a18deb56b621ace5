"""The suite itself: each test has one target, a skipped test fails where all are required, reruns are counted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.conftest import TARGETS, target_of

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
MAKE = {"test": "", "test-servers": "servers", "test-tools": "tools", "test-wheels": "wheels"}


def expression_of(target: str) -> Expression:
    """What a target of the Makefile passes to pytest as ``-m``."""
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe, target
    found = re.findall(r"""pytest .*-m (?:"([^"]+)"|(\w+))$""", recipe[1], re.MULTILINE)
    assert len(found) == 1, recipe[1]
    return Expression.compile("".join(found[0]))


def targets_that_run(marks: set[str]) -> list[str]:
    return [name for name in MAKE if expression_of(name).evaluate(lambda mark, **_: mark in marks)]


@pytest.mark.parametrize(("target", "mark"), MAKE.items())
def test_the_tests_of_a_mark_are_run_by_its_target_alone(target, mark):
    assert targets_that_run({mark}) == targets_that_run({mark, "slow", "neo4j"}) == [target]


def test_every_test_of_this_run_belongs_to_one_target(request):
    for item in request.session.items:
        marks = {mark.name for mark in item.iter_markers()}
        assert len(targets_that_run(marks)) == 1, (item.nodeid, marks)


def test_every_place_that_a_target_names_holds_tests():
    for name in (name for names in TARGETS.values() for name in names):
        place = TESTS / name
        assert place.is_file() or list(place.glob("test_*.py")), name


def test_a_test_that_asks_for_a_server_belongs_to_the_servers_wherever_it_is():
    assert target_of(TESTS / "examples" / "test_scripts.py", "Neo4j") == "servers"
    assert target_of(TESTS / "examples" / "test_scripts.py", "") == "tools"
    assert target_of(TESTS / "test_text.py", "") == ""


def test_pytest_looks_into_every_folder_that_holds_tests(pytestconfig):
    places = [ROOT / place for place in pytestconfig.getini("testpaths")]
    files = [file for room in ("tests", "integrations", "tools") for file in (ROOT / room).rglob("test_*.py")]
    assert files
    assert [file for file in files if not any(place in file.parents for place in places)] == []


SUITE = """
from pathlib import Path
import pytest

def test_fails_at_first():
    first = not Path("asked").exists()
    Path("asked").touch()
    assert not first

def test_passes():
    pass
"""
SKIPPED = """
import pytest

{0}
def test_runs_nowhere():
    {1}
"""


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """pytest with the hooks of our conftest over the tests of a folder."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        folder,
        "-p",
        "tests.conftest",
        *arguments,
    ]
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PHASEGRAPH_", "PYTEST_", "COV_"))
    }
    kept |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    command += ["-o", f"cache_dir={folder}/cache", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=kept)


def test_a_test_that_passes_when_asked_again_is_counted_and_named_over_all_suites(tmp_path):
    (tmp_path / "test_once.py").write_text(SUITE, encoding="utf-8")
    names = tmp_path / "retried.txt"
    first = run(tmp_path, PHASEGRAPH_RETRIED=str(names))
    assert first.returncode == 1
    assert "0 failed first and passed when asked again" in first.stdout
    again = ["--last-failed", "--last-failed-no-failures", "none"]
    second = run(tmp_path, *again, PHASEGRAPH_RETRIED=str(names))
    assert second.returncode == 0, second.stdout
    named = f"{Path(sys.prefix).name}: test_once.py::test_fails_at_first"
    for done in (second, run(tmp_path, PHASEGRAPH_RETRIED=str(names))):  # the next suite says it, too
        count, name, *_, last = done.stdout.partition("1 failed first and passed when asked again")[2].splitlines()
        assert "===" in count
        assert name == named
        assert "passed" in last
    assert run(tmp_path, *again).returncode == 5  # nothing is left that failed


@pytest.mark.parametrize(
    ("before", "inside", "required"),
    [
        ("@pytest.mark.skip(reason='no nginx on the PATH')", "pass", True),
        ("", "pytest.importorskip('no_such_module')", True),
        ("pytest.importorskip('no_such_module')", "pass", True),
        ("", "pytest.skip('no such kind here')", False),
        ("@pytest.mark.xfail", "assert False", False),
    ],
)
def test_a_skipped_test_fails_where_all_are_required_but_for_a_named_reason(tmp_path, before, inside, required):
    (tmp_path / "test_skipped.py").write_text(SKIPPED.format(before, inside), encoding="utf-8")
    assert run(tmp_path).returncode in (0, 5)
    done = run(tmp_path, PHASEGRAPH_REQUIRE_ALL="1")
    assert (done.returncode != 0) is required, done.stdout
    assert ("required here (PHASEGRAPH_REQUIRE_ALL=1)" in done.stdout) is required
