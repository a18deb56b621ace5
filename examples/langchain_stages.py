"""Stages around the decision in LangChain, one at a time: rewriting, routing, reranking, correction.

The language model is a stand-in that answers by rule; put your own chat model in its place.
Run: pip install langchain-phasegraph; python langchain_stages.py
"""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from langchain_phasegraph import (
    Corrective,
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

QUESTION = "Where was the director of Vertigo born?"
PASSAGES = {
    "Vertigo": "Vertigo is a thriller by Alfred Hitchcock, with Kim Novak.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    "Kim Novak": "Kim Novak is an actress and a painter from Chicago.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
    "Hollywood": "Hollywood is a part of Los Angeles.",
}


class StandIn(BaseChatModel):
    """Answers by rule and counts its calls."""

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
            text = "graph, words"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def overlap(query, texts):
    """Stands for a cross-encoder: words that query and text share, names counting five times."""
    asked = set(query.rstrip("?").split())
    shared = [asked & set(text.replace(".", " ").replace(",", " ").split()) for text in texts]
    return [float(sum(5 if word[0].isupper() else 1 for word in words)) for words in shared]


def show(title, retriever):
    """Best passage, what each stage did, and how often the model was called."""
    model.calls = 0
    result = retriever.explain(QUESTION)
    stages = ", ".join(f"{one.stage} {one.status}" for one in result.extras.get("stages", ())) or "none"
    print(f"{title}: {result.ids[0]} (stages: {stages}; model calls: {model.calls})")


model = StandIn()
documents = [Document(text, id=title, metadata={"title": title}) for title, text in PASSAGES.items()]


def words(query, limit=None):
    """A source that counts common words."""
    scores = overlap(query, [one.page_content for one in documents])
    return sorted(zip(documents, scores, strict=True), key=lambda pair: -pair[1])[:limit]


def made(rewrite=None, **stages):
    vector = SourceSpec(retriever=words, rewrite=rewrite)
    return PhaseGraphRetriever.from_documents(
        documents, DeterministicFakeEmbedding(size=64), retrievers={"words": vector}, k=3, progress=False, **stages
    )


show("no stage", made())
show("HyDE", made(hyde(model)))
show("step back", made(step_back(model)))
show("HyDE per modality", made(modality_hyde(model)))
show("several queries", made(multi_query(model, 3)))
show("DPHF", PhaseGraphRetriever(**dphf(words, hyde(model))))
show("keyword route", made(route=keyword_router({"who": "graph"}, default=["graph", "words"])))
show("entropy route", made(route=neighbour_entropy_router("vector", ["vector", "graph"], "words")))
show("chat model routes", made(route=model))
show("reranker", made(rerank=overlap))
show("reranker of paths", made(rerank=Rerank(overlap, depth=20, of="path")))
show("correction", made(corrective=Corrective(model, model)))

# Inside a chain as any retriever.
prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\n{question}")
chain = {"context": made(hyde(model), rerank=overlap), "question": RunnablePassthrough()} | prompt | model
print("chain:", chain.invoke(QUESTION).text)
