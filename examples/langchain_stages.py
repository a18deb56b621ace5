"""Stages around the decision in LangChain, one at a time: rewriting, routing, reranking, correction.

The embedding model, the reranker and the chat model are stand-ins, written for this question; put your own in their
place. The question names neither the film nor its director. Without a stage, the first three passages hold no answer.
Run: pip install langchain-phasegraph; python langchain_stages.py
"""

from zlib import crc32

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import (
    Corrective,
    EntityGraphRetriever,
    PhaseGraphRetriever,
    Rerank,
    SourceSpec,
    dphf,
    hyde,
    keyword_router,
    modality_hyde,
    multi_query,
    neighbour_entropy_router,
    step_back,
)

QUESTION = "Where was the maker of the thriller about heights born?"
NAMED = "Where was the director of Vertigo born?"
PASSAGES = {
    "Vertigo": "Vertigo is a film with Kim Novak. Its director is Alfred Hitchcock.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    "Kim Novak": "Kim Novak is an actress and a painter from Chicago.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
    "Akira Kurosawa": "The director Akira Kurosawa was born in Tokyo.",
    "Orson Welles": "The director Orson Welles was born in Kenosha.",
    "Hollywood": "Hollywood is a part of Los Angeles.",
}
MEANS = {"maker": "director", "thriller": "film", "heights": "vertigo"}


def terms(text):
    """The words of a text that carry meaning, in lower case."""
    plain = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return [word for word in plain.split() if word not in {"the", "a", "in", "of", "is", "was", "and", "where", "to"}]


def count(text):
    """A vector of word counts."""
    vector = [0.0] * 512
    for word in terms(text):
        vector[crc32(word.encode()) % 512] += 1.0
    return vector


class Words(Embeddings):
    """Stands for an embedding model: counts words and knows no meaning."""

    def embed_documents(self, texts):
        return [count(text) for text in texts]

    def embed_query(self, text):
        return count(text)


class StandIn(BaseChatModel):
    """Stands for a chat model: answers by rule, and counts its calls."""

    calls: int = 0

    @property
    def _llm_type(self):
        return "stand-in"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls += 1
        prompt = messages[-1].content
        text = "Vertigo is by Alfred Hitchcock, who was born in Leytonstone."
        if prompt.startswith("Rate"):
            text = "20"
        elif prompt.startswith("Choose"):
            text = "vector, graph"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def overlap(query, texts):
    """Stands for a cross-encoder: counts the words that query and text share, and knows three synonyms."""
    asked = {MEANS.get(word, word) for word in terms(query)}
    return [float(len(asked & set(terms(text)))) for text in texts]


def show(title, retriever, question=QUESTION):
    """Print the first passages, the sources that were asked, the state of each stage, and the calls of the model."""
    model.calls = 0
    result = retriever.explain(question)
    asked = ", ".join(one.source for one in result.reports if one.status != "skipped")
    stages = ", ".join(f"{one.stage} {one.status}" for one in result.extras.get("stages", ())) or "none"
    print(f"{title}: {', '.join(result.ids)} (asked: {asked}; stages: {stages}; model calls: {model.calls})")


model = StandIn()
documents = [Document(text, id=title, metadata={"title": title}) for title, text in PASSAGES.items()]
store = InMemoryVectorStore.from_documents(documents, Words())
graph = EntityGraphRetriever.from_documents(documents)


def words(query):
    """A source that counts shared words: on this question it finds the wrong directors."""
    shared = [len(set(terms(query)) & set(terms(document.page_content))) for document in documents]
    return sorted(zip(documents, shared, strict=True), key=lambda pair: -pair[1])


def made(rewrite=None, **stages):
    return PhaseGraphRetriever(
        vector=SourceSpec(retriever=store, fetch_k=3, rewrite=rewrite), graph=graph, k=3, **stages
    )


show("no stage", made())
show("HyDE", made(hyde(model)))
show("step back", made(step_back(model)))
show("HyDE per modality", made(modality_hyde(model)))
show("several queries", made(multi_query(model, 3)))
show("DPHF", PhaseGraphRetriever(**dphf(store, hyde(model)), k=3))
show("a third source, no route", made(retrievers={"words": words}))
show(
    "keyword route",
    made(retrievers={"words": words}, route=keyword_router({"maker": ["vector", "graph"]}, default="words")),
)
show(
    "entropy route",
    made(retrievers={"words": words}, route=neighbour_entropy_router("vector", ["vector", "graph"], "words")),
)
show("chat model routes", made(retrievers={"words": words}, route=model))
show("reranker", made(rerank=overlap))
show("reranker, film named", made(rerank=overlap), NAMED)
show("reranker of paths, film named", made(rerank=Rerank(overlap, depth=20, of="path")), NAMED)
show("correction", made(corrective=Corrective(model, model)))

# Inside a chain as any retriever.
prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\n{question}")
chain = {"context": made(hyde(model), rerank=overlap), "question": RunnablePassthrough()} | prompt | model
print("chain:", chain.invoke(QUESTION).text)
