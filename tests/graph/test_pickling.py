"""Graphs, indexes and sources survive pickle, deepcopy and a process pool, and give the same answers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.graph_bits import same_graph

from phasegraph import Ranking
from phasegraph.errors import PhasegraphWarning
from phasegraph.graph import (
    ChunkGraphSource,
    EntityGraph,
    Gazetteer,
    GraphIndex,
    GraphSource,
    LinkSettings,
    ModelSettings,
    NameSynonyms,
    RuleExtractor,
    SemFlowSource,
    WalkSettings,
    build_chunk_graph,
    build_graph,
    extract_with_model,
    load_graph,
    save_graph,
)
from phasegraph.graph.model.words import split_words
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.paths import PathNode, WalkPath
from phasegraph.pagerank import WalkOperator, personalized_pagerank

QUERY = "Who met Bo?"
PASSAGES = [
    {"id": "a", "title": "Ada", "text": "Ada met Bo. See Table 2."},
    {"id": "b", "title": "Bo", "text": "Bo sang in Paris. Table 2 lists the songs."},
    {"id": "c", "title": "Paris", "text": "Paris is a city."},
]
VECTORS = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
UPSTREAM = {"vector": Ranking("vector", ["a", "c"], [0.9, 0.2])}
COPIES = [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy]  # noqa: S301 - our own bytes


def embed(query: str) -> list[float]:
    return [0.6, 0.8]


def graph() -> EntityGraph:
    return build_graph(PASSAGES, triples={"a": [("Ada", "met", "Bo")]}, embeddings=VECTORS)


def facts(of: EntityGraph) -> FactIndex:
    return FactIndex.of(of, [("Ada", "met", "Bo")], [[0.8, 0.6]], passages=["a"])


def sources() -> dict[str, Any]:
    walked = graph()
    whole = GraphSource(walked, embedder=embed, facts=facts(walked))
    chunks = build_chunk_graph(PASSAGES, documents=["x", "x", "y"], embeddings=VECTORS)
    return {
        "entity graph": whole,
        "handed rankings": GraphSource(walked, linking=LinkSettings(2), walk=WalkSettings(kernel="numpy")),
        "published reset": GraphSource(walked, embedder=embed, facts=facts(walked), reset="hipporag2"),
        "restricted by ids": whole.within({"a", "c"}),
        "restricted by a function": whole.within(lambda name: name != "b"),
        "restricted to nothing": whole.within(lambda name: False),
        "chunk graph": ChunkGraphSource(chunks, embedder=embed),
        "semflow": SemFlowSource(walked, facts(walked), embed),
        "semflow as released": SemFlowSource(walked, facts(walked), embed, "released"),
    }


def answer(source: Any) -> tuple[tuple[str, ...], list[float], list[str], object, str]:
    ranking = source.search(QUERY, 3, UPSTREAM)
    paths = [str(ranking.payloads[name]) for name in ranking.ids] if ranking.payloads else []
    return ranking.ids, ranking.scores.tolist(), paths, ranking.background, ranking.reason


def read_only_copy(one: EntityGraph, other: EntityGraph) -> None:
    same_graph(one, other)
    for name in ("mentions", "homes", "facts", "synonyms"):
        for part in ("data", "indices", "indptr"):
            assert not getattr(getattr(other, name), part).flags.writeable
    assert not np.asarray(other.embeddings).flags.writeable


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("name", sources())
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_a_copied_source_gives_the_same_answer(name: str, copied: Callable[[Any], Any], used: bool) -> None:
    source = sources()[name]
    if used:
        source.prepare()
        answer(source)
    twin = copied(source)
    assert type(twin) is type(source)
    assert answer(twin) == answer(source)
    assert answer(twin.prepare()) == answer(source)


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy"])
def test_a_copied_graph_is_the_same_to_the_bit_and_still_read_only(copied: Callable[[Any], Any]) -> None:
    one = graph()
    assert one.operator.step.nnz
    assert one.passage_rows
    twin = copied(one)
    assert set(vars(twin)) == set(vars(graph())), "caches are not copied"
    read_only_copy(one, twin)
    assert twin.adjacency.data.tobytes() == one.adjacency.data.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        twin.mentions.data[0] = 7


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy"])
def test_a_memory_mapped_graph_is_copied_with_what_it_holds(copied: Callable[[Any], Any], tmp_path: Path) -> None:
    save_graph(graph(), tmp_path / "saved")
    mapped = load_graph(tmp_path / "saved")
    source = GraphSource(mapped, embedder=embed)
    twin = copied(source)
    before = answer(source)
    for file in (tmp_path / "saved").iterdir():
        file.unlink()
    read_only_copy(graph(), twin.graph)
    assert answer(twin) == before


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy"])
def test_a_copied_index_is_updated_to_the_bit_of_a_rebuild(copied: Callable[[Any], Any]) -> None:
    names = {"ada": [1.0, 0.0], "bo": [0.9, 0.1], "paris": [0.0, 1.0], "table": [0.5, 0.5], "cy": [0.8, 0.2]}
    new = [{"id": "d", "title": "Cy", "text": "Cy met Ada."}]
    index = GraphIndex.build(PASSAGES, embeddings=VECTORS, synonyms=NameSynonyms.of(names))
    index = index.add(new, embeddings=[[1.0, 0.0]]).remove(["d"])
    twin = copied(index)
    read_only_copy(index.graph, twin.graph)
    whole = GraphIndex.build([*PASSAGES, *new], embeddings=[*VECTORS, [1.0, 0.0]], synonyms=NameSynonyms.of(names))
    read_only_copy(whole.graph, twin.add(new, embeddings=[[1.0, 0.0]]).graph)
    assert twin.remove(["c"]).graph.entities == index.remove(["c"]).graph.entities


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy"])
def test_chunk_graphs_paths_and_rankings_are_copied(copied: Callable[[Any], Any]) -> None:
    chunks = build_chunk_graph(PASSAGES, documents=["x", "x", "y"], embeddings=VECTORS)
    assert chunks.walkable.size == 3
    twin = copied(chunks)
    assert twin.counts() == chunks.counts()
    assert twin.kinds("a", "b") == chunks.kinds("a", "b") == ("sequential", "reference")
    with pytest.raises(TypeError):
        twin.links["sequential"] = None
    assert not twin.links["sequential"].data.flags.writeable
    path = WalkPath(((PathNode("entity", "bo"), 1.0),), (PathNode("entity", "bo"), PathNode("passage", "a")))
    assert copied(path) == path
    for name in ("entity graph", "chunk graph"):
        ranking = sources()[name].search(QUERY, 3, UPSTREAM)
        assert dict(copied(ranking.payloads)) == dict(ranking.payloads)


def test_the_paths_of_a_ranking_are_sent_without_the_graph() -> None:
    passages = [*PASSAGES, *({"id": f"n{row}", "text": f"Name{row} was here."} for row in range(500))]
    ranking = GraphSource(build_graph(passages)).search(QUERY, 3, {})
    assert ranking.payloads
    assert len(pickle.dumps(ranking.payloads)) < 1000 < len(pickle.dumps(build_graph(passages)))


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("matcher", ["auto", "python"])
def test_extractors_and_gazetteers_are_copied(copied: Callable[[Any], Any], matcher: Any) -> None:
    words = split_words("From New York to York")
    names = Gazetteer(["New York", "York"], matcher=matcher)
    assert copied(names).find(words) == names.find(words) == [(1, 3), (4, 5)]
    assert copied(names).find(words) == [(1, 3), (4, 5)], "once its automaton has been built, too"
    rules = RuleExtractor(["Bo"], titles=["Ada Lovelace"], matcher=matcher)
    assert copied(rules)("1", "", "ada Lovelace met Bo") == rules("1", "", "ada Lovelace met Bo")


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy"])
def test_settings_walks_and_reports_are_copied(copied: Callable[[Any], Any]) -> None:
    for settings in (LinkSettings(3), WalkSettings(0.5)):
        assert copied(settings) == settings
    operator = WalkOperator.from_adjacency(graph().adjacency)
    one = personalized_pagerank(operator, ([0], [1.0]), follow_probability=0.5, method="push")
    twin = copied(operator)
    other = personalized_pagerank(twin, ([0], [1.0]), follow_probability=0.5, method="push")
    assert one.mass.tobytes() == other.mass.tobytes() == copied(one).mass.tobytes()
    assert not twin.weights.flags.writeable
    with pytest.warns(PhasegraphWarning, match="3 of 3 passages have no extraction"):
        run = extract_with_model(
            PASSAGES, lambda prompt: "no", model_name="none", settings=ModelSettings(sleep=lambda seconds: None)
        )
    assert copied(run) == run
    assert len(copied(run).report.failed) == 3


def test_sources_work_in_a_process_pool(tmp_path: Path) -> None:
    save_graph(graph(), tmp_path / "saved")
    given = {**sources(), "memory-mapped": GraphSource(load_graph(tmp_path / "saved"), embedder=embed)}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = dict(zip(given, pool.map(answer, given.values()), strict=True))
        ranking = pool.submit(given["entity graph"].search, QUERY, 3, UPSTREAM).result()
    assert found == {name: answer(source) for name, source in given.items()}
    assert isinstance(ranking.payloads[ranking.ids[0]], WalkPath)
