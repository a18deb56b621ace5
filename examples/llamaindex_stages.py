"""Try each stage of a LlamaIndex retriever alone: rewriting, routing, reranking and correction.

The program prints the first passages without and with each stage. The embedding model, the reranker and the language
model are stand-ins for these questions: they count words, or answer by rules. Replace them by your own models.
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

VAGUE = "Where was the maker of the thriller about heights born?"
NAMED = "Where was the director of Vertigo born?"
ROLE = "Who plays in the thriller about heights?"
PRICE = "How much is a ticket for Vertigo?"
MAY = "What starts in May?"
TALK = "Which director talks to the audience?"
ANSWER = {
    VAGUE: "Alfred Hitchcock",
    NAMED: "Alfred Hitchcock",
    ROLE: "Vertigo",
    PRICE: "Tickets",
    MAY: "Fellini season",
    TALK: "Talk",
}
PASSAGES = {
    "Vertigo": "Vertigo is a film with Kim Novak. Its director is Alfred Hitchcock.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    "Kim Novak": "Kim Novak is an actress and a painter from Chicago.",
    "Federico Fellini": "The director Federico Fellini was born in Rimini.",
    "Akira Kurosawa": "The director Akira Kurosawa was born in Tokyo.",
    "Orson Welles": "The director Orson Welles was born in Kenosha.",
    "Hollywood": "Hollywood is a part of Los Angeles.",
}
DESK = {
    "Showtimes": "Vertigo runs on Friday at 20:00 and on Sunday at 17:00.",
    "Tickets": "A ticket for Vertigo costs nine pounds.",
    "Fellini season": "The season of films by Federico Fellini starts in May.",
    "Talk": "A director talks to the audience after the film on Friday.",
    "Way": "The cinema is in Mill Lane, behind the station.",
    "Birthdays": "Children born in May come in free.",
}
MEANS = {"maker": "director", "thriller": "film", "heights": "vertigo", "plays": "kim", "much": "costs"}
SKIPPED = {"the", "a", "in", "of", "is", "was", "and", "where", "to", "who", "what", "how", "for", "about", "on", "by"}
GUESS = "The thriller is Vertigo by Alfred Hitchcock, who was born in Dover."
REPLIES = {  # the stand-in's replies, by a phrase in the prompt of a stage
    "Write two or three paragraphs": GUESS,
    "Write a paragraph of prose": GUESS,
    "Please write a passage": GUESS,
    "Write the source code": "birthplace(director('Vertigo'))",
    "Write a small table": "director | born in\nAlfred Hitchcock | Dover",
    "Rewrite the question as a more general": "What is known of Alfred Hitchcock, the director of Vertigo?",
    "Rewrite the question so that": NAMED,
    "Write 3 different versions": f"{NAMED}\nWho made Vertigo?\nWhere was Alfred Hitchcock born?",
}


def terms(text):
    """Return the words of a text in lower case, without common words."""
    plain = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return [word for word in plain.split() if word not in SKIPPED]


def count(text):
    """Return a vector of word counts for a text."""
    vector = [0.0] * 512
    for word in terms(text):
        vector[crc32(word.encode()) % 512] += 1.0
    return vector


class Words(BaseEmbedding):
    """A stand-in for an embedding model; it counts words and knows no meanings."""

    def _get_text_embedding(self, text):
        return count(text)

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return count(query)


def written(prompt):
    """Return the stand-in's reply to a prompt.

    For HyDE, its guess names a wrong town; HyDE works anyway.
    """
    for begins, reply in REPLIES.items():
        if begins in prompt:
            return reply
    if prompt.startswith("Rate"):
        return "90" if "Vertigo" in prompt else "20"
    if "choices are given" in prompt:
        return f'[{{"choice": {2 if "ticket for" in prompt else 1}, "reason": "the desk sells tickets"}}]'
    if "A list of documents" in prompt:
        parts = prompt.rpartition("Document 1:")[2].split("Document ")
        good = [number for number, part in enumerate(parts, 1) if "Hitchcock" in part]
        return "\n".join(f"Doc: {number}, Relevance: 9" for number in good)
    sentences = [one for one in prompt.replace("\n", ". ").split(". ") if " born in " in one and "Hitchcock" in one]
    return f"{sentences[0].removesuffix('.')}." if sentences else "The passages do not say."


class StandIn(CustomLLM):
    """A stand-in for a language model; it answers by rules and counts its calls."""

    calls: int = 0

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **kwargs):
        self.calls += 1
        return CompletionResponse(text=written(prompt))

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


def overlap(query, texts):
    """Score texts like a cross-encoder: count the words that query and text share, with five known synonyms."""
    asked = {MEANS.get(word, word) for word in terms(query)}
    return [float(len(asked & set(terms(text)))) for text in texts]


def show(title, retriever, question=VAGUE, without=None):
    """Print the first passages without and with a stage, and the number of model calls.

    A star marks the passage with the answer.
    """
    model.calls = 0
    result = retriever.explain(question)
    stages = ", ".join(f"{one.stage} {one.status}" for one in result.extras.get("stages", ())) or "no stage"
    asked = ", ".join(one.source for one in result.reports if one.status != "skipped")
    print(f"\n{title}: {question}\n  ({stages}; sources: {asked}; model calls: {model.calls})")
    for label, ids in (("without", (without or made()).explain(question).ids), ("with", result.ids)):
        print(f"  {label:8}", ", ".join(f"{one} *" if one == ANSWER[question] else one for one in ids))


model = StandIn()
nodes = [TextNode(text=text, id_=title, metadata={"title": title}) for title, text in PASSAGES.items()]
notices = [TextNode(text=text, id_=title, metadata={"title": title}) for title, text in DESK.items()]
for node in [*nodes, *notices]:
    node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = ["title"]
index = VectorStoreIndex(nodes, embed_model=Words())
graph = EntityGraphRetriever.from_nodes(nodes)


def desk(query):
    """Search the notices of the ticket desk, a source with other passages, and rank them by shared words."""
    shared = [len(set(terms(query)) & set(terms(notice.text))) for notice in notices]
    return sorted(zip(notices, shared, strict=True), key=lambda pair: -pair[1])


def made(rewrite=None, fetch_k=3, **stages):
    vector = SourceSpec(retriever=index, fetch_k=fetch_k, rewrite=rewrite)
    return CalibratedFusionRetriever(vector=vector, graph=graph, similarity_top_k=3, **stages)


print("The models are stand-ins: they count words and answer by rules. * marks the passage with the answer.")
show("HyDE", made(hyde(model)))
show("HyDE of the framework", made(HyDEQueryTransform(llm=model)))
show("step back", made(step_back(model)))
show("HyDE per modality", made(modality_hyde(model)))
show("several queries", made(multi_query(model, 3)))
show("DPHF", CalibratedFusionRetriever(**dphf(index, hyde(model)), similarity_top_k=3))

three = {"desk": desk}
show("a third source", made(fetch_k=8, retrievers=three), MAY, made(fetch_k=8))
unrouted = made(fetch_k=8, retrievers=three)
by_word = keyword_router({"ticket": "desk"}, default=["vector", "graph"])
show("keyword route", made(fetch_k=8, retrievers=three, route=by_word), PRICE, unrouted)
described = {"vector": "what films are about, and who made them", "desk": "prices and times of the cinema"}
selector = selector_router(LLMSingleSelector.from_defaults(llm=model), described)
show("selector routes", made(fetch_k=8, retrievers=three, route=selector), PRICE, unrouted)
by_entropy = neighbour_entropy_router("vector", "desk", "desk", low=1.5)  # if no passage stands out, search the desk
show("entropy route", made(fetch_k=8, retrievers=three, route=by_entropy), TALK, unrouted)

show("reranker", made(fetch_k=8, rerank=overlap), ROLE, made(fetch_k=8))
show("reranker of the framework", made(rerank=LLMRerank(llm=model, top_n=2)), NAMED, made(rerank=overlap))
show("reranker of paths", made(rerank=Rerank(overlap, depth=20, of="path")), NAMED, made(rerank=overlap))
show("correction", made(corrective=Corrective(model, model)))

# Use the retriever in a query engine. Without the retriever, the model guesses the wrong town.
synthesizer = get_response_synthesizer(llm=model)
engine = RetrieverQueryEngine(made(hyde(model)), response_synthesizer=synthesizer)
print(f"\nthe model alone: {GUESS}\nin an engine: {engine.query(VAGUE)}")
