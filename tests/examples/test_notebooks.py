"""The notebooks run from top to bottom in a real kernel, with and without servers, and show what is committed."""

import json
import re
import sys
from itertools import zip_longest
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


NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
OF_SERVERS = re.compile(r"in Neo4j|in memory|walked in|without a server|\d+ vectors are in")
"""Lines that say where things live begin so: they differ between a run on servers and one without."""


def differences(one, two):
    """Lines of two outputs whose words differ, or whose figures do.

    Every search of the notebooks is exact, and the same on a server and in memory: whole numbers are equal, and others
    differ by one in their last digit at most, since stores keep cosines with single precision.
    """
    lines = [[line for line in text.splitlines() if not OF_SERVERS.match(line)] for text in (one, two)]
    return [
        pair
        for pair in zip_longest(*lines, fillvalue="")
        if NUMBER.sub("#", pair[0]) != NUMBER.sub("#", pair[1]) or not alike(*pair)
    ]


def alike(one, two):
    """Whether the numbers of two lines agree as they are rounded there."""
    pairs = zip(NUMBER.findall(one), NUMBER.findall(two), strict=True)
    return all(a == b or abs(in_last_digits(a) - in_last_digits(b)) == 1 for a, b in pairs)


def in_last_digits(number):
    """A number counted in its last digit after the point; a whole number counts double, so that none is next to it."""
    return int(number.replace(".", "")) if "." in number else 2 * int(number)


def run_as_committed(path, servers, scratch):
    notebook = run_notebook(path, servers, scratch)
    assert not printed(notebook, "stderr")
    assert not differences(printed(notebook), printed(committed(path)))


def test_a_wrong_figure_of_a_notebook_is_seen():
    right = "LastHop@10: vectors alone 55, walk alone 84, EnsembleRetriever 64, phasegraph 84"
    assert not differences(right, right)
    assert differences(right, right.replace("64", "63")) == [(right, right.replace("64", "63"))]
    assert differences("phasegraph reaches 84.0: 29.0 points", "phasegraph reaches 83.0: 28.0 points")
    assert not differences("0.954  Bubye River", "0.955  Bubye River")
    assert differences("0.954  Bubye River", "0.956  Bubye River")
    assert differences("0.954  Bubye River  (graph 1)", "0.954  Bubye River  (graph 2)")
    assert differences("0.954  Bubye River", "0.954  Devon Falls")
    assert differences("one\ntwo", "one")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_system_of_a_notebook_is_a_row_of_zeros(path):
    lines = [line for line in printed(committed(path)).splitlines() if "vectors alone" in line and ":" in line]
    measured = [float(number) for line in lines for number in re.findall(r" (\d+)(?:,|$)", line)]
    assert len(measured) == 24
    assert min(measured) > 20


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
