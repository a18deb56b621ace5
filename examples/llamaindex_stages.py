"""Stages around the decision in LlamaIndex, one at a time: rewriting, routing, reranking, correction.

The language model is a stand-in that answers by rule; put your own in its place.
Run: pip install llama-index-retrievers-phasegraph; python llamaindex_stages.py
"""

from llama_index.core import MockEmbedding
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import TextNode
from llama_index.core.selectors import LLMSingleSelector

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    Corrective,
    Rerank,
    SourceSpec,
    dphf,
    hyde,
    keyword_router,
    modality_hyde,
    multi_query,
    neighbour_entropy_router,
    selector_router,
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


class StandIn(CustomLLM):
    """Answers by rule and counts its calls."""

    calls: int = 0

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **kwargs):
        self.calls += 1
        if prompt.startswith("Rate"):
            return CompletionResponse(text="20")
        if "choices are given" in prompt:
            return CompletionResponse(text='[{"choice": 1, "reason": "people"}]')
        if "A list of documents" in prompt:
            return CompletionResponse(text="Doc: 2, Relevance: 9\nDoc: 1, Relevance: 7")
        return CompletionResponse(text="Vertigo is by Alfred Hitchcock, who was born in Leytonstone.")

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


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
nodes = [TextNode(text=text, id_=title, metadata={"title": title}) for title, text in PASSAGES.items()]


def words(query, limit=None):
    """A source that counts common words."""
    scores = overlap(query, [one.text for one in nodes])
    return sorted(zip(nodes, scores, strict=True), key=lambda pair: -pair[1])[:limit]


def made(rewrite=None, **stages):
    vector = SourceSpec(retriever=words, rewrite=rewrite)
    return CalibratedFusionRetriever.from_nodes(
        nodes, MockEmbedding(embed_dim=8), retrievers={"words": vector}, k=3, progress=False, **stages
    )


show("no stage", made())
show("HyDE", made(hyde(model)))
show("HyDE of the framework", made(HyDEQueryTransform(llm=model)))
show("step back", made(step_back(model)))
show("HyDE per modality", made(modality_hyde(model)))
show("several queries", made(multi_query(model, 3)))
show("DPHF", CalibratedFusionRetriever(**dphf(words, hyde(model))))
show("keyword route", made(route=keyword_router({"who": "graph"}, default=["graph", "words"])))
show("entropy route", made(route=neighbour_entropy_router("vector", ["vector", "graph"], "words")))
described = {"graph": "who knows whom", "words": "texts"}
show("selector routes", made(route=selector_router(LLMSingleSelector.from_defaults(llm=model), described)))
show("reranker", made(rerank=overlap))
show("reranker of the framework", made(rerank=LLMRerank(llm=model, top_n=2)))
show("reranker of paths", made(rerank=Rerank(overlap, depth=20, of="path")))
show("correction", made(corrective=Corrective(model, model)))

# Inside a query engine as any retriever.
synthesizer = get_response_synthesizer(llm=model)
engine = RetrieverQueryEngine(made(hyde(model), rerank=overlap), response_synthesizer=synthesizer)
print("engine:", engine.query(QUESTION))
