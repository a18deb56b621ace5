"""The shared tests of the retrievers, for LangChain."""

import pytest
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_stores import STORES, Fixed, Listed, passages
from tests.suites.deadlines import DeadlineSuite
from tests.suites.framework import FrameworkSuite, Hit

import langchain_phasegraph
from langchain_phasegraph import EntityGraphRetriever, HitFields, PhaseGraphRetriever, SourceSpec, fuse_lists
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.graph import GraphSource

EMBEDDINGS = DeterministicFakeEmbedding(size=16)
ABOUT = [
    Document("Vertigo is a film by Alfred Hitchcock.", id="film", metadata={"title": "Vertigo", "lang": "en"}),
    Document("He was born in Leytonstone.", id="man", metadata={"title": "Alfred Hitchcock", "lang": "en"}),
    Document("A district of London.", id="place", metadata={"title": "Leytonstone", "lang": "en"}),
    *(Document(f"Text {n}.", id=f"p{n}", metadata={"title": f"Page {n}", "lang": "de"}) for n in range(8)),
]


def fused(**more):
    graph = EntityGraphRetriever.from_documents(ABOUT, embeddings=more.pop("embeddings", None))
    spec = SourceSpec(retriever=InMemoryVectorStore.from_documents(ABOUT, EMBEDDINGS), fields=HitFields(size=11))
    return PhaseGraphRetriever(**{"vector": spec, "graph": graph, "k": 4, **more})


def lexical(query):
    return [(document, float(len(document.page_content))) for document in ABOUT[:6]]


COPIED = {
    "readme": fused,
    "graph alone": lambda: EntityGraphRetriever.from_documents(ABOUT, embeddings=EMBEDDINGS),
    "graph source": lambda: fused(graph=GraphSource(EntityGraphRetriever.from_documents(ABOUT).graph)),
    "embeddings": lambda: fused(embeddings=EMBEDDINGS, selection="mmr"),
    "filter": lambda: fused(filter={"lang": "en"}),
    "faiss": lambda: PhaseGraphRetriever(vector=FAISS.from_documents(ABOUT, EMBEDDINGS)),
    "functions": lambda: PhaseGraphRetriever(
        retrievers=[lexical, fused()],
        weights=[0.5, 0.5],
        accept=AcceptancePolicy({"source_1": 1.0}),
        evidence_key="evidence",
    ),
    "calibrated": lambda: fused().calibrate([f"question {n}" for n in range(24)], progress=False),
}


class Embedding(Embeddings):
    def __init__(self, embed, aembed):
        self.embed, self.aembed = embed, aembed

    def embed_query(self, text):
        return self.embed(text)

    def embed_documents(self, texts):
        return [self.embed(text) for text in texts]

    async def aembed_documents(self, texts):
        if self.aembed is None:
            return await super().aembed_documents(texts)
        return [await self.aembed(text) for text in texts]


class TestLangChain(FrameworkSuite):
    package = langchain_phasegraph
    retriever = PhaseGraphRetriever
    noun = "document"
    shown = {"score_key": "score"}  # noqa: RUF012

    def document(self, name, text, **metadata):
        return Document(text, id=name, metadata=metadata)

    def listed(self, answer):
        named = isinstance(answer, dict)
        return Listed(answer=[document for document, _ in self.pairs(**answer)] if named else answer)

    def ask(self, retriever, query="q", **call):
        return [hit_of(document) for document in retriever.invoke(query, **call)]

    async def aask(self, retriever, query="q", **call):
        return [hit_of(document) for document in await retriever.ainvoke(query, **call)]

    def store(self, documents=None, **model):
        store = InMemoryVectorStore(Fixed())
        vars(store.embedding).update(model)
        store.add_documents(passages() if documents is None else documents)
        return store

    def searching(self, store, k):
        return store.as_retriever(search_kwargs={"k": k})

    def plain(self, store):
        found = store.similarity_search_with_score("what?", k=9)
        return [hit_of(document)._replace(score=float(score)) for document, score in found]

    def embedding(self, found, embed, aembed=None):
        model = InMemoryVectorStore(Embedding(embed, aembed))
        sources = {"vector": lambda query: self.pairs(**found), "store": model}
        return {"retrievers": sources, "weights": {"vector": 1, "store": 0}}

    def graph(self, documents, **more):
        return EntityGraphRetriever.from_documents(documents, **more)

    def over(self, graph, documents=None):
        return EntityGraphRetriever(graph=graph, documents=documents)

    def only(self, **metadata):
        return {"filter": metadata}

    def searching_only(self, store, k, **metadata):
        def test(document):
            return metadata.items() <= document.metadata.items()

        return store.as_retriever(search_kwargs={"k": k, "filter": test})

    def delete(self, store, name):
        store.delete([name])

    def add(self, store, document):
        store.add_documents([document])

    def fuser(self, **options):
        return fuse_lists(**options)

    def fuse(self, fuser, lists):
        return [hit_of(document) for document in fuser.invoke(lists)]

    @pytest.fixture(params=sorted(STORES))
    def real_store(self, request):
        return STORES[request.param]()

    @pytest.fixture(params=sorted(COPIED))
    def copied(self, request):
        return COPIED[request.param]()

    @pytest.fixture
    def sent(self):
        return [COPIED[name]() for name in ("readme", "filter", "calibrated")]


class TestDeadlines(DeadlineSuite):
    framework = TestLangChain()


def hit_of(document):
    return Hit(document.id, document.page_content, document.metadata, document.metadata.get("score"), document)
