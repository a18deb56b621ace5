"""The shared tests of the stages for LangChain, and tests of the stages that only LangChain needs."""

import asyncio
import copy

import pytest
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker, LLMChainFilter
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from tests.suites.stages import FIRST, SECOND, TEXTS, Letters, StageSuite

from langchain_phasegraph import Corrective, EntityGraphRetriever, PhaseGraphRetriever, Rerank, SourceSpec, hyde


class Chat(BaseChatModel):
    answer: object

    @property
    def _llm_type(self):
        return "chat"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        text = self.answer(messages[-1].content)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class NativeChat(Chat):
    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        await asyncio.sleep(0)
        return self._generate(messages)


class Encoder(BaseCrossEncoder):
    def __init__(self, judge):
        self.judge = judge

    def score(self, text_pairs):
        return self.judge(text_pairs[0][0], [text for _, text in text_pairs])


class Compressor(BaseDocumentCompressor):
    judge: object

    def compress_documents(self, documents, query, callbacks=None):
        scores = self.judge(query, [one.page_content for one in documents])
        order = sorted(range(len(documents)), key=lambda row: -scores[row])
        made = [Document(documents[row].page_content, metadata=copy.deepcopy(documents[row].metadata)) for row in order]
        for one, row in zip(made, order, strict=True):
            one.metadata["relevance_score"] = scores[row]
        return made


class Dropping(BaseDocumentCompressor):
    made: list

    def compress_documents(self, documents, query, callbacks=None):
        return self.made


class TestLangChainStages(StageSuite):
    retriever = PhaseGraphRetriever

    def hits(self, scores):
        return [(Document(TEXTS.get(name, name), id=name), score) for name, score in scores.items()]

    def source(self, scores, seen=None):
        return self.source_of(lambda query: scores, seen)

    def source_of(self, lists, seen=None):
        def search(query, limit=None):
            if seen is not None:
                seen.append(query)
            return sorted(self.hits(lists(query)), key=lambda pair: -pair[1])[:limit]

        return search

    def ask(self, retriever, query="q"):
        return [document.id for document in retriever.invoke(query)]

    async def aask(self, retriever, query="q"):
        return [document.id for document in await retriever.ainvoke(query)]

    def chat(self, answer, *, native=False):
        return (NativeChat if native else Chat)(answer=answer)

    def reranking(self, judge):
        encoder = Encoder(judge)
        scorer = RunnableLambda(lambda given: judge(given["query"], given["texts"]))
        return [encoder, Compressor(judge=judge), CrossEncoderReranker(model=encoder, top_n=6), scorer]

    def dropping(self):
        return [Dropping(made=[]), LLMChainFilter.from_llm(self.chat(lambda prompt: "NO"))]

    def inventing(self):
        return [Dropping(made=[Document("a secret of another tenant", id="a")])]

    def in_a_chain(self, retriever, query):
        chain = {"found": retriever, "question": RunnablePassthrough()} | RunnableLambda(lambda one: one["found"])
        found = [one.id for one in chain.invoke(query)]
        assert [one.id for one in asyncio.run(chain.ainvoke(query))] == found
        return found


SUITE = TestLangChainStages()


class Runs(BaseCallbackHandler):
    def __init__(self):
        self.parents, self.names, self.kinds = {}, {}, {}

    def _begun(self, kind, run_id, parent_run_id, name):
        self.parents[run_id], self.names[run_id], self.kinds[run_id] = parent_run_id, name, kind

    def on_chat_model_start(self, serialized, messages, *, run_id, parent_run_id=None, name=None, **kwargs):
        self._begun("model", run_id, parent_run_id, name)

    def on_retriever_start(self, serialized, query, *, run_id, parent_run_id=None, name=None, **kwargs):
        self._begun("retriever", run_id, parent_run_id, name)

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, name=None, **kwargs):
        self._begun("chain", run_id, parent_run_id, name)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("awaits", [False, True])
def test_callbacks_see_a_stages_model_as_a_child_of_the_retriever(native, awaits):
    model = SUITE.chat(lambda prompt: "90", native=native)
    retriever = PhaseGraphRetriever(
        vector=SourceSpec(retriever=SUITE.source(FIRST), rewrite=hyde(model)),
        rerank=lambda query, texts: [float(model.invoke(query).text)] * len(texts),
        corrective=Corrective(model, model),
    )
    runs = Runs()
    config = {"callbacks": [runs]}
    if awaits:
        asyncio.run(retriever.ainvoke("q", config))
    else:
        retriever.invoke("q", config)
    (root,) = [run for run, parent in runs.parents.items() if parent is None]
    models = [run for run, kind in runs.kinds.items() if kind == "model"]
    assert [runs.parents[run] for run in models] == [root] * 3  # hyde, the reranker's, the grade's


def test_a_runnable_rewrites_and_a_message_is_read_as_its_text():
    seen = []
    chain = RunnableLambda(lambda query: f"more of {query}") | SUITE.chat(lambda prompt: f"{prompt}!")
    spec = SourceSpec(retriever=SUITE.source(FIRST, seen), rewrite=chain)
    assert SUITE.both(PhaseGraphRetriever(vector=spec)) == list(FIRST)
    assert seen == ["more of q!"] * 2


def test_a_compressor_that_drops_puts_the_rest_behind_and_its_documents_are_copies():
    kept = LLMChainFilter.from_llm(SUITE.chat(lambda prompt: "YES" if "fig" in prompt or "date" in prompt else "NO"))
    retriever = SUITE.made(rerank=kept)
    plain = list(SUITE.made().explain("q").ids)
    found = SUITE.both(retriever)
    assert found == [one for one in plain if one in "df"] + [one for one in plain if one not in "df"]
    assert all(not one.metadata for one in retriever.invoke("q"))


def test_a_model_of_no_kind_is_an_error_that_names_the_argument():
    for argument in ({"rerank": 3}, {"rerank": Rerank(PhaseGraphRetriever)}, {"route": 7}, {"corrective": 1}):
        with pytest.raises(TypeError, match=r"rerank|router|corrective"):
            SUITE.made(**argument)
    spec = SourceSpec(retriever=SUITE.source(FIRST), rewrite=hyde(3))
    with pytest.raises(TypeError, match="model must be a language model"):
        PhaseGraphRetriever(vector=spec)


def test_assigning_a_stage_takes_effect():
    retriever = SUITE.made()
    retriever.rerank = Letters("fedcba")
    assert SUITE.ask(retriever) == list("fedcba")
    assert SUITE.ask(retriever.model_copy(update={"rerank": None})) == list(SUITE.made().explain("q").ids)
    assert set(SUITE.ask(retriever.model_copy(update={"route": lambda query: "graph"}))) == set(SECOND)


FILMS = {
    "Vertigo": "Vertigo is a thriller by Alfred Hitchcock, with Kim Novak.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    "Kim Novak": "Kim Novak is an actress and a painter from Chicago.",
    "Hollywood": "Hollywood is a part of Los Angeles.",
}
WHERE = "Where was the director of Vertigo born?"


def films(**more):
    documents = [Document(text, id=title, metadata={"title": title}) for title, text in FILMS.items()]
    graph = EntityGraphRetriever.from_documents(documents)
    store = InMemoryVectorStore.from_documents(documents, DeterministicFakeEmbedding(size=16))
    return PhaseGraphRetriever(**{"vector": store, "graph": graph, **more})


@pytest.mark.parametrize("combine", ["union", "rrf"])
def test_a_walk_that_is_asked_several_queries_keeps_texts_and_paths(combine):
    documents = [Document(text, id=title, metadata={"title": title}) for title, text in FILMS.items()]
    graph = EntityGraphRetriever.from_documents(documents)
    spec = SourceSpec(retriever=graph, rewrite=lambda query: ["Who is Kim Novak?", "Hollywood?"], combine=combine)
    retriever = films(graph=spec, evidence_key="why")
    found = {one.id: one for one in retriever.invoke(WHERE)}
    assert all(found[title].page_content == text for title, text in FILMS.items() if title in found)
    paths = {name: one.metadata["why"]["sources"]["graph"]["evidence"]["path"] for name, one in found.items()}
    assert paths["Alfred Hitchcock"][-1] == ["passage", "Alfred Hitchcock"]
    assert len(found) == len(FILMS)


def test_a_reranker_of_paths_reads_the_bridge_before_a_last_hop():
    read = []
    films(rerank=Rerank(lambda query, texts: read.append(texts) or [1.0] * len(texts), of="path")).invoke(WHERE)
    assert f"{FILMS['Vertigo']}\n\n{FILMS['Alfred Hitchcock']}" in read[0]
    assert FILMS["Vertigo"] in read[0]


def test_a_bridge_is_read_where_ids_are_joined_by_text():
    nameless = [Document(text, metadata={"title": title}) for title, text in FILMS.items()]
    read = []
    films(
        graph=EntityGraphRetriever.from_documents(nameless),
        rerank=Rerank(lambda query, texts: read.append(texts) or [1.0] * len(texts), of="path"),
    ).invoke(WHERE)
    assert f"{FILMS['Vertigo']}\n\n{FILMS['Alfred Hitchcock']}" in read[0]
    assert FILMS["Vertigo"] in read[0]


def test_stages_go_with_selections_priors_and_another_retriever_around():
    judge = Letters("AHKV")
    inner = films(rerank=Rerank(judge, blend=0.5), selection="mmr", filter={"title": {"$ne": "Hollywood"}})
    assert len(inner.invoke(WHERE)) == 3
    outer = PhaseGraphRetriever(retrievers=[inner])
    assert [one.id for one in outer.invoke(WHERE)] == [one.id for one in inner.invoke(WHERE)]
    assert [[one.id for one in found] for found in outer.batch([WHERE, WHERE])] == [
        [one.id for one in inner.invoke(WHERE)]
    ] * 2
