"""The programs of the README and of the pages run, their links lead somewhere, the commands they name exist."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_house import PUBLIC

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs" / "guide").glob("*.md")), *sorted((ROOT / "docs" / "research").glob("*.md"))]
HOME = "https://github.com/phasegraph/phasegraph/blob/main/"
LINKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "docs" / "reproduction" / "README.md"]
LINKED += [*sorted((ROOT / "integrations").glob("*/README.md")), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
SITE = ROOT / "mkdocs.yml"


def programs(page: Path) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


WITH_PROGRAMS = [page for page in PAGES if programs(page)]


def named(page: Path) -> str:
    """What pytest calls a page."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=named)
def test_the_programs_of_a_page_run_in_order_and_print(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = programs(page)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = user_stores() if page == README else {}
    for number, program in enumerate(found):
        exec(compile(program, f"{page.name}, program {number}", "exec"), scope)  # noqa: S102
        assert capsys.readouterr().out.strip(), f"program {number} prints nothing"


def test_pages_with_programs_are_found() -> None:
    pages = {page.stem for page in WITH_PROGRAMS}
    assert pages >= {"README", "coming-from", "sources", "calibrating", "thresholds", "reordering", "selection"}


def user_stores() -> dict[str, object]:
    """The `store` and the `index` that a reader of the README has: those of the quickstarts."""
    scopes = [runpy.run_path(str(path)) for path in sorted((ROOT / "examples").glob("*_quickstart.py"))]
    return {name: scope[name] for name, scope in zip(("store", "index"), scopes, strict=True)}


def test_the_readme_answers_over_the_store_that_the_reader_has(capsys: pytest.CaptureFixture[str]) -> None:
    scope = user_stores()
    capsys.readouterr()
    for part in ("langchain_phasegraph", "llama_index.retrievers.phasegraph"):
        (program,) = [one for one in programs(README) if part in one]
        assert program.count("\n") <= 6
        exec(compile(program, part, "exec"), scope)  # noqa: S102
        assert capsys.readouterr().out.startswith("['Vertigo', 'Alfred Hitchcock'")


def test_the_example_of_the_readme_is_what_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    from phasegraph.apps.cli import main

    text = README.read_text(encoding="utf-8")
    command = re.search(r"`phasegraph (explain data/\S+ \S+)`", text)
    assert command is not None
    name, folder, query = command[1].split()
    capsys.readouterr()
    assert main([name, str(ROOT / folder), query, "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert f"> *{answer['question']}*" in text
    corpus = (ROOT / folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    titles = {one["id"]: one["title"] for one in map(json.loads, corpus)}
    passage = next(one for one in answer["passages"] if titles[one["id"]] == "Victoria Falls")
    ranks = {one["source"]: one["rank"] for one in passage["sources"]}
    said = re.search(r"Vectors rank \*\*Victoria Falls\*\* (\d+)th\. phasegraph ranks it (\d+)nd", text)
    assert said is not None
    assert [float(said[1]), int(said[2])] == [ranks["vector"], passage["position"]]
    steps = re.search(r"`(Bubye River → [^`]+)`", text)
    assert steps is not None
    path = [titles.get(step.strip("[]"), step) for step in passage["paths"][0].partition(": ")[2].split(" > ")]
    assert steps[1].casefold().split(" → ") == list(dict.fromkeys(step.casefold() for step in path))


def links(page: Path) -> set[Path]:
    """The files that a page leads to; an absolute link to a file of the project is one of them."""
    found = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    return {
        ROOT / one.removeprefix(HOME) if one.startswith(HOME) else page.parent / one
        for one in found
        if one.startswith(HOME) or not one.startswith("http")
    }


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert not [str(one) for one in sorted(links(page)) if not one.exists()]


def test_the_readme_leads_to_every_page() -> None:
    assert {page for page in PAGES if page != README} <= links(README)


@pytest.mark.parametrize("page", sorted({README, *ROOT.glob("integrations/*/README.md")}), ids=named)
def test_a_page_that_is_shown_outside_the_repository_has_absolute_links_only(page: Path) -> None:
    found = re.findall(r"\]\(([^)]+)", page.read_text(encoding="utf-8"))
    assert found
    assert not [one for one in found if not one.startswith("https://")]


def test_the_site_has_every_page_and_a_reference_of_every_public_module() -> None:
    shown = set(re.findall(r": ([\w/-]+\.md)$", SITE.read_text(encoding="utf-8"), re.MULTILINE))
    docs = ROOT / "docs"
    assert {str(page.relative_to(docs)) for page in docs.rglob("*.md")} <= shown
    listed = {
        line.partition(" ")[2]
        for page in (docs / "reference").glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("::: ")
    }
    assert listed == set(PUBLIC)


def test_the_commands_that_are_named_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = set(re.findall(r"(?:`|^    )phasegraph ([a-z]+)\b", text, re.MULTILINE))
    assert commands >= {"evaluate", "tune", "explain", "fuse", "index"}
    program = "import sys; from phasegraph.apps.cli import main; sys.exit(main(['--help']))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert commands <= set(re.findall(r"[a-z]+", shown))


def test_the_scripts_that_are_named_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    scripts = set(re.findall(r"python ((?:tests|tools|examples)/[\w/.]+)", text))
    assert scripts
    assert not [one for one in sorted(scripts) if not (ROOT / one).exists()]


def test_the_tests_that_are_named_exist() -> None:
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))}
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("integrations/*/tests/**/*.py"), *ROOT.glob("src/**/*_suite.py")]
    there = {path.stem for path in files}
    for path in files:
        there |= set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    assert len(named) > 20
    assert sorted(named - there) == []


def test_the_make_targets_that_are_named_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"(?:`|^    )make ([\w-]+)", text, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_nothing_is_left_to_fill_in(page: Path) -> None:
    assert not re.search(r"<!-- (?!(end of )?figures )", page.read_text(encoding="utf-8"))


def test_the_rows_of_the_table_are_all_in_the_guide():
    from phasegraph.apps.cli.evaluate import ADDED_BY, KNOWN

    page = (ROOT / "docs/guide/measuring.md").read_text(encoding="utf-8").partition("## Rows")[2]
    assert [name for name in [*KNOWN, *ADDED_BY] if f"`{name}`" not in page] == []
