"""The retriever in other parts of LangChain: chains, tools, other retrievers and graphs of runnables."""

import json

from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever
from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_stores import Fixed, ids_of, in_memory, pairs

from langchain_phasegraph import PhaseGraphRetriever


def retriever(**more):
    return PhaseGraphRetriever(vector=in_memory(), graph=lambda q: pairs(p1=3.0, p2=2.0, p0=1.0), **more)


def test_in_a_chain_the_model_sees_texts_and_no_provenance():
    seen = []

    def prompt(filled):
        seen.append(filled.to_string())
        return filled

    chain = (
        {
            "context": retriever(k=2) | (lambda documents: "\n".join(d.page_content for d in documents)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\n{question}")
        | prompt
        | FakeListChatModel(responses=["answer"])
        | StrOutputParser()
    )
    assert chain.invoke("p1") == "answer"
    assert "text of p1" in seen[0]
    assert "phasegraph" not in seen[0]
    assert "score" not in seen[0]


def test_as_a_tool_it_gives_the_texts_alone():
    tool = create_retriever_tool(retriever(k=1), "search", "Searches passages.")
    assert tool.invoke({"query": "p1"}) == "text of p1"


async def test_other_retrievers_take_it_and_it_takes_them():
    ensemble = EnsembleRetriever(retrievers=[retriever(k=3), in_memory().as_retriever()])
    assert ids_of(ensemble.invoke("p1"))
    outer = PhaseGraphRetriever(retrievers={"ensemble": ensemble, "own": retriever()}, k=3)
    assert ids_of(outer.invoke("p1")) == ids_of(await outer.ainvoke("p1"))
    compressed = ContextualCompressionRetriever(
        base_retriever=retriever(), base_compressor=EmbeddingsFilter(embeddings=Fixed(), k=2)
    )
    assert len(compressed.invoke("p1")) == 2


async def test_events_name_the_sources():
    names = [event["name"] async for event in retriever().astream_events("p1") if event["event"] == "on_retriever_end"]
    assert sorted(names) == ["PhaseGraphRetriever", "graph", "vector"]


def test_its_answer_can_be_dumped_as_json():
    for document in retriever(evidence_key="phasegraph").invoke("p1"):
        assert json.loads(document.model_dump_json())["metadata"]["phasegraph"]["sources"]
