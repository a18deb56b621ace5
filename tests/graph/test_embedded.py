"""A model that is another than the one that embedded a corpus, and how both are named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasegraph import InvalidInputError, PhasegraphWarning
from phasegraph.embedding.identity import EmbeddingModel, ModelIdentity
from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus.embedded import check_model, check_question_model

INDEX = GraphIndex.build(
    [{"id": str(number), "text": f"Ada met Bo in Room {number}."} for number in range(5)],
    embeddings=np.eye(5, 8, dtype=np.float32),
)


def model(*, turn: float = 0.0, name: str = "m", **settings: Any) -> EmbeddingModel:
    """A model whose vectors are turned by this angle from those of the index."""

    def passages(records: Any) -> Any:
        rows = np.eye(5, 8)[[int(one.id) for one in records]] * np.cos(turn)
        rows[:, 7] = np.sin(turn)
        return rows * 3

    return EmbeddingModel(SimpleNamespace(model_name=name, **settings), lambda query: [0.0] * 8, passages)


@pytest.mark.parametrize(("turn", "same"), [(0.0, True), (0.13, True), (0.15, False), (1.5, False)])
def test_a_model_is_the_same_up_to_a_cosine_of_99_hundredths(turn: float, same: bool) -> None:
    assert (np.cos(turn) >= 0.99) == same
    if same:
        assert check_model(INDEX, model().identity, model(turn=turn, name="renamed"), "f")
        return
    with pytest.raises(
        InvalidInputError, match=r"f was embedded with SimpleNamespace m, but the given model is SimpleNamespace n"
    ):
        check_model(INDEX, model().identity, model(turn=turn, name="n"), "f")


def test_vectors_that_were_handed_over_may_be_of_other_texts() -> None:
    given = ModelIdentity.of(model().model, given=True)
    assert check_model(INDEX, given, model(turn=1.0), "f") is False
    with pytest.raises(InvalidInputError, match="SimpleNamespace n"):
        check_model(INDEX, given, model(turn=1.0, name="n"), "f")


@pytest.mark.parametrize(
    ("turn", "name", "accepted"),
    [(0.13, "n", True), (0.15, "n", False), (0.9, "m", True), (1.5, "m", True), (1.5, "n", False)],
)
def test_a_model_for_questions_of_the_same_name_may_embed_another_form_of_the_texts(turn, name, accepted) -> None:
    made_by, asked = model().identity, model(turn=turn, name=name)
    check_question_model(INDEX, None, asked, "f")
    if accepted:
        check_question_model(INDEX, made_by, asked, "f")
        return
    with pytest.raises(InvalidInputError, match=rf"f was embedded with SimpleNamespace m, .* SimpleNamespace {name} "):
        check_question_model(INDEX, made_by, asked, "f")


def test_a_model_for_questions_may_have_embedded_the_texts_without_titles() -> None:
    rows = [{"id": str(row), "title": "T", "text": f"Ada met Bo in Room {row}."} for row in range(5)]
    index = GraphIndex.build(rows, embeddings=np.eye(5, 8, dtype=np.float32))

    def passages(records: Any) -> Any:
        return np.array([np.eye(5, 8)[int(one.id)] if not one.title else np.eye(8)[7] for one in records])

    check_question_model(index, model().identity, EmbeddingModel(SimpleNamespace(model_name="n"), str, passages), "f")


def test_changed_settings_of_the_same_model_are_said() -> None:
    before = model(query_instruction="find", normalize=True).identity
    with pytest.warns(PhasegraphWarning, match=r"f: the settings.*query_instruction was 'find' and is 'look'"):
        assert check_model(INDEX, before, model(query_instruction="look", normalize=True), "f")


def test_an_identity_comes_back_from_json_and_holds_no_key_and_no_foreign_object() -> None:
    told = ModelIdentity.of(
        SimpleNamespace(model="m", api_key="s3cret", encode_kwargs={"device": object()}, dimensions=9)
    )
    assert told.to_json() == {"name": "SimpleNamespace m", "settings": {"dimensions": 9}, "given": False}
    assert ModelIdentity.from_json(told.to_json()) == told
    assert ModelIdentity.from_json(None) is None
    assert ModelIdentity.from_json({"name": 3}) is None
