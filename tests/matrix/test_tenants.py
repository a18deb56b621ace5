"""Two tenants in one store: a filter given once reaches every source, the walk included, and nothing leaks."""

from dataclasses import dataclass

import pytest
from matrix_langchain import LANGCHAIN
from matrix_llamaindex import LLAMAINDEX
from matrix_ours import LIMIT, ids, retriever, walk
from matrix_rows import RESCORED
from matrix_servers import marked, opened_or_skipped
from matrix_slice import Slice
from matrix_tenants import MINE, THEIRS, Tenant, everything, words, words_of

from phasegraph import Result

ASKED = 3
ROWS = (*LANGCHAIN, *LLAMAINDEX)


@dataclass(frozen=True)
class Alone:
    """What a store answers that holds nothing but one tenant's passages."""

    data: Slice
    results: dict[str, Result]
    said: str


@pytest.fixture(scope="module", params=marked(ROWS))
def case(request, data, servers):
    """A row's store with both tenants in it, and before that with one."""
    row, mine = request.param, data.of(MINE)
    opened = opened_or_skipped(row, mine, servers)
    single = retriever(row.framework, vector=opened.given)
    both = retriever(row.framework, vector=opened.given, graph=walk(row.framework, mine), k=20)
    view = Tenant(row.framework, both, MINE)
    said = "".join(everything(view.ask(one), view.explain(one), view.told) for one in data.questions[:ASKED])
    alone = Alone(mine, {one: single.explain(one) for one in data.questions[:ASKED]}, said)
    opened.close()
    opened = opened_or_skipped(row, data, servers)
    yield row, opened, alone
    opened.close()


def test_what_another_may_see_is_neither_returned_nor_named_anywhere(case, data):
    row, store, alone = case
    ours = retriever(row.framework, vector=store.given, graph=walk(row.framework, data), k=20)
    view, mine, theirs = Tenant(row.framework, ours, MINE), set(alone.data.ids), data.of(THEIRS)
    foreign = words_of(theirs) - words_of(alone.data) - words(" ".join(data.questions)) - words(alone.said)
    assert len(foreign) > 500
    for question in data.questions[:ASKED]:
        hits, result = view.ask(question), view.explain(question)
        assert len(hits) == 20
        assert set(ids(hits)) <= mine
        assert set(result.candidates.ids) <= mine
        assert [report.status for report in result.reports] == ["ok", "ok"]
        assert next(one for one in result.reports if one.source == "vector").hits == min(LIMIT, len(mine))
        told = everything(hits, result, view.told)
        assert not [name for name in theirs.ids if name in told]
        assert not foreign & words(told)
    assert view.told, "the traces were listened to"
    assert not set(ids(retrieve(row, ours, data.questions[0]))) <= mine, "without a filter nothing is left out"


def retrieve(row, ours, question):
    return ours.invoke(question) if row.framework == "LangChain" else ours.retrieve(question)


def test_the_answer_is_that_of_a_store_that_never_held_the_others(case, data):
    row, store, alone = case
    view = Tenant(row.framework, retriever(row.framework, vector=store.given), MINE)
    for question in data.questions[:ASKED]:
        found, expected = view.explain(question), alone.results[question]
        assert set(found.candidates.ids) == set(expected.candidates.ids)
        if row.filtered == RESCORED:
            continue
        (inside,), (apart,) = found.candidates.rankings, expected.candidates.rankings
        near = 1e-5 if row.tolerance < 0.01 else row.tolerance
        assert found.scores.tolist() == pytest.approx(expected.scores.tolist(), abs=near)
        if row.better == "ranks only" or row.tolerance < 0.01:
            assert found.ids == expected.ids
        if not inside.rank_only:
            raw = dict(zip(apart.ids, apart.raw.tolist(), strict=True))
            same = [raw[name] for name in inside.ids]
            assert inside.raw.tolist() == pytest.approx(same, abs=near)


async def test_awaited_it_answers_the_same_and_tells_as_little(case, data):
    row, store, _ = case
    ours = retriever(row.framework, vector=store.given, graph=walk(row.framework, data))
    view, question = Tenant(row.framework, ours, MINE), data.questions[0]
    assert ids(await view.aask(question)) == ids(view.ask(question))
    told = "".join(view.told)
    assert not [name for name in data.of(THEIRS).ids if name in told]


def test_no_match_is_an_empty_answer(case, data):
    row, store, _ = case
    ours = retriever(row.framework, vector=store.given, graph=walk(row.framework, data))
    result = Tenant(row.framework, ours, "nobody").explain(data.questions[0])
    assert (result.ids, [report.status for report in result.reports]) == ((), ["empty", "empty"])
