"""The command ``phasegraph demo``: a question that vectors alone do not answer, explained on a local page."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

from phasegraph.apps.cli.index import sizes_of
from phasegraph.apps.cli.output import console, stage
from phasegraph.apps.cli.try_out import show_page
from phasegraph.apps.inspector.inspector import Asked, Inspector
from phasegraph.apps.inspector.server import check_installed
from phasegraph.embedding import named_embedder
from phasegraph.errors import MissingDependencyError
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.graph.index.graph_index import GraphIndex


def demo_data() -> Dataset:
    """Load the bundled questions and passages."""
    with as_file(files("phasegraph.apps.inspector") / "demo") as folder:
        return load_dataset(folder)


class DemoInspector(Inspector):
    """An inspector of the bundled data; new questions are answered without vectors if minilm is not installed."""

    def __init__(self, index: GraphIndex, data: Dataset) -> None:
        self._known = {query.text: vector for query, vector in zip(data.queries, data.query_vectors, strict=True)}
        self._model = lru_cache(maxsize=1)(_installed_model)
        self._by_words = Inspector(index, "demo", judged=data.queries)
        super().__init__(index, "demo", embedder=self._embed, judged=data.queries, command="phasegraph demo")

    def ask(self, question: object) -> Asked:
        """Return a question with its rankings; the vectors of the bundled questions are stored."""
        if isinstance(question, str) and question.strip() not in self._known and self._model() is None:
            return self._by_words.ask(question)
        return super().ask(question)

    def _embed(self, text: str) -> Any:
        return self._known[text] if text in self._known else self._model().embed_query(text)


def _installed_model() -> Any:
    """Return the model that embedded the bundled data; None if it is not installed."""
    try:
        return named_embedder("minilm")
    except MissingDependencyError:
        return None


def run(ask: str | None, port: int, open_it: bool | None) -> None:
    """Run ``phasegraph demo``; the parameters are the options of the command."""
    check_installed()
    data = demo_data()
    index = stage("building the graph", lambda: GraphIndex.build(data.passages, embeddings=data.passage_vectors))
    console().print(f"built {sizes_of(index)}")
    inspector = DemoInspector(index, data)
    inspector.prepare()
    show_page(inspector, data.queries[0].text if ask is None else ask, port, open_it)
