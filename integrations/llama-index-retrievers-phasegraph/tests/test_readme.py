"""The README's programs run."""

import re
import runpy
from pathlib import Path

import pytest
from llama_index.core import MockEmbedding
from llama_index.core.schema import TextNode
from llamaindex_stores import hits, property_graph

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

README = Path(__file__).parents[1] / "README.md"


def vector(self, text):
    """Return a vector that depends on the text's length, because MockEmbedding gives all texts the same vector."""
    return [1.0, len(text) / 100.0]


@pytest.fixture(autouse=True)
def different_embeddings(monkeypatch):
    for name in ("_get_text_embedding", "_get_query_embedding"):
        monkeypatch.setattr(MockEmbedding, name, vector)


def programs(folder):
    found = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for number, program in enumerate(found):
        path = folder / f"program_{number}.py"
        path.write_text(program, encoding="utf-8")
        yield str(path)


def test_the_twelve_lines_are_twelve_and_work(tmp_path, capsys):
    first = next(programs(tmp_path))
    assert len([line for line in Path(first).read_text(encoding="utf-8").splitlines() if line.strip()]) == 12
    runpy.run_path(first)
    printed = capsys.readouterr().out.splitlines()
    assert sorted(line[:7] for line in printed[::2]) == ["Alfred ", "Vertigo"]
    assert all("'graph': " in line and "'vector': " in line for line in printed[1::2])


def test_the_other_programs_work_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {
        "search": lambda query: [(TextNode(id_="Vertigo", text="v"), 3.0), (TextNode(id_="x", text="x"), 2.0)],
        "others": hits(Vertigo=1.0, y=0.5),
        "property_graph_store": property_graph().property_graph_store,
        "questions": [f"{word} made Vertigo?" for word in map(str, range(24))],
    }
    for program in programs(tmp_path):
        scope = runpy.run_path(program, init_globals=scope)
    assert isinstance(scope["retriever"], CalibratedFusionRetriever)
    assert list(scope["fitted"].fitted_pipeline.calibrators) == ["vector"]
    assert sorted(scope["custom"].explain("Who?").ids) == ["Alfred Hitchcock", "Vertigo", "x"]
    assert scope["walk"].retrieve("Who is Ada?")
    assert {hit.node_id for hit in scope["fused"]} == {"Alfred Hitchcock", "Vertigo", "y"}
