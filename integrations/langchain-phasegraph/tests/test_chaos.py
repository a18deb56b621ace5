"""Three sources that each fail in a fifth of the calls, in nine ways: hits of healthy sources are never lost."""

import asyncio
import random

import pytest
from langchain_core.documents import Document
from langchain_stores import pairs
from tests.repeats import repeats

from langchain_phasegraph import Execution, HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph import AllSourcesFailed, Context, FusionPipeline, Ranking

SOURCES = ("bm25", "graph", "vector")
QUERIES = repeats(300, 100)


def fail(error):
    raise error


FAULTS = {
    "raises": lambda hits: fail(RuntimeError()),
    "lacks a key": lambda hits: {}["x"],
    "none": lambda hits: None,
    "malformed": lambda hits: [3],
    "all nan": lambda hits: [(document, float("nan")) for document, _ in hits],
    "some infinite": lambda hits: [*hits, (Document("z", id="z"), float("inf"))],
    "empty": lambda hits: [],
    "doubled": lambda hits: [*hits, *hits],
    "in strange order": lambda hits: list(reversed(hits)),
}
HARMLESS = {"some infinite", "doubled", "in strange order"}


def plan(seed):
    """Return the hits and the fault of each source for each query."""
    rng = random.Random(seed)
    names = [f"p{i}" for i in range(40)]
    out = []
    for _ in range(QUERIES):
        one = {}
        for source in SOURCES:
            hits = pairs(**{name: rng.gauss(0, 1) for name in rng.sample(names, rng.randint(1, 20))})
            one[source] = (hits, rng.choice(list(FAULTS)) if rng.random() < 0.2 else "")
        out.append(one)
    return out


@pytest.mark.filterwarnings("ignore:source .* returns hits without a usable score")
@pytest.mark.filterwarnings("ignore:source .* declared higher_is_better=True")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_answer_equals_that_of_the_healthy_sources_alone(asynchronous):
    queries = plan(7)

    def source(name):
        def search(query):
            hits, fault = queries[int(query)][name]
            return FAULTS[fault](hits) if fault else hits

        return SourceSpec(
            retriever=search, fields=HitFields(higher_is_better=True), execution=Execution(circuit_breaker=None)
        )

    retriever = PhaseGraphRetriever(retrievers={name: source(name) for name in SOURCES}, timeout=30.0)
    failed_all = degraded = 0
    for number, query in enumerate(queries):
        healthy = [name for name in SOURCES if query[name][1] in HARMLESS | {""}]
        lost = [name for name in SOURCES if name not in healthy and query[name][1] != "empty"]
        ask = retriever.explain if not asynchronous else lambda q: asyncio.run(retriever.aexplain(q))
        if all(name in lost and query[name][1] != "all nan" for name in SOURCES):
            failed_all += 1
            with pytest.raises(AllSourcesFailed):
                ask(str(number))
            continue
        result = ask(str(number))
        rankings = [
            Ranking.from_hits(name, [str(d.id) for d, _ in query[name][0]], [s for _, s in query[name][0]])
            for name in healthy
        ]
        expected = FusionPipeline().decide(rankings, Context(query=str(number)))
        assert result.ids == expected.ids
        assert result.scores.tobytes() == expected.scores.tobytes()
        assert result.degraded is bool(lost)
        assert [report.source for report in result.reports if report.degraded] == lost
        degraded += bool(lost)
    assert degraded > QUERIES / 6
    assert failed_all <= QUERIES / 30
