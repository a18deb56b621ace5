"""An experiment with the model at hand embeds the clauses of questions, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.graph.walk.clauses import clauses

SLICE = Path(__file__).parents[2] / "data" / "musique-openie"


def test_the_model_is_asked_for_clauses_alone() -> None:
    data = load_dataset(SLICE).subset(range(12))
    asked: list[str] = []

    def embed(text: str) -> np.ndarray:
        asked.append(text)
        return data.query_vectors[0]

    search_sources(ExperimentInput(data, embedder=embed), ["graph"])
    parts = [part for query in data.queries for part in clauses(query.text) if len(clauses(query.text)) > 1]
    assert parts
    assert asked == parts
