"""Try each stage of a LangChain retriever alone: rewriting, routing, reranking and correction.

The program prints the first passages without and with each stage. The embedding model, the reranker and the chat model
are stand-ins for these questions: they count words, or answer by rules. Replace them by your own models.
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


class Words(Embeddings):
    """A stand-in for an embedding model; it counts words and knows no meanings."""

    def embed_documents(self, texts):
        return [count(text) for text in texts]

    def embed_query(self, text):
        return count(text)


def written(prompt):
    """Return the stand-in's reply to a prompt.

    For HyDE, its guess names a wrong town; HyDE works anyway.
    """
    for begins, reply in REPLIES.items():
        if begins in prompt:
            return reply
    if prompt.startswith("Rate"):
        return "90" if "Vertigo" in prompt else "20"
    if prompt.startswith("Choose"):
        return "desk" if "ticket" in prompt else "vector, graph"
    sentences = [one for one in prompt.replace("\n", ". ").split(". ") if " born in " in one and "Hitchcock" in one]
    return f"{sentences[0].removesuffix('.')}." if sentences else "The passages do not say."


class StandIn(BaseChatModel):
    """A stand-in for a chat model; it answers by rules and counts its calls."""

    calls: int = 0

    @property
    def _llm_type(self):
        return "stand-in"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls += 1
        return ChatResult(generations=[ChatGeneration(message=AIMessage(written(messages[-1].content)))])


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
documents = [Document(text, id=title, metadata={"title": title}) for title, text in PASSAGES.items()]
store = InMemoryVectorStore.from_documents(documents, Words())
graph = EntityGraphRetriever.from_documents(documents)
notices = [Document(text, id=title, metadata={"title": title}) for title, text in DESK.items()]


def desk(query):
    """Search the notices of the ticket desk, a source with other passages, and rank them by shared words."""
    shared = [len(set(terms(query)) & set(terms(notice.page_content))) for notice in notices]
    return sorted(zip(notices, shared, strict=True), key=lambda pair: -pair[1])


def made(rewrite=None, fetch_k=3, **stages):
    return PhaseGraphRetriever(
        vector=SourceSpec(retriever=store, fetch_k=fetch_k, rewrite=rewrite), graph=graph, k=3, **stages
    )


print("The models are stand-ins: they count words and answer by rules. * marks the passage with the answer.")
show("HyDE", made(hyde(model)))
show("step back", made(step_back(model)))
show("HyDE per modality", made(modality_hyde(model)))
show("several queries", made(multi_query(model, 3)))
show("DPHF", PhaseGraphRetriever(**dphf(store, hyde(model)), k=3))

three = {"desk": desk}
show("a third source", made(fetch_k=8, retrievers=three), MAY, made(fetch_k=8))
unrouted = made(fetch_k=8, retrievers=three)
by_word = keyword_router({"ticket": "desk"}, default=["vector", "graph"])
show("keyword route", made(fetch_k=8, retrievers=three, route=by_word), PRICE, unrouted)
show("chat model routes", made(fetch_k=8, retrievers=three, route=model), PRICE, unrouted)
by_entropy = neighbour_entropy_router("vector", "desk", "desk", low=1.5)  # if no passage stands out, search the desk
show("entropy route", made(fetch_k=8, retrievers=three, route=by_entropy), TALK, unrouted)

show("reranker", made(fetch_k=8, rerank=overlap), ROLE, made(fetch_k=8))
show("reranker of paths", made(rerank=Rerank(overlap, depth=20, of="path")), NAMED, made(rerank=overlap))
show("correction", made(corrective=Corrective(model, model)))

# Use the retriever in a chain. Without the retriever, the model guesses the wrong town.
prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\n{question}")
context = made(hyde(model)) | (lambda found: "\n".join(one.page_content for one in found))
chain = {"context": context, "question": RunnablePassthrough()} | prompt | model
print(f"\nthe model alone: {GUESS}\nin a chain: {chain.invoke(VAGUE).text}")
