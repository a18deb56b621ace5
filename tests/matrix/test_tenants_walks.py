"""Two tenants in one graph on a real Neo4j: one's walk is that over a corpus which holds nothing of the other's."""

import pytest
from matrix_langchain import in_memory
from matrix_llamaindex import simple
from matrix_ours import ids, retriever
from matrix_tenants import MINE, THEIRS, Tenant, everything, words, words_of

import langchain_phasegraph
from llama_index.retrievers import phasegraph as llama_index_phasegraph
from phasegraph.graph import Extraction, RuleExtractor
from phasegraph.neo4j import Neo4jConnection, Neo4jGraphSource, records_from_extractions, write_graph


def records(data):
    """The slice as it is written: names found by rule, and the bundled triples."""
    rules = RuleExtractor(titles=[row["title"] for row in data.rows])
    found = [rules(row["id"], row["title"], row["text"]) for row in data.rows]
    found += [Extraction(name, triples=said) for name, said in data.triples.items()]
    return records_from_extractions([dict(row) for row in data.rows], found)


@pytest.fixture(scope="module")
def connection(address, data):
    """One database with a corpus of both tenants, and a corpus of one."""
    import neo4j

    mine = set(data.of(MINE).ids)
    with neo4j.GraphDatabase.driver(address.uri, auth=address.auth, notifications_min_severity="OFF") as driver:
        opened = Neo4jConnection(driver, timeout=60.0)
        write_graph(opened, records(data), corpus="both")
        write_graph(opened, [one for one in records(data) if one.id in mine], corpus="alone")
        yield opened
        driver.execute_query("MATCH (n) DETACH DELETE n")


def fused(framework, data, connection, corpus):
    """A retriever of that framework: vectors, and the walk on the server that they seed."""
    source = Neo4jGraphSource(connection, corpus)
    if framework == "LangChain":
        graph = langchain_phasegraph.EntityGraphRetriever(graph=source, documents=data.documents())
        return retriever(framework, vector=in_memory(data, None).given, graph=graph, k=20)
    graph = llama_index_phasegraph.EntityGraphRetriever(source, data.nodes(embedded=False))
    return retriever(framework, vector=simple(data, None).given, graph=graph, k=20)


@pytest.mark.neo4j
@pytest.mark.timeout(600)
@pytest.mark.parametrize("framework", ["LangChain", "LlamaIndex"])
async def test_a_filter_reaches_the_walk_on_the_server(framework, data, connection):
    own, theirs = data.of(MINE), data.of(THEIRS)
    shared, alone = fused(framework, data, connection, "both"), fused(framework, own, connection, "alone")
    view, apart = Tenant(framework, shared, MINE), Tenant(framework, alone, MINE)
    said = "".join(everything(apart.ask(one), apart.explain(one), apart.told) for one in data.questions)
    foreign = words_of(theirs) - words_of(own) - words(" ".join(data.questions)) - words(said)
    assert len(foreign) > 500
    for question in data.questions:
        hits, result, expected = view.ask(question), view.explain(question), alone.explain(question, k=50)
        assert [report.status for report in result.reports] == ["ok", "ok"]
        assert ids(hits) == list(result.ids)
        assert set(result.candidates.ids) <= set(own.ids)
        scores = dict(zip(expected.ids, expected.scores.tolist(), strict=True))
        assert result.scores.tolist() == pytest.approx(expected.scores[:20].tolist(), abs=1e-9)
        assert [scores[name] for name in result.ids] == pytest.approx(result.scores.tolist(), abs=1e-9)
        told = everything(hits, result, view.told)
        assert not [name for name in theirs.ids if name in told]
        assert not foreign & words(told)
    assert ids(await view.aask(data.questions[0])) == ids(view.ask(data.questions[0]))
    assert not set(shared.explain(data.questions[0]).ids) <= set(own.ids), "without a filter nothing is left out"


@pytest.mark.neo4j
@pytest.mark.timeout(600)
@pytest.mark.parametrize("framework", ["LangChain", "LlamaIndex"])
def test_a_corpus_of_ones_own_keeps_others_out_without_a_filter(framework, data, connection):
    mine = data.of(MINE)
    for question in data.questions:
        result = fused(framework, mine, connection, "alone").explain(question)
        assert set(result.candidates.ids) <= set(mine.ids)
