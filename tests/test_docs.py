"""The programs of the README and of the pages run, their links lead somewhere, the commands they name exist."""

from __future__ import annotations

import doctest
import http.server
import importlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.modules import module_at
from tests.test_house import PUBLIC

from phasegraph._support.renamed import PARAMETERS

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
SKILL = ROOT / "skills" / "phasegraph" / "SKILL.md"
PARTS = ("learn", "guide", "understand", "reference", "research", "contributing")
PAGES = [README, SKILL, *(page for part in PARTS for page in sorted((DOCS / part).glob("*.md")))]
HOME = "https://github.com/phasegraph/phasegraph/blob/main/"
RAW = "https://raw.githubusercontent.com/phasegraph/phasegraph/main/"
INTEGRATED = ("langchain_phasegraph", "llama_index.retrievers.phasegraph")
LINKED = [*PAGES, DOCS / "reliability.md", DOCS / "reproduction" / "README.md", ROOT / "CHANGELOG.md"]
LINKED += [*sorted((ROOT / "integrations").glob("*/README.md")), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
SITE = ROOT / "mkdocs.yml"
BUILT = ROOT / "artifacts" / "site"


def programs(page: Path) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


# tests/examples/test_tutorials.py runs those of the tutorials.
WITH_PROGRAMS = [page for page in PAGES if programs(page) and page.parent.name != "learn"]


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
    said = re.search(r"Vectors rank \*\*Victoria Falls\*\* (\d+)th\. phasegraph ranks it (\d+)[a-z]+", text)
    assert said is not None
    assert [float(said[1]), int(said[2])] == [ranks["vector"], passage["position"]]
    steps = re.search(r"`(Bubye River → [^`]+)`", text)
    assert steps is not None
    picture = (DOCS / "pictures" / "answer.svg").read_text(encoding="utf-8")
    assert f">vector {said[1]}th, graph" in picture
    assert f">{steps[1]}<" in picture
    path = [titles.get(step.strip("[]"), step) for step in passage["paths"][0].partition(": ")[2].split(" > ")]
    assert steps[1].casefold().split(" → ") == list(dict.fromkeys(step.casefold() for step in path))


def targets(page: Path) -> list[tuple[Path, str]]:
    """The files that a page leads to or shows, each with its anchor; an absolute link to a file of ours is one."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"(?:\]\(|<img [^>]*src=\")([^)#\s\"]*)(#[^)\s\"]*)?", text)
    files = [(link.removeprefix(HOME).removeprefix(RAW), anchor, link) for link, anchor in found]
    return [
        (page if not link else ROOT / path if path != link else page.parent / link, anchor.removeprefix("#"))
        for path, anchor, link in files
        if path != link or not link.startswith("http")
    ]


def links(page: Path) -> set[Path]:
    """The files that a page leads to."""
    return {path.resolve() for path, _ in targets(page)}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and GitHub make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#{1,6} (.+)$", re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_every_link_leads_to_a_file_and_to_one_of_its_headings(page: Path) -> None:
    found = targets(page)
    assert not [str(path) for path, _ in found if not path.exists()]
    assert not [
        (str(path), anchor) for path, anchor in found if anchor and path.suffix == ".md" and anchor not in anchors(path)
    ]


def test_a_link_to_a_missing_file_or_heading_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f'# A page\n\n[a](b.md) [c](#a-page) [d](#no) ![e]({RAW}docs/e.svg) <img src="f.svg">\n')
    found = [(path.name, anchor) for path, anchor in targets(page)]
    assert found == [("b.md", ""), ("page.md", "a-page"), ("page.md", "no"), ("e.svg", ""), ("f.svg", "")]
    assert anchors(page) == {"a-page"}


def test_the_readme_leads_to_every_part_and_a_part_to_each_of_its_pages() -> None:
    overviews = {part: DOCS / part / "index.md" for part in ("learn", "guide", "reference", "research")}
    assert set(overviews.values()) <= links(README)
    for part, overview in overviews.items():
        assert {page for page in (DOCS / part).glob("*.md") if page != overview} <= links(overview), part
    assert set((DOCS / "understand").glob("*.md")) <= links(README)


ADDRESS = "https://phasegraph.github.io/phasegraph/"
OF_THE_SITE = {"", "llms.txt", "llms-full.txt", "skill/SKILL.md"}


def test_every_address_of_the_site_that_a_page_names_is_there(site: Any) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in LINKED)
    named = {one.rstrip(".") for one in re.findall(rf"{re.escape(ADDRESS)}([\w/.-]*)", text)}
    assert len(named) > 5
    assert named - OF_THE_SITE <= set(site.page_paths())


def test_the_skill_for_agents_has_the_form_that_agents_read() -> None:
    _, head, body = SKILL.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(head)
    assert set(fields) == {"name", "description"}
    assert fields["name"] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"])
    assert len(fields["description"]) <= 1024
    assert body.count("\n") < 500


@pytest.mark.parametrize("page", sorted({README, *ROOT.glob("integrations/*/README.md")}), ids=named)
def test_a_page_that_is_shown_outside_the_repository_has_absolute_links_only(page: Path) -> None:
    found = re.findall(r"\]\(([^)]+)", page.read_text(encoding="utf-8"))
    assert found
    assert not [one for one in found if not one.startswith("https://")]


@pytest.fixture(scope="module")
def site() -> Any:
    """The module of tools/docs that knows the pages of the site."""
    return module_at(ROOT / "tools" / "docs" / "site_pages.py")


@pytest.mark.parametrize("name", ["site_pages", "for_agents"])
def test_the_examples_of_the_tools_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools" / "docs")
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed


def test_the_menu_of_the_site_has_every_page_once(site: Any) -> None:
    assert sorted(path for _, _, path in site.navigation()) == site.page_paths()


def test_the_pages_of_the_site_lead_within_the_site(site: Any, tmp_path: Path) -> None:
    site.assemble(tmp_path / "pages")
    for path in site.page_paths():
        page = tmp_path / "pages" / path
        outside = [one for one, _ in targets(page) if one.is_relative_to(ROOT) and one.suffix == ".md"]
        assert outside in ([], [SKILL]), path
        assert not [str(one) for one, _ in targets(page) if not one.exists()], path


def test_filters_come_first_in_the_search_and_evidence_last(site: Any) -> None:
    weights = {path: site.search_weight(path) for path in site.page_paths()}
    assert max(weights, key=weights.__getitem__) == "guide/filters.md"
    least = max(weight for path, weight in weights.items() if path.startswith(("research/", "reproduction/")))
    assert least < min(weight for path, weight in weights.items() if path.startswith(("guide/", "reference/")))


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def results() -> Iterator[Callable[[str], list[str]]]:
    """What the search of the built site finds, in a browser: the pages, best first."""
    from playwright.sync_api import sync_playwright

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(BUILT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()

        def of(words: str) -> list[str]:
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            page.click("input.md-search__input")
            page.keyboard.type(words)
            page.wait_for_selector("a.md-search-result__link")
            links = page.eval_on_selector_all("a.md-search-result__link", "all => all.map(one => one.pathname)")
            return [str(link).strip("/") for link in links]

        yield of
        browser.close()
    server.shutdown()


@pytest.mark.skipif(os.environ.get("PHASEGRAPH_SITE") != "1", reason="run by make docs, which builds the site")
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("chroma filter", "guide/filters"),
        ("tenant", "guide/filters"),
        ("threshold", "guide/thresholds"),
        ("EnsembleRetriever", "guide/coming-from"),
        ("SourceSpec", "reference/sources-and-stages"),
        ("docker", "guide/serving"),
        ("citations", "learn/chatbot"),
    ],
)
def test_the_search_of_the_site_finds_the_right_page_first(
    results: Callable[[str], list[str]], words: str, page: str
) -> None:
    assert results(words)[0] == page


REFERENCE = {
    name: (page.name, re.findall(r"^ {8}- (\w+)$", options, re.MULTILINE))
    for page in sorted((DOCS / "reference").glob("*.md"))
    for name, options in re.findall(r"^::: ([\w.]+)\n((?: +.*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE)
}
"""By the names that the reference shows: the page, and the methods where it lists them."""


def of_name(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_the_reference_shows_every_public_name_and_nothing_else() -> None:
    public = [f"{module}.{name}" for module, names in PUBLIC.items() for name in names.split()]
    assert set(REFERENCE) <= set(public)
    shown = {id(of_name(name)) for name in REFERENCE}
    assert [name for name in public if id(of_name(name)) not in shown] == []


INTERNAL = {
    "corpus", "depends_on", "exchange", "for_call", "graph", "k", "kept_ids", "look_up", "lookup", "similarity_top_k",
    "walks", "whole_filter", "whole_filters", "class_name", "model_config", "model_copy", "model_post_init",
}  # fmt: skip
"""What retrievers have for their framework and for the core; their constructors' arguments, which have attributes."""


@pytest.mark.parametrize("name", [name for name, (_, methods) in REFERENCE.items() if methods])
def test_the_reference_lists_every_method_of_ours_that_a_retriever_has(name: str) -> None:
    kind, listed = of_name(name), set(REFERENCE[name][1])
    assert [one for one in sorted(listed) if not hasattr(kind, one)] == []
    own = set()
    for one in dir(kind):
        owner = next((of for of in kind.__mro__ if one in vars(of)), object)
        if not one.startswith("_") and owner.__module__.startswith(("phasegraph", *INTEGRATED)):
            own.add(one)
    twins = {one for one in own if one.startswith("a") and one[1:] in listed} | {"async_sync"}
    assert own - twins - INTERNAL - PARAMETERS.keys() == listed  # without the old names of arguments


def test_the_index_of_the_reference_leads_to_every_page_with_names() -> None:
    index = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert {page for page, _ in REFERENCE.values()} <= set(re.findall(r"\(([\w-]+\.md)", index))


PICTURES = sorted((DOCS / "pictures").glob("*.svg"))


@pytest.mark.parametrize("picture", PICTURES, ids=named)
def test_a_picture_is_readable_on_a_telephone_and_on_a_dark_page(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    light, _, dark = text.partition("@media (prefers-color-scheme: dark)")
    names = set(re.findall(r"var\(--(\w+)\)", text))
    for half in (light, dark.partition("}}")[0]):
        assert names <= set(re.findall(r"--(\w+):#[0-9a-f]{6};", half))
    # Every shape takes its colour from the two lists above.
    assert not re.findall(r'(?:fill|stroke)="(?!none)[^"]*"', text)
    assert 'role="img" aria-label="' in text
    smallest = min(map(float, re.findall(r'font-size="([\d.]+)"', text)))
    width = float(re.findall(r'width="([\d.]+)"', text)[0])
    assert smallest * 368 / width >= 8  # pixels on a screen of 400
    assert picture in {
        path.resolve() for page in (README, DOCS / "understand" / "how-it-works.md") for path in links(page)
    }


def test_the_pictures_are_those_of_the_pages() -> None:
    assert [picture.stem for picture in PICTURES] == ["answer", "calibration", "call", "contributions", "walk"]


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
    assert not re.search(r"<!-- (?!(end of )?figures |/?(tree|papers|rooms) -->)", page.read_text(encoding="utf-8"))


def test_the_rows_of_the_table_are_all_in_the_reference():
    from phasegraph.apps.cli.system_choice import ADDED_BY, KNOWN

    page = (DOCS / "reference" / "data-and-measures.md").read_text(encoding="utf-8").partition("## Rows")[2]
    assert [name for name in [*KNOWN, *ADDED_BY] if f"`{name}`" not in page] == []
