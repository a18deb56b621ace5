"""Knowledge-graph retrievers as they are, under ours: they meet the vectors by id and are fused as in the core."""

import pytest
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.indices.property_graph import CypherTemplateRetriever
from matrix_graph_chains import graph_retriever
from matrix_knowledge import KNOWLEDGE
from matrix_langchain import in_memory
from matrix_llamaindex import simple
from matrix_ours import LIMIT, aask, ask, ids, retriever, spec
from matrix_property_graph import CHUNKS_OF, Entities, Names, named
from matrix_servers import marked, opened_or_skipped
from matrix_table import PAGE, graph_line, tenant_line
from matrix_tenants import MINE, THEIRS, Tenant, everything

from phasegraph import FusionPipeline, InvalidInputError, Ranking

# Some of these retrievers give texts without an id: that the text is hashed in its place is what is to be seen here.
pytestmark = pytest.mark.filterwarnings("ignore::phasegraph.PhasegraphWarning")


@pytest.fixture(scope="module", params=marked(KNOWLEDGE))
def case(request, data, servers):
    row = request.param
    opened = opened_or_skipped(row, data, servers)
    yield row, opened
    opened.close()


@pytest.fixture(scope="module")
def vectors(data):
    return {"LangChain": in_memory(data, None), "LlamaIndex": simple(data, None)}


def of(row, graph, **others):
    return retriever(row.framework, graph=spec(row.framework, graph.given, **graph.settings), k=LIMIT, **others)


def blocks(hits):
    """What the provenance says of the graph, by id."""
    held = [hit.metadata["phasegraph"]["sources"] for hit in hits]
    return {name: one["graph"] for name, one in zip(ids(hits), held, strict=True) if one["graph"]["rank"] is not None}


def test_its_hits_are_the_passages_they_came_from(case, data):
    row, graph = case
    texts = {one["id"]: one["text"] for one in data.rows}
    answered = 0
    for question in data.questions:
        hits = ask(of(row, graph), question)
        answered += bool(hits)
        if not row.passages:
            assert len(hits) <= 1
            assert not set(ids(hits)) & set(texts)
            continue
        assert set(ids(hits)) <= set(texts)
        for hit, name in zip(hits, ids(hits), strict=True):
            assert (hit.page_content if hasattr(hit, "page_content") else hit.text).endswith(texts[name])
        if row.facts:
            for name, block in blocks(hits).items():
                own = {" -> ".join([named(s), p or "related", named(o)]) for s, p, o in data.triples[name]}
                assert set(block["evidence"]["facts"]) <= own
    assert answered >= len(data.questions) / 2


def test_with_vectors_it_is_fused_as_the_core_fuses_the_same_lists(case, data, vectors):
    row, graph = case
    alone, store = of(row, graph), vectors[row.framework]
    both = of(row, graph, vector=store.given)
    for question in data.questions[:3]:
        if row.ours:
            continue  # seeded by the vectors: compared with the core under every vector store
        own = store.own(question, LIMIT)
        vector = Ranking.from_hits("vector", [name for name, _ in own], [score for _, score in own])
        found = blocks(ask(alone, question))
        raw = [one["raw"] for one in found.values()]
        ranked = None if any(score is None for score in raw) else raw
        expected = FusionPipeline(k=LIMIT).decide([vector, Ranking.from_hits("graph", list(found), ranked)])
        result = both.explain(question)
        if row.passages:
            assert result.ids == expected.ids
            assert result.scores.tolist() == pytest.approx(expected.scores.tolist(), abs=1e-9)
        else:
            assert set(vector.ids) <= set(result.candidates.ids)


def test_a_passage_that_both_find_is_credited_by_both(case, data, vectors):
    row, graph = case
    hits = ask(of(row, graph, vector=vectors[row.framework].given), data.questions[0])
    shared = [
        hit.metadata["phasegraph"]
        for hit in hits
        if all(one["rank"] is not None for one in hit.metadata["phasegraph"]["sources"].values())
    ]
    assert bool(shared) is row.passages
    for block in shared:
        assert len(block["sources"]) == 2
        assert block["fused"] == pytest.approx(sum(one["contribution"] for one in block["sources"].values()), abs=1e-9)


def test_its_direction_is_right_and_a_wrong_declaration_is_in_the_report(case, data):
    row, graph = case
    question = data.questions[0]

    def declared(higher):
        given = spec(row.framework, graph.given, **graph.settings, higher_is_better=higher)
        return retriever(row.framework, graph=given, k=LIMIT).explain(question)

    plain = of(row, graph).explain(question)
    (ranking,), right, wrong = plain.candidates.rankings, declared(True), declared(False)
    if not row.passages:
        assert len(right.ids) == len(wrong.ids) == len(plain.ids) == 1
        return
    assert right.ids == plain.ids
    if row.ours:
        assert wrong.ids == plain.ids, "it states its masses itself"
    elif ranking.rank_only or len(set(ranking.scores.tolist())) == 1:
        assert wrong.ids == plain.ids, "there is no order to turn round"
    else:
        assert wrong.ids[0] != plain.ids[0]
        assert any("contradicts" in note or "says the opposite" in note for note in wrong.reports[0].notes)


def test_a_filter_is_kept_by_it_or_refused(case, data, vectors):
    row, graph = case
    question, theirs = data.questions[0], data.of(THEIRS)
    ours = of(row, graph, vector=vectors[row.framework].given)
    if not row.filtered:
        with pytest.raises(InvalidInputError, match=r"source 'graph' does not support filters?="):
            Tenant(row.framework, ours, MINE).ask(question)
        return
    view = Tenant(row.framework, ours, MINE)
    hits, result = view.ask(question), view.explain(question)
    status = {report.source: (report.status, report.error_class) for report in result.reports}
    assert status == {"graph": ("ok", ""), "vector": ("ok", "")}
    assert len(hits) >= 10
    assert set(ids(hits)) <= set(data.of(MINE).ids)
    told = everything(hits, result, view.told)
    assert not [name for name in theirs.ids if name in told]


def test_langchains_graph_retriever_within_a_filter_is_one_that_never_held_the_others(data):
    walks = []
    for given, view in ((data, True), (data.of(MINE), False)):
        ours = retriever("LangChain", graph=graph_retriever(given, None).given, k=LIMIT)
        walks.append(Tenant("LangChain", ours, MINE).explain if view else ours.explain)
    for question in data.questions:
        inside, alone = (walk(question) for walk in walks)
        assert inside.ids == alone.ids
        assert inside.scores.tolist() == pytest.approx(alone.scores.tolist(), abs=1e-9)


def test_a_cypher_template_needs_a_store_that_speaks_cypher(data):
    """The framework says so when the retriever is made: there is none over its store in memory for us to wrap."""
    store = SimplePropertyGraphStore()
    with pytest.raises(ValueError, match="does not support cypher queries"):
        CypherTemplateRetriever(store, Entities, CHUNKS_OF, llm=Names())


async def test_awaited_it_answers_the_same(case, data):
    row, graph = case
    asked = of(row, graph)
    found = ids(await aask(asked, data.questions[0]))
    assert len(found) == 1 if not row.passages else found == ids(ask(asked, data.questions[0]))


def test_its_lines_of_the_page_still_hold(case, data):
    row, graph = case
    written = PAGE.read_text(encoding="utf-8").splitlines()
    assert graph_line(row, graph, data) in written
    assert tenant_line(row, graph, data) in written
