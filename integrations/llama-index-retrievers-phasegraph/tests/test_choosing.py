"""Thresholds on distances and selections, with LlamaIndex's own classes."""

from __future__ import annotations

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_stores import TextModel

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, HitFields, SourceSpec

TEXTS = ["red apple", "red apple pie", "green pear", "blue plum", "white fig", "black grape"]


class Letters(TextModel):
    """An embedding model that counts letters, so that similar texts have similar vectors."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]


def test_a_threshold_on_distances_is_the_highest_distance() -> None:
    nodes = [
        TextNode(text=text, id_=text, metadata={"distance": row / 10}) for row, text in enumerate("abcde", start=1)
    ]
    spec = SourceSpec(
        retriever=lambda query: [NodeWithScore(node=node) for node in nodes],
        fields=HitFields(score="distance", higher_is_better=False),
    )
    retriever = CalibratedFusionRetriever(vector=spec, accept={"vector": 0.35})
    assert [hit.node_id for hit in retriever.retrieve("Which?")] == ["a", "b", "c"]
    assert "the threshold is a distance: hits are accepted up to 0.35" in retriever.explain("Which?").reports[0].notes


@pytest.mark.parametrize("k", [2, 4, 6, 9])
def test_a_selection_by_its_bare_name_returns_no_copy_while_others_are_at_hand(k: int) -> None:
    nodes = [TextNode(text="red apple", id_=f"copy{row}") for row in range(4)]
    index = VectorStoreIndex([*nodes, *(TextNode(text=text, id_=text) for text in TEXTS[1:])], embed_model=Letters())
    plain = CalibratedFusionRetriever(vector=index, k=4).retrieve("red apple")
    assert {hit.text for hit in plain} == {"red apple"}
    found = CalibratedFusionRetriever(vector=index, k=k, selection="log_det").retrieve("red apple")
    assert len(found) == k
    assert sum(hit.text == "red apple" for hit in found) == max(1, k - 5)
