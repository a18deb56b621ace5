"""Sources of the core that name passages and hold no texts: those come from the store beside them, or it is said."""

import warnings

import pytest
from matrix_langchain import LANGCHAIN
from matrix_llamaindex import LLAMAINDEX
from matrix_ours import LIMIT, aask, ask, ids, retriever, slice_graph, spec
from matrix_rows import UNTOLD
from matrix_servers import marked, opened_or_skipped

from phasegraph import CallableSource, PhasegraphWarning
from phasegraph.graph import GraphSource

FEW = 5


@pytest.fixture(scope="module", params=marked((*LANGCHAIN, *LLAMAINDEX)))
def case(request, data, servers):
    row = request.param
    opened = opened_or_skipped(row, data, servers)
    yield row, opened
    opened.close()


def text_of(hit):
    return hit.page_content if hasattr(hit, "page_content") else hit.text


async def test_what_a_bare_walk_finds_has_its_text_or_a_warning_says_how_to_give_it(case, data):
    row, opened = case
    graph = GraphSource(slice_graph(tuple(data.ids)))
    ours = retriever(row.framework, vector=spec(row.framework, opened.given, fetch_k=FEW), graph=graph, k=LIMIT)
    texts = {one["id"]: one["text"] for one in data.rows}
    for asked in (ask, aask):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PhasegraphWarning)
            found = asked(ours, data.questions[0])
            hits = found if asked is ask else await found
        said = [str(one.message) for one in caught if "results without a text: 'graph'" in str(one.message)]
        blank = {name for name, hit in zip(ids(hits), hits, strict=True) if not text_of(hit)}
        assert len(hits) > FEW
        assert bool(blank) == bool(said) == (row.name in UNTOLD)
        assert all(text_of(hit) == texts[name] for name, hit in zip(ids(hits), hits, strict=True) if name not in blank)


@pytest.mark.parametrize("framework", ["LangChain", "LlamaIndex"])
async def test_alone_it_says_what_to_pass(framework):
    source = CallableSource("one", lambda query, limit: [("p", 0.9), ("q", 0.8), ("r", 0.7)])
    ours = retriever(framework, retrievers={"one": source})
    said = r"'one' returned ids of passages .* fields=HitFields\(resolve=\.\.\.\)"
    with pytest.warns(PhasegraphWarning, match=said):
        hits = ask(ours, "who?")
    with pytest.warns(PhasegraphWarning, match=said):
        assert ids(await aask(ours, "who?")) == ids(hits) == ["p", "q", "r"]
    assert "'one' returned ids of passages that no source has" in ours.explain("who?").warnings[-1]
