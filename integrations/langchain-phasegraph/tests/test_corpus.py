"""Retrievers over documents of one's own, in LangChain."""

import hashlib

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_stores import STORES, Fixed

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.testing.corpus_suite import CorpusSuite


class Hashed(Embeddings):
    """A vector of its own for every word; a text's is their sum."""

    def embed_query(self, text):
        words = text.lower().replace(".", "").split() or [""]
        seeds = [int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) for word in words]
        return sum(np.random.default_rng(seed).standard_normal(16) for seed in seeds).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


class TestLangChain(CorpusSuite):
    def document(self, name, text, **metadata):
        return Document(text, id=name, metadata=metadata)

    def made(self, documents, path=None, **fields):
        return PhaseGraphRetriever.from_documents(documents, Hashed(), path=path, **fields)

    def opened(self, path, **fields):
        return PhaseGraphRetriever.load(path, Hashed(), **fields)

    def graph_of(self, documents):
        return EntityGraphRetriever.from_documents(documents)

    def opened_graph(self, path):
        return EntityGraphRetriever.load(path)

    def add(self, retriever, documents):
        return retriever.add_documents(documents)

    def aadd(self, retriever, documents):
        return retriever.aadd_documents(documents)

    def ask(self, retriever, query, **only):
        found = retriever.invoke(query, **({"filter": only} if only else {}))
        return [(one.id, one.page_content, one.metadata) for one in found]


@pytest.mark.parametrize("name", sorted(STORES))
def test_a_retriever_is_built_over_what_a_store_holds_with_its_ids(name):
    store = STORES[name]()
    retriever = PhaseGraphRetriever.from_vectorstore(store, k=9)
    found = retriever.explain("text of p3")
    assert set(found.ids) == {f"p{number}" for number in range(9)}
    best = found.evidence("p3")
    assert {one.source for one in best.sources if one.rank is not None} == {"vector", "graph", "lexical"}
    assert np.allclose(retriever._corpus.index.graph.embeddings[0], Fixed().embed_query("text of p0"), atol=1e-6)
    retriever.add_documents([Document("text of p99", id="new", metadata={"page": 99})])
    retriever.delete(["p0"])
    assert [one.id for one in store.similarity_search("text of p99", k=20) if one.id in ("new", "p0")] == ["new"]
    assert {one.id for one in retriever.invoke("text of p99", k=20)} == {*(f"p{n}" for n in range(1, 9)), "new"}


def test_a_store_whose_contents_cannot_be_read_says_what_to_do():
    class Other(STORES["InMemory"]().__class__.__mro__[1]):
        def similarity_search(self, query, k=4, **kwargs):
            return []

        @classmethod
        def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
            return cls()

    with pytest.raises(InvalidInputError, match=r"Other.*cannot be read.*from_documents"):
        PhaseGraphRetriever.from_vectorstore(Other())
    with pytest.raises(InvalidTypeError, match="vectorstore"):
        PhaseGraphRetriever.from_vectorstore([1])


def test_what_is_no_embedding_model_is_refused():
    with pytest.raises(InvalidTypeError, match="embeddings must be"):
        PhaseGraphRetriever.from_documents([Document("Ada met Bo.", id="a")], lambda text: [1.0])


def test_selection_by_embeddings_works_without_a_store():
    documents = [Document("Ada met Bo in Paris.", id=f"twin{n}") for n in range(3)]
    documents.append(Document("Bo met Dee at sea.", id="other"))
    retriever = PhaseGraphRetriever.from_documents(documents, Hashed(), selection="log_det", k=2)
    assert "other" in {one.id for one in retriever.invoke("Whom did Ada meet in Paris, and whom Bo?")}
