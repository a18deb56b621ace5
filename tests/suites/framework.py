"""Shared tests of the retrievers of both integrations.

Derive a test class from :class:`FrameworkSuite` and implement the methods that create and search the framework's
documents, stores and retrievers. Tests of a single framework belong into the integration's own test modules.
"""

from __future__ import annotations

import asyncio
import copy
import doctest
import gc
import importlib
import json
import math
import pkgutil
import re
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pytest
from tests.suites.manual_time import PATIENCE, Hang, auntil, on_clock, until
from tests.suites.other_process import OtherProcess, started

from phasegraph.acceptance import AcceptancePolicy
from phasegraph.calibration import BackgroundCalibrator, ListCalibrator
from phasegraph.errors import (
    AllSourcesFailed,
    DegradedError,
    InsufficientDataError,
    IntegrityError,
    InvalidInputError,
    PhasegraphWarning,
)
from phasegraph.fusion.exact_match import ExactMatchBonus
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.priors import RecencyPrior, UnitPrior
from phasegraph.graph import EntityGraph, GraphSource, build_graph
from phasegraph.ranking import Ranking
from phasegraph.result import Result
from phasegraph.retrieval import Execution, HitFields, SourceSpec
from phasegraph.selection import SelectionPolicy
from phasegraph.testing import ManualClock

FRUIT = ["red apple", "red apple pie", "green pear", "blue plum", "white fig", "black grape"]
HIGH, LOW = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4), (0.3, 0.25, 0.2, 0.15, 0.1, 0.05)
ASKED = [f"{one} {n}" for n in range(8) for one in ("fruit", "nothing", "rewritten")]
QUERIES = [f"query {i}" for i in range(24)]
GOOD = {"a": 3.0, "b": 2.5, "c": 2.0, "d": 1.0, "e": 0.5}
FIRST = {"a": 9.0, "b": 8.0, "c": 5.0, "d": 2.0, "e": 1.0}
SECOND = {"c": 0.9, "a": 0.8, "f": 0.3, "g": 0.2, "h": 0.1}
ABOUT = "Where was the director of Vertigo born?"
FILMS = {
    "film": ("Vertigo", "Vertigo is a film by Alfred Hitchcock."),
    "man": ("Alfred Hitchcock", "Alfred Hitchcock was born in Leytonstone."),
    "place": ("Leytonstone", "Leytonstone is a part of London."),
    "other": ("Paris", "Paris is a city."),
}
GHOST = [
    ("accept", AcceptancePolicy({"grph": 0.5})),
    ("calibrators", {"grph": BackgroundCalibrator()}),
    ("pool_caps", {"grph": 5}),
]


FAULTS = [
    "raises", "raises in a retriever", "none", "none of a retriever", "a mapping", "bytes", "numbers", "triples",
    "raises midway", "endless", "late", "no usable score", "id raises", "resolve raises", "resolve gives too few",
]  # fmt: skip


def nothing(query: str) -> list[Any]:
    """Return no hits, as a source that finds nothing."""
    return []


def raising(error: BaseException) -> Callable[[str], NoReturn]:
    """Create a source that raises an error."""

    def search(query: str) -> NoReturn:
        raise error

    return search


def each(name: str, *values: Any, named: str = "") -> list[tuple[dict[str, Any], str]]:
    """Return a pair of arguments and error pattern for each invalid value of the argument `name`."""
    return [({name: value}, named or name) for value in values]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"vector": None}, "no sources: give vector=.* retrievers="),
    ({"vector": None, "retrievers": {}}, "no sources: give vector="),
    ({"vector": 3}, "a source must be a .* retriever"),
    ({"vector": FusionPipeline}, "retriever"),
    ({"retrievers": {"": nothing}}, "retrievers.*names"),
    ({"retrievers": {"a": None}}, "retrievers.*'a'"),
    ({"retrievers": "vector"}, "retrievers"),
    ({"retrievers": {"vector": nothing}}, "'vector'.*given twice"),
    ({"vector": None, "retrievers": [nothing, nothing], "weights": [1]}, "weights.* got 1 weights for 2"),
    ({"vector": None, "retrievers": {"a": nothing}, "weights": [1]}, "weights as a list"),
    *each("k", -1, True, 2.0, "3", named="k must"),
    *each("weights", {}, [1], [1, 2], *({"vector": value} for value in (float("nan"), float("inf"), -1, True, 0))),
    ({"weights": {"vector": 1, "graph": 1}}, "weights.*graph"),
    ({"graph": nothing, "weights": {"vector": 1}}, "weights.*graph"),
    *each("fetch_k", 0, named="^fetch_k must be >= 1; got 0"),
    *each("fetch_k", True, "many"),
    *each("timeout", 0, -1.0, float("nan"), "soon"),
    *each("strict", 1, "yes"),
    *(bad for name in ("evidence_key", "on_result", "pipeline", "accept", "selection") for bad in each(name, 7)),
    ({"pipeline": FusionPipeline(weights={"graph": 1})}, "weights"),
    ({"accept": {"grph": 0.5}}, "accept"),
    ({"accept": {"vector": float("nan")}}, "(?i)threshold"),
    ({"selection": "best"}, "method"),
    ({"on_all_failed": "raise"}, "unexpected argument 'on_all_failed'"),
    ({"embed_model": "minilm"}, "unexpected argument 'embed_model'"),
    ({"correct": "again"}, "unexpected argument 'correct'"),
    ({"weigths": 1}, "unexpected argument 'weigths'; did you mean 'weights'"),  # codespell:ignore weigths
    ({"selektion": "mmr"}, "unexpected argument 'selektion'; did you mean 'selection'"),  # codespell:ignore selektion
    ({"top_k": 3}, "unexpected argument 'top_k'; did you mean 'k'"),
    ({"provenance": False}, "unexpected argument 'provenance'; did you mean 'evidence_key'"),
    ({"retriever_weights": [1]}, "unexpected argument 'retriever_weights'; did you mean 'weights'"),
    ({"deadline": 1}, "unexpected argument 'deadline'; did you mean 'timeout'"),
    *((bad, "docs/guide/coming-from.md") for bad in ({"mode": "simple"}, {"num_queries": 1}, {"c": 60})),
]


class Hit(NamedTuple):
    """A hit of any framework: the id, text, metadata and score that the framework shows, and the original hit."""

    id: str
    text: str
    metadata: Mapping[str, Any]
    score: float | None
    given: Any


def ids_of(found: Sequence[Hit]) -> list[str]:
    """Return the ids of hits, in order."""
    return [hit.id for hit in found]


def pickled(value: Any) -> Any:
    """Return a pickled and unpickled copy, as another process would receive it."""
    return ForkingPickler.loads(ForkingPickler.dumps(value))


def letters(text: str) -> list[float]:
    """Return the letter counts of a text as its vector, so that similar texts have similar vectors."""
    return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]


class FrameworkSuite:
    """Tests of a framework's retrievers; derive a class ``Test…`` and override the hooks before the tests.

    Attributes
    ----------
    package : module
        The package of the integration.
    retriever : type
        The class of the fused retriever.
    noun : str
        The framework's word for a passage, which messages use: ``"document"`` or ``"node"``.
    shown : mapping
        The retriever's arguments that make hits show their fused score.
    """

    package: ModuleType
    retriever: Any
    noun: str
    shown: Mapping[str, Any] = {}

    def document(self, name: str | None, text: str, **metadata: Any) -> Any:
        """Create a document or node with the id `name`; None creates it without an id."""
        raise NotImplementedError

    def listed(self, answer: Any) -> Any:
        """Create a retriever that returns `answer`: functions are called, scores become hits, errors are raised."""
        raise NotImplementedError

    def ask(self, retriever: Any, query: Any = "q", **call: Any) -> list[Hit]:
        """Return the hits of a retriever."""
        raise NotImplementedError

    async def aask(self, retriever: Any, query: Any = "q", **call: Any) -> list[Hit]:
        """Return the hits of a retriever that is called asynchronously."""
        raise NotImplementedError

    def store(self, documents: Sequence[Any] | None = None, **model: Any) -> Any:
        """Create an in-memory vector store of `documents`, by default of the passages p0 to p8.

        A query is nearest to the first passage. `model` sets attributes of the embedding model.
        """
        raise NotImplementedError

    def searching(self, store: Any, k: int) -> Any:
        """Create the framework's retriever that returns `k` hits from a store."""
        raise NotImplementedError

    def plain(self, store: Any) -> list[Hit]:
        """Return the hits and scores of the store's own search for "what?"."""
        raise NotImplementedError

    def graph(self, documents: Sequence[Any], **more: Any) -> Any:
        """Create an entity-graph retriever from documents."""
        raise NotImplementedError

    def over(self, graph: Any, documents: Any = None) -> Any:
        """Create an entity-graph retriever over an existing graph, with the documents of its passages."""
        raise NotImplementedError

    def only(self, **metadata: Any) -> dict[str, Any]:
        """Return the filter argument, for constructors and calls, that requires these metadata values."""
        raise NotImplementedError

    def searching_only(self, store: Any, k: int, **metadata: Any) -> Any:
        """Create the store's own retriever of `k` hits with a filter that requires these metadata values."""
        raise NotImplementedError

    def delete(self, store: Any, name: str) -> None:
        """Delete a passage from a store of the framework."""
        raise NotImplementedError

    def add(self, store: Any, document: Any) -> None:
        """Add a passage to a store of the framework."""
        raise NotImplementedError

    def fuser(self, **options: Any) -> Any:
        """Create the object that fuses lists and returns `k` hits."""
        raise NotImplementedError

    def fuse(self, fuser: Any, lists: Any) -> list[Hit]:
        """Return the hits of fused lists."""
        raise NotImplementedError

    @pytest.fixture
    def real_store(self) -> Any:
        """Return each of the framework's stores in turn, with the passages p0 to p8."""
        raise NotImplementedError

    @pytest.fixture
    def copied(self) -> Any:
        """Return each kind of retriever that must be copyable in turn; each finds hits for the question `ABOUT`."""
        raise NotImplementedError

    @pytest.fixture
    def sent(self) -> Any:
        """Return the retrievers that are sent to another process."""
        raise NotImplementedError

    def embedding(self, found: Mapping[str, float], embed: Any, aembed: Any = None) -> dict[str, Any]:
        """Return arguments with a source ``vector`` that finds `found`, and with a model that calls `embed`."""
        raise NotImplementedError

    def pairs(self, **scores: Any) -> list[tuple[Any, Any]]:
        """Return (document, score) pairs by id, as a function may return them."""
        return [(self.document(name, f"text of {name}"), score) for name, score in scores.items()]

    def both(self, retriever: Any, query: str = "q") -> list[list[Hit]]:
        """Return the hits of a synchronous and of an asynchronous call."""
        return [self.ask(retriever, query), asyncio.run(self.aask(retriever, query))]

    def fruit(self, query: str) -> list[tuple[Any, float]]:
        scores = {"fruit": HIGH, "nothing": LOW, "rewritten": HIGH}[query.split(maxsplit=1)[0]]
        return [(self.document(text, text), score) for text, score in zip(FRUIT, scores, strict=True)]

    def test_the_examples_in_the_docstrings_run(self) -> None:
        for info in pkgutil.walk_packages(self.package.__path__, f"{self.package.__name__}."):
            module = importlib.import_module(info.name)
            assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0, info.name

    def test_every_public_name_says_what_it_takes(self) -> None:
        for name in self.package.__all__:
            assert "Parameters\n" in (getattr(self.package, name).__doc__ or ""), name

    # The number of hits to request.

    def sixty(self, **fields: Any) -> Any:
        """Create a retriever over a source of 80 hits, whose number of results is 60 unless `fields` say otherwise."""
        found = self.pairs(**{f"p{row}": 99.0 - row for row in range(80)})
        return self.retriever(vector=lambda query: found, **{"k": 60} | fields)

    def test_without_fetch_k_the_sources_return_as_many_hits_as_the_answer_has_results(self) -> None:
        assert len(self.ask(self.sixty(), "q")) == 60
        narrow = self.sixty(k=3)
        assert len(narrow.explain("q").candidates) == 50
        assert len(narrow.explain("q", k=70).ids) == 70
        narrow.k = 55
        assert len(self.ask(narrow, "q")) == 55
        found = self.pairs(**{f"p{row}": 99.0 - row for row in range(80)})
        spec = SourceSpec(retriever=lambda query: found, rewrite=lambda query: f"{query}!")
        assert len(self.retriever(vector=spec).explain("q", k=60).ids) == 60
        assert len(self.ask(self.sixty(fetch_k=None), "q")) == 60

    def test_a_fetch_k_of_the_user_stays_and_a_warning_says_what_it_cuts(self) -> None:
        said = "^k=60, but an answer has at most 20 results, because fetch_k limits the hits of each source"
        with pytest.warns(PhasegraphWarning, match=said):
            retriever = self.sixty(fetch_k=20)
        assert len(self.ask(retriever, "q")) == 20
        self.sixty(fetch_k=20, k=20)
        with pytest.warns(PhasegraphWarning, match="^k=21"):
            self.sixty(fetch_k=20, k=3).k = 21
        with pytest.warns(PhasegraphWarning, match="^k=30"):
            self.sixty(fetch_k=20, k=None, pipeline=FusionPipeline(k=30))

    def test_a_call_for_more_results_than_fetch_k_gives_warns_once(self) -> None:
        retriever = self.sixty(fetch_k=20, k=3)
        with pytest.warns(PhasegraphWarning, match="^k=25, but an answer has at most 20 results") as said:
            found = [retriever.explain("q", k=25) for _ in range(2)]
        assert [len(one.ids) for one in found] == [20, 20]
        assert len(said) == 1
        outer = self.retriever(vector=retriever, k=30)  # it asks for 50 hits
        assert len(self.ask(outer, "q")) == 20

    # The report of a source says how its hits were read.

    def notes(self, limit: int = 5, **fields: Any) -> Sequence[str]:
        found = self.pairs(**{f"p{row}": 9.0 - row for row in range(8)})
        spec = SourceSpec(retriever=lambda query: found, fields=HitFields(**fields))
        notes: Sequence[str] = self.retriever(vector=spec, fetch_k=limit).explain("q").reports[0].notes
        return notes

    @pytest.mark.filterwarnings("ignore:source .* returns hits without a usable score")
    @pytest.mark.filterwarnings("ignore:source 'vector'. no hit has the metadata key 'nope'")
    @pytest.mark.parametrize(
        ("score", "note"),
        [
            ("nope", "rank only: no score under 'nope'"),
            (lambda hit: None, "rank only: fields.score returned no score"),
            (lambda hit: float("nan"), "none of its scores is a number"),
            (lambda hit: 1.0, "uninformative: its scores do not differ"),
        ],
    )
    def test_scores_that_are_not_there_are_told_from_scores_that_do_not_differ(self, score: Any, note: str) -> None:
        assert [one for one in self.notes(score=score) if "returned 8" not in one] == [note]

    def test_an_answer_longer_than_the_limit_is_cut_and_said(self) -> None:
        assert "returned 8 hits instead of 5; the best 5 were used" in self.notes()
        assert not any("asked for" in note for note in self.notes(limit=8))

    # An `on_result` function that fails does not change the answer.

    def test_a_callback_hears_every_result_and_may_be_a_coroutine(self) -> None:
        heard: list[Any] = []

        async def listen(result: Any) -> None:
            heard.append(result)

        self.both(self.retriever(vector=self.fruit, on_result=heard.append), "fruit")
        asyncio.run(self.aask(self.retriever(vector=self.fruit, on_result=listen), "fruit"))
        assert [len(result) for result in heard] == [6, 6, 6]

    def test_a_callback_that_raises_costs_a_warning_and_not_the_answer(self) -> None:
        def broken(result: Any) -> None:
            raise KeyError("x")

        async def abroken(result: Any) -> None:
            raise KeyError("x")

        with pytest.warns(PhasegraphWarning, match="on_result raised KeyError"):
            assert len(self.ask(self.retriever(vector=self.fruit, on_result=broken), "fruit")) == 6
        with pytest.warns(PhasegraphWarning, match="on_result raised KeyError"):
            assert len(asyncio.run(self.aask(self.retriever(vector=self.fruit, on_result=abroken), "fruit"))) == 6

    def test_a_coroutine_in_a_synchronous_call_is_closed_and_said_once(self) -> None:
        heard = []

        async def listen(result: Any) -> None:
            heard.append(result)

        retriever = self.retriever(vector=self.fruit, on_result=listen)
        with pytest.warns(PhasegraphWarning, match="on_result is a coroutine function"):
            assert len(self.ask(retriever, "fruit")) == 6
        gc.collect()  # what other tests left open must not warn below
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(self.ask(retriever, "fruit")) == 6
            gc.collect()
        assert heard == []

    # Acceptance, selection, and the precedence of settings.

    def test_thresholds_by_source_decide_what_comes_back(self) -> None:
        retriever = self.retriever(vector=self.fruit, accept={"vector": 0.65})
        assert ids_of(self.ask(retriever, "fruit")) == FRUIT[:3]
        assert self.ask(retriever, "nothing") == []
        assert retriever.explain("nothing").reason == "all_rejected"

    def test_a_selection_uses_the_embedding_model_of_a_source(self) -> None:
        sources = self.embedding(dict(zip(FRUIT, HIGH, strict=True)), letters)
        assert ids_of(self.ask(self.retriever(**sources, k=2))) == FRUIT[:2]
        assert ids_of(self.ask(self.retriever(**sources, k=2, selection=SelectionPolicy(mu=5.0)))) != FRUIT[:2]
        assert ids_of(self.ask(self.retriever(vector=self.fruit, k=2, selection="top"), "fruit")) == FRUIT[:2]

    def apart(self, *embed: Any, **more: Any) -> Any:
        found = {"a": 9.0, "aa": 8.9, "b": 5.0, "c": 1.0}
        return self.retriever(**self.embedding(found, *embed), k=2, selection=SelectionPolicy(mu=5.0), **more)

    @pytest.mark.parametrize("native", [False, True])
    async def test_the_event_loop_runs_on_while_candidates_are_embedded(self, native: bool) -> None:
        ticks: list[int] = []

        def slow(text: str) -> list[float]:
            before = len(ticks)
            until(lambda: len(ticks) > before + 5)
            return letters(text)

        async def awaited(text: str) -> list[float]:
            before = len(ticks)
            await auntil(lambda: len(ticks) > before + 5)
            return letters(text)

        async def tick() -> None:
            while True:
                ticks.append(1)
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        found = await self.aask(self.apart(*((None, awaited) if native else (slow,)), timeout=None))
        ticking.cancel()
        assert ids_of(found) == ids_of(self.ask(self.apart(letters))) == ["a", "b"]

    @pytest.mark.parametrize("native", [False, True])
    def test_an_embedder_that_is_late_costs_the_selection_and_not_the_answer(
        self, native: bool, clock: ManualClock, hang: Hang
    ) -> None:
        hanging = (hang.coroutine if native else hang.function)(0.5, beside=math.inf)
        retriever = on_clock(self.apart(*((letters, hanging) if native else (hanging,)), timeout=0.5), clock)
        result = asyncio.run(retriever.aexplain("q")) if native else retriever.explain("q")
        assert result.ids == ("a", "aa")
        assert result.warnings[-1] == "selection by log_det was not ready in time: the fused order is used"

    @pytest.mark.parametrize("native", [False, True])
    def test_an_embedder_with_a_time_limit_of_its_own_is_not_called_late(self, native: bool) -> None:
        def limited(text: str) -> list[float]:
            raise TimeoutError

        async def alimited(text: str) -> list[float]:
            raise TimeoutError

        retriever = self.apart(limited, *((alimited,) if native else ()))
        said = asyncio.run(retriever.aexplain("q")).warnings[-1]
        assert "TimeoutError" in said
        assert said == retriever.explain("q").warnings[-1]

    def test_a_pipeline_keeps_its_stages_and_fills_in_what_was_not_said(self, tmp_path: Path) -> None:
        file = tmp_path / "pipeline.json"
        self.retriever(vector=self.fruit, accept=AcceptancePolicy({"vector": 0.65}), k=4).save(file)
        again = self.retriever(vector=self.fruit, pipeline=file)
        assert ids_of(self.ask(again, "fruit")) == FRUIT[:3]
        kept = FusionPipeline(k=6, accept=AcceptancePolicy({"vector": 0.45}), weights={"vector": 2.0})
        kept.save(file)
        assert self.retriever(vector=self.fruit).load_pipeline(file).fitted_pipeline == kept

    def test_what_the_constructor_was_given_wins_over_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "pipeline.json"
        policy = AcceptancePolicy({"vector": 0.45})
        FusionPipeline(k=6, accept=policy, selection=SelectionPolicy("top"), weights={"vector": 2.0}).save(file)
        own: dict[str, Any] = {"accept": {"vector": 0.65}, "selection": "legacy_entropy", "weights": {"vector": 1}}
        fitted = self.retriever(vector=self.fruit, k=3, **own).load_pipeline(file).fitted_pipeline
        assert fitted.accept == AcceptancePolicy({"vector": 0.65})
        assert fitted.selection == SelectionPolicy("legacy_entropy")
        assert (fitted.k, dict(fitted.weights)) == (3, {"vector": 1.0})
        assert self.retriever(vector=self.fruit, pipeline=file, k=3).fitted_pipeline.k == 3

    @pytest.mark.parametrize("own", [{"weights": {"vector": 1}}, {"accept": {"vector": 0.5}}, {"selection": "mmr"}])
    def test_a_setting_given_beside_a_pipeline_which_has_it_names_both(self, own: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match=f"{next(iter(own))}= and pipeline= cannot both"):
            self.retriever(vector=self.fruit, pipeline=FusionPipeline(), **own)
        with pytest.raises(InvalidInputError, match=r"SourceSpec\.weight and pipeline= cannot both"):
            self.retriever(vector=SourceSpec(retriever=self.fruit, weight=2), pipeline=FusionPipeline())

    def test_a_pipeline_that_is_no_file_says_what_there_is_instead(self) -> None:
        said = r"there is no file 'rrf' \(for RRF: FusionPipeline.reciprocal_rank\(\)\)"
        with pytest.raises(InvalidInputError, match=said):
            self.retriever(vector=self.fruit, pipeline="rrf")

    @pytest.mark.parametrize(("field", "value"), GHOST)
    def test_a_pipeline_that_names_a_source_which_is_not_there_is_refused(
        self, tmp_path: Path, field: str, value: Any
    ) -> None:
        pipeline = FusionPipeline(**{field: value})
        with pytest.raises(InvalidInputError, match=f"{field}.*grph"):
            self.retriever(vector=self.fruit, pipeline=pipeline)
        pipeline.save(tmp_path / "pipeline.json")
        with pytest.raises(InvalidInputError, match=f"{field}.*grph"):
            self.retriever(vector=self.fruit).load_pipeline(tmp_path / "pipeline.json")

    # Calibrating, saving and loading.

    def test_calibrate_fits_every_scored_source_and_saving_keeps_it(self, tmp_path: Path) -> None:
        store, file = self.store(), tmp_path / "fitted.json"
        ranked = {"bm25": self.listed({"p0": None, "p1": None})}
        spec = SourceSpec(retriever=store, fields=HitFields(size=9))
        retriever = self.retriever(vector=spec, retrievers=ranked, k=4, **self.shown)
        with pytest.raises(DegradedError, match="list alone"):
            self.ask(self.retriever(vector=store, strict=True), "p1")
        assert retriever.calibrate(QUERIES, progress=True) is retriever
        assert retriever.explain("p1").reports[1].calibration == "fitted"
        assert retriever.fitted_pipeline.calibrators["vector"].fraction == 1.0
        retriever.save(file)
        again = self.retriever(vector=store, retrievers=ranked, pipeline=file, **self.shown)
        loaded = self.retriever(vector=store, retrievers=ranked, **self.shown).load_pipeline(file)
        assert again.fitted_pipeline.k == loaded.fitted_pipeline.k == 4
        assert self.ask(again, "p1") == self.ask(loaded, "p1") == self.ask(retriever, "p1")
        alone = replace(again.fitted_pipeline, min_agreement={})
        assert self.ask(self.retriever(vector=store, strict=True, pipeline=alone), "p1")
        file.write_text("{}", encoding="utf-8")
        for damaged in (loaded.load_pipeline, lambda path: self.retriever(vector=store, pipeline=path)):
            with pytest.raises(IntegrityError, match=r"fitted\.json"):
                damaged(file)

    async def test_calibrating_async_fits_the_same(self) -> None:
        first, second = self.retriever(vector=self.store()), self.retriever(vector=self.store())
        first.calibrate(QUERIES, progress=False)
        await second.acalibrate(QUERIES, progress=False)
        assert first.fitted_pipeline.calibrators
        assert first.fitted_pipeline.to_dict() == second.fitted_pipeline.to_dict()

    def test_scores_that_cannot_be_fitted_are_an_error_that_names_the_source(self) -> None:
        with pytest.raises(InsufficientDataError, match="'vector'"):
            self.retriever(vector=lambda query: self.pairs(a=1.0, b=1.0)).calibrate(QUERIES, progress=False)

    @pytest.mark.filterwarnings("ignore:source 'vector'")
    async def test_distances_read_as_similarities_are_refused_where_labels_show_it(self) -> None:
        def distances(query: str) -> Any:
            """Return distances in increasing order, which look like similarities of a worst-first list."""
            return self.pairs(**{f"p{i}": (i + len(query) / 100) / 10 for i in range(9)})

        def read(higher: bool) -> Any:
            return self.retriever(vector=SourceSpec(retriever=distances, fields=HitFields(higher_is_better=higher)))

        relevant, wrong, right = {query: ["p0", "p1"] for query in QUERIES[:12]}, read(True), read(False)
        said = r"source 'vector' must score relevant passages higher.*set higher_is_better=False"
        with pytest.raises(InvalidInputError, match=said):
            wrong.calibrate(QUERIES, relevant=relevant)
        with pytest.raises(InvalidInputError, match=said):
            await wrong.acalibrate(QUERIES, relevant=relevant)
        assert wrong.fitted_pipeline.calibrators == {}
        assert wrong.calibrate(QUERIES).fitted_pipeline.calibrators
        assert right.calibrate(QUERIES, relevant=relevant).fitted_pipeline.calibrators
        with pytest.raises(InvalidInputError, match="relevant must have keys among the given queries"):
            right.calibrate(QUERIES, relevant={"another": ["p0"]})
        said = r"none of the 2 ids in relevant \(such as 'no'\) is in .* as 'p0': .*, or raise fetch_k if these"
        with pytest.raises(InvalidInputError, match=said):
            right.calibrate(QUERIES, relevant={query: ["no", "nope"] for query in QUERIES})

    def test_sources_that_agree_less_than_when_calibrated_are_warned_about(self) -> None:
        names = ["p0", "p1", "p2", "p3"]
        other = self.listed(lambda: self.pairs(**{name: 1.0 - i / 10 for i, name in enumerate(names)}))
        retriever = self.retriever(vector=self.store(), retrievers={"bm25": other}, fetch_k=4)
        retriever.calibrate(QUERIES)
        assert retriever.fitted_pipeline.min_agreement[("bm25", "vector")] == 1.0
        assert retriever.explain("who?").warnings == ()
        names[1:] = ["p8", "p7", "p6"]
        assert "agree less than in 95 %" in retriever.explain("who?").warnings[0]

    def test_calibrators_of_another_model_are_warned_about_and_refused_when_strict(self, tmp_path: Path) -> None:
        file, same, other = tmp_path / "fitted.json", self.store(), self.store(model_name="another")
        self.retriever(vector=same).calibrate(QUERIES).save(file)
        said = r"scores of \w+VectorStore, (\w+)( unknown)?, but now gives scores of \w+VectorStore, \1 another"
        with pytest.warns(PhasegraphWarning, match=said):
            retriever = self.retriever(vector=other, pipeline=file)
        assert " another: calibrate" in retriever.explain("p1").reports[0].notes[0]
        with pytest.raises(DegradedError, match=r"calibrated on scores of \w+VectorStore"):
            self.retriever(vector=other, pipeline=file, strict=True)
        assert self.ask(self.retriever(vector=same, pipeline=file, strict=True), "p1")

    @pytest.mark.filterwarnings("ignore:source .* 10 times in a row")
    def test_a_source_that_failed_on_every_query_does_not_keep_the_others_from_being_fitted(self) -> None:
        def dead(query: str) -> Any:
            raise ConnectionError("gone")

        with pytest.warns(PhasegraphWarning, match="'graph': it returned no hits"):
            retriever = self.retriever(vector=self.fruit, graph=dead).calibrate(ASKED, progress=False)
        assert list(retriever.fitted_pipeline.calibrators) == ["vector"]

    def test_calibrating_for_a_rule_over_0_to_1_fits_percentiles(self) -> None:
        pipeline = FusionPipeline(rule="comb_sum", calibrator=ListCalibrator("min_max"))
        retriever = self.retriever(vector=self.fruit, pipeline=pipeline).calibrate(ASKED, progress=False)
        found = retriever.explain("fruit")
        assert found.reports[0].calibration == "fitted"
        assert 0 <= found.calibrated.min() <= found.calibrated.max() <= 1

    # If a source fails, the other sources still answer, and the result reports the failure.

    def good(self, query: str) -> Any:
        return self.pairs(**GOOD)

    def fault(self, name: str, hang: Hang) -> tuple[Any, str, str]:
        """Return a source with the named fault, the status in its report, and a part of the report's reason."""
        good, noun = self.pairs(**GOOD), self.noun

        def midway(query: str) -> Iterator[Any]:
            yield good[0]
            raise OSError("secret")

        def endless(query: str) -> Iterator[Any]:
            while True:
                yield good[0]

        late = hang.function(0.5, good, beside=math.inf)

        def fields(**given: Any) -> SourceSpec:
            return SourceSpec(retriever=self.good, fields=HitFields(**given))

        faults: dict[str, tuple[Any, str, str]] = {
            "raises": (raising(RuntimeError("secret")), "error", "RuntimeError"),
            "raises in a retriever": (self.listed(OSError("secret")), "error", "OSError"),
            "none": (lambda query: None, "error", f"must return a list of {noun}s, texts"),
            "none of a retriever": (self.listed(None), "error", "Type"),
            "a mapping": (lambda query: {"a": "x"}, "error", f"must return a list of {noun}s, texts"),
            "bytes": (lambda query: b"text", "error", "got bytes"),
            "numbers": (lambda query: [1, 2], "error", "got int at 0"),
            "triples": (lambda query: [(good[0][0], 1, 2)], "error", "a "),
            "raises midway": (midway, "error", "the source raised OSError while its hits were read"),
            "endless": (endless, "error", "yielded more than 100,000 hits"),
            "late": (SourceSpec(retriever=self.listed(late), timeout=0.5), "timeout", "no answer in time"),
            "no usable score": (lambda query: [(good[0][0], "high")], "partial", "usable score"),
            "id raises": (fields(id=lambda hit: hit.metadata["nope"]), "error", "KeyError"),
            "resolve raises": (fields(resolve=lambda ids: 1 / 0), "error", "ZeroDivisionError"),
            "resolve gives too few": (fields(resolve=lambda ids: []), "error", ""),
        }
        return faults[name]

    @pytest.mark.filterwarnings("ignore:source .* returns hits without a usable score")
    @pytest.mark.parametrize("fault", FAULTS)
    def test_with_a_source_failed_the_answer_is_that_of_a_retriever_without_it(
        self, fault: str, clock: ManualClock, hang: Hang
    ) -> None:
        broken, status, reason = self.fault(fault, hang)
        shown: dict[str, Any] = {**self.shown, "evidence_key": "phasegraph"}
        whole, alone = (
            on_clock(self.retriever(vector=self.good, **more, **shown), clock)
            for more in ({"graph": broken}, dict[str, Any]())
        )
        expected = alone.explain("q")
        for result in (whole.explain("q"), asyncio.run(whole.aexplain("q"))):
            assert result.ids == expected.ids
            assert result.scores.tobytes() == expected.scores.tobytes()
            assert (result.degraded, expected.degraded) == (True, False)
            report = result.reports[0]
            assert (report.source, report.status) == ("graph", status)
            assert report.error_class or status != "error"
            assert reason in report.reason
            assert "secret" not in str(result.reports)
        for found in self.both(whole):
            for hit, same in zip(found, self.ask(alone), strict=True):
                block, other = dict(hit.metadata["phasegraph"]), dict(same.metadata["phasegraph"])
                assert (block.pop("degraded"), other.pop("degraded")) == (True, False)
                assert block == other
                assert hit.given == same.given

    @pytest.mark.filterwarnings("ignore:source .* returns hits without a usable score")
    @pytest.mark.parametrize("fault", FAULTS)
    async def test_strict_turns_a_failure_into_an_error(self, fault: str, clock: ManualClock, hang: Hang) -> None:
        retriever = self.retriever(vector=self.good, graph=self.fault(fault, hang)[0], strict=True)
        on_clock(retriever, clock)
        with pytest.raises(DegradedError, match="graph"):
            self.ask(retriever)
        with pytest.raises(DegradedError, match="graph"):
            await self.aask(retriever)

    async def test_all_failing_raises_with_every_cause(self) -> None:
        faults = {"x": raising(KeyError("x")), "y": lambda query: None, "z": self.listed(OSError())}
        for asked in (self.ask, lambda retriever: retriever.explain("q")):
            with pytest.raises(AllSourcesFailed) as caught:
                asked(self.retriever(retrievers=faults))
            assert sorted(caught.value.causes) == ["x", "y", "z"]
            assert [type(caught.value.causes[name]) for name in ("x", "z")] == [KeyError, OSError]
        with pytest.raises(AllSourcesFailed):
            await self.aask(self.retriever(retrievers=faults))

    def test_found_nothing_and_could_not_look_are_different_values(self) -> None:
        for graph, reason in ((nothing, "nothing_found"), (raising(OSError()), "could_not_look")):
            retriever = self.retriever(vector=self.listed({}), graph=graph)
            assert self.ask(retriever) == []
            result = retriever.explain("q")
            assert (result.reason, result.degraded) == (reason, reason == "could_not_look")

    def test_on_error_raise_passes_the_sources_own_error(self) -> None:
        spec = SourceSpec(retriever=raising(OSError("mine")), execution=Execution(on_error="raise"))
        with pytest.raises(OSError, match="mine"):
            self.ask(self.retriever(vector=self.good, graph=spec))

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_hanging_source_is_left_behind_at_the_deadline(
        self, awaited: bool, clock: ManualClock, hang: Hang
    ) -> None:
        retriever = on_clock(self.retriever(vector=self.good, graph=hang.function(0.5), timeout=0.5), clock)
        result = asyncio.run(retriever.aexplain("q")) if awaited else retriever.explain("q")
        assert clock.now() == 0.5
        assert [report.status for report in result.reports] == ["timeout", "ok"]
        assert result.ids[0] == "a"

    def test_an_unusable_score_drops_its_hit_and_is_counted(self) -> None:
        bad, good = [float("nan"), float("inf"), None, "0.9", True, object()], self.pairs(**GOOD)
        clean = self.retriever(vector=self.good).explain("q")
        for scores in (*([one] for one in bad), bad):
            spoilt = [(self.document(f"z{row}", "z"), score) for row, score in enumerate(scores)]
            found = [*good[:2], *spoilt, *good[2:]]
            spec = SourceSpec(retriever=lambda query, found=found: found, fields=HitFields(higher_is_better=True))
            result = self.retriever(vector=spec).explain("q")
            assert result.ids == clean.ids
            assert result.scores.tobytes() == clean.scores.tobytes()
            assert result.reports[0].dropped == len(scores)

    @pytest.mark.parametrize("kind", [np.float32, np.float64, Decimal, int, np.array])
    def test_any_number_is_a_score(self, kind: Callable[[float], Any]) -> None:
        scored = self.pairs(**{name: kind(2 * score) for name, score in GOOD.items()})
        found = self.retriever(vector=lambda query: scored).explain("q")
        assert found.reports[0].dropped == 0
        assert found.candidates.rankings[0].scores.tolist() == [6.0, 5.0, 4.0, 2.0, 1.0]

    def test_scores_that_are_all_none_leave_the_ranks(self) -> None:
        for source in (lambda query: self.pairs(**dict.fromkeys(GOOD)), self.listed(dict.fromkeys(GOOD))):
            result = self.retriever(vector=source).explain("q")
            assert list(result.ids) == list(GOOD)
            assert result.reports[0].dropped == 0
            assert result.reports[0].notes == ("rank only: it returns no scores",)

    @pytest.mark.parametrize("score", [1.0, 1000.0, 0.0])
    def test_a_constant_source_adds_no_order_of_its_own(self, score: float) -> None:
        constant = self.pairs(**dict.fromkeys("fedcba", score))
        retriever = self.retriever(vector=self.good, graph=lambda query: constant)
        assert ids_of(self.ask(retriever))[:5] == list(GOOD)
        assert retriever.explain("q").reports[0].notes == ("uninformative: its scores do not differ",)

    def test_a_single_hit_and_negative_scores_are_ordinary(self) -> None:
        for scores in ({"a": -5.0}, {"a": -5.0, "b": -6.0}):
            result = self.retriever(vector=lambda query, scores=scores: self.pairs(**scores)).explain("q")
            assert list(result.ids) == list(scores)
            assert 0 < result.scores[0] < 1

    def test_unhashable_foreign_and_cyclic_metadata_are_left_alone(self) -> None:
        metadata: dict[str, Any] = {"list": [1], "bytes": b"x", "object": object()}
        metadata["again"] = metadata
        document = self.document("a", "text", **metadata)
        retriever = self.retriever(vector=lambda query: [document], evidence_key="phasegraph")
        (found,) = self.ask(retriever)
        assert found.metadata["object"] is metadata["object"]
        assert "phasegraph" not in document.metadata

    @pytest.mark.parametrize(
        "query",
        ["nul \x00", "surrogate \ud800", "\u202ertl", "emoji 🎉", "cafe\u0301", '! / : [ ( " ~ AND', "x" * 20_000],
    )
    def test_odd_queries_reach_the_sources_as_they_are(self, query: str) -> None:
        seen = []

        def search(asked: str) -> Any:
            seen.append(asked)
            return self.good(asked)

        assert ids_of(self.ask(self.retriever(vector=search), query)) == list(GOOD)
        assert seen == [query]

    async def test_a_sync_call_inside_a_running_loop_works(self) -> None:
        assert ids_of(self.ask(self.retriever(vector=self.good))) == list(GOOD)

    def test_two_loops_one_after_the_other_and_many_threads_share_an_instance(self) -> None:
        retriever = self.retriever(vector=self.good, graph=self.listed(GOOD))
        expected = self.ask(retriever)
        assert self.both(retriever) == [expected, expected] == self.both(retriever)
        answers: list[list[Hit]] = []
        threads = [threading.Thread(target=lambda: answers.append(self.ask(retriever))) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [expected] * 30

    async def test_cancelling_leaves_no_task(self) -> None:
        started = asyncio.Event()

        async def slow(query: str) -> None:
            started.set()
            await asyncio.sleep(20)

        before = asyncio.all_tasks()
        task = asyncio.create_task(self.aask(self.retriever(vector=slow, graph=self.good)))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
    def test_what_is_not_the_sources_to_have_passes_through(self, error: type[BaseException]) -> None:
        for source in (raising(error()), self.listed(error())):
            with pytest.raises(error):
                self.ask(self.retriever(vector=self.good, graph=source))

    def test_a_list_the_caller_changes_during_the_call_does_not_change_the_answer(self, hang: Hang) -> None:
        shared, begun = self.pairs(**GOOD), threading.Event()

        def search(query: str) -> Any:
            begun.set()
            return shared

        def later(query: str) -> Any:
            until(lambda: begun.is_set() and hang.jobs == 1)  # the other source has answered
            shared.clear()
            return self.good(query)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(self.ask(self.retriever(vector=search, graph=later))) == 5

    def test_a_retriever_that_calls_itself_is_reported(self) -> None:
        retriever: Any = self.retriever(vector=self.good, graph=lambda query: self.ask(retriever))
        report, _ = retriever.explain("q").reports
        assert (report.status, "contains itself" in report.reason) == ("error", True)

    # Each change of a source's state gives a warning and a log record; another library's error is only in __cause__.

    def test_one_warning_when_a_source_dies_when_its_hits_are_all_dropped_and_when_it_is_back(
        self, caplog: Any
    ) -> None:
        answers: dict[str, Any] = {"good": self.pairs(**GOOD), "unusable": [(self.pairs(**GOOD)[0][0], float("nan"))]}
        now = ""

        def search(query: str) -> Any:
            if now == "dead":
                raise ConnectionError("password=hunter2")
            return answers[now]

        retriever = self.retriever(vector=self.good, graph=search)
        back = "source 'graph' answers again"
        for now, said in (
            ("good", ""), ("dead", r"source 'graph' failed \(ConnectionError\)"), ("good", back),
            ("unusable", "source 'graph' returns hits without a usable score"), ("good", back),
        ):  # fmt: skip
            caplog.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(3):
                    self.ask(retriever)
            told = [str(one.message) for one in caught if one.category is PhasegraphWarning]
            assert told == [one.getMessage() for one in caplog.records if one.name == "phasegraph"]
            assert len(told) == bool(said)
            assert not said or re.match(said, told[0])
            assert "hunter2" not in caplog.text
            if now == "dead":
                assert str(caught[0].message.__cause__) == "password=hunter2"  # type: ignore[union-attr]

    def test_all_sources_failed_prints_each_with_its_cause(self) -> None:
        sources = {"vector": raising(ConnectionError("refused")), "graph": raising(KeyError("nope"))}
        with pytest.raises(AllSourcesFailed, match=r"graph: KeyError; vector: ConnectionError") as caught:
            self.ask(self.retriever(**sources))
        assert "refused" not in str(caught.value)
        printed = "".join(traceback.format_exception(caught.value))
        assert "KeyError: 'nope'" in printed
        assert "vector: ConnectionError: refused" in printed

    def test_strict_names_the_class_of_a_foreign_error_and_its_cause_has_the_text(self) -> None:
        with pytest.raises(DegradedError, match=r"graph: error \(KeyError\)") as caught:
            self.ask(self.retriever(vector=self.good, graph=raising(KeyError("nope")), strict=True))
        assert repr(caught.value.__cause__) == "KeyError('nope')"

    @pytest.mark.filterwarnings("ignore:sources 'graph' and 'vector' share no id")
    def test_a_source_without_weight_for_want_of_shared_ids_is_told_once_and_again_when_it_has_one(self) -> None:
        films = self.films()
        others = [self.document(f"other {name}", *FILMS[name][1:]) for name in FILMS]
        given = others

        def vector(query: str) -> Any:
            return [(document, 0.9 - row / 10) for row, document in enumerate(given)]

        retriever, about = self.retriever(vector=vector, graph=self.graph(films)), "Who directed Vertigo?"
        self.both(retriever, about)
        with pytest.warns(PhasegraphWarning, match="source 'vector' has almost no weight .*HitFields"):
            self.ask(retriever, about)
        self.both(retriever, about)
        given = films
        with pytest.warns(PhasegraphWarning, match="source 'vector' has a normal weight again"):
            self.ask(retriever, about)
        self.both(retriever, about)

    def test_calibrating_with_too_few_questions_says_how_many_are_needed_and_fits_nothing(self) -> None:
        retriever = self.retriever(vector=self.fruit)
        with pytest.raises(
            InsufficientDataError, match=r"at least 20 different texts, .* got 3, and nothing was fitted"
        ):
            retriever.calibrate(["fruit", "nothing", "rewritten"] * 10, progress=False)
        assert retriever.fitted_pipeline.calibrators == {}
        assert retriever.explain("fruit").reports[0].calibration == "estimated"

    async def test_searches_beyond_max_in_flight_wait_their_turn_and_none_is_skipped(self) -> None:
        running: list[str] = []
        most, pair = 0, threading.Barrier(2, timeout=PATIENCE)

        def search(query: str) -> Any:
            nonlocal most
            running.append(query)
            most = max(most, len(running))
            pair.wait()
            running.pop()
            return self.good(query)

        graph = SourceSpec(retriever=search, execution=Execution(max_in_flight=2))
        retriever = self.retriever(vector=self.good, graph=graph, timeout=None)
        found = await asyncio.gather(*(retriever.aexplain("q") for _ in range(10)))
        assert most == 2
        assert [result.degraded for result in found] == [False] * 10

    def test_what_a_retriever_shows_of_itself_is_short_and_holds_no_corpus(self) -> None:
        documents = [self.document(f"p{row}", f"secret passage {row}", title=f"Page {row}") for row in range(400)]
        graph = self.graph(documents)
        many = {f"source number {row}": self.good for row in range(50)}
        for one in (
            graph,
            self.retriever(vector=self.store(documents), graph=graph, k=3),
            self.retriever(retrievers=many),
            self.retriever(vector=SourceSpec(retriever=graph), weights={"vector": 2}),
        ):
            for said in (repr(one), str(one)):
                assert len(said) < 300
                assert "secret passage" not in said
                assert "Page 1" not in said

    def test_a_retriever_shows_the_kinds_of_its_sources(self) -> None:
        documents = [self.document("p1", "Ada met Bo."), self.document("p2", "Bo met Cy.")]

        def rows(query: str) -> list[object]:
            return []

        given = {"rows": rows, "any": lambda query: []}
        said = repr(self.retriever(vector=self.store(documents), graph=self.graph(documents), retrievers=given))
        assert re.search(r"rows[=:] ?function rows\b", said)
        assert re.search(r"any[=:] ?function <lambda>", said)
        assert "graph=EntityGraphRetriever of GraphSource" in said
        assert "FunctionRetriever" not in said

    # Bad arguments are errors that name the argument, raised when the retriever is built.

    @pytest.mark.parametrize(("given", "named"), BAD)
    def test_a_bad_argument_is_an_error_that_names_it(self, given: dict[str, Any], named: str) -> None:
        with pytest.raises(InvalidInputError, match=named):
            self.retriever(**{"vector": nothing, **given})

    def test_sources_that_depend_on_none_or_on_one_another_are_errors(self) -> None:
        with pytest.raises(InvalidInputError, match="bm25"):
            self.retriever(vector=SourceSpec(retriever=nothing, depends_on=["bm25"]))
        two = {"vector": "graph", "graph": "vector"}
        with pytest.raises(InvalidInputError, match="cycle"):
            self.retriever(**{one: SourceSpec(retriever=nothing, depends_on=[other]) for one, other in two.items()})

    def test_all_weights_zero_are_an_error(self) -> None:
        for more in ({}, {"weights": {"vector": 1}}):
            with pytest.raises(InvalidInputError, match="weights"):
                self.retriever(vector=SourceSpec(retriever=nothing, weight=0), **more)

    @pytest.mark.parametrize("query", ["", "  \n", None, 3, b"q", ["q"]])
    async def test_a_query_that_is_no_text_is_an_error(self, query: Any) -> None:
        retriever = self.retriever(vector=nothing)
        said = "query must not be empty" if isinstance(query, str) else "query must be text"
        for asked in (lambda: self.ask(retriever, query), lambda: retriever.explain(query)):
            with pytest.raises(InvalidInputError, match=said):
                asked()
        with pytest.raises(InvalidInputError, match=said):
            await self.aask(retriever, query)

    @pytest.mark.parametrize("k", [-1, True, 1.5, "2"])
    def test_a_bad_k_at_the_call_is_an_error(self, k: Any) -> None:
        with pytest.raises(InvalidInputError, match="k must"):
            self.retriever(vector=nothing).explain("q", k=k)

    # The answer contains the sources' own passages, in the order of the core's result.

    def two(self, **more: Any) -> Any:
        first, second = self.pairs(**FIRST), self.pairs(**SECOND)
        sources = {"first": lambda query: first, "second": lambda query: second}
        return self.retriever(retrievers=sources, **self.shown, **more)

    def test_the_answer_is_the_cores_decision_in_the_sources_passages(self) -> None:
        given = {"first": FIRST, "second": SECOND}
        expected = FusionPipeline().decide(
            [Ranking.from_hits(name, list(of), list(of.values())) for name, of in given.items()]
        )
        retriever = self.two(k=4, evidence_key="phasegraph")
        found, result = self.ask(retriever), retriever.explain("q")
        assert isinstance(result, Result)
        assert ids_of(found) == list(result.ids) == list(expected.ids[:4])
        assert [hit.text for hit in found] == [f"text of {hit.id}" for hit in found]
        assert [hit.score for hit in found] == result.scores.tolist()
        assert result.scores.tolist() == pytest.approx(expected.scores[:4].tolist(), abs=1e-12)
        for hit in found:
            block = hit.metadata["phasegraph"]
            parts = sum(one["contribution"] for one in block["sources"].values())
            assert parts + block["bonus"] == pytest.approx(block["fused"], abs=1e-9)
            assert block["sources"]["first"]["raw"] == result.evidence(hit.id).sources[0].raw
            json.dumps(hit.metadata, allow_nan=False)

    def test_sync_and_async_agree(self) -> None:
        retriever = self.two()
        called, awaited = self.both(retriever)
        assert called == awaited
        assert asyncio.run(retriever.aexplain("q")).ids == retriever.explain("q").ids == tuple(ids_of(called))

    def test_k_changes_neither_scores_nor_order_and_can_be_assigned(self) -> None:
        whole = self.ask(self.two(k=100))
        assert len(whole) == 8
        for k in (0, 1, 3, 8, 1_000_000_000):
            assert self.both(self.two(k=k)) == [whole[:k], whole[:k]]
            assert self.two().explain("q", k=k).ids == tuple(ids_of(whole[:k]))
        retriever = self.two()
        retriever.k = 2
        assert self.ask(retriever) == whole[:2]

    def test_nothing_of_the_sources_is_changed_and_only_winners_are_copied(self) -> None:
        shared = [(self.document(str(row), f"t{row}", deep={"n": row}), 5.0 - row) for row in range(5)]
        before = copy.deepcopy(shared)
        retriever = self.retriever(retrievers={name: lambda query: shared for name in "ab"}, k=2, **self.shown)
        for hit in self.ask(retriever):
            assert hit.metadata["deep"] == {"n": int(hit.id)}
            hit.metadata["mine"] = True  # type: ignore[index]
        assert shared == before

    def test_evidence_comes_on_request_alone(self) -> None:
        assert [hit.metadata for hit in self.ask(self.retriever(vector=self.good))] == [{}] * 5
        shown = self.retriever(vector=self.good, evidence_key="phasegraph")
        assert all(set(hit.metadata) == {"phasegraph"} for hit in self.ask(shown))

    def test_a_hit_with_metadata_is_returned_before_a_heavier_hit_without(self) -> None:
        def rows(query: str) -> list[dict[str, object]]:
            return [{"id": "x", "text": "Ada met Bo.", "score": 0.5}]

        def full(query: str, title: str = "Ada", text: str = "Ada met Bo.") -> list[Any]:
            return [self.document("x", text, title=title)]

        for bare in (rows, lambda query: [self.document("x", "Ada met Bo.")]):
            retriever = self.retriever(retrievers={"a": bare, "b": full}, weights={"a": 2, "b": 1})
            assert [(hit.text, hit.metadata) for hit in self.ask(retriever)] == [("Ada met Bo.", {"title": "Ada"})]
        both = self.retriever(retrievers={"a": lambda query: full(query, "A"), "b": full}, weights={"a": 2, "b": 1})
        assert self.ask(both)[0].metadata == {"title": "A"}
        for text in ("Cy sang.", "met Bo."):
            others = {"a": bare, "b": lambda query, text=text: full(query, text=text)}
            other = self.retriever(retrievers=others, weights={"a": 2, "b": 1})
            assert self.ask(other)[0].text == "Ada met Bo."

    def test_the_passage_of_the_heaviest_source_is_returned_and_another_text_is_warned_of(self) -> None:
        sources = {name: lambda query, name=name: [self.document("x", f"from {name}")] for name in "ab"}
        retriever = self.retriever(retrievers=sources, weights={"a": 1, "b": 2})
        assert self.ask(retriever)[0].text == "from b"
        assert retriever.explain("q").warnings[-1] == "id 'x' has different texts in b and in a: the text of b is used"

    def test_different_ids_with_one_text_stay_two_and_repeats_in_one_source_count_once(self) -> None:
        twins = [(self.document(name, "same"), score) for name, score in (("1", 0.9), ("2", 0.8), ("1", 0.1))]
        spec = SourceSpec(retriever=lambda query: twins, fields=HitFields(higher_is_better=True))
        result = self.retriever(vector=spec).explain("q")
        assert result.ids == ("1", "2")
        assert result.evidence("1").sources[0].raw == 0.9

    def test_an_id_in_the_metadata_leads_to_the_passage_and_resolve_gives_its_text(self) -> None:
        triple, passage = (
            self.document("t", "Rome -> of -> Italy", chunk="c1"),
            self.document("c1", "Rome is its capital."),
        )
        for where in ("chunk", lambda hit: hit.metadata["chunk"]):
            fields = HitFields(id=where, resolve=lambda ids: {one: passage for one in ids})
            graph = SourceSpec(retriever=lambda query: [triple], fields=fields)
            retriever = self.retriever(graph=graph, vector=lambda query: [passage], evidence_key="phasegraph")
            (found,) = self.ask(retriever)
            assert (found.id, found.text) == ("c1", "Rome is its capital.")
            assert {one["rank"] for one in found.metadata["phasegraph"]["sources"].values()} == {1.0}

    def test_resolve_may_be_a_coroutine_and_may_lack_passages(self) -> None:
        async def search(query: str) -> Any:
            return self.pairs(a=2.0, b=1.0)

        async def later(ids: Sequence[str]) -> Any:
            return [self.document(ids[0], "resolved"), None]

        for resolve in (later, lambda ids: {ids[0]: self.document(ids[0], "resolved")}):
            retriever = self.retriever(vector=SourceSpec(retriever=search, fields=HitFields(resolve=resolve)))
            for found in self.both(retriever):
                assert [hit.text for hit in found] == ["resolved", "text of b"]
            notes = asyncio.run(retriever.aexplain("q")).reports[0].notes
            assert notes[-1] == "resolve gave no passage for 1 of 2 ids"
        with pytest.raises(InvalidInputError, match="resolve must be a plain function"):
            self.retriever(vector=SourceSpec(retriever=self.listed(GOOD), fields=HitFields(resolve=later)))

    def test_scores_are_read_from_a_function_or_a_metadata_key(self) -> None:
        scored = [self.document(name, "x", d=distance) for name, distance in (("a", 3.0), ("b", 1.0), ("c", 2.0))]
        for fields in (
            HitFields(score="d", higher_is_better=False),
            HitFields(score=lambda hit: -hit.metadata["d"], higher_is_better=True),
        ):
            retriever = self.retriever(vector=SourceSpec(retriever=lambda query: scored, fields=fields))
            assert list(retriever.explain("q").candidates.rankings[0].ids) == ["b", "c", "a"]

    def test_a_distance_declared_or_inferred_is_turned_round(self) -> None:
        distances = self.pairs(a=0.1, b=0.5, c=2.0, d=3.0, e=4.0)
        inferred = self.retriever(vector=lambda query: distances)
        assert ids_of(self.ask(inferred)) == list("abcde")
        assert inferred.explain("q").reports[0].notes == ("lower is better: inferred from the order of its scores",)
        shuffled = [distances[row] for row in (3, 0, 4, 1, 2)]
        fields = HitFields(higher_is_better=False)
        declared = self.retriever(vector=SourceSpec(retriever=lambda query: shuffled, fields=fields))
        assert ids_of(self.ask(declared)) == list("abcde")
        assert "contradicts" in declared.explain("q").reports[0].notes[0]
        unknown = self.retriever(vector=lambda query: shuffled)
        assert ids_of(self.ask(unknown)) == list("daebc")
        note = unknown.explain("q").reports[0].notes[0]
        assert note.startswith("rank only")
        assert "declare it" in note

    def test_a_direction_once_inferred_serves_later_answers_that_tell_nothing(self) -> None:
        answers = iter([self.pairs(a=1.0, b=2.0, c=3.0), self.pairs(a=3.0, b=3.0, c=2.5), self.pairs(x=0.4)])
        retriever = self.retriever(vector=lambda query: next(answers))
        assert ids_of(self.ask(retriever)) == ["a", "b", "c"]
        assert ids_of(self.ask(retriever))[0] == "c"
        assert "lower is better" in retriever.explain("q").reports[0].notes[0]

    @pytest.mark.filterwarnings("ignore:source 'graph'.*declared higher_is_better=True")
    def test_functions_take_a_limit_and_the_rankings_they_depend_on_and_may_be_coroutines(self) -> None:
        def dense(query: str, limit: int) -> Any:
            return self.pairs(**{f"p{row}": 1.0 - row / 100 for row in range(limit)})

        async def walk(query: str, k: int, upstream: Any) -> Any:
            return self.pairs(**{name: float(row) for row, name in enumerate(upstream["vector"].ids)})[:k]

        fields = HitFields(higher_is_better=True)
        graph = SourceSpec(retriever=walk, depends_on=["vector"], fetch_k=4, fields=fields)
        retriever = self.retriever(vector=SourceSpec(retriever=dense, fetch_k=6), graph=graph)
        reports = {report.source: report.hits for report in retriever.explain("q").reports}
        assert reports == {"graph": 4, "vector": 6}
        assert asyncio.run(retriever.aexplain("q")).ids == retriever.explain("q").ids

    def test_answers_longer_than_the_limit_are_cut_to_the_best(self) -> None:
        fields = HitFields(higher_is_better=False)
        spec = SourceSpec(retriever=lambda query: self.pairs(c=1.0, b=2.0, a=3.0), fetch_k=2, fields=fields)
        assert set(ids_of(self.ask(self.retriever(vector=spec)))) == {"b", "c"}

    def test_a_retriever_of_ours_as_a_source_keeps_its_scores_and_evidence(self) -> None:
        inner = self.retriever(vector=self.listed(lambda: self.pairs(**FIRST)), k=3, evidence_key="inner")
        sources = {"inner": inner, "other": lambda query: self.pairs(**SECOND)}
        outer = self.retriever(retrievers=sources, evidence_key="phasegraph", **self.shown)
        for found in self.both(outer):
            best = next(hit for hit in found if hit.id == "a")
            block = best.metadata["phasegraph"]
            assert block["sources"]["inner"]["evidence"]["sources"]["vector"]["rank"] == 1.0
            assert block["score"] == best.score
            assert "inner" not in best.metadata
        report = outer.explain("q").reports[0]
        assert (report.source, report.calibration) == ("inner", "estimated")
        assert any(note.startswith("higher is better") for note in report.notes)
        assert inner.k == 3

    def test_texts_are_passages_with_a_hashed_id_and_one_warning(self) -> None:
        retriever = self.retriever(vector=lambda query: ["one", "two"])
        with pytest.warns(PhasegraphWarning, match="without an id"):
            assert [hit.text for hit in self.ask(retriever)] == ["one", "two"]
        self.ask(retriever)

    def test_hits_without_an_id_join_those_of_a_store_by_their_text(self) -> None:
        texts = [("text of p2", 3.0), ("text  of p1", 2.0), ("elsewhere", 1.0)]
        retriever = self.retriever(retrievers=[self.store(), lambda query: texts], k=20)
        with pytest.warns(PhasegraphWarning, match="source 'source_2' returns hits without an id"):
            result = retriever.explain("what?")
        assert len(result.ids) == 10
        named = {one.source for one in result.evidence("p2").sources if one.raw is not None}
        assert named == {"source_1", "source_2"}
        assert "2 of 3 hits without an id joined to hits of other sources with the same text" in result.reports[1].notes
        for found in self.both(retriever, "what?"):
            assert sorted(ids_of(found)) == sorted(result.ids)
            assert len({hit.text for hit in found}) == 10

    def test_lists_of_retrievers_and_weights_are_taken_as_the_frameworks_own_fusion_takes_them(self) -> None:
        sources = [self.listed(lambda: self.pairs(**FIRST)), lambda query: self.pairs(**SECOND)]
        listed = self.retriever(retrievers=sources, weights=[0.25, 0.75], **self.shown)
        named = self.retriever(
            retrievers={"source_1": sources[0], "source_2": sources[1]},
            weights={"source_1": 0.25, "source_2": 0.75},
            **self.shown,
        )
        assert self.ask(listed) == self.ask(named)
        result = listed.explain("q")
        weights = dict(zip(result.candidates.sources, result.weights, strict=True))
        assert weights == {"source_1": 0.25, "source_2": 0.75}

    def test_a_source_of_weight_zero_is_not_asked(self) -> None:
        graph = SourceSpec(retriever=lambda query: pytest.fail("asked"), weight=0)
        retriever = self.retriever(vector=self.good, graph=graph)
        assert ids_of(self.ask(retriever)) == list(GOOD)
        assert [report.source for report in retriever.explain("q").reports] == ["vector"]

    def test_a_source_of_weight_zero_that_another_depends_on_is_asked_and_not_fused(self) -> None:
        def graph(query: str, upstream: Any) -> Any:
            return self.pairs(**{f"g{name}": 1.0 for name in upstream["vector"].ids})

        vector = SourceSpec(retriever=lambda query: self.pairs(a=1.0), weight=0)
        spec = SourceSpec(retriever=graph, depends_on=["vector"], weight=1)
        assert ids_of(self.ask(self.retriever(vector=vector, graph=spec))) == ["ga"]

    def test_the_scale_of_weights_and_the_order_of_sources_do_not_matter(self) -> None:
        legs = {"first": lambda query: self.pairs(**FIRST), "second": lambda query: self.pairs(**SECOND)}
        answers = [
            ids_of(self.ask(self.retriever(retrievers=sources, weights={"first": scale, "second": 2 * scale})))
            for sources in (legs, dict(reversed(legs.items())))
            for scale in (1, 7)
        ]
        assert answers == [answers[0]] * 4

    def test_a_source_named_as_the_exact_matches_is_refused(self) -> None:
        for pipeline in (None, FusionPipeline(priors=(ExactMatchBonus(),))):
            with pytest.raises(InvalidInputError, match="must not be named 'exact_match'"):
                self.retriever(retrievers={"exact_match": self.good}, pipeline=pipeline)
            with pytest.raises(InvalidInputError, match="must not be named 'exact_match'"):
                self.fuse(self.fuser(pipeline=pipeline), {"exact_match": self.pairs(**FIRST)})

    def test_priors_read_the_hits_and_the_callback_hears_of_them(self) -> None:
        heard: list[Result] = []
        found = [
            (self.document("a", "one", importance=0.0, at="2020-01-01"), 1.0),
            (self.document("b", "two", importance=1), 0.9),
        ]
        pipeline = FusionPipeline(priors=(UnitPrior("importance"), RecencyPrior(half_life=86400.0, key="at")))
        self.ask(self.retriever(vector=lambda query: found, pipeline=pipeline, on_result=heard.append))
        assert heard[0].ids == ("b", "a")
        assert heard[0].priors.min() < heard[0].priors.max()
        assert ids_of(self.ask(self.retriever(vector=lambda query: found))) == ["a", "b"]

    def test_the_papers_pipeline_can_be_used_as_it_is(self) -> None:
        found = self.retriever(
            vector=lambda query: self.pairs(a=0.62, b=0.55, c=0.41, d=0.40, e=0.12),
            graph=lambda query: self.pairs(c=0.31, f=0.02, b=0.004, g=0.001),
            pipeline=FusionPipeline.paper(),
        ).explain("q")
        assert found.ids[:3] == ("a", "c", "b")
        assert found.fused[:3].round(6).tolist() == [0.393196, 0.28426, 0.217723]

    def test_nothing_of_the_query_is_in_what_is_compared(self) -> None:
        documents = [self.document(f"p{row}", f"text of p{row}", title=f"Page p{row}") for row in range(9)]
        graph = self.graph(documents, evidence_key="phasegraph")
        for retriever in (graph, self.retriever(vector=self.store(documents), graph=graph, evidence_key="phasegraph")):
            first, second = (
                {hit.id: hit for hit in self.ask(retriever, f"Page p1 and Page {p}")} for p in ("p2", "p3")
            )
            shared = [(first[one].metadata, second[one].metadata) for one in set(first) & set(second)]
            assert shared
            assert all(one == other for one, other in shared)
            assert any(dict(one["phasegraph"]) != dict(other["phasegraph"]) for one, other in shared)

    # Repeated ids, and sources that use different ids for a passage, give a warning.

    def test_a_repeated_id_in_one_corpus_is_an_error_that_names_it(self) -> None:
        corpus = [self.document(name, f"text {row}") for row, name in enumerate("abcb")]
        for make in (self.graph, lambda given: self.over(self.entities(), given)):
            with pytest.raises(InvalidInputError, match="id 'b' is repeated"):
                make(corpus)

    def test_a_dropped_hit_is_noted_and_does_not_stand_for_a_second_id_of_its_text(self) -> None:
        texts = {name: self.document(name, f"the text of {name}") for name in "ab"}
        bad = [(texts["a"], float("nan")), (texts["b"], 0.5)]
        retriever = self.retriever(retrievers={"bad": lambda query: bad, "good": lambda query: [(texts["a"], 0.7)]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = retriever.explain("q").reports[0]
        assert (report.hits, report.dropped) == (1, 1)
        assert "1 of 2 hits dropped: their scores or ids are unusable" in report.notes

    def test_sources_that_return_one_text_under_two_ids_are_warned_about_at_once(self) -> None:
        def other(query: str) -> Any:
            return [(self.document("uuid-1", "Text  of a"), 1.0)]

        retriever = self.retriever(
            retrievers={"one": lambda query: [(self.document("a", "Text of a"), 2.0)], "two": other}
        )
        with pytest.warns(PhasegraphWarning, match=r"'one' and 'two' share no id.* \('a' and 'uuid-1'\)") as said:
            assert len(self.ask(retriever)) == 2
        assert len(said) == 1
        assert len(self.ask(retriever)) == 2

    def test_sources_that_shared_no_id_in_three_answers_are_warned_about_once(self) -> None:
        other = {f"uuid-{name}": score for name, score in GOOD.items()}
        answers = {"one": lambda query: self.pairs(**GOOD), "two": lambda query: self.pairs(**other)}
        retriever = self.retriever(retrievers=answers)
        for _ in range(2):
            self.ask(retriever)
        with pytest.warns(PhasegraphWarning, match="'one' and 'two' shared no id in their first 3 answers"):
            self.ask(retriever)
        self.ask(retriever)
        answers["two"] = lambda query: self.pairs(**{**other, "a": 0.1})
        met = self.retriever(retrievers=answers)
        for _ in range(4):
            self.ask(met)

    # Deleted passages are never returned.

    @pytest.mark.filterwarnings("ignore:source 'vector'. 1 of 9 hits dropped")
    def test_a_deleted_passage_is_dropped_and_counted_and_never_comes_from_memory(self, real_store: Any) -> None:
        held = [self.document(f"p{row}", f"text of p{row}") for row in range(9)]
        shown: dict[str, Any] = {"k": 9, "vector": real_store}
        kept = self.retriever(**shown, graph=self.graph(held))
        live = self.retriever(**shown, graph=self.over(self.graph(held)._source, real_store))
        named = self.retriever(**shown, graph=self.over(self.graph(held)._source))
        for retriever in (kept, live, named):
            assert "p3" in ids_of(self.ask(retriever, "text of p3"))
        self.delete(real_store, "p3")
        for retriever in (kept, live, named):
            with pytest.warns(PhasegraphWarning, match="source 'graph': 1 of . hits dropped: their passages"):
                result = retriever.explain("text of p3")
            assert result.reports[0].dropped == 1
            assert any("passages are not in the store" in note for note in result.reports[0].notes)
            for found in self.both(retriever, "text of p3"):
                assert len(found) == 8
                assert "p3" not in ids_of(found)
                assert all(hit.text for hit in found)

    @pytest.mark.filterwarnings("ignore:'graph' has")
    def test_a_passage_that_was_overwritten_in_the_store_is_answered_in_its_present_form(self, real_store: Any) -> None:
        held = [self.document(f"p{row}", f"text of p{row}") for row in range(9)]
        sources = {"vector": SourceSpec(retriever=real_store, fetch_k=1), "graph": self.graph(held)}
        for number, retriever in enumerate((self.retriever(k=9, **sources), self.retriever(k=9, **sources))):
            for name in ("p0", "p3"):  # the source of the store finds p0, and p3 is looked up
                self.delete(real_store, name)
                self.add(real_store, self.document(name, f"corrected {number} text of {name}", page=number))
            with pytest.warns(PhasegraphWarning, match="'graph': 2 of 9 hits changed in the store.* in this source"):
                result = retriever.explain("text of p3")
            assert any(note.startswith("2 of 9 hits changed in the store") for note in result.reports[0].notes)
            for found in self.both(retriever, "text of p3"):
                texts = {hit.id: hit.text for hit in found}
                assert texts["p0"] == f"corrected {number} text of p0"
                assert texts["p3"] == f"corrected {number} text of p3"
                assert texts["p4"] == "text of p4"
                assert {hit.metadata["page"] for hit in found if hit.id in ("p0", "p3")} == {number}

    def test_the_present_metadata_of_a_store_decide_whether_a_passage_matches_the_filter(self) -> None:
        def documents(team: str) -> list[Any]:
            return [self.document(f"p{row}", f"text of p{row}", team=team, old=row, page=row) for row in range(9)]

        store, graph = self.store(documents("red")), self.graph(documents("red"))
        sources = {"vector": SourceSpec(retriever=store, fetch_k=1), "graph": graph}
        red, blue = (self.retriever(k=9, **sources, **self.only(team=team)) for team in ("red", "blue"))
        assert len(self.ask(red, "text of p3")) == 9
        self.delete(store, "p3")
        self.add(store, self.document("p3", "text of p3", team="blue", page=3))
        with pytest.warns(PhasegraphWarning, match="'graph': 1 of 9 hits changed in the store"):
            found = self.ask(red, "text of p3")
        for answer in (found, *self.both(red, "text of p3")):
            assert [hit.id for hit in answer if hit.id == "p3" or hit.metadata["team"] != "red"] == []
            assert len(answer) == 8
        for answer in self.both(blue, "text of p3"):
            assert [(hit.id, hit.metadata) for hit in answer] == [("p3", {"team": "blue", "page": 3})]

    def test_passages_of_another_corpus_with_the_same_ids_do_not_replace_the_hits_of_a_source(self) -> None:
        graph = self.graph([self.document(f"p{row}", f"text of p{row}") for row in range(9)])
        store = self.store([self.document(f"p{row}", f"story of p{row}") for row in range(8, 40)])
        retriever = self.retriever(vector=store, graph=graph, k=60, weights={"vector": 0.1, "graph": 0.9})
        for found in self.both(retriever, "text of p8"):
            assert [hit.text for hit in found if hit.id == "p8"] == ["text of p8"]

    def test_a_graph_of_a_part_of_a_store_is_no_reason_for_a_warning(self, real_store: Any) -> None:
        graph = self.graph([self.document(f"p{row}", f"text of p{row}") for row in range(8)])
        result = self.retriever(k=9, vector=real_store, graph=graph).explain("text of p3")
        assert "p8" in result.ids
        assert "not in the graph" not in str(result.reports)

    # Filters reach every source, or the call fails.

    def test_filters_of_the_constructor_and_of_a_call_reach_every_source(self) -> None:
        colours = ("red", "blue")
        documents = [self.document(f"p{row}", f"text of p{row}", colour=colours[row % 2]) for row in range(6)]
        sources = {"vector": self.store(documents), "graph": self.graph(documents)}
        red, blue = self.only(colour="red"), self.only(colour="blue")
        own, free = self.retriever(**sources, **red), self.retriever(**sources)
        expected = self.ask(own, "what?")
        assert [hit.metadata["colour"] for hit in expected] == ["red"] * 3
        assert self.ask(free, "what?", **red) == expected == asyncio.run(self.aask(free, "what?", **red))
        assert free.explain("what?", **red).ids == own.explain("what?").ids
        assert asyncio.run(free.aexplain("what?", **red)).ids == own.explain("what?").ids
        with suppress(InvalidInputError):  # an error or no hits, but never hits that match only one of the filters
            assert self.ask(own, "what?", **blue) == []
        assert {hit.metadata["colour"] for hit in self.ask(free, "what?")} == set(colours)

    def test_a_filter_inside_the_vector_retriever_reaches_every_source_or_building_fails(self) -> None:
        languages = ("en", "de")
        documents = [self.document(f"p{row}", f"text of p{row}", lang=languages[row % 2]) for row in range(8)]
        store, graph = self.store(documents), self.graph(documents)
        english = self.searching_only(store, 9, lang="en")
        retriever = self.retriever(vector=english, graph=graph)
        ours = self.retriever(vector=store, graph=graph, **self.only(lang="en"))
        for found in self.both(retriever, "text of p1"):
            assert [hit.metadata["lang"] for hit in found] == ["en"] * 4
            assert found == self.ask(ours, "text of p1")
        with pytest.raises(InvalidInputError, match=r"vector.*graph.*(cannot apply|does not support)"):
            self.retriever(vector=english, graph=lambda query: [])
        with pytest.raises(InvalidInputError, match="filters must agree; got 'en' and 'de' for 'lang'"):
            self.retriever(
                retrievers=[self.retriever(vector=store, **self.only(lang=language)) for language in languages]
            )

    def test_the_same_filter_again_builds_nothing_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        built: list[object] = []
        within = GraphSource.within

        def counted(source: GraphSource, allowed: Any) -> Any:
            built.append(allowed)
            return within(source, allowed)

        monkeypatch.setattr(GraphSource, "within", counted)
        documents = [self.document(f"p{row}", f"text of p{row}", row=row % 3) for row in range(9)]
        retriever = self.retriever(vector=self.store(documents), graph=self.graph(documents))
        for row in (0, 1, 0, 1, 0):
            assert {hit.metadata["row"] for hit in self.ask(retriever, "text of p3", **self.only(row=row))} == {row}
        assert len(built) == 2

    def test_a_source_that_cannot_keep_a_filter_is_named(self) -> None:
        with pytest.raises((InvalidInputError, AllSourcesFailed), match=r"vector.* does not support filters?="):
            self.ask(self.retriever(vector=self.good), **self.only(colour="red"))

    # Real stores: the score direction is known, ids are kept, and nothing is written into the index.

    def test_the_best_passage_of_every_store_comes_first_and_the_worst_last(self, real_store: Any) -> None:
        called, awaited = self.both(self.retriever(vector=real_store, k=9, **self.shown), "what?")
        plain = self.plain(real_store)
        assert called == awaited
        assert [(hit.id, hit.text) for hit in called] == [(hit.id, hit.text) for hit in plain]
        assert [hit.score for hit in called] == sorted((hit.score or 0.0 for hit in called), reverse=True)
        assert all(type(hit.score) is float for hit in called)

    def test_raw_scores_are_the_stores_own_and_the_direction_is_reported(self, real_store: Any) -> None:
        retriever = self.retriever(vector=real_store, k=9, evidence_key="phasegraph")
        own = {hit.id: hit.score for hit in self.plain(real_store)}
        for hit in self.ask(retriever, "what?"):
            assert hit.metadata["phasegraph"]["sources"]["vector"]["raw"] == pytest.approx(own[hit.id])
            json.dumps(hit.metadata, allow_nan=False)
            hit.given.model_dump_json()
        (report,) = retriever.explain("what?").reports
        higher = own["p0"] > own["p8"]  # type: ignore[operator]
        assert report.notes == (f"{'higher' if higher else 'lower'} is better: known for this store",)

    def test_what_is_returned_can_be_changed_without_changing_the_index(self, real_store: Any) -> None:
        before = copy.deepcopy(self.plain(real_store))
        for hit in self.ask(self.retriever(vector=real_store, k=9), "what?"):
            hit.metadata["mine"] = True  # type: ignore[index]
        assert self.plain(real_store) == before

    @pytest.mark.parametrize(("limit", "expected"), [(50, 9), (6, 6), (None, 2)])
    def test_the_limit_replaces_the_retrievers_own_number_and_none_leaves_it(self, limit: Any, expected: int) -> None:
        own = self.searching(self.store(), 2)
        assert len(self.ask(self.retriever(vector=own, fetch_k=limit), "what?")) == expected
        assert len(self.ask(self.retriever(vector=SourceSpec(retriever=own, fetch_k=limit)), "what?")) == expected
        assert len(self.ask(own, "what?")) == 2

    # Fusion of existing lists.

    def test_lists_are_fused_as_the_retriever_fuses_its_sources(self) -> None:
        lists = {"first": self.pairs(**FIRST), "second": self.pairs(**SECOND)}
        found, bare = self.fuse(self.fuser(k=4, **self.shown), lists), self.fuse(self.fuser(), lists)
        assert found == self.ask(self.two(k=4))
        assert [hit.metadata for hit in bare] == [{}] * 8
        assert self.fuse(self.fuser(), {"a": [], "b": []}) == []

    def test_weights_fields_and_the_evidence_key_of_lists_are_heeded(self) -> None:
        lists = {"first": self.pairs(**FIRST), "second": self.pairs(**SECOND)}
        assert ids_of(self.fuse(self.fuser(weights={"first": 0, "second": 1}), lists)) == list(SECOND)
        with pytest.raises(InvalidInputError, match="weights"):
            self.fuse(self.fuser(weights={"first": 1}), lists)
        fields = {"d": HitFields(higher_is_better=True)}
        assert ids_of(self.fuse(self.fuser(fields=fields), {"d": self.pairs(a=0.1, b=0.9)})) == ["b", "a"]
        for hit in self.fuse(self.fuser(evidence_key="phasegraph", **self.shown), lists):
            assert set(hit.metadata["phasegraph"]["sources"]) == {"first", "second"}
            assert hit.metadata["phasegraph"]["score"] == hit.score
        assert lists == {"first": self.pairs(**FIRST), "second": self.pairs(**SECOND)}

    def test_the_pipelines_own_k_is_kept_for_lists(self) -> None:
        lists, pipeline = {"first": self.pairs(**FIRST), "second": self.pairs(**SECOND)}, FusionPipeline(k=2)
        fuser = self.fuser(pipeline=pipeline)
        assert len(self.fuse(fuser, lists)) == len(fuser.explain(lists).ids) == 2
        assert len(self.fuse(self.fuser(pipeline=pipeline, k=3), lists)) == 3
        texts = {name: [(self.document("a", f"text of {name}"), 2.0)] for name in ("one", "two")}
        assert "id 'a' has different texts in one and in two" in fuser.explain(texts).warnings[-1]

    def test_a_list_whose_scores_are_all_nan_degrades_the_answer(self) -> None:
        lists = {"first": self.pairs(**FIRST), "second": self.pairs(c=float("nan"), a=float("nan"))}
        result = self.fuser().explain(lists)
        assert (result.degraded, [report.status for report in result.reports]) == (True, ["ok", "partial"])
        strict = self.fuser(pipeline=FusionPipeline(strict=True, calibrator=ListCalibrator("min_max")))
        with pytest.raises(DegradedError, match=r"second: partial \(none of its 2 hits had a usable score"):
            self.fuse(strict, lists)

    def test_bad_arguments_of_fusing_lists_are_errors(self) -> None:
        others: list[dict[str, Any]] = [{"weights": {"a": -1}}, {"pipeline": 3}, {"fields": {"a": 3}}]
        for bad in (*({"k": k} for k in (-1, True, 1.5, "2")), *others):
            with pytest.raises(InvalidInputError):
                self.fuser(**bad)

    @pytest.mark.parametrize("lists", [{}, [], None, {"a": None}, {"a": b"text"}, {"a": [3]}, {"a": [("x", 1, 2)]}])
    def test_bad_lists_are_errors(self, lists: Any) -> None:
        with pytest.raises(InvalidInputError, match="list"):
            self.fuse(self.fuser(), lists)

    # Copies by pickle, by deepcopy, and in another process.

    @pytest.mark.parametrize("way", [copy.deepcopy, pickled])
    def test_a_copy_answers_the_same(self, copied: Any, way: Callable[[Any], Any]) -> None:
        before = self.ask(copied, ABOUT)
        assert before
        assert self.ask(way(copied), ABOUT) == before
        if isinstance(copied, self.retriever):
            assert way(copied).fitted_pipeline.to_dict() == copied.fitted_pipeline.to_dict()
            assert way(copied).explain(ABOUT).scores.tolist() == copied.explain(ABOUT).scores.tolist()

    def test_a_copy_with_functions_for_sources_and_thresholds_answers_the_same(self) -> None:
        retriever = self.retriever(vector=self.fruit, weights={"vector": 2}, accept={"vector": 0.65}, k=2)
        for way in (copy.deepcopy, pickled):
            assert self.ask(way(retriever), "fruit") == self.ask(retriever, "fruit")

    @pytest.fixture
    def other_process(self) -> OtherProcess:
        return started()

    def test_another_process_uses_what_it_was_sent(self, sent: Any, other_process: OtherProcess) -> None:
        code, found = other_process.run(type(self), "answers", sent)
        assert code == 0, found
        assert found == self.answers(sent)

    def answers(self, retrievers: Any) -> list[Any]:
        return [self.ask(retriever, ABOUT) for retriever in retrievers]

    def test_results_hits_and_what_fuses_lists_survive_a_pickle(self) -> None:
        retriever = self.two(evidence_key="phasegraph")
        found, result = self.ask(retriever), retriever.explain("q")
        assert pickled(found) == found
        assert [dict(hit.metadata["phasegraph"]) for hit in pickled(found)] == [
            dict(hit.metadata["phasegraph"]) for hit in found
        ]
        assert pickled(result).ids == result.ids
        assert pickled(result).evidence("a").score == result.evidence("a").score
        lists, fuser = {"a": self.pairs(**FIRST), "b": self.pairs(**SECOND)}, self.fuser(k=2)
        assert self.fuse(pickled(fuser), lists) == self.fuse(fuser, lists)

    # The entity graph, in a direct call and in a fusion in which the walk starts at the hits of the vectors.

    def films(self) -> list[Any]:
        return [self.document(name, text, title=title) for name, (title, text) in FILMS.items()]

    def test_the_graph_finds_passages_that_share_no_word_with_the_question_and_says_how(self) -> None:
        films = self.films()
        retriever = self.graph(films, evidence_key="phasegraph", **self.shown)
        called, awaited = self.both(retriever, ABOUT)
        assert called == awaited
        found = {hit.id: hit for hit in called}
        assert set(found) == {"film", "man", "place"}
        block = found["man"].metadata["phasegraph"]
        assert any(entity in block["path"] for entity in (["entity", "alfred hitchcock"], ["entity", "vertigo"]))
        assert found["man"].score is not None
        assert 0 < block["score"] == found["man"].score <= 1
        json.dumps(block, allow_nan=False)
        assert films == self.films()
        bare = self.ask(self.graph(films), ABOUT)
        assert [hit.metadata for hit in bare] == [{"title": FILMS[hit.id][0]} for hit in bare]
        assert [hit.text for hit in bare] == [FILMS[hit.id][1] for hit in bare]

    def test_a_title_key_that_matches_nothing_is_warned_about_with_the_nearest_key(self) -> None:
        with pytest.warns(PhasegraphWarning, match="'titel' is in no passage's metadata.*did you mean 'title'"):
            self.graph(self.films(), title_key="titel")  # codespell:ignore titel

    def test_the_graphs_passages_come_from_lists_mappings_and_functions(self) -> None:
        films, graph = self.films(), self.entities()
        by_id = dict(zip(FILMS, films, strict=True))
        for kept in (films, by_id, lambda ids: [by_id[one] for one in ids], lambda ids: by_id):
            found = self.ask(self.over(graph, kept), ABOUT)
            assert found
            assert [hit.text for hit in found] == [FILMS[hit.id][1] for hit in found]
        with pytest.warns(PhasegraphWarning, match="was not given"):
            assert {hit.text for hit in self.ask(self.over(graph), ABOUT)} == {""}
        with pytest.raises(InvalidInputError, match="graph must be an EntityGraph"):
            self.over("graph")
        with pytest.raises(InvalidInputError, match="must be"):
            self.over(graph, 7)

    def test_among_sources_the_graph_states_its_background_and_is_seeded_by_the_vectors(self) -> None:
        def vector(query: str) -> Any:
            return [(document, 0.9 - row / 10) for row, document in enumerate(self.films())]

        retriever = self.retriever(vector=vector, graph=self.over(self.entities()), evidence_key="phasegraph")
        reports = {report.source: report for report in retriever.explain(ABOUT).reports}
        assert (reports["graph"].calibration, reports["graph"].missing) == ("exact", ())
        for found in self.both(retriever, ABOUT):
            for hit in found:
                one = hit.metadata["phasegraph"]["sources"]["graph"]
                assert one["rank"] is None or one["evidence"]["path"]
                assert hit.text == FILMS[hit.id][1]
        core = self.retriever(vector=vector, graph=GraphSource(self.entities()), evidence_key="phasegraph")
        assert self.ask(core, ABOUT) == self.ask(retriever, ABOUT)

    def test_without_its_seeds_the_walk_goes_on_and_the_report_says_so(self) -> None:
        walk = self.graph(self.films())
        result = self.retriever(vector=raising(OSError()), graph=walk).explain(ABOUT)
        assert result.reports[0].missing == ("vector",)
        assert result.ids == self.retriever(graph=SourceSpec(retriever=walk)).explain(ABOUT).ids != ()

    def test_no_search_waits_for_the_graph_to_be_made_ready(self) -> None:
        wraps: list[Callable[[EntityGraph], Any]] = [
            self.over,
            lambda graph: self.retriever(graph=GraphSource(graph)),
        ]
        for wrap in wraps:
            graph = self.entities()
            wrap(graph)
            assert "operator" in vars(graph)

    def entities(self) -> EntityGraph:
        return build_graph([{"id": name, "title": title, "text": text} for name, (title, text) in FILMS.items()])
