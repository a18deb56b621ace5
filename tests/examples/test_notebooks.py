"""The notebooks run from top to bottom in a real kernel, with and without servers, and show what is committed."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from example_runs import EXAMPLES, outputs, printed, run_notebook
from real_servers import contents

LANGCHAIN = EXAMPLES / "langchain_chroma_neo4j.ipynb"
LLAMAINDEX = EXAMPLES / "llamaindex_postgres_property_graph.ipynb"
NOTEBOOKS = (LANGCHAIN, LLAMAINDEX)

pytestmark = pytest.mark.timeout(600)


def committed(path):
    return json.loads(path.read_text(encoding="utf-8"))


def steady(notebook):
    """Lines without numbers: scores may differ in their last digits, times in all of them."""
    lines = printed(notebook).splitlines()
    return [line for line in lines if not any(letter.isdigit() for letter in line) and line[:1] != " "]


def run_as_committed(path, servers, scratch):
    notebook = run_notebook(path, servers, scratch)
    assert not printed(notebook, "stderr")
    assert steady(notebook) == steady(committed(path))
    assert len(printed(notebook).splitlines()) == len(printed(committed(path)).splitlines())


def tables(address):
    """Tables in the database's public schema."""
    from sqlalchemy import create_engine, inspect

    engine = create_engine(f"postgresql+psycopg2{address}")
    try:
        return inspect(engine).get_table_names("public")
    finally:
        engine.dispose()


def test_there_is_one_for_each_framework():
    assert sorted(EXAMPLES.glob("*.ipynb")) == sorted(NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_without_a_server_every_cell_runs_in_memory(path, tmp_path):
    run_as_committed(path, {}, tmp_path)


def test_with_neo4j_the_graph_lives_there_and_nothing_is_left(address, tmp_path):
    before = contents(address)
    run_as_committed(LANGCHAIN, address.environment, tmp_path)
    assert contents(address) == before


def test_with_postgres_the_vectors_live_there_and_nothing_is_left(postgres, tmp_path):
    before = tables(postgres)
    run_as_committed(LLAMAINDEX, {"POSTGRES_URI": postgres}, tmp_path)
    assert tables(postgres) == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_with_the_plots_of_a_run_on_servers(path):
    notebook = committed(path)
    assert {output["output_type"] for output in outputs(notebook)} <= {"stream", "execute_result", "display_data"}
    assert not printed(notebook, "stderr")
    assert "is not set" not in printed(notebook)
    assert sum("image/png" in output.get("data", {}) for output in outputs(notebook)) >= 3
    assert path.stat().st_size < 300_000
