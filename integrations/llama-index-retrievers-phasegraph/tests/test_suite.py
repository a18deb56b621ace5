"""The shared tests of the retrievers, for LlamaIndex."""

from typing import Any

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.utils import get_tokenizer
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import INDEXES, Listed, Looked, TextModel, passages
from tests.suites.deadlines import DeadlineSuite
from tests.suites.framework import FrameworkSuite, Hit, pickled

from llama_index.retrievers import phasegraph
from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, PhaseGraphPostprocessor
from phasegraph.acceptance import AcceptancePolicy

COLOURS = ("red", "blue")


def nodes():
    return [
        TextNode(id_=f"p{row}", text=f"Page p{row} is next to Page p{(row + 1) % 9}. text of p{row}",
                 metadata={"title": f"Page p{row}", "colour": COLOURS[row % 2]})
        for row in range(9)
    ]  # fmt: skip


def red():
    return MetadataFilters(filters=[MetadataFilter(key="colour", value="red")])


def fused(**more):
    index = VectorStoreIndex(nodes(), embed_model=Looked())
    graph = EntityGraphRetriever.from_nodes(nodes(), embed_model=Looked(), seeds=index, evidence_key="graph")
    shown = {"evidence_key": "phasegraph", "selection": "mmr"}
    return CalibratedFusionRetriever(vector=index.as_retriever(), graph=graph, **shown, **more)


def over_faiss():
    import faiss
    from llama_index.vector_stores.faiss import FaissVectorStore

    storage = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(2)))
    index = VectorStoreIndex(nodes(), embed_model=Looked(), storage_context=storage)
    return CalibratedFusionRetriever(vector=index, filters=red())


def calibrated(**more):
    return fused(**more).calibrate([f"question {n}" for n in range(24)], progress=False)


COPIED = {
    "readme": fused,
    "calibrated": calibrated,
    "filters": lambda: calibrated(filters=red(), accept=AcceptancePolicy({"vector": 0.2}), k=3),
    "narrowed": lambda: calibrated().within(red()),
    "graph alone": lambda: fused()._by_name["graph"].retriever,
    "filters over faiss": over_faiss,
}


class Embedding(TextModel):
    embed: Any

    def _get_text_embedding(self, text):
        return self.embed(text)


class Native(Embedding):
    aembed: Any

    async def _aget_text_embedding(self, text):
        return await self.aembed(text)


class TestLlamaIndex(FrameworkSuite):
    package = phasegraph
    retriever = CalibratedFusionRetriever
    noun = "node"

    def document(self, name, text, **metadata):
        return TextNode(id_=name, text=text, metadata=metadata)

    def listed(self, answer):
        if isinstance(answer, dict):
            return Listed(scored(self.pairs(**answer)))
        return Listed((lambda: scored(answer())) if callable(answer) else answer)

    def ask(self, retriever, query="q", **call):
        return [hit_of(hit) for hit in retriever.retrieve(query, **call)]

    async def aask(self, retriever, query="q", **call):
        return [hit_of(hit) for hit in await retriever.aretrieve(query, **call)]

    def store(self, documents=None, **model):
        return VectorStoreIndex(passages() if documents is None else documents, embed_model=Looked(**model))

    def searching(self, store, k):
        return store.as_retriever(similarity_top_k=k)

    def plain(self, store):
        return self.ask(self.searching(store, 9), "what?")

    def embedding(self, found, embed, aembed=None):
        vector = self.listed(found)
        vector._embed_model = Native(embed=embed, aembed=aembed) if aembed else Embedding(embed=embed)
        return {"vector": vector}

    def graph(self, documents, **more):
        return EntityGraphRetriever.from_nodes(documents, **more)

    def over(self, graph, documents=None):
        return EntityGraphRetriever(graph, documents)

    def only(self, **metadata):
        return {"filters": MetadataFilters(filters=[MetadataFilter(key=k, value=v) for k, v in metadata.items()])}

    def searching_only(self, store, k, **metadata):
        return store.as_retriever(similarity_top_k=k, **self.only(**metadata))

    def delete(self, store, name):
        if "Faiss" in type(store.vector_store).__name__:  # this store cannot delete
            store.docstore.delete_document(name)
        else:
            store.delete_nodes([name])

    def add(self, store, document):
        store.insert_nodes([document])

    def fuser(self, k=None, **options):
        return PhaseGraphPostprocessor(top_n=k, **options)

    def fuse(self, fuser, lists):
        return [hit_of(hit) for hit in fuser.fuse(lists)]

    @pytest.fixture(params=sorted(INDEXES))
    def real_store(self, request):
        return INDEXES[request.param]()

    @pytest.fixture(params=sorted(COPIED))
    def copied(self, request):
        return COPIED[request.param]()

    @pytest.fixture
    def sent(self):
        return [COPIED[name]() for name in ("readme", "filters")]

    def load(self):
        """Load the index's tokenizer in the other process, as the first index of a process does."""
        get_tokenizer()

    def test_a_copy_can_be_narrowed(self):
        retriever, query = calibrated(), "Where is Page p3?"
        assert self.ask(pickled(retriever).within(red()), query) == self.ask(retriever.within(red()), query)

    def test_filters_over_faiss_are_kept(self):
        assert {hit.metadata["colour"] for hit in self.ask(over_faiss(), "Page p1")} == {"red"}


class TestDeadlines(DeadlineSuite):
    framework = TestLlamaIndex()


def scored(pairs):
    return [NodeWithScore(node=node, score=score) for node, score in pairs]


def hit_of(hit):
    return Hit(hit.node_id, hit.text, hit.metadata, hit.score, hit)
