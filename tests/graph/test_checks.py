"""What the graph's doors refuse, and that they name the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph._support.validation import check_range
from phasegraph.graph import (
    EdgeWeights,
    Extraction,
    Gazetteer,
    GraphSource,
    LinkSettings,
    RuleExtractor,
    WalkSettings,
    build_graph,
)
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.synonyms import synonym_pairs

PASSAGES = [{"id": "1", "text": "Ada met Bo."}, {"id": "2", "text": "Bo sang."}]
GRAPH = build_graph(PASSAGES, embeddings=np.eye(2))
INDEX = GraphIndex.build(PASSAGES)


def _search(**given: Any) -> Ranking:
    limit = given.pop("limit", 10)
    return GraphSource(GRAPH, **given).search("Where is Ada?", limit, {})


REFUSED: list[tuple[Callable[[], object], type[InvalidInputError], str]] = [
    (lambda: WalkSettings(floor="x"), InvalidTypeError, "floor"),
    (lambda: WalkSettings(floor=None), InvalidTypeError, "floor"),
    (lambda: WalkSettings(floor=True), InvalidTypeError, "floor"),
    (lambda: WalkSettings(floor=0.0), InvalidInputError, "floor"),
    (lambda: WalkSettings(closeness=True), InvalidTypeError, "closeness"),
    (lambda: WalkSettings(closeness=np.nan), InvalidInputError, "closeness"),
    (lambda: WalkSettings(relevance="no"), InvalidTypeError, "relevance"),
    (lambda: WalkSettings(follow_probability="x"), InvalidTypeError, "follow_probability"),
    (lambda: _search(depends_on=None), InvalidTypeError, "depends_on"),
    (lambda: _search(depends_on="vector"), InvalidTypeError, "depends_on"),
    (lambda: _search(depends_on=[1]), InvalidTypeError, "depends_on"),
    (lambda: _search(linking=3), InvalidTypeError, "linking"),
    (lambda: _search(walk=3), InvalidTypeError, "walk"),
    (lambda: _search(facts=3), InvalidTypeError, "facts"),
    (lambda: _search(embedder=3), InvalidTypeError, "embedder"),
    (lambda: _search(embedder=lambda query: query), InvalidTypeError, "embedding"),
    (lambda: _search(limit=2.5), InvalidTypeError, "limit"),
    (lambda: _search(limit="3"), InvalidTypeError, "limit"),
    (lambda: _search(limit=True), InvalidTypeError, "limit"),
    (lambda: synonym_pairs(np.eye(2), threshold="x"), InvalidTypeError, "threshold"),
    (lambda: synonym_pairs(np.eye(2), threshold=0.5, start=1.5), InvalidTypeError, "start"),
    (lambda: synonym_pairs(np.eye(2), threshold=0.5, start=True), InvalidTypeError, "start"),
    (lambda: build_graph(None), InvalidTypeError, "passages"),
    (lambda: build_graph("Ada met Bo."), InvalidTypeError, "passages"),
    (lambda: build_graph(PASSAGES, triples={"1": None}), InvalidTypeError, "triples of passage '1'"),
    (lambda: build_graph(PASSAGES, triples=[1]), InvalidTypeError, "triples"),
    (lambda: build_graph(PASSAGES, triples=3), InvalidTypeError, "triples"),
    (lambda: build_graph(PASSAGES, known_names=[1]), InvalidTypeError, "known_names"),
    (lambda: build_graph(PASSAGES, known_names="Ada"), InvalidTypeError, "known_names"),
    (lambda: GraphIndex.build(PASSAGES, known_names="Ada"), InvalidTypeError, "known_names"),
    (lambda: GraphIndex.build(PASSAGES, known_names=[None]), InvalidTypeError, "known_names"),
    (lambda: INDEX.remove("12"), InvalidTypeError, "ids"),
    (lambda: INDEX.remove(None), InvalidTypeError, "ids"),
    (lambda: RuleExtractor("Ada"), InvalidTypeError, "names"),
    (lambda: Gazetteer("Ada"), InvalidTypeError, "names"),
    (lambda: Extraction("1", None), InvalidTypeError, "entities of passage '1'"),
    (lambda: LinkSettings(unanchored=2), InvalidInputError, "unanchored"),
    (lambda: LinkSettings(top_facts=0), InvalidInputError, "top_facts"),
    (lambda: LinkSettings(seed_passages=1.5), InvalidTypeError, "seed_passages"),
    (lambda: EdgeWeights(common_share=2), InvalidInputError, "common_share"),
    (lambda: EdgeWeights(home=True), InvalidTypeError, "home"),
]


@pytest.mark.parametrize(("call", "error", "field"), REFUSED)
def test_what_does_not_fit_is_refused_by_the_name_of_the_field(
    call: Callable[[], object], error: type[InvalidInputError], field: str
) -> None:
    with pytest.raises(error, match=f"{field}.* must"):
        call()


def test_numbers_of_numpy_are_numbers() -> None:
    assert WalkSettings(floor=np.float32(0.5)).floor == 0.5
    assert EdgeWeights(home=np.int64(3)).home == 3
    assert len(_search(limit=np.int64(1))) == 1


@pytest.mark.parametrize(("ends", "inside"), [("[]", (0, 1)), ("(]", (1,)), ("[)", (0,)), ("()", ())])
def test_a_bracket_takes_its_bound_in_and_a_parenthesis_does_not(ends: str, inside: tuple[int, ...]) -> None:
    for value in (0, 1):
        if value in inside:
            assert check_range("share", value, 0, 1, ends=ends) == value
        else:
            with pytest.raises(InvalidInputError, match=r"share must lie in"):
                check_range("share", value, 0, 1, ends=ends)
