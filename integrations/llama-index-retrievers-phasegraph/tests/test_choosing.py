"""Acceptance, selection and correction, through the retriever."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import InvalidInputError
from phasegraph.errors import InvalidTypeError
from phasegraph.selection import SelectionPolicy

TEXTS = ["red apple", "red apple pie", "green pear", "blue plum", "white fig", "black grape"]
HIGH, LOW = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.3, 0.25, 0.2, 0.15, 0.1, 0.05]
SCORES = {"fruit": HIGH, "nothing": LOW, "rewritten": HIGH}


def _vector(query: str) -> list[tuple[TextNode, float]]:
    return [(TextNode(id_=text, text=text), score) for text, score in zip(TEXTS, SCORES[query], strict=True)]


class Letters(BaseEmbedding):
    """Counts of letters: nearly equal texts have nearly equal vectors."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def _ids(retriever: CalibratedFusionRetriever, query: str = "fruit") -> list[str]:
    return [hit.node_id for hit in retriever.retrieve(query)]


def test_thresholds_by_source_decide_what_comes_back() -> None:
    retriever = CalibratedFusionRetriever(vector=_vector, accept={"vector": 0.65})
    assert _ids(retriever) == TEXTS[:3]
    assert _ids(retriever, "nothing") == []
    assert retriever.explain("nothing").reason == "all_rejected"


async def test_everything_rejected_may_be_asked_once_more() -> None:
    retriever = CalibratedFusionRetriever(vector=_vector, accept={"vector": 0.65}, correct=lambda result: "rewritten")
    assert _ids(retriever, "nothing") == TEXTS[:3]
    assert [hit.node_id for hit in await retriever.aretrieve("nothing")] == TEXTS[:3]


def test_a_selection_uses_the_framework_s_embeddings() -> None:
    plain = CalibratedFusionRetriever(vector=_vector, k=2)
    policy = SelectionPolicy(mu=5.0)
    apart = CalibratedFusionRetriever(vector=_vector, k=2, selection=policy, embed_model=Letters())
    assert _ids(plain) == TEXTS[:2]
    assert _ids(apart) != TEXTS[:2]


def test_a_selection_without_embeddings_says_what_it_needs() -> None:
    with pytest.raises(InvalidInputError, match="embedding"):
        CalibratedFusionRetriever(vector=_vector, selection="mmr").retrieve("fruit")


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"accept": {"grph": 0.5}}, InvalidInputError, "accept"),
        ({"selection": "best"}, InvalidInputError, "method"),
        ({"embed_model": "minilm"}, InvalidTypeError, "embed_model"),
        ({"correct": "again"}, InvalidTypeError, "correct"),
    ],
)
def test_wrong_arguments_name_the_field_when_the_retriever_is_built(
    fields: dict[str, Any], error: type[Exception], field: str
) -> None:
    with pytest.raises(error, match=field):
        CalibratedFusionRetriever(vector=_vector, **fields)
