"""Stages around the decision in LlamaIndex, one at a time: rewriting, routing, reranking, correction.

The embedding model, the reranker and the chat model are stand-ins, written for this question; put your own in their
place. The question names neither the film nor its director. Without a stage, the first three passages hold no answer.
Run: pip install llama-index-retrievers-phasegraph; python llamaindex_stages.py
"""

from zlib import crc32

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.embeddings import BaseEmbedding
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
    EntityGraphRetriever,
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


class Words(BaseEmbedding):
    """Stands for an embedding model: counts words and knows no meaning."""

    def _get_text_embedding(self, text):
        return count(text)

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return count(query)


class StandIn(CustomLLM):
    """Stands for a language model: answers by rule, and counts its calls."""

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
            parts = prompt.rpartition("Document 1:")[2].split("Document ")
            good = [number for number, part in enumerate(parts, 1) if "Hitchcock" in part]
            return CompletionResponse(text="\n".join(f"Doc: {number}, Relevance: 9" for number in good))
        return CompletionResponse(text="Vertigo is by Alfred Hitchcock, who was born in Leytonstone.")

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


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
nodes = [TextNode(text=text, id_=title, metadata={"title": title}) for title, text in PASSAGES.items()]
for node in nodes:
    node.excluded_embed_metadata_keys = ["title"]
index = VectorStoreIndex(nodes, embed_model=Words())
graph = EntityGraphRetriever.from_nodes(nodes)


def words(query):
    """A source that counts shared words: on this question it finds the wrong directors."""
    shared = [len(set(terms(query)) & set(terms(node.text))) for node in nodes]
    return sorted(zip(nodes, shared, strict=True), key=lambda pair: -pair[1])


def made(rewrite=None, **stages):
    vector = SourceSpec(retriever=index, fetch_k=3, rewrite=rewrite)
    return CalibratedFusionRetriever(vector=vector, graph=graph, similarity_top_k=3, **stages)


show("no stage", made())
show("HyDE", made(hyde(model)))
show("HyDE of the framework", made(HyDEQueryTransform(llm=model)))
show("step back", made(step_back(model)))
show("HyDE per modality", made(modality_hyde(model)))
show("several queries", made(multi_query(model, 3)))
show("DPHF", CalibratedFusionRetriever(**dphf(index, hyde(model)), similarity_top_k=3))
show("a third source, no route", made(retrievers={"words": words}))
show(
    "keyword route",
    made(retrievers={"words": words}, route=keyword_router({"maker": ["vector", "graph"]}, default="words")),
)
show(
    "entropy route",
    made(retrievers={"words": words}, route=neighbour_entropy_router("vector", ["vector", "graph"], "words")),
)
described = {"vector": "passages of like meaning", "words": "shared words"}
selector = selector_router(LLMSingleSelector.from_defaults(llm=model), described)
show("selector routes", made(retrievers={"words": words}, route=selector))
show("reranker", made(rerank=overlap))
show("reranker of the framework", made(rerank=LLMRerank(llm=model, top_n=2)))
show("reranker, film named", made(rerank=overlap), NAMED)
show("reranker of paths, film named", made(rerank=Rerank(overlap, depth=20, of="path")), NAMED)
show("correction", made(corrective=Corrective(model, model)))

# Inside a query engine as any retriever.
synthesizer = get_response_synthesizer(llm=model)
engine = RetrieverQueryEngine(made(hyde(model), rerank=overlap), response_synthesizer=synthesizer)
print("engine:", engine.query(QUESTION))
