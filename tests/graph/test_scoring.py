"""How far a walk decides by itself, what cosines, words and clauses add, and the order of the answer."""

from __future__ import annotations

import numpy as np
import pytest

from phasegraph import InvalidTypeError, Ranking
from phasegraph.graph import GraphSource, WalkSettings, build_graph
from phasegraph.graph.walk.clauses import clause_relevance, clauses
from phasegraph.graph.walk.covering import covering
from phasegraph.graph.walk.scoring import balanced, deviations, fiftieth, part_worths
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.lexical import LexicalIndex

RNG = np.random.default_rng(0)


def above_rest(logs: np.ndarray) -> np.ndarray:
    """As a search hands them over."""
    return logs - fiftieth(logs)


def test_a_trusted_walk_decides_alone() -> None:
    logs = above_rest(RNG.normal(size=200))
    found = balanced(logs, RNG.normal(size=200), RNG.normal(size=200), 1.0)
    np.testing.assert_allclose(found, logs)


def test_without_trust_every_kind_of_evidence_has_one_voice() -> None:
    logs, cosines, words = above_rest(RNG.normal(size=200)), RNG.normal(size=200), RNG.exponential(size=200)
    found = balanced(logs, cosines, words, 0.0)
    mean = (deviations(logs) + deviations(cosines) + deviations(words)) / 3
    np.testing.assert_allclose(found, 0.29 * logs.max() * mean + 0.02 * np.minimum(logs, 0.0))
    np.testing.assert_allclose(balanced(logs, 3 * cosines + 1, 7 * words, 0.0), found, err_msg="units do not count")


def test_evidence_that_is_equal_for_all_passages_has_no_voice() -> None:
    logs, cosines = above_rest(RNG.normal(size=80)), RNG.normal(size=80)
    with_two = balanced(logs, cosines, np.zeros(80), 0.0)
    reach, tail = logs.max(), 0.02 * np.minimum(logs, 0.0)
    np.testing.assert_allclose(with_two, 0.29 * reach * (deviations(logs) + deviations(cosines)) / 2 + tail)


def test_trust_moves_the_score_from_the_mean_to_the_walk() -> None:
    logs, cosines, words = above_rest(RNG.normal(size=90)), RNG.normal(size=90), RNG.normal(size=90)
    ends = [balanced(logs, cosines, words, trust) for trust in (0.0, 1.0)]
    best = logs > 0
    np.testing.assert_allclose(balanced(logs, cosines, words, 0.3)[best], (0.7 * ends[0] + 0.3 * ends[1])[best])


ENCYCLOPEDIA = [
    {"id": "film", "title": "Vertigo", "text": "Vertigo is a film by Alfred Hitchcock."},
    {"id": "man", "title": "Alfred Hitchcock", "text": "He was born in Leytonstone."},
    {"id": "town", "title": "Leytonstone", "text": "A suburb in the east."},
    {"id": "far", "title": "Paris", "text": "A city on a river."},
]


def _trust(passages: list[dict[str, str]], question: str, compare: str) -> float:
    """How far the walk decides: 1 where scores are the walk's own."""
    graph = build_graph(passages, embeddings=np.eye(len(passages)) + 0.1)
    source = GraphSource(
        graph, embedder=lambda _: np.linspace(1.0, 0.5, len(passages)), walk=WalkSettings(compare=compare)
    )  # type: ignore[arg-type]
    seen: list[float] = []
    ask = type(source)._trust

    class Seen(GraphSource):
        def _trust(self, *given: object) -> float:  # type: ignore[override]
            seen.append(ask(self, *given))  # type: ignore[arg-type]
            return seen[-1]

    found = Seen(graph, embedder=source.embedder, walk=source.walk)
    found.search(question, 4, {"vector": Ranking("vector", ["film"], [0.9])})
    return seen[0]


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_titles_that_passages_name_are_links(compare: str) -> None:
    assert _trust(ENCYCLOPEDIA, "Where was the director of Vertigo born?", compare) == 1.0
    assert _trust(ENCYCLOPEDIA, "where was the director of the film born?", compare) == 1.0, "no name is needed"


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_the_title_of_a_document_in_many_chunks_is_no_link(compare: str) -> None:
    chunks = [
        {"id": f"c{row}", "title": "Widget Manual", "text": f"The Widget Manual, part {row}."} for row in range(6)
    ]
    assert _trust(chunks, "How is the Widget Manual read?", compare) == 0.0


def test_passages_without_titles_and_names_leave_the_walk_one_voice() -> None:
    chunks = [{"id": f"c{row}", "text": f"turn screw number {row} to the left"} for row in range(6)]
    assert _trust(chunks, "which screw turns left?", "all") == 0.0


def test_a_question_is_cut_into_clauses() -> None:
    asked = "Which company that makes the red phone was sued by the state, while its chief left the firm for a rival?"
    assert clauses(asked) == (
        "company makes the red phone was sued by the state",
        "its chief left the firm for a rival",
    )
    assert clauses("Who?") == ()


def test_clauses_need_no_embedding_and_are_embedded_on_request() -> None:
    texts = [f"passage {row} about {word}" for row, word in enumerate(["red apples"] * 3 + ["green pears"] * 3)]
    graph = build_graph(
        [{"id": f"p{row}", "text": text} for row, text in enumerate(texts)], embeddings=RNG.normal(size=(6, 4))
    )
    asked: list[str] = []

    def embed(text: str) -> np.ndarray:
        asked.append(text)
        return np.ones(4)

    question = "what is said about red apples here, and what is written of green pears, and what of the passage number?"
    GraphSource(graph, embedder=embed).search(question, 3, {})
    assert asked == [question]
    GraphSource(graph, embedder=embed, embed_clauses=True).search(question, 3, {})
    assert asked[1:] == [question, *clauses(question)]
    with pytest.raises(InvalidTypeError, match="embed_clauses"):
        GraphSource(graph, embed_clauses="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_each_clause_is_answered_early(compare: str) -> None:
    """Without clauses, the passages on the first subject fill the answer."""
    passages = [{"id": f"a{row}", "text": f"the orchard grows sweet red apples in row {row}"} for row in range(8)]
    passages += [
        {"id": "b", "text": "the cellar keeps old wine barrels"},
        {"id": "c", "text": "the mill grinds rye flour"},
    ]
    source = GraphSource(build_graph(passages), walk=WalkSettings(compare=compare))  # type: ignore[arg-type]
    question = (
        "where does the orchard grow sweet red apples, where does the cellar keep wine, where does the mill grind?"
    )
    found = source.search(question, 5, {}).ids
    assert {"b", "c"} <= set(found[:3])


def test_covering_brings_in_the_best_of_each_clause_and_keeps_scores_falling() -> None:
    terms = LexicalIndex.of(["ada"] * 40).look_up("ada")
    scores = np.linspace(4.0, 0.0, 40)
    parts = np.zeros((2, 40))
    parts[0, 39], parts[1, 38] = 3.0, 2.0
    order, values = covering(
        scores, np.arange(40), [f"p{row:02d}" for row in range(40)], terms, None, WordSettings(), 5 * parts
    )
    assert set(order[:2].tolist()) == {38, 39}
    assert sorted(order.tolist()) == list(range(40))
    assert (np.diff(values) <= 0).all()


def test_the_worth_of_clauses_is_in_the_unit_of_the_walk_and_less_where_it_is_trusted() -> None:
    logs = above_rest(RNG.normal(size=60))
    parts = clause_relevance([RNG.exponential(size=60), RNG.exponential(size=60)], [])
    worths = part_worths(parts, logs, 0.0)
    np.testing.assert_allclose(worths, 0.29 * logs.max() * parts / 2)
    np.testing.assert_allclose(part_worths(parts, logs, 1.0), worths / 4)
