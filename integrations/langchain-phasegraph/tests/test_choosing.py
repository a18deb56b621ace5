"""Thresholds on distances, selections and the worked example, with LangChain's own classes."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph.selection import SelectionPolicy

TEXTS = ["red apple", "red apple pie", "green pear", "blue plum", "white fig", "black grape"]


class Letters(Embeddings):
    """An embedding model that counts letters, so that similar texts have similar vectors."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_a_threshold_on_a_distance_store_is_the_highest_distance() -> None:
    documents = [Document("", id=text, metadata={"distance": place / 10}) for place, text in enumerate(TEXTS, start=1)]
    fields = HitFields(score="distance", higher_is_better=False)
    spec = SourceSpec(retriever=lambda query: documents, fields=fields)
    retriever = PhaseGraphRetriever(vector=spec, accept={"vector": 0.35})
    assert [one.id for one in retriever.invoke("fruit")] == TEXTS[:3]
    assert "the threshold is a distance: hits are accepted up to 0.35" in retriever.explain("fruit").reports[0].notes


@pytest.mark.parametrize("k", [2, 4, 6, 9])
def test_a_selection_by_its_bare_name_returns_no_copy_while_others_are_at_hand(k: int) -> None:
    documents = [Document("red apple", id=f"copy{row}") for row in range(4)]
    documents += [Document(text, id=text) for text in TEXTS[1:]]
    store = InMemoryVectorStore.from_documents(documents, Letters())
    plain = PhaseGraphRetriever(vector=store, k=4).invoke("red apple")
    assert {one.page_content for one in plain} == {"red apple"}
    found = PhaseGraphRetriever(vector=store, k=k, selection="log_det").invoke("red apple")
    assert len(found) == k
    assert sum(one.page_content == "red apple" for one in found) == max(1, k - 5)


def test_the_document_s_worked_example_through_a_retriever() -> None:
    scores = [0.45, 0.425, 0.4, 0.05]

    def search(query: str) -> list[tuple[Document, float]]:
        return [(Document(str(row), id=str(row)), score) for row, score in enumerate(scores)]

    legacy = SelectionPolicy("legacy_entropy", penalty=1.5)
    found = PhaseGraphRetriever(vector=search, k=3, selection=legacy, evidence_key="why").invoke("?")
    assert [one.id for one in found] == ["0", "3", "1"]
    assert found[0].metadata["why"]["set_entropy"] == 0.0
    assert found[1].metadata["why"]["set_entropy"] == pytest.approx(0.325083, abs=1e-6)
