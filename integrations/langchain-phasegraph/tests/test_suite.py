"""What our retrievers promise in any framework, in LangChain."""

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_stores import Fixed, Listed, passages

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph.testing.framework_suite import FrameworkSuite, Hit


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
    retriever = PhaseGraphRetriever
    noun = "document"
    shown = {"score_key": "score"}  # noqa: RUF012

    def document(self, name, text, **metadata):
        return Document(text, id=name, metadata=metadata)

    def listed(self, answer):
        return Listed(answer=self.documents(answer) if isinstance(answer, dict) else answer)

    def documents(self, names):
        return [document for document, _ in self.pairs(**names)]

    def ask(self, retriever, query="q", **call):
        return [hit_of(document) for document in retriever.invoke(query, **call)]

    async def aask(self, retriever, query="q", **call):
        return [hit_of(document) for document in await retriever.ainvoke(query, **call)]

    def store(self, **model):
        store = InMemoryVectorStore(Fixed())
        vars(store.embedding).update(model)
        store.add_documents(passages())
        return store

    def embedding(self, found, embed, aembed=None):
        model = InMemoryVectorStore(Embedding(embed, aembed))
        sources = {"vector": lambda query: self.pairs(**found), "store": model}
        return {"retrievers": sources, "weights": {"vector": 1, "store": 0}}


def hit_of(document):
    return Hit(document.id, document.page_content, document.metadata, document.metadata.get("score"), document)
