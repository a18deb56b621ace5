"""Chunks of a document: the text around them and their neighbors raise them, and a fourth chunk counts less."""

from __future__ import annotations

import numpy as np
import pytest

from phasegraph._support.typing import FloatArray
from phasegraph.graph import GraphIndex, GraphSource, WalkSettings, build_graph
from phasegraph.graph.walk.documents import neighbour_support, neighbours, spread_over_documents, word_support
from phasegraph.graph.walk.restricting import restrict_graph
from phasegraph.graph.walk.scoring import deviations
from phasegraph.lexical import tokenizer_of
from phasegraph.lexical.tokenizers import tokens_of
from phasegraph.ranking import Ranking

RNG = np.random.default_rng(0)
TITLES = ["Vertigo"] * 6 + ["Psycho"] * 3 + ["", ""] + ["Vertigo"] * 2 + ["Rope"]
PASSAGES = [{"id": f"p{at:02d}", "title": title, "text": "It is a film."} for at, title in enumerate(TITLES)]


def beside(titles: list[str]) -> list[list[int]]:
    """Places before and after that have the same title, by hand."""
    return [
        [other if 0 <= other < len(titles) and title and titles[other] == title else -1 for other in (at - 1, at + 1)]
        for at, title in enumerate(titles)
    ]


def test_neighbours_have_the_same_title_and_stand_side_by_side() -> None:
    graph = build_graph(PASSAGES)
    assert neighbours(graph, np.arange(len(TITLES))).tolist() == beside(TITLES)
    assert neighbours(graph, np.array([12, 0])).tolist() == [[11, -1], [-1, 1]]


def test_neighbours_of_a_part_of_a_graph_are_those_of_a_graph_of_that_part() -> None:
    kept = [at for at in range(len(TITLES)) if at not in (2, 9)]
    graph = restrict_graph(build_graph(PASSAGES), {PASSAGES[at]["id"] for at in kept})
    assert graph is not None
    assert neighbours(graph, np.arange(len(kept))).tolist() == beside([TITLES[at] for at in kept])


def test_neighbours_in_a_log_of_changes_are_those_of_the_merged_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.index.graph_index.LOGGED", 0)
    more = [
        {"id": f"q{at}", "title": title, "text": "It is old."} for at, title in enumerate(["Rope", "Marnie", "Marnie"])
    ]
    index = GraphIndex.build(PASSAGES).remove(["p02", "p08", "p10"]).add(more)
    view = index.graph.view
    rows = view.rows_at(np.arange(view.count))
    ids = [view.passages[row] for row in rows.tolist()]
    assert ids == list(index.graph.passages)
    found = [[view.passages[row] if row >= 0 else "" for row in pair] for pair in neighbours(view, rows).tolist()]
    merged = neighbours(index.graph, np.arange(len(ids))).tolist()
    assert found == [[ids[row] if row >= 0 else "" for row in pair] for pair in merged]
    assert found[ids.index("p13")] == ["", "q0"]
    assert found[ids.index("q1")] == ["", "q2"]


@pytest.mark.parametrize("count", [14, 9])
def test_the_support_is_a_fifth_of_the_mean_deviation_of_the_neighbours(count: int) -> None:
    graph, scores = build_graph(PASSAGES), RNG.normal(size=len(TITLES))
    rows = RNG.permutation(len(TITLES))[:count]
    above, place = deviations(scores[rows]), {row: at for at, row in enumerate(rows.tolist())}
    expected = []
    for row in rows.tolist():
        near = [one for one in beside(TITLES)[row] if one >= 0]
        expected.append(sum(above[place[one]] for one in near if one in place) / max(len(near), 1))
    found = neighbour_support(scores[rows], graph, rows)
    np.testing.assert_allclose(found, 0.2 * scores[rows].std() * np.array(expected))
    if count == len(TITLES):
        order = np.argsort(rows)
        np.testing.assert_allclose(neighbour_support(scores, graph), found[order])


QUERY, SEEN = "Which sparrow eats bread?", ["sparrow", "eats", "bread"]
BIRDS = ["the sparrow sings", "bread and seeds", "an owl", "it eats bread, bread and bread", "a nest of seeds"]
PAGES = [
    *["Sparrow"] * 12, "Owl", *["Nest"] * 3, "", "", *["Seed"] * 4,
    *["Finch (bird)", "Finch (film)"] * 2, "Rope", "Rope", "Wren", "Rope",
]  # fmt: skip
TEXTS = [BIRDS[at % 5] for at in range(len(PAGES))]
CHUNKS = [
    {"id": f"c{at:02d}", "title": page, "text": text} for at, (page, text) in enumerate(zip(PAGES, TEXTS, strict=True))
]


def support_by_hand(scores: FloatArray, titles: list[str], texts: list[str], best: list[int]) -> FloatArray:
    """The support by words of the best passages, from the texts themselves."""
    tokenize, count, gains = tokenizer_of("english"), len(texts), np.zeros(len(texts))
    words = [list(tokens_of(tokenize, f"{title}. {text}")) for title, text in zip(titles, texts, strict=True)]
    frequency = [sum(word in held for held in words) for word in SEEN]
    idf = [np.log1p((count - often + 0.5) / (often + 0.5)) for often in frequency]
    near = {
        at: [other for other in range(max(at - 4, 0), min(at + 5, count)) if other == at or titles[other] == titles[at]]
        for at in best
    }
    near = {at: others if titles[at] else [at] for at, others in near.items()}
    around = [[word for other in near[at] for word in words[other]] for at in best]
    mean = np.mean([len(text) for text in around])
    bm25 = [
        sum(
            weight * text.count(word) / (text.count(word) + 1.5 * (0.25 + 0.75 * len(text) / mean))
            for word, weight in zip(SEEN, idf, strict=True)
        )
        for text in around
    ]
    alone = [len(near[at]) == 1 for at in best]
    gains[best] = 0.2 * np.sort(scores)[-50:].std() * np.where(alone, 0.0, deviations(np.array(bm25)))
    return gains


def test_the_support_by_words_is_a_fifth_of_the_deviation_of_the_text_around_a_chunk() -> None:
    rng = np.random.default_rng(1)
    graph, scores = build_graph(CHUNKS), rng.normal(size=len(PAGES))
    titles = graph.titles_at(np.arange(len(PAGES)))
    assert (titles[22] == titles[23]).tolist() == [True, False], "titles that share a name"
    found = word_support(scores, graph, QUERY)
    expected = support_by_hand(scores, PAGES, TEXTS, list(range(len(PAGES))))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[:12].min() >= 0 < found[:12].max()
    assert not found[[12, 16, 17, 28]].any(), "no other chunk of the document is near"
    order = rng.permutation(len(PAGES))
    np.testing.assert_allclose(word_support(scores[order], graph, QUERY, order), found[order], rtol=1e-12)
    assert not word_support(scores, graph, "What is this?").any()


def test_the_support_by_words_in_a_part_of_a_graph_is_that_of_a_graph_of_that_part() -> None:
    kept = [at for at in range(len(PAGES)) if at not in (3, 13, 19)]
    graph = restrict_graph(build_graph(CHUNKS), {CHUNKS[at]["id"] for at in kept})
    assert graph is not None
    scores = np.random.default_rng(2).normal(size=len(kept))
    alone = build_graph([CHUNKS[at] for at in kept])
    assert word_support(scores, graph, QUERY).tolist() == word_support(scores, alone, QUERY).tolist()


def test_the_support_by_words_in_a_log_of_changes_is_that_of_the_merged_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.index.graph_index.LOGGED", 0)
    more = [{"id": f"d{at}", "title": "Seed", "text": "the sparrow eats seeds"} for at in range(3)]
    index = GraphIndex.build(CHUNKS).remove(["c04", "c14", "c20"]).add(more)
    view = index.graph.view
    rows, scores = view.rows_at(np.arange(view.count)), np.random.default_rng(3).normal(size=view.count)
    assert word_support(scores, view, QUERY, rows).tolist() == word_support(scores, index.graph, QUERY).tolist()


def test_only_the_150_best_passages_gain_by_words() -> None:
    rng = np.random.default_rng(4)
    titles, texts = [f"Page {at // 9}" for at in range(400)], [" ".join(rng.choice(BIRDS, 2)) for _ in range(400)]
    passages = zip(titles, texts, strict=True)
    graph = build_graph([{"id": f"p{at:03d}", "title": one, "text": text} for at, (one, text) in enumerate(passages)])
    scores = rng.normal(size=400).round(2)
    scores[np.argsort(-scores)[[150, 151]]] = np.sort(scores)[-149]  # three passages tie at the end of the best
    gains = word_support(scores, graph, QUERY)
    best = np.flatnonzero(scores > np.sort(scores)[-151]).tolist()
    np.testing.assert_allclose(gains, support_by_hand(scores, titles, texts, best), atol=1e-12)
    assert len(best) < 150
    assert np.count_nonzero(gains)


def test_where_no_passage_is_best_nothing_gains() -> None:
    graph = build_graph([{"id": f"p{at:03d}", "title": f"Page {at // 9}", "text": BIRDS[at % 5]} for at in range(300)])
    assert not word_support(np.ones(300), graph, QUERY).any()
    assert not neighbour_support(np.ones(300), graph).any()
    assert neighbours(graph, np.arange(0)).shape == (0, 2)


def test_the_fourth_chunk_of_a_document_and_later_ones_fall_by_steps() -> None:
    graph, values = build_graph(PASSAGES), np.linspace(3.0, 1.0, len(TITLES))
    rows, found = spread_over_documents(np.arange(len(TITLES)), values, graph, 1.0)
    step = 0.2 * values.std()
    losses = np.zeros(len(TITLES))
    losses[[3, 4, 5, 11, 12]] = np.array([1, 2, 3, 3, 3]) * step
    left = np.maximum(values - losses, values[-1])
    np.testing.assert_allclose(found, np.sort(left)[::-1])
    assert rows.tolist() == np.argsort(-left, kind="stable").tolist()
    same, kept = spread_over_documents(np.arange(len(TITLES)), values, graph, 0.0)
    assert same.tolist() == list(range(len(TITLES)))
    assert kept.tolist() == values.tolist()


def test_nothing_falls_below_the_passages_behind_the_first_fifty() -> None:
    graph = build_graph([{"id": f"p{at:02d}", "title": "Rope", "text": "A film."} for at in range(60)])
    values = np.linspace(1.0, 0.0, 60)
    rows, found = spread_over_documents(np.arange(60), values, graph, 1.0)
    assert sorted(rows[:50].tolist()) == list(range(50))
    assert rows[50:].tolist() == list(range(50, 60))
    assert (np.diff(found) <= 0).all()


def _found(titles: list[str], texts: list[str], compare: str) -> Ranking:
    passages = [
        {"id": f"p{at:02d}", "title": title, "text": text}
        for at, (title, text) in enumerate(zip(titles, texts, strict=True))
    ]
    walk = WalkSettings(compare=compare)  # type: ignore[arg-type]
    return GraphSource(build_graph(passages), walk=walk).search("what does the sparrow eat with bread?", 20, {})


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_of_two_equal_chunks_that_beside_a_good_one_comes_first(compare: str) -> None:
    texts = [
        "the owl sleeps",
        "there is bread in the morning",
        "the sparrow eats bread",
        "there is bread in the morning",
    ]
    titled = _found(["Owls", "Owls", "Sparrows", "Sparrows"], texts, compare).ids
    assert titled.index("p03") < titled.index("p01")
    plain = _found([""] * 4, texts, compare).ids
    assert plain.index("p01") < plain.index("p03"), "without documents the smaller id comes first"


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_of_two_equal_chunks_that_near_the_words_of_the_question_comes_first(compare: str) -> None:
    texts = ["an owl", "an owl", "the night", "bread is here"] * 2
    texts[4] = "the sparrow eats"  # three places before a chunk about bread: no neighbor of it
    titles = ["Owls"] * 4 + ["Sparrows"] * 4
    found = _found(titles, texts, compare).ids
    assert found.index("p07") < found.index("p03")
    found = _found(titles[::-1], texts[::-1], compare).ids
    assert found.index("p00") < found.index("p04")
    plain = _found([""] * 8, texts, compare).ids
    assert plain.index("p03") < plain.index("p07"), "without documents the smaller id comes first"


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_a_question_is_answered_where_one_passage_is_left(compare: str) -> None:
    walk = WalkSettings(compare=compare)  # type: ignore[arg-type]
    source = GraphSource(build_graph(CHUNKS), walk=walk)
    assert source.within({"c03"}).search(QUERY, 5, {}).ids == ("c03",)
    assert GraphSource(build_graph(CHUNKS[3:4]), walk=walk).search(QUERY, 5, {}).ids == ("c03",)


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_equal_chunks_of_a_document_score_less_from_the_fourth_on(compare: str) -> None:
    texts = ["the sparrow eats bread and seeds", "bread is here"] * 24
    found = _found(["Garden", ""] * 24, texts, compare)
    assert set(found.ids[:8]) <= {f"p{at:02d}" for at in range(0, 48, 2)}
    np.testing.assert_allclose(found.scores[1], found.scores[2])
    assert (np.diff(found.scores[2:6]) < 0).all()
    plain = _found([""] * 48, texts, compare)
    np.testing.assert_allclose(plain.scores[1:8], plain.scores[1])


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_a_shorter_answer_is_the_start_of_a_longer_one(compare: str) -> None:
    texts = [" ".join(RNG.choice(["sparrow", "owl", "bread", "seed", "song", "nest"], 5)) for _ in range(90)]
    graph = build_graph(
        [{"id": f"p{at:02d}", "title": f"Page {at // 15}", "text": text} for at, text in enumerate(texts)]
    )
    source = GraphSource(graph, walk=WalkSettings(compare=compare))  # type: ignore[arg-type]
    longest = source.search("which bread does the owl eat?", 80, {})
    for limit in (1, 5, 10, 50):
        found = source.search("which bread does the owl eat?", limit, {})
        assert found.ids == longest.ids[:limit]
        np.testing.assert_array_equal(found.scores, longest.scores[:limit])
