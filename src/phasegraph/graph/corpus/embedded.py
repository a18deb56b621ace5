"""Check that an embedding model is the model that embedded the passages of an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from phasegraph.embedding.identity import EmbeddingModel, ModelIdentity
from phasegraph.errors import InvalidInputError, warn
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.walk.walker import Embedder

SAMPLED = 3
"""Number of passages that are embedded again to compare a model with the stored vectors."""
SAME = 0.99
"""Minimum cosine of the stored and the new vector of a passage if both vectors come from the same model."""


OF_FOLDER = (
    "embed all passages again: load(..., reembed=True) does it in a retriever's folder, and phasegraph reembed in a "
    "folder of phasegraph index --sync"
)
OF_STORE = "build the store again with the given model"
"""What a user can do instead, for a folder and for the user's own store."""


def check_model(
    index: GraphIndex, made_by: ModelIdentity | None, embedder: Embedder | None, name: str, remedy: str = OF_FOLDER
) -> bool:
    """Raise InvalidInputError if a model differs from the model that embedded the passages.

    Parameters
    ----------
    index : GraphIndex
        The index with the passages and their vectors.
    made_by : ModelIdentity or None
        The model that embedded the passages, if it is known.
    embedder : callable or None
        The model to check. An :class:`EmbeddingModel` embeds three passages again, and the vectors are compared. Any
        other callable embeds one word, and only the length of the vector is compared.
    name : str
        The name of the folder in quotation marks, or a description of the store, for messages.
    remedy : str
        What the user can do to use the given model, for messages.

    Returns
    -------
    bool
        True if the model is known to be the model that embedded the passages, or if there is nothing to compare. In an
        index without passages, only the names of the models are compared.

    Raises
    ------
    InvalidInputError
        If the models differ; the message names both models.
    """
    vectors = index.graph.view.embeddings
    if vectors is None or embedder is None:
        return True
    model = embedder if isinstance(embedder, EmbeddingModel) else None
    if not len(index.records):
        if model is not None and made_by is not None and made_by.name != model.identity.name:
            raise InvalidInputError(_another(name, made_by, model, "no passage is left to compare", remedy))
        return False
    rows = index.graph.view.passage_rows
    names = [] if model is None else _sampled(list(index.records))
    try:
        found = np.asarray(
            [embedder("passage")] if model is None else model.passages([index.records[one] for one in names])
        )
    except Exception as error:
        if model is not None and made_by is not None and made_by.name != model.identity.name:
            raise InvalidInputError(_another(name, made_by, model, "it does not answer", remedy)) from error
        warn(
            f"{name}: the embedding model does not answer, so it could not be compared with the stored vectors "
            f"({type(error).__name__})",
            cause=error,
        )
        return False
    if found.shape[1:] != vectors.shape[1:]:
        known = "" if made_by is None else f" (model: {made_by.name})"
        given = "the given embedding model" if model is None else model.identity.name
        raise InvalidInputError(
            f"the vectors of {name} have {vectors.shape[1]} numbers{known}, but the vectors of {given} have "
            f"{found.size // max(len(found), 1)}: use the model that embedded the passages, or {remedy}"
        )
    if model is None:
        return False
    least = float(cosines(found, vectors[[rows[one] for one in names]]).min())
    if least >= SAME:
        if made_by is not None and (changed := made_by.differences(model.identity)):
            warn(
                f"{name}: the settings of its embedding model have changed ({'; '.join(changed)}), but the model still "
                "computes nearly the same vectors for the passages that were compared. If you did not intend the "
                "change, restore the settings"
            )
        return True
    if made_by is not None and made_by.given and made_by.name == model.identity.name:
        return False  # the caller supplied the vectors, which may belong to other texts than the passages' texts
    raise InvalidInputError(
        _another(
            name,
            made_by,
            model,
            f"cosine {least:.3f} to the stored vector of the same passage; at least {SAME:g} needed",
            remedy,
        )
    )


def check_question_model(
    index: GraphIndex, made_by: ModelIdentity | None, embedder: Embedder | None, name: str
) -> None:
    """Raise InvalidInputError if the model for questions and the recorded model differ in both name and vectors.

    Passages are embedded again as in :func:`check_model`, first without their titles. If the vectors differ, they are
    embedded with their titles, because the folder does not record which text was embedded. If no model is recorded
    (`made_by` is None), nothing is compared.
    """
    if made_by is None or not isinstance(embedder, EmbeddingModel):
        return
    embed = embedder.passages
    untitled = replace(embedder, passages=lambda records: embed([replace(one, title="") for one in records]))
    try:
        check_model(index, made_by.as_given(), untitled, name)
    except InvalidInputError:
        check_model(index, made_by.as_given(), embedder, name)


def _another(name: str, made_by: ModelIdentity | None, model: EmbeddingModel, reason: str, remedy: str) -> str:
    was = "another model" if made_by is None else made_by.name
    return (
        f"{name} was embedded with {was}, but the given model is {model.identity.name} ({reason}): use the model that "
        f"embedded the passages, or {remedy}"
    )


def _sampled(names: Sequence[str]) -> list[str]:
    """Return the first, the middle and the last name; all names if there are fewer than three."""
    rows = np.linspace(0, len(names) - 1, min(SAMPLED, len(names))).astype(int).tolist()
    return [names[row] for row in dict.fromkeys(rows)]


def cosines(one: Any, other: Any) -> Any:
    """Compute, for each i, the cosine between row i of `one` and row i of `other`; two zero rows have cosine 1."""
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    same = ~one.any(axis=1) & ~other.any(axis=1)
    return np.where(same, 1.0, np.einsum("ij,ij->i", one, other) / np.where(lengths > 0, lengths, 1.0))
