"""Every test is run by exactly one of the four test targets of the Makefile."""

from __future__ import annotations

import re
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
