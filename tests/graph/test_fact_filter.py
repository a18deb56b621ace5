"""The fact filter: keeping everything is no filter, to the bit; keeping nothing is similarity; faults cost nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.repeats import repeats

from phasegraph import CallableSource, InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.graph import (
    Extraction,
    FactFilter,
    FactIndex,
    GraphSource,
    SemFlowSource,
    WalkSettings,
    filter_facts_with,
    graph_from_extractions,
)
from phasegraph.retrieval import FusionEngine, SourceSpec
from phasegraph.testing import ManualClock

# Passages, facts and embeddings of the golden graph, spec 7.4.
VECTORS = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 0], [0, 0, 1], [0, 0.6, 0.8]])
MENTIONS = {"p0": "ab", "p1": "ab", "p2": "ac", "p3": "ad", "p4": "d"}
FACTS = [("a", "r", "b"), ("a", "r", "c"), ("a", "r", "d"), ("b", "r", "c")]
TEXTS = ["alpha", "beta", "gamma", "delta", "epsilon"]
RECORDS = [Extraction(name, list(found)) for name, found in MENTIONS.items()]
GRAPH = graph_from_extractions(
    list(MENTIONS), [*RECORDS, Extraction("p0", triples=FACTS)], embeddings=VECTORS, texts=TEXTS
)
INDEX = FactIndex.of(GRAPH, FACTS, [[1, 0, 0], [0.6, 0.8, 0], [0, 0, 1], [0.5, 0.5, 0.7]])
QUERY = "what of alpha and b?"


def embedder(query: str) -> list[float]:
    return [0.6, 0.8, 0.0]


OURS = GraphSource(GRAPH, embedder=embedder, facts=INDEX)
HIPPO = GraphSource(
    GRAPH, embedder=embedder, facts=INDEX, reset="hipporag2", walk=WalkSettings(follow_probability=0.5, relevance=False)
)
WORDLESS = replace(OURS, words=None)
SOURCES: dict[str, Any] = {
    "ours": OURS, "wordless": WORDLESS, "hipporag2": HIPPO, "semflow": SemFlowSource(GRAPH, INDEX, embedder),
}  # fmt: skip


def keep_all(query: str, facts: Sequence[tuple[str, ...]]) -> Any:
    return list(facts)


async def keep_all_later(query: str, facts: Sequence[tuple[str, ...]]) -> Any:
    return list(facts)


@pytest.mark.parametrize("keep", [keep_all, keep_all_later, FactFilter(keep_all, timeout=60)])
@pytest.mark.parametrize("name", SOURCES)
def test_keeping_everything_is_no_filter_to_the_bit(name: str, keep: Any) -> None:
    plain, filtered = (one.search(QUERY, 10, {}) for one in (SOURCES[name], replace(SOURCES[name], fact_filter=keep)))
    assert plain.ids == filtered.ids
    assert plain.scores.tobytes() == filtered.scores.tobytes()
    assert (plain.background, plain.reason) == (filtered.background, filtered.reason)


@pytest.mark.parametrize("name", SOURCES)
def test_keeping_nothing_ranks_by_similarity_as_published(name: str) -> None:
    found = replace(SOURCES[name], fact_filter=lambda query, facts: []).search(QUERY, 10, {})
    near = VECTORS @ embedder("")
    wanted = sorted((row for row in range(5) if near[row] > 0), key=lambda row: -near[row])
    assert found.ids == tuple(f"p{row}" for row in wanted)
    assert found.scores == pytest.approx(near[wanted], abs=1e-6)
    assert "kept none of 4 facts" in found.reason


def test_the_filter_is_given_the_query_and_the_nearest_facts_in_order() -> None:
    seen: list[Any] = []

    def keep(query: str, facts: Sequence[tuple[str, ...]]) -> Any:
        seen.append((query, facts))
        return facts[:1]

    for source in (OURS, HIPPO):
        replace(source, fact_filter=keep).search(QUERY, 10, {})
    near = INDEX.embeddings @ np.array(embedder(""), dtype=np.float32)
    assert seen == [(QUERY, [FACTS[row] for row in np.argsort(-near)])] * 2


def test_the_kept_fact_alone_seeds_the_published_walk() -> None:
    """The reset distribution of spec 7.4: the one kept fact, b-c, scores .9; b is in two passages, c in one."""
    graph = graph_from_extractions(list(MENTIONS), RECORDS, embeddings=VECTORS)
    query = np.array(embedder(""))
    near = [query, [0, 0, 1], [0, 0, 1], 0.9 * query + [0, 0, 0.19**0.5]]
    facts = FactIndex.of(graph, FACTS, near)
    source = GraphSource(graph, embedder=embedder, facts=facts, reset="semflowrag", walk=HIPPO.walk)
    found = replace(source, fact_filter=lambda query, facts: [("b", "r", "c")]).search(QUERY, 5, {})
    seeds = {node.name: share for node, share in found.payloads[found.ids[0]].seeds}
    masses = {
        "b": 0.45,
        "c": 0.9,
        **dict(zip(("p0", "p1", "p2", "p4"), 0.08 * np.array([0.625, 1, 5 / 6, 0.5]), strict=True)),
    }
    total = sum(masses.values())
    assert seeds == pytest.approx({name: mass / total for name, mass in masses.items()}, abs=1e-6)


def fails(query: str, facts: Any) -> Any:
    raise RuntimeError("no tokens left")


async def fails_later(query: str, facts: Any) -> Any:
    raise ConnectionError("gone")


def _raiser(error: BaseException) -> Any:
    def keep(query: str, facts: Any) -> Any:
        raise error

    return keep


TURNS = repeats(2, 1)
OVER = threading.Event()
"""Set when the filter that is late may end."""
FAULTS = {
    "raises SystemExit": _raiser(SystemExit(3)),
    "raises GeneratorExit": _raiser(GeneratorExit()),
    "raises CancelledError": _raiser(asyncio.CancelledError()),
    "raises StopIteration": _raiser(StopIteration()),
    "gives without end": lambda query, facts: itertools.cycle(facts),
    "raises": fails,
    "raises later": fails_later,
    "is late": lambda query, facts: OVER.wait(60),
    "gives nothing": lambda query, facts: None,
    "gives a text": lambda query, facts: "all",
    "gives a number": lambda query, facts: 3,
    "gives another fact": lambda query, facts: [("x", "y", "z")],
    "gives no facts": lambda query, facts: [1, 2],
    "an answer without a list": filter_facts_with(lambda prompt: "I cannot say."),
    "an answer that is no text": filter_facts_with(lambda prompt: None),  # type: ignore[arg-type, return-value]
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_leaves_the_facts_as_they_were_and_says_so(name: str, request: pytest.FixtureRequest) -> None:
    OVER.clear()
    plain = OURS.search(QUERY, 10, {})
    request.addfinalizer(OVER.set)
    for _ in range(TURNS if name != "is late" else 1):  # a filter is left out after 10 failures in a row
        source = replace(OURS, fact_filter=FactFilter(FAULTS[name], timeout=0.1))
        with pytest.warns(PhasegraphWarning, match="fact filter failed"):
            first = source.search(QUERY, 10, {})
        for found in (first, *(source.search(QUERY, 10, {}) for _ in range(9 if name != "is late" else 2))):
            assert found.ids == plain.ids
            assert found.scores.tobytes() == plain.scores.tobytes()
            assert found.reason.startswith("the fact filter failed (")


def test_a_filter_that_hangs_leaves_its_source_the_time_to_walk() -> None:
    """Its own timeout is longer than the call's, as both are by default."""
    over, clock = threading.Event(), ManualClock()

    def hangs(query: str, facts: Any) -> None:
        clock.advance(0.5)
        over.wait(60)

    sources = {"graph": OURS, "v": CallableSource("v", lambda query, limit: [("p3", 0.9)])}

    def asked(source: Any, calls: int) -> Any:
        engine = FusionEngine.of({name: SourceSpec(retriever=None) for name in sources}, timeout=1.0)
        engine.gatherer.clock = clock
        return [engine.retrieve(QUERY, {**sources, "graph": source})[0] for _ in range(calls)]

    (plain,) = asked(OURS, 1)
    try:
        with pytest.warns(PhasegraphWarning, match=r"fact filter failed \(no answer in time\)"):
            found = asked(replace(OURS, fact_filter=hangs), 3)
    finally:
        over.set()
    for one in found:
        assert (one.ids, one.scores.tobytes()) == (plain.ids, plain.scores.tobytes())
        assert [report.status for report in one.reports] == ["ok", "ok"]
    assert clock.now() == 1.5


def test_a_filter_that_keeps_failing_is_left_out() -> None:
    calls: list[int] = []

    def keep(query: str, facts: Any) -> Any:
        calls.append(1)
        raise ValueError

    source = replace(OURS, fact_filter=keep)
    with pytest.warns(PhasegraphWarning, match="fact filter failed"):
        found = [source.search(QUERY, 10, {}) for _ in range(15)]
    assert len(calls) == 10
    assert found[-1].reason == "the fact filter was not asked (it failed 10 times in a row): the facts are not filtered"


def test_what_a_model_says_stands_in_no_report() -> None:
    source = replace(OURS, fact_filter=filter_facts_with(lambda prompt: "a private word"))
    with pytest.warns(PhasegraphWarning, match="fact filter failed") as caught:
        found = source.search(QUERY, 10, {})
    assert "private" not in found.reason + " ".join(str(one.message) for one in caught)


def test_a_filter_that_works_again_is_warned_about_anew() -> None:
    well = threading.Event()
    source = replace(OURS, fact_filter=lambda query, facts: facts if well.is_set() else fails(query, facts))
    for _ in range(2):
        with pytest.warns(PhasegraphWarning, match="fact filter failed"):
            source.search(QUERY, 10, {})
        well.set()
        with pytest.warns(PhasegraphWarning, match="fact filter answers again"):
            assert source.search(QUERY, 10, {}).reason == ""
        well.clear()


def test_memory_errors_and_interrupts_pass() -> None:
    def out(query: str, facts: Any) -> Any:
        raise MemoryError

    with pytest.raises(MemoryError):
        replace(OURS, fact_filter=out).search(QUERY, 10, {})


def test_names_are_no_facts_and_stay() -> None:
    both = INDEX.plus(FactIndex.of_names(GRAPH, ["a"], [[0.6, 0.8, 0]]))
    shown: list[Any] = []

    def keep(query: str, facts: Any) -> Any:
        shown.extend(facts)
        return []

    found = replace(OURS, facts=both, fact_filter=keep).search(QUERY, 10, {})
    assert len(shown) == 4
    assert ("a",) not in shown
    assert found.reason == ""
    assert isinstance(found.payloads["p0"].path, tuple)


def test_a_part_shows_the_filter_its_own_facts_alone() -> None:
    facts = FactIndex.of(GRAPH, FACTS, INDEX.embeddings, passages=["p0", "p2", "p3", "p2"])
    seen: list[Any] = []

    def keep(query: str, given: Any) -> Any:
        seen.extend(given)
        return given

    replace(OURS, facts=facts, fact_filter=keep).within({"p0", "p1"}).search(QUERY, 10, {})
    assert seen == [("a", "r", "b")]


def test_the_model_reads_numbers_and_answers_with_them() -> None:
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        return '```json\n{"facts": [2, 9, "1"]}\n```'

    assert filter_facts_with(model)('Who "was" {it}?', FACTS) == FACTS[:2]
    assert '"Who \\"was\\" {it}?"' in asked[0]
    assert '"4": "b | r | c"' in asked[0]
    assert "Choose at most four" not in asked[0]
    assert "Choose at most 4;" in asked[0]
    assert filter_facts_with(model, prompt="{query} {facts} {}")("q", FACTS[:1]) == FACTS[:1]
    assert asked[1] == '"q" {"1": "a | r | b"} {}'
    assert filter_facts_with(lambda prompt: "[]")("q", FACTS) == []


LISTED = json.dumps({"fact": [list(fact) for fact in FACTS]})
PUBLISHED = """[[ ## fact_after_filter ## ]]
{"fact": [["B", "r", "C "], ["b", "r", "d"], ["a", "r", "b"], ["a", "r", "d"]]}

[[ ## completed ## ]]"""


def test_the_papers_prompt_lists_triples_and_its_answer_is_read() -> None:
    """The published form of question and answer; ["b", "r", "d"] is none of the facts and is passed over."""
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        return PUBLISHED

    prompt = 'Select up to {most} facts, e.g., {"fact": [["s1", "p1", "o1"]]}.\nQuestion: {query}\nFacts: {triples}'
    keep = filter_facts_with(model, prompt=prompt, most=12)
    assert keep("who?", FACTS) == [FACTS[0], FACTS[2], FACTS[3]]
    assert asked == [
        f'Select up to 12 facts, e.g., {{"fact": [["s1", "p1", "o1"]]}}.\nQuestion: "who?"\nFacts: {LISTED}'
    ]
    assert filter_facts_with(lambda prompt: '{"fact": []}')("who?", FACTS) == []
    assert filter_facts_with(lambda prompt: LISTED)("who?", FACTS) == FACTS


def test_the_first_facts_of_the_answer_are_kept_up_to_the_number_asked_for() -> None:
    """Four is HippoRAG 2's number, twelve SemFlowRAG's; a fact that is named twice counts once."""
    facts = [("e", "r", str(number)) for number in range(20)]
    backwards = '{"facts": %s}' % [20, *range(20, 0, -1)]
    assert filter_facts_with(lambda prompt: backwards)("q", facts) == facts[16:]
    assert filter_facts_with(lambda prompt: backwards, most=12)("q", facts) == facts[8:]


def test_the_papers_answer_seeds_the_published_walk() -> None:
    """Both walks of the paper with its answer are the walks of a filter that keeps the same facts, to the bit."""
    for name in ("hipporag2", "semflow"):
        said = replace(SOURCES[name], fact_filter=filter_facts_with(lambda prompt: PUBLISHED, most=12))
        kept = replace(SOURCES[name], fact_filter=lambda query, facts: [one for one in facts if one != FACTS[1]])
        one, other = (source.search(QUERY, 10, {}) for source in (said, kept))
        assert (one.ids, one.scores.tobytes(), one.reason) == (other.ids, other.scores.tobytes(), "")


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInputError, match="fact_filter= needs facts="):
        GraphSource(GRAPH, embedder=embedder, fact_filter=keep_all)
    with pytest.raises(InvalidTypeError, match="fact_filter must be a function"):
        replace(OURS, fact_filter=3)
    with pytest.raises(InvalidInputError, match=r"FactFilter.timeout"):
        FactFilter(keep_all, timeout=0)
    with pytest.raises(InvalidInputError, match=r"with \{query\} and \{facts\} or \{triples\} in it; got '\{query\}'"):
        filter_facts_with(len, prompt="{query}")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"most must be"):
        filter_facts_with(len, most=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="text_model"):
        filter_facts_with("gpt")  # type: ignore[arg-type]
