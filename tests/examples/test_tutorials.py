"""The programs of the tutorials run in a real kernel, and print what their pages and notebooks show."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
from tests.modules import module_at

sys.path.insert(0, str(Path(__file__).parent))

from example_runs import EXAMPLES
from test_notebooks import differences

ROOT = EXAMPLES.parent
tutorials = module_at(ROOT / "tools" / "docs" / "tutorials.py")

PAGES = tutorials.tutorials()
FIRST, CHATBOT, MEASURE = (
    tutorials.LEARN / f"{name}.md" for name in ("first-retriever", "chatbot", "measure-and-tune")
)
pytestmark = pytest.mark.timeout(600)


def committed(page):
    return json.loads(PAGES[page].read_text(encoding="utf-8"))


def sources(notebook):
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


def by_page(pages=PAGES):
    return pytest.mark.parametrize("page", list(pages), ids=lambda page: page.stem)


def test_there_are_three_and_every_notebook_has_a_page():
    assert [page.stem for page in PAGES] == ["chatbot", "first-retriever", "measure-and-tune"]
    assert sorted(tutorials.FOLDER.glob("*.ipynb")) == sorted(PAGES.values())


@by_page()
def test_a_notebook_is_its_page(page):
    assert sources(committed(page)) == sources(tutorials.notebook_of(page)), "python tools/docs/tutorials.py"


@by_page()
def test_a_page_shows_what_the_notebook_shows(page):
    shown = tutorials.with_outputs(page, tutorials.printed(committed(page)))
    assert page.read_text(encoding="utf-8") == shown, "python tools/docs/tutorials.py"
    assert all(tutorials.outputs_on(page))


@by_page()
def test_it_runs_and_prints_what_is_committed(page):
    ran = tutorials.run(tutorials.notebook_of(page))
    outputs = [output for cell in ran["cells"] for output in cell.get("outputs", ())]
    assert {(output["output_type"], output.get("name")) for output in outputs} == {("stream", "stdout")}
    assert not differences("".join(tutorials.printed(ran)), "".join(tutorials.printed(committed(page))))


def test_a_wrong_output_of_a_page_is_seen():
    outputs = tutorials.outputs_on(MEASURE)
    wrong = [outputs[0].replace("40 questions", "41 questions"), *outputs[1:]]
    assert tutorials.with_outputs(MEASURE, wrong) != MEASURE.read_text(encoding="utf-8")


BROUGHT = {"langchain_core", "llama_index", "phasegraph"}
"""Packages that ours bring."""


@by_page()
def test_the_first_cell_installs_what_the_programs_import(page):
    first, *others = [cell for cell in committed(page)["cells"] if cell["cell_type"] == "code"]
    assert first["metadata"]["tags"] == [tutorials.SKIPPED]
    assert not first["outputs"]
    install = next(line for line in "".join(first["source"]).splitlines() if line.startswith("%pip install -q"))
    installed = {name.replace("-", "_") for name in re.findall(r"[a-z][a-z-]+[a-z]", install)}
    trees = [ast.parse("".join(cell["source"])) for cell in others]
    imported = {node.module for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {
        one.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names
    }
    local = {path.stem for path in tutorials.FOLDER.glob("*.py")}
    if "llama_index.retrievers.phasegraph" in imported:
        assert "llama_index_retrievers_phasegraph" in installed
    needed = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - BROUGHT - local
    assert needed <= installed


def test_each_stand_in_says_that_it_is_a_stand_in():
    for path in tutorials.FOLDER.glob("*_stand_ins.py"):
        classes = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
        assert len(classes) == 2
        assert all(ast.get_docstring(node).startswith("A stand-in for a") for node in classes)
    assert all("**stand-in**" in page.read_text(encoding="utf-8") for page in PAGES)


def test_the_first_retriever_follows_the_names_that_vectors_miss():
    found, alone, why = tutorials.outputs_on(FIRST)[3:6]
    assert [line.partition(" 0 |")[0] for line in found.splitlines()][:2] == ["harbour-hall.md", "nordlund.md"]
    assert alone.startswith("nordlund.md is number 5")
    assert "harbour hall > [harbour-hall.md 0] > kestrel 40 > [kestrel-40.md 0] > nordlund > [nordlund.md 0]" in why
    assert "30 June 2029" in tutorials.outputs_on(FIRST)[6]


def test_the_chatbots_cite_the_passages_that_their_answers_come_from():
    for output in tutorials.outputs_on(CHATBOT)[4:]:
        assert "The service contract ends on 31 March 2027 [2].\n  [1] harbour-hall.md\n  [2] nordlund.md" in output
        assert "Only the service team of Nordlund may repair a Kestrel 40, or the guarantee ends [1]" in output
        assert "[1] kestrel-40.md" in output
    assert "You: What is the capital of Peru?\nBot: The passages do not answer this question." in output_of_bot()


def output_of_bot():
    return tutorials.outputs_on(CHATBOT)[4]


def test_the_prose_about_the_measured_gain_is_true():
    gain, _, shares, kept, tried = tutorials.outputs_on(MEASURE)[2:7]
    low = float(re.search(r"\[([+-][\d.]+),", gain)[1])
    assert low > 0
    assert "The interval is above 0" in MEASURE.read_text(encoding="utf-8")
    chosen = re.search(r"^0\.2 answers (\d+) % of your questions and (\d+) %", shares, re.MULTILINE)
    assert int(chosen[1]) > 90 > 10 > int(chosen[2])
    assert [int(line.split()[0]) for line in kept.splitlines()] == [10, 0]
    assert all(float(one) <= 0 for one in re.findall(r"\[([+-][\d.]+),", tried))
