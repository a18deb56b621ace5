"""The fact filter in LangChain: a chat model over a graph source, alone and in a fusion."""

import asyncio
import json
from dataclasses import replace

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, text_model
from phasegraph import PhasegraphWarning
from phasegraph.graph import Extraction, FactIndex, GraphSource, filter_facts_with, graph_from_extractions

EMBEDDINGS = DeterministicFakeEmbedding(size=16)
DOCUMENTS = [Document(f"Ada {verb} Bo in place {row}.", id=str(row)) for row, verb in enumerate(["met", "saw", "left"])]
RECORDS = [Extraction(one.id, triples=[("ada", one.page_content.split()[1], "bo")]) for one in DOCUMENTS]
GRAPH = graph_from_extractions(
    [one.id for one in DOCUMENTS],
    RECORDS,
    embeddings=EMBEDDINGS.embed_documents([one.page_content for one in DOCUMENTS]),
)
SOURCE = GraphSource(
    GRAPH, embedder=EMBEDDINGS.embed_query, facts=FactIndex.of_extractions(GRAPH, RECORDS, EMBEDDINGS.embed_documents)
)


def asked(answer):
    source = replace(SOURCE, fact_filter=filter_facts_with(text_model(FakeListChatModel(responses=[answer]))))
    graph = EntityGraphRetriever(graph=source, documents=DOCUMENTS)
    return PhaseGraphRetriever(vector=InMemoryVectorStore.from_documents(DOCUMENTS, EMBEDDINGS), graph=graph)


def plain():
    graph = EntityGraphRetriever(graph=SOURCE, documents=DOCUMENTS)
    return PhaseGraphRetriever(vector=InMemoryVectorStore.from_documents(DOCUMENTS, EMBEDDINGS), graph=graph)


def reason(result):
    return next(one.reason for one in result.reports if one.source == "graph")


def test_keeping_all_facts_is_no_filter_to_the_bit():
    one, other = plain().explain("Who met Bo?"), asked('{"facts": [1, 2, 3]}').explain("Who met Bo?")
    assert one.ids == other.ids
    assert one.scores.tobytes() == other.scores.tobytes()


def test_the_papers_answer_keeps_the_facts_that_it_lists():
    listed = [["Ada", verb, "Bo"] for verb in ("met", "saw", "left")]
    plainly = asked('{"facts": [1, 2, 3]}').explain("Who met Bo?")
    for answer, said in ((listed, ""), ([*listed, ["Ada", "met", "Cy"]], ""), ([], "kept none of 3 facts")):
        result = asked(json.dumps({"fact": answer})).explain("Who met Bo?")
        assert said in reason(result)
        assert (result.scores.tobytes() == plainly.scores.tobytes()) == bool(answer)


def test_keeping_none_is_said_in_the_report():
    retriever = asked('{"facts": []}')
    assert "kept none of 3 facts" in reason(retriever.explain("Who met Bo?"))
    assert [one.id for one in asyncio.run(retriever.ainvoke("Who met Bo?"))]


def test_an_answer_that_cannot_be_read_costs_nothing():
    retriever = asked("I would rather not.")
    with pytest.warns(PhasegraphWarning, match="fact filter failed"):
        result = retriever.explain("Who met Bo?")
    assert reason(result).startswith("the fact filter failed (")
    assert result.scores.tobytes() == plain().explain("Who met Bo?").scores.tobytes()
