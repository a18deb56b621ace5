"""The words of a query in the walk: what they change, what stays, and that updates and files keep them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_corpora import GRAPH, PASSAGES, QUERY, VECTORS

from phasegraph import IntegrityError, InvalidInputError, InvalidTypeError, Ranking
from phasegraph.graph import (
    EdgeWeights,
    Extraction,
    GraphIndex,
    GraphSource,
    LinkSettings,
    WalkSettings,
    build_graph,
    graph_from_extractions,
    load_graph,
    save_graph,
)
from phasegraph.graph.model.storage import graph_from_parts, graph_parts
from phasegraph.graph.walk.covering import covering, seeds_by_words
from phasegraph.graph.walk.scoring import final_scores
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.lexical import LexicalIndex
from phasegraph.retrieval.provenance import plain_evidence


def same(one: Ranking, other: Ranking) -> bool:
    return (one.ids, one.scores.tobytes(), one.background) == (other.ids, other.scores.tobytes(), other.background)


def test_without_a_name_or_a_ranking_words_are_enough():
    graph = build_graph([*PASSAGES, {"id": "lone", "text": "Nobody here."}])
    found = GraphSource(graph).search("what lies east?", None, {})
    assert found.ids[0] == "town"
    assert found.payloads["town"].words == ("lies", "east")
    assert "lone" not in found.ids, "the walk does not reach it and it has no word of the query"


def test_it_says_what_it_knows_of_the_words():
    words = GraphSource(GRAPH).search("Vertigo zork", 5, {}).words
    assert words.idf["zork"] == pytest.approx(np.log1p(5.5 / 0.5))
    assert words.named == 1.0
    assert words.tokenizer == "english"
    assert GraphSource(GRAPH).search("born zork", 5, {}).words.named == 0.0
    assert GraphSource(GRAPH, words=None).search("Vertigo", 5, {}).words is None


def test_nothing_to_start_from_says_so():
    found = GraphSource(GRAPH).search("zork?", 5, {})
    assert len(found) == 0
    assert found.reason == (
        "the query names no entity of the graph, has no word of a passage, and no ranking was handed over"
    )


def test_with_all_cosines_every_passage_is_ranked_and_scores_stand_on_their_background():
    found = GraphSource(GRAPH, embedder=lambda query: [0.7, 0.7, 0.1]).search(QUERY, None, {})
    assert set(found.ids) == {one["id"] for one in PASSAGES}
    assert (np.diff(found.scores) < 0).all()
    assert found.background.transform == "log"
    assert found.background.floor == 0


@pytest.mark.parametrize("given_ranking", [{}, {"vector": Ranking("vector", ["film", "city"], [0.9, 0.4])}])
def test_a_shorter_list_is_the_head_of_a_longer_one(given_ranking):
    source = GraphSource(GRAPH)
    whole = source.search(QUERY, None, given_ranking)
    for limit in range(1, len(whole) + 1):
        part = source.search(QUERY, limit, given_ranking)
        assert part.ids == whole.ids[:limit]
        assert part.scores.tobytes() == whole.scores[:limit].tobytes()


def test_the_score_is_what_the_definition_says():
    """The formula of docs/research/ordinary-documents.md, by hand, for two passages and a query without a name."""
    graph = build_graph([{"id": "a", "text": "red apple"}, {"id": "b", "text": "green pear"}], embeddings=np.eye(2))
    found = GraphSource(graph, embedder=lambda query: [0.6, 0.8]).search("red", None, {})
    relevance = np.array([0.6 + 0.2, 0.8])
    worth = np.array([0.8 + 0.3, 0.8])  # a covers the whole query
    masses = (worth / 1.1) ** 10
    mass = masses / masses.sum()  # nothing leads anywhere
    logs = np.log(mass + 2e-3) + 0.5 * np.log(relevance)
    low = logs.min()
    logs -= low
    reach = logs[0]
    # no link: each kind of evidence is 0 for the worse passage, and 2 of its deviations for the better one
    mean = np.array([2.0 + 0.0 + 2.0, 0.0 + 2.0 + 0.0]) / 3
    scores = 0.29 * reach * mean + 0.02 * np.minimum(logs, 0.0)
    assert found.ids == ("a", "b")
    np.testing.assert_allclose(np.log(found.scores) - low, [scores[0] + 2.5, scores[1]], atol=1e-5)
    np.testing.assert_allclose(
        [found.background.location, found.background.scale], [logs.mean() + low, logs.std()], atol=1e-5
    )


@pytest.mark.parametrize("compare", ["all", "listed"])
def test_the_walk_prefers_what_a_question_asks_about_its_names(compare):
    """Two passages mention the name alike: the one that has the question's other word gets 1 + 3 x A of the other's."""
    texts = {"b": "Ada was born here.", "c": "Ada was seen here.", "d": "Nobody else."}
    passages = [{"id": "a", "title": "Ada", "text": "A name."}, *({"id": k, "text": t} for k, t in texts.items())]
    graph = build_graph(passages, embeddings=np.full((4, 1), 1.0))
    for relation in (0.0, 3.0, 5.0):
        source = GraphSource(
            graph, embedder=lambda query: [1.0], linking=LinkSettings(seed_passages=0),
            walk=WalkSettings(tolerance=1e-12, compare=compare), words=WordSettings(weight=0, relation=relation),
        )  # fmt: skip
        found = source.search("Where was Ada born?", 10, {"vector": Ranking("vector", ["a"], [1.0])})
        mass = found.payloads.walked.mass
        assert 0 < found.words.named < 1
        assert mass[1] / mass[2] == pytest.approx(1 + relation * found.words.named)
    nobody = source.search("Where was somebody born?", 10, {"vector": Ranking("vector", ["a"], [1.0])})
    assert nobody.words.named == 0, "without a name there is nothing that a word could say of it"


def test_a_querys_other_words_are_scored_alike_in_all_passages_and_in_some():
    index = LexicalIndex.of(["ada met bo", "ada met", "cy", "bo bo"])
    whole, some, rows = index.look_up("ada met bo"), index.look_up_listed("ada met bo", 10), np.array([0, 2, 3])
    for names in ((), ("ada",), ("ada", "met", "bo"), ("cy",)):
        kept = [word for word in ("ada", "met", "bo") if word not in names]
        expected = index.look_up(" ".join(kept) or "nothing").scores
        np.testing.assert_allclose(whole.scores_without(names), expected)
        np.testing.assert_allclose(some.without(names).scores_of(rows), expected[rows])


def test_seeds_have_different_words():
    texts = ["ada met bo", "ada met", "bo", "cy"]
    terms = LexicalIndex.of(texts).look_up("ada met bo")
    rows, masses = seeds_by_words(np.array([0.9, 0.85, 0.8, 0.1]), terms, list("abcd"), 3, 10.0, WordSettings())
    assert rows.tolist() == [0, 1, 2], "the first covers everything, so the others stand by their relevance"
    assert masses.sum() == pytest.approx(1)
    rows, _ = seeds_by_words(np.array([0.1, 0.85, 0.8, 0.84]), terms, list("abcd"), 2, 10.0, WordSettings())
    assert rows.tolist() == [1, 2]


def test_covering_moves_up_what_brings_missing_words():
    terms = LexicalIndex.of(["ada ada", "ada", "bo", "cy"]).look_up("ada bo")
    scores = np.array([1.0, 0.9, 0.4, 0.8])
    order, values = covering(scores, np.arange(4), list("abcd"), terms, None, WordSettings())
    assert order.tolist() == [2, 0, 1, 3]
    assert (np.diff(values) <= 0).all()


def test_an_index_keeps_its_words_through_updates_and_files(tmp_path):
    index = GraphIndex.build(PASSAGES[:4], embeddings=VECTORS[:4])
    index = index.add(PASSAGES[4:], embeddings=VECTORS[4:]).remove(["city"])
    left = [row for row, one in enumerate(PASSAGES) if one["id"] != "city"]
    fresh = build_graph([PASSAGES[row] for row in left], embeddings=VECTORS[left])
    index.save(tmp_path / "index")
    save_graph(fresh, tmp_path / "graph")
    graphs = [index.graph, fresh, load_graph(tmp_path / "index"), load_graph(tmp_path / "graph"),
              GraphIndex.load(tmp_path / "index").graph]  # fmt: skip
    answers = [GraphSource(one, embedder=lambda query: [0.7, 0.7, 0.1]).search(QUERY, None, {}) for one in graphs]
    assert all(same(answers[0], one) for one in answers)
    assert load_graph(tmp_path / "graph").lexical.vocabulary == fresh.lexical.vocabulary


def test_a_tokenizer_is_kept_by_name_and_a_function_is_not_saved(tmp_path):
    german = build_graph([{"id": "a", "text": "Die Brücke der Stadt"}], tokenizer="german")
    save_graph(german, tmp_path / "german")
    assert load_graph(tmp_path / "german").lexical.tokenizer == "german"
    own = build_graph([{"id": "a", "text": "x"}], tokenizer=str.split)
    with pytest.raises(InvalidInputError, match="can be saved only with the name of a tokenizer"):
        save_graph(own, tmp_path / "own")


def test_who_may_not_see_a_passage_does_not_count_its_words():
    source = GraphSource(GRAPH).within({"city", "river"})
    assert source.graph.lexical.vocabulary == tuple(sorted({"paris", "lies", "seine", "river"}))
    mine = build_graph(PASSAGES[3:], embeddings=VECTORS[3:])
    assert same(source.search("lies on the Seine", 5, {}), GraphSource(mine).search("lies on the Seine", 5, {}))


def test_a_graph_without_texts_walks_as_before():
    bare = GraphSource(replace(GRAPH, lexical=None)).search(QUERY, 5, {})
    assert same(bare, GraphSource(GRAPH, words=None).search(QUERY, 5, {}))
    assert same(
        GraphSource(GRAPH, walk=WalkSettings(relevance=False)).search(QUERY, 5, {}),
        GraphSource(GRAPH, walk=WalkSettings(relevance=False), words=None).search(QUERY, 5, {}),
    )


def test_no_seed_passages_leaves_the_names():
    found = GraphSource(GRAPH, linking=LinkSettings(seed_passages=0)).search("Vertigo", 5, {})
    assert [step.name for step, _ in found.payloads["film"].seeds] == ["vertigo"]


def test_words_in_japanese_find_their_passage():
    texts = {"a": "東京都は日本の首都である。", "b": "大阪市は西日本の都市である。", "c": "富士山は高い山である。"}
    graph = build_graph([{"id": name, "text": text} for name, text in texts.items()])
    assert GraphSource(graph).search("日本で高い山は?", 1, {}).ids == ("c",)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("weight", -1.0, "WordSettings.weight"),
        ("relation", -1.0, "WordSettings.relation"),
        ("seed_pool", 0, "WordSettings.seed_pool"),
    ],
)
def test_settings_out_of_range_are_refused(field, value, message):
    with pytest.raises(InvalidInputError, match=message):
        WordSettings(**{field: value})


def test_what_is_no_settings_or_index_is_refused():
    with pytest.raises(InvalidTypeError, match="words must be a WordSettings"):
        GraphSource(GRAPH, words=True)
    with pytest.raises(InvalidTypeError, match="lexical must be a LexicalIndex"):
        replace(GRAPH, lexical="index")
    with pytest.raises(InvalidInputError, match="lexical must index 5 passages; got 1"):
        replace(GRAPH, lexical=LexicalIndex.of(["one"]))


THINGS = [{"id": f"p{row:02d}", "text": f"Note on thing{row}."} for row in range(30)]


def test_passages_of_which_nothing_is_known_are_no_seeds():
    source = GraphSource(build_graph(THINGS))
    strange = source.search("Where is the zebra?", 10, {"vector": Ranking("vector", ["uuid"], [0.9])})
    assert (len(strange), strange.reason.rpartition("and ")[2]) == (0, "the ranking contains no passage of the graph")
    assert source.search("Where is the zebra?", 10, {"vector": Ranking("vector", ["p20"], [0.9])}).ids == ("p20",)


def test_a_walk_is_kept_where_plain_relevance_says_nothing():
    ids = [f"p{row:02d}" for row in range(40)]
    records = [Extraction(name, ["ada"] * (row + 1) + [f"x{row}"]) for row, name in enumerate(ids)]
    graph = graph_from_extractions(ids, records, texts=["text"] * 40, weights=EdgeWeights(common_share=1.0))
    assert GraphSource(graph).search("Who is Ada?", 3, {}).ids == ("p39", "p38", "p37")


def test_scores_stay_finite_and_in_order_however_far_one_stands_out():
    values = np.array([800.0, 700.0, 60.0, 50.0, 0.0, -5.0])
    assert np.isfinite(final_scores(values)).all()
    assert (np.diff(final_scores(values)) < 0).all()
    np.testing.assert_array_equal(final_scores(values[4:]), np.exp(values[4:]))


def test_equal_passages_stand_in_the_order_of_their_ids():
    query = " ".join(f"word{row}" for row in range(14))
    graph = graph_from_extractions([f"p{row}" for row in range(8)], [], texts=[query + " x"] * 3 + ["other y"] * 5)
    assert GraphSource(graph).search(query + " nope", 3, {}).ids == ("p0", "p1", "p2")


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays | {"lexical_rows": arrays["lexical_rows"].astype(float)},
        lambda arrays: arrays | {"lexical_rows": arrays["lexical_rows"][::-1].copy()},
        lambda arrays: arrays | {"lexical_counts": -arrays["lexical_counts"]},
        lambda arrays: arrays | {"lexical_lengths": -arrays["lexical_lengths"]},
        lambda arrays: arrays | {"lexical_starts": arrays["lexical_starts"] - 1},
        lambda arrays: arrays | {"lexical_starts": arrays["lexical_starts"][:, None]},
    ],
)
def test_words_that_do_not_fit_are_refused(change):
    body, arrays = graph_parts(GRAPH)
    with pytest.raises(IntegrityError, match="do not fit"):
        graph_from_parts(body, change(arrays), "there")


def test_the_evidence_names_the_words_of_a_hit():
    found = GraphSource(GRAPH).search("what lies on the Seine", 3, {})
    assert plain_evidence(found.payloads["city"])["words"] == ["lies", "seine"]
