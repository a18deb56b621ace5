"""Real stores that hold NaN, and a model whose vectors change: the source is lost, and the answer is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import InvalidInputError

STORES: dict[str, type[VectorStore]] = {"FAISS": FAISS, "InMemory": InMemoryVectorStore}
LIES: dict[str, Callable[[list[float]], Any]] = {
    "fewer dimensions": lambda vector: vector[:2],
    "more dimensions": lambda vector: vector * 2,
    "NaN": lambda vector: [math.nan] * len(vector),
    "infinity": lambda vector: [math.inf] * len(vector),
}
PASSAGES = [Document(f"text of p{row}", id=f"p{row}", metadata={"row": row}) for row in range(5)]
BROKEN = Document("text of broken", id="broken", metadata={"row": 9})

# What the vector source loses is warned about once.
pytestmark = pytest.mark.filterwarnings("ignore:source 'vector' returns hits without:phasegraph.PhasegraphWarning")


class Model(Embeddings):
    """An embedding model that returns NaN for one passage, and false vectors for queries if `lie` is set."""

    lie: Callable[[list[float]], Any] | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[math.nan] * 3 if "broken" in text else [1.0, int(text[-1]) / 5, 0.5] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [1.0, 0.0, 0.5]
        return vector if self.lie is None else self.lie(vector)


def words(query: str) -> list[tuple[Document, float]]:
    return [(PASSAGES[2], 2.0), (BROKEN, 1.5), (PASSAGES[4], 1.0)]


def test_a_nan_in_a_store_costs_its_own_hit_alone() -> None:
    store = FAISS.from_documents([*PASSAGES, BROKEN], Model())
    result = PhaseGraphRetriever(vector=store, retrievers={"words": words}, k=6).explain("text of p0")
    assert set(result.ids) == {"broken", *(one.id for one in PASSAGES)}
    assert all(math.isfinite(score) for score in result.scores)
    (ranking,) = [one for one in result.candidates.rankings if one.source == "vector"]
    assert ranking.ids == ("p0", "p1", "p2", "p3", "p4")
    with pytest.raises(InvalidInputError, match="embeddings must be finite"):
        PhaseGraphRetriever.from_vectorstore(store)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", STORES)
def test_a_model_that_lies_from_its_second_question_costs_its_own_source_alone(name: str, lie: str) -> None:
    model = Model()
    store = STORES[name].from_documents(PASSAGES, model)
    retriever = PhaseGraphRetriever(vector=store, retrievers={"words": words}, k=6)
    assert not retriever.explain("text of p0").degraded
    model.lie = LIES[lie]
    result = retriever.explain("text of p1")
    plain = PhaseGraphRetriever(retrievers={"words": words}, k=6).explain("text of p1")
    assert (result.ids, result.scores.tolist()) == (plain.ids, plain.scores.tolist())
    assert [one.status for one in result.reports if one.source == "vector"] != ["ok"]
