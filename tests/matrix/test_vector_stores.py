"""Every store as it is, under our retrievers: right order, right ids, right direction, and the core's own answer."""

from itertools import pairwise

import pytest
from langchain_core.vectorstores import VectorStore
from llama_index.core import VectorStoreIndex
from matrix_langchain import LANGCHAIN
from matrix_llamaindex import LLAMAINDEX
from matrix_ours import LIMIT, aask, ask, core, ids, retriever, spec, walk
from matrix_servers import marked, opened_or_skipped
from matrix_table import PAGE, line, tenant_line

from langchain_phasegraph import PhaseGraphRetriever
from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.retrieval.directions import infer_direction

CONTENTS = ("InMemoryVectorStore", "Chroma", "FAISS", "QdrantVectorStore", "PGVector", "PGVectorStore", "LanceDB")
ROWS = (*LANGCHAIN, *LLAMAINDEX)


@pytest.fixture(scope="module", params=marked(ROWS))
def case(request, data, servers):
    row = request.param
    opened = opened_or_skipped(row, data, servers)
    yield row, opened
    opened.close()


def test_the_best_passage_comes_first_and_the_worst_last(case, data):
    row, store = case
    count = len(data.rows)
    ours = retriever(row.framework, vector=store.given, fetch_k=count, k=count)
    for question in data.questions:
        own = store.own(question, count)
        found = ids(ask(ours, question))
        assert set(found) == set(data.ids)
        if not row.exact:
            if row.better == "ranks only":
                assert found == [name for name, _ in own]
            else:  # the order of its own scores; ties may stand either way
                score = dict(own)
                assert [score[name] for name in found] == sorted(score.values(), reverse=row.better == "higher")
            continue
        exact = data.cosines(question)
        falling = [exact[name] for name in found]
        assert max(b - a for a, b in pairwise(falling)) <= row.tolerance
        ranked = sorted(exact, key=exact.__getitem__)
        assert exact[found[0]] >= exact[ranked[-1]] - row.tolerance
        assert exact[found[-1]] <= exact[ranked[0]] + row.tolerance


def test_the_direction_is_right_whether_known_inferred_or_declared(case, data):
    row, store = case
    if row.better == "ranks only":
        (report,) = retriever(row.framework, vector=store.given).explain(data.questions[0]).reports
        assert report.notes[0] == "rank only: it returns no scores"
        return
    higher = row.better == "higher"
    question = data.questions[0]
    own = store.own(question, LIMIT)
    assert infer_direction([score for _, score in own]) is higher
    expected = [name for name, _ in own][:10] if row.exact else None
    read = {"id": store.id_fn} if store.id_fn is not None else {}
    for settings in ({}, {"higher_is_better": higher}):
        for given in (store.given, store.function):
            ours = retriever(row.framework, vector=spec(row.framework, given, **read, **settings))
            found = ids(ask(ours, question))
            assert expected is None or found == expected
            scores = dict(own)
            values = [scores[name] for name in found]
            assert values == sorted(values, reverse=higher)


def test_a_direction_declared_wrongly_is_said_aloud_and_in_the_report(case, data):
    row, store = case
    if row.better == "ranks only":
        pytest.skip("it returns no scores to declare a direction of")
    question, wrong = data.questions[0], row.better != "higher"
    best = store.own(question, LIMIT)[0][0]
    said = f"declared higher_is_better={wrong}, but the order of its scores says the opposite"
    for given in (store.given, store.function):
        turned = retriever(row.framework, vector=spec(row.framework, given, higher_is_better=wrong))
        with pytest.warns(PhasegraphWarning, match=f"source 'vector': {said}"):
            assert ids(ask(turned, question))[0] != best
        (report,) = turned.explain(question).reports
        assert f"{said}; the declared direction was used" in report.notes
        assert "the order of its hits contradicts their scores; the scores were used" in report.notes


def test_the_fused_ids_are_those_of_the_core_on_the_same_lists(case, data):
    row, store = case
    ours = retriever(row.framework, vector=store.given, graph=walk(row.framework, data))
    for question in data.questions:
        expected = core(question, store.own(question, LIMIT), row.better)
        found = ours.explain(question)
        assert found.ids == expected.ids
        assert found.scores.tolist() == pytest.approx(expected.scores.tolist(), abs=1e-9)
        assert ids(ask(ours, question)) == list(expected.ids)


async def test_awaited_it_answers_the_same_alone_and_fused(case, data):
    row, store = case
    question = data.questions[1]
    for sources in ({}, {"graph": walk(row.framework, data)}):
        ours = retriever(row.framework, vector=store.given, **sources)
        assert ids(await aask(ours, question)) == ids(ask(ours, question))
    expected = core(question, store.own(question, LIMIT), row.better)
    assert (await ours.aexplain(question)).ids == expected.ids
    assert ids(await aask(ours, question)) == list(expected.ids)


def test_graph_and_words_are_built_over_what_it_holds_or_it_says_why_not(case, data):
    row, store = case
    over = (
        PhaseGraphRetriever.from_vectorstore if row.framework == "LangChain" else CalibratedFusionRetriever.from_index
    )
    if isinstance(store.given, VectorStore) and type(store.given).__name__ not in CONTENTS:
        with pytest.raises(InvalidInputError, match="from_documents"):
            over(store.given)
        return
    if not isinstance(store.given, VectorStore | VectorStoreIndex):
        with pytest.raises(InvalidTypeError):
            over(store.given)
        return
    made = over(store.given, k=len(data.rows))
    assert {one.source: one.status for one in made.explain(data.questions[0]).reports} == dict.fromkeys(
        ("graph", "bm25", "vector"), "ok"
    )
    assert set(ids(ask(made, data.questions[0]))) <= set(data.ids)
    assert set(made._corpus.index.graph.passages) == set(data.ids)


def test_its_lines_of_the_page_still_hold(case, data):
    row, store = case
    written = PAGE.read_text(encoding="utf-8").splitlines()
    assert line(row, store, data) in written
    assert tenant_line(row, store, data) in written
