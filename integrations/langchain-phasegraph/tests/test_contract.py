"""Wrapped stores, retrievers and the graph keep the contract of every source."""

from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document
from langchain_stores import STORES, passages

from langchain_phasegraph import EntityGraphRetriever, SourceSpec
from langchain_phasegraph.sources import RetrieverSource
from phasegraph.testing.contracts import SourceContract


class Wrapped(SourceContract):
    queries = ("text of p3", "text of p0")

    def retriever(self):
        raise NotImplementedError

    def make_source(self):
        return RetrieverSource(self.name, SourceSpec(retriever=self.retriever())).bind({})


class TestInMemory(Wrapped):
    def retriever(self):
        return STORES["InMemory"]().as_retriever()


class TestFaiss(Wrapped):
    def retriever(self):
        return STORES["FAISS L2"]()


class TestChroma(Wrapped):
    def retriever(self):
        return STORES["Chroma cosine"]().as_retriever()


class TestBM25(Wrapped):
    def retriever(self):
        return BM25Retriever.from_documents(passages())


class TestEntityGraph(Wrapped):
    queries = ("Where was Alfred Hitchcock born?",)
    depends_on = ("vector",)

    def retriever(self):
        texts = {"Vertigo": "A film by Alfred Hitchcock.", "Alfred Hitchcock": "Born in Leytonstone."}
        return EntityGraphRetriever.from_documents(
            Document(text, id=title, metadata={"title": title}) for title, text in texts.items()
        )
