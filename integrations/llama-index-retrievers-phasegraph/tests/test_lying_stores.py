"""Real indexes that hold NaN, and a model whose vectors change: its source is lost, and the answer is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import faiss
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.vector_stores.faiss import FaissVectorStore
from llamaindex_stores import TextModel

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import InvalidInputError

LIES: dict[str, Callable[[list[float]], Any]] = {
    "fewer dimensions": lambda vector: vector[:2],
    "more dimensions": lambda vector: vector * 2,
    "NaN": lambda vector: [math.nan] * len(vector),
    "infinity": lambda vector: [math.inf] * len(vector),
}
NODES = [TextNode(id_=f"p{row}", text=f"text of p{row}") for row in range(5)]
BROKEN = TextNode(id_="broken", text="text of broken")

# What the vector source loses is warned about once.
pytestmark = pytest.mark.filterwarnings("ignore:source 'vector' returns hits without:phasegraph.PhasegraphWarning")


class Model(TextModel):
    """An embedding model that returns NaN for one passage, and false vectors for queries if `lie` is set."""

    lie: Callable[[list[float]], Any] | None = None

    def _get_text_embedding(self, text: str) -> list[float]:
        return [math.nan] * 3 if "broken" in text else [1.0, int(text[-1]) / 5, 0.5]

    def _get_query_embedding(self, query: str) -> list[float]:
        vector = [1.0, 0.0, 0.5]
        return vector if self.lie is None else self.lie(vector)


def index_of(name: str, nodes: list[TextNode], model: Model) -> VectorStoreIndex:
    nodes = [one.model_copy(deep=True) for one in nodes]  # an index writes the vector into its nodes
    if name == "Simple":
        return VectorStoreIndex(nodes, embed_model=model)
    context = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(3)))
    return VectorStoreIndex(nodes, embed_model=model, storage_context=context)


def words(query: str) -> list[tuple[TextNode, float]]:
    return [(NODES[2], 2.0), (BROKEN, 1.5), (NODES[4], 1.0)]


@pytest.mark.parametrize("name", ["Simple", "Faiss"])
def test_a_nan_in_an_index_costs_its_own_hit_alone(name: str) -> None:
    model = Model()
    index = index_of(name, [*NODES, BROKEN], model)
    result = CalibratedFusionRetriever(vector=index, retrievers={"words": words}, k=6).explain("text of p0")
    assert set(result.ids) == {"broken", *(one.node_id for one in NODES)}
    assert all(math.isfinite(score) for score in result.scores)
    (ranking,) = [one for one in result.candidates.rankings if one.source == "vector"]
    assert set(ranking.ids) == {one.node_id for one in NODES}
    with pytest.raises(InvalidInputError, match="embeddings must be finite"):
        CalibratedFusionRetriever.from_nodes([*NODES, BROKEN], model)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", ["Simple", "Faiss"])
def test_a_model_that_lies_from_its_second_question_costs_its_own_source_alone(name: str, lie: str) -> None:
    model = Model()
    index = index_of(name, NODES, model)
    retriever = CalibratedFusionRetriever(vector=index, retrievers={"words": words}, k=6)
    assert not retriever.explain("text of p0").degraded
    model.lie = LIES[lie]
    result = retriever.explain("text of p1")
    plain = CalibratedFusionRetriever(retrievers={"words": words}, k=6).explain("text of p1")
    assert (result.ids, result.scores.tolist()) == (plain.ids, plain.scores.tolist())
    assert [one.status for one in result.reports if one.source == "vector"] != ["ok"]
