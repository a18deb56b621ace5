"""The walk from lists: what it finds, what it leaves alone, and that nothing in it grows with the collection."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.graph import (
    EntityGraph,
    GraphSource,
    LexicalSource,
    LinkSettings,
    VectorSource,
    WalkSettings,
    build_graph,
)
from phasegraph.graph.walk.listed import ListedPassages
from phasegraph.graph.walk.listed_relevance import ListedRelevance
from phasegraph.graph.walk.listed_spaces import ListedSpaces
from phasegraph.graph.walk.scoring import moments
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.lexical import LexicalIndex
from phasegraph.pagerank import PageRankResult

SLICE = Path(__file__).parents[2] / "data" / "musique-openie"
LISTED = WalkSettings(compare="listed")


@pytest.fixture(scope="module")
def data() -> Any:
    return load_dataset(SLICE)


@pytest.fixture(scope="module")
def graph(data: Any) -> EntityGraph:
    return build_graph(data.passages, embeddings=data.passage_vectors)


@pytest.fixture(scope="module")
def lists(data: Any) -> list[Ranking]:
    ids = [passage.id for passage in data.passages]
    near = data.query_vectors @ data.passage_vectors.T
    best = np.argsort(-near, axis=1, kind="stable")[:, :50]
    return [
        Ranking("vector", [ids[one] for one in rows], scores[rows]) for rows, scores in zip(best, near, strict=True)
    ]


def _source(graph: EntityGraph, data: Any, walk: WalkSettings = LISTED, **given: Any) -> GraphSource:
    vectors = {query.text: vector for query, vector in zip(data.queries, data.query_vectors, strict=True)}
    return GraphSource(graph, embedder=vectors.__getitem__, walk=walk, **given)


def _recall(source: GraphSource, data: Any, lists: list[Ranking]) -> Any:
    """Recall within the first 5 and the first 10 hits."""
    shares = []
    for query, judged, ranking in zip(data.queries, data.judgements, lists, strict=True):
        ids = source.search(query.text, 50, {"vector": ranking}).ids
        shares.append([np.mean([bool(set(ids[:depth]) & set(hop)) for hop in judged.hops]) for depth in (5, 10)])
    return 100 * np.mean(shares, axis=0)


def test_lists_find_what_comparing_all_finds(data: Any, graph: EntityGraph, lists: list[Ranking]) -> None:
    """Within one passage of one question in a hundred."""
    whole = _source(graph, data, WalkSettings(compare="all"))
    assert (_recall(_source(graph, data), data, lists) >= _recall(whole, data, lists) - 0.5).all()


def test_its_background_is_that_of_all_passages(data: Any, graph: EntityGraph, lists: list[Ranking]) -> None:
    apart = []
    for query, ranking in list(zip(data.queries, lists, strict=True))[:20]:
        one, other = (
            _source(graph, data, WalkSettings(compare=way)).search(query.text, 50, {"vector": ranking}).background
            for way in ("all", "listed")
        )
        assert one is not None
        assert other is not None
        apart.append([(other.location - one.location) / one.scale, other.scale / one.scale - 1])
    assert np.abs(np.mean(apart, axis=0)).max() < 0.05
    assert np.median(np.abs(apart), axis=0).max() < 0.03


def test_nothing_is_worked_out_for_all_passages(
    data: Any, graph: EntityGraph, lists: list[Ranking], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phasegraph.graph.walk.listed_spaces.SAMPLED", 64)
    source = _source(graph, data).prepare()
    looked = []
    cosines = ListedRelevance.cosines

    def counted(self: ListedRelevance, rows: Any, *given: Any) -> Any:
        looked.append(len(rows))
        return cosines(self, rows, *given)

    def never(*given: object) -> object:
        raise AssertionError("a pass over all passages")

    monkeypatch.setattr(ListedRelevance, "cosines", counted)
    monkeypatch.setattr("phasegraph.graph.walk.all_passages.passage_relevance", never)
    monkeypatch.setattr(LexicalIndex, "look_up", never)
    monkeypatch.setattr(PageRankResult, "mass", property(never))
    found = source.search(data.queries[0].text, 10, {"vector": lists[0]})
    assert len(found) == 10
    assert max(looked) < 700


def test_the_kernels_agree_to_the_bit(data: Any, graph: EntityGraph, lists: list[Ranking]) -> None:
    pytest.importorskip("numba")
    plain, compiled = (
        _source(graph, data, WalkSettings(compare="listed", kernel=one)) for one in ("numpy", "compiled")
    )
    for query, ranking in list(zip(data.queries, lists, strict=True))[:15]:
        one, other = (each.search(query.text, 50, {"vector": ranking}) for each in (plain, compiled))
        assert (one.ids, one.scores.tobytes(), one.background) == (other.ids, other.scores.tobytes(), other.background)


def test_searches_leave_nothing_behind_and_may_run_at_once(data: Any, graph: EntityGraph, lists: list[Ranking]) -> None:
    asked = list(zip(data.queries, lists, strict=True))[:24]
    fresh = [_source(graph, data).search(query.text, 20, {"vector": one}).scores.tobytes() for query, one in asked]
    source = _source(graph, data).prepare()
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda each: source.search(each[0].text, 20, {"vector": each[1]}).scores.tobytes(), asked)
        )
    assert found == fresh
    for weights in source._spaces._idle:
        assert weights.shape == (len(graph.passages),)
        assert not weights.any()


def test_a_search_that_fails_does_not_spoil_the_next(
    data: Any, graph: EntityGraph, lists: list[Ranking], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, query = _source(graph, data), data.queries[3].text
    expected = source.search(query, 20, {"vector": lists[3]}).scores.tobytes()
    gains = ListedRelevance.gains
    with monkeypatch.context() as broken:
        broken.setattr(ListedRelevance, "gains", lambda *given: (lambda rows: 1 / 0, gains(*given)[1]))
        with pytest.raises(ZeroDivisionError):
            source.search(query, 20, {"vector": lists[3]})
    assert source.search(query, 20, {"vector": lists[3]}).scores.tobytes() == expected


def test_paths_are_told_and_copied(data: Any, graph: EntityGraph, lists: list[Ranking]) -> None:
    found = _source(graph, data).search(data.queries[0].text, 10, {"vector": lists[0]})
    paths = copy.deepcopy(found.payloads)
    for name in found.ids:
        path = found.payloads[name]
        assert path.path[-1].name == name
        assert path.seeds
        assert paths[name] == path


def test_handed_scores_serve_where_there_is_no_vector(data: Any, graph: EntityGraph, lists: list[Ranking]) -> None:
    source = GraphSource(graph, walk=LISTED)
    found = source.search(data.queries[0].text, 50, {"vector": lists[0]})
    alone = source.search(data.queries[0].text, 50, {})
    nothing = source.search("zzz", 50, {})
    assert len(found) == 50
    assert 0 < len(alone) <= 50
    assert (len(nothing), "names no entity" in nothing.reason) == (0, True)


def test_which_passages_are_compared(
    data: Any, graph: EntityGraph, lists: list[Ranking], monkeypatch: pytest.MonkeyPatch
) -> None:
    query, handed = data.queries[0].text, {"vector": lists[0]}
    listed = _source(graph, data).search(query, 10, handed).scores.tobytes()
    exact = _source(graph, data, WalkSettings(compare="all")).search(query, 10, handed).scores.tobytes()
    assert listed != exact
    auto = _source(graph, data, WalkSettings())
    assert auto.search(query, 10, handed).scores.tobytes() == exact
    monkeypatch.setattr("phasegraph.graph.walk.source.COMPARED", len(graph.passages) - 1)
    assert auto.search(query, 10, handed).scores.tobytes() == listed
    assert len(auto.search(query, None, handed)) == len(graph.passages)  # all are asked for
    alone = _source(graph, data, WalkSettings(compare="all")).search(query, 10, {}).scores.tobytes()
    assert auto.search(query, 10, {}).scores.tobytes() == alone  # nothing else seeds it by meaning
    with pytest.raises(InvalidInputError, match="compare"):
        WalkSettings(compare="some")  # type: ignore[arg-type]


def test_the_flat_sources_look_at_what_is_listed(
    data: Any, graph: EntityGraph, lists: list[Ranking], monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = {query.text: vector for query, vector in zip(data.queries, data.query_vectors, strict=True)}
    nearest = VectorSource(graph, embedder=vectors.__getitem__, nearest=lambda vector, limit: lists[0].ids[:limit])
    query = data.queries[0].text
    found = nearest.search(query, 20, {})
    assert sorted(found.ids) == sorted(lists[0].ids[:20])
    assert found.scores == pytest.approx(lists[0].scores[:20], abs=1e-4)
    whole = [LexicalSource(graph).search(each.text, 50, {}) for each in data.queries[:20]]
    monkeypatch.setattr("phasegraph.graph.flat.COMPARED", len(graph.passages) - 1)
    some = [LexicalSource(graph).search(each.text, 50, {}) for each in data.queries[:20]]
    assert [(one.ids, one.scores.tobytes()) for one in some] == [(one.ids, one.scores.tobytes()) for one in whole]
    assert len(LexicalSource(graph).search(query, None, {})) > 50


@pytest.mark.parametrize("walk", [LISTED, WalkSettings(compare="all"), WalkSettings(relevance=False)])
def test_a_batch_gives_each_query_the_ranking_of_a_search(
    data: Any, graph: EntityGraph, lists: list[Ranking], walk: WalkSettings
) -> None:
    source = _source(graph, data, walk)
    texts = [query.text for query in data.queries[:12]]
    upstreams: Any = [{"vector": one} if row % 3 else {} for row, one in enumerate(lists[:12])]
    batch = source.search_batch(texts, 30, upstreams)
    single = [source.search(text, 30, one) for text, one in zip(texts, upstreams, strict=True)]
    assert [(one.ids, one.scores.tobytes()) for one in batch] == [(one.ids, one.scores.tobytes()) for one in single]
    assert [(one.background, one.reason, one.words) for one in batch] == [
        (one.background, one.reason, one.words) for one in single
    ]
    with pytest.raises(InvalidInputError, match="query"):
        source.search_batch([texts[0], " "], 30, upstreams[:2])
    with pytest.raises(InvalidInputError, match="each of 1 queries; got 2 mappings"):
        source.search_batch(texts[:1], 30, upstreams[:2])
    with pytest.raises(InvalidTypeError, match="queries must be a list"):
        source.search_batch("ab", 30, upstreams[:2])


def test_a_batch_walks_for_all_queries_before_it_scores(
    monkeypatch: pytest.MonkeyPatch, data: Any, graph: EntityGraph
) -> None:
    order = []
    for name in ("walk", "reached"):
        step = getattr(ListedPassages, name)
        monkeypatch.setattr(ListedPassages, name, lambda *given, _n=name, _s=step: (order.append(_n), _s(*given))[1])
    _source(graph, data).search_batch([query.text for query in data.queries[:3]], 10, [{}, {}, {}])
    assert order == ["walk"] * 3 + ["reached"] * 3


def test_bm25_of_some_passages_is_that_of_all(data: Any, graph: EntityGraph) -> None:
    assert graph.lexical is not None
    rows = np.sort(np.random.default_rng(0).permutation(len(graph.passages))[:300])
    for query in data.queries[:20]:
        whole, some = graph.lexical.look_up(query.text), graph.lexical.look_up_listed(query.text, 200)
        assert some.scores_of(rows).tobytes() == whole.scores[rows].tobytes()
        assert (some.held_by(rows) == whole.held_by(rows)).all()
        assert (some.words, some.all_idf, some.idf.tobytes()) == (whole.words, whole.all_idf, whole.idf.tobytes())
        assert some.best == whole.scores.max()
        cut = np.sort(whole.scores)[-200]
        assert set(np.flatnonzero(whole.scores > cut)) <= set(some.found.tolist())


def test_a_word_in_too_many_passages_is_read_where_it_weighs_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.lexical.index.MOST_ENTRIES", 20)
    monkeypatch.setattr("phasegraph.lexical.index.HEAVIEST", 30)
    texts = [
        f"river {'river ' * (place % 7)}{'stone ' * (place % 3)}{'rare' if place == 60 else ''}" for place in range(99)
    ]
    index = LexicalIndex.of(texts)
    common, both = index.look_up_listed("river", 10), index.look_up_listed("a rare river of stone", 10)
    whole = index.look_up("river").scores
    assert sorted(whole[common.found].tolist()) == sorted(whole.tolist())[-10:]
    assert 60 in both.found.tolist()
    assert len(both.found) == 10
    assert len(index.look_up_listed("nothing", 10).found) == 0


def test_a_sample_stands_for_the_others() -> None:
    values, standing = np.array([5.0, 1.0, 3.0]), np.array([1.0, 4.0, 4.0])
    whole = np.array([5.0, *[1.0] * 4, *[3.0] * 4])
    assert moments(values, standing) == pytest.approx((whole.mean(), whole.std()))


def test_the_sample_is_even_and_whole_where_there_are_few(graph: EntityGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ListedSpaces(graph).sample
    assert len(rows) == 1024 < len(graph.passages)
    assert set(np.diff(rows).tolist()) == {1, 2}
    monkeypatch.setattr("phasegraph.graph.walk.listed_spaces.SAMPLED", 10_000)
    assert ListedSpaces(graph).sample.tolist() == list(range(len(graph.passages)))


def test_settings_without_seeds_or_words_work(data: Any, graph: EntityGraph, lists: list[Ranking]) -> None:
    for given in (
        {"linking": LinkSettings(seed_passages=0)},
        {"words": WordSettings(weight=0, seed_cover=0, cover=0)},
    ):
        found = _source(graph, data, **given).search(data.queries[1].text, 5, {"vector": lists[1]})
        assert np.isfinite(found.scores).all()
        assert len(found) == 5
