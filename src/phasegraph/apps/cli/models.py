"""Load the embedding model that ``--embedder`` names, and check that it embedded the passages of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phasegraph.apps.cli.output import embed_with, load_model
from phasegraph.apps.cli.reading import embedded
from phasegraph.embedding.identity import EmbeddingModel, ModelIdentity
from phasegraph.graph import ChunkGraph, GraphIndex
from phasegraph.graph.corpus.embedded import check_question_model
from phasegraph.graph.corpus.opening import opened_with_model
from phasegraph.graph.index.records import PassageRecord


def model_named(embedder: str | None) -> EmbeddingModel | None:
    """Return the model that `embedder` names as an :class:`EmbeddingModel`; None if `embedder` is None."""
    model = load_model(embedder)
    return None if model is None else _for_passages(model)


def _for_passages(model: object) -> EmbeddingModel:
    def passages(records: Sequence[PassageRecord]) -> Any:
        return embedded(model, records, show=False)  # the caller shows the progress of many passages

    return EmbeddingModel(model, embed_with(model), passages)  # type: ignore[arg-type]


def opened_for_questions(
    folder: Path, embedder: str | None
) -> tuple[GraphIndex | ChunkGraph, EmbeddingModel | None, ModelIdentity | None]:
    """Read the index in a folder, and load the model named by ``--embedder``; the model is None without a name.

    The third value is the model that embedded the passages, if the folder names it. Three passages are embedded
    again, to compare the model with the stored vectors.
    """
    index, made_by = opened_with_model(folder)
    model = model_named(embedder)
    if isinstance(index, GraphIndex):
        check_question_model(index, made_by, model, repr(folder.name))
    return index, model, made_by


def check_model_of(folder: Path, model: object) -> None:
    """Raise InvalidInputError if an embedding model, or an instance of its class, differs from a folder's model."""
    from phasegraph.distributed.shards import made_here

    index, made_by = opened_with_model(folder)
    if isinstance(index, GraphIndex):
        check_question_model(index, made_by, _for_passages(made_here(model)), repr(folder.name))
