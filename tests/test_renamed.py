"""Old names of public parameters: accepted for one release, with a warning that names the new name."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny import many_queries, write_dataset

from phasegraph import FusionPipeline, InvalidInputError, InvalidTypeError, Ranking, distributed
from phasegraph._support.renamed import PARAMETERS, accepts_old_names, renamed_options
from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.apps.cli import main
from phasegraph.fusion.pipeline import PIPELINE_NAMES
from phasegraph.graph import Corpus, GraphIndex, build_graph
from phasegraph.retrieval import FusionEngine, SourceSpec

ROOT = Path(__file__).resolve().parents[1]


def warned(make: Callable[[], Any]) -> tuple[Any, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = make()
    return made, [one for one in seen if one.category is DeprecationWarning]


def test_an_old_name_of_a_parameter_is_accepted_with_a_warning_at_the_callers_line() -> None:
    spec, seen = warned(lambda: SourceSpec(retriever=len, limit=7))
    assert spec == SourceSpec(retriever=len, fetch_k=7)
    assert [str(one.message) for one in seen] == [
        "limit= is now called fetch_k=; the old name works for one more release"
    ]
    assert seen[0].filename == __file__


def test_an_old_name_of_an_attribute_is_accepted_with_a_warning() -> None:
    spec = SourceSpec(retriever=len, fetch_k=7)
    found, seen = warned(lambda: spec.limit)
    assert found == 7
    assert [str(one.message) for one in seen] == [
        "limit is now called fetch_k; the old name works for one more release"
    ]
    with pytest.raises(AttributeError, match="'SourceSpec' object has no attribute 'limits'"):
        _ = spec.limits


def test_both_names_are_an_error_that_names_the_new_one() -> None:
    with pytest.raises(InvalidInputError, match=r"limit= and fetch_k= are the same parameter: give fetch_k= alone"):
        SourceSpec(retriever=len, limit=7, fetch_k=7)
    with pytest.raises(InvalidInputError, match="give fetch_k= alone"):
        replace(SourceSpec(retriever=len, fetch_k=7), limit=8)


def test_a_new_name_and_a_copy_warn_of_nothing() -> None:
    spec, seen = warned(lambda: SourceSpec(retriever=len, fetch_k=7))
    assert not seen
    for made in (copy.deepcopy(spec), replace(spec), pickle.loads(pickle.dumps(spec))):  # noqa: S301
        assert made == spec
    with pytest.raises(InvalidTypeError, match="unexpected argument 'fetch'; did you mean 'fetch_k'"):
        SourceSpec(retriever=len, fetch=7)


def test_a_function_that_has_an_old_name_itself_keeps_it() -> None:
    @accepts_old_names
    def search(query: str, limit: int) -> tuple[str, int]:
        return query, limit

    found, seen = warned(lambda: search("who?", limit=3))
    assert found == ("who?", 3)
    assert not seen


@pytest.mark.parametrize("old", sorted(PARAMETERS))
def test_options_of_commands_follow_the_parameters(old: str) -> None:
    before, after = (f"--{name.replace('_', '-')}" for name in (old, PARAMETERS[old]))
    said: list[str] = []
    assert renamed_options(["x", before, "3"], {after}, said.append) == ["x", after, "3"]
    assert renamed_options([f"{before}=3"], {after}, said.append) == [f"{after}=3"]
    assert said == [f"{before} is now called {after}; the old name works for one more release"] * 2
    assert renamed_options([before], {before, after}, said.append) == [before]
    with pytest.raises(InvalidInputError, match=f"give {after} alone"):
        renamed_options([before, "3", f"{after}=4"], {after}, said.append)


def test_nothing_of_ours_is_called_by_an_old_name() -> None:
    """Outside the functions whose own parameter has the name."""
    calls = {
        "SourceSpec", "PhaseGraphRetriever", "CalibratedFusionRetriever", "EntityGraphRetriever", "fuse_lists", "build",
        "build_graph", "build_index", "from_documents", "from_nodes", "from_vectorstore", "from_index", "add_documents",
        "add_nodes",
    }  # fmt: skip
    texts = {
        file: file.read_text(encoding="utf-8")
        for folder in ("src", "integrations", "examples", "tools")
        for file in sorted((ROOT / folder).rglob("*.py"))
    }
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file, text in texts.items()
        if any(name in text for name in calls) and any(name in text for name in PARAMETERS)  # else no need to parse
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and inspect.getattr_static(node.func, "id", getattr(node.func, "attr", "")) in calls
        and {keyword.arg for keyword in node.keywords} & PARAMETERS.keys()
    ]
    assert found == []


def test_the_functions_of_the_core_accept_old_names() -> None:
    passages, names = [{"id": "a", "text": "She met the Committee of Public Safety."}], ["Committee of Public Safety"]
    graph, seen = warned(lambda: build_graph(passages, gazetteer=names))
    assert graph.entities == build_graph(passages, known_names=names).entities
    assert "committee of public safety" in graph.entities
    index, more = warned(lambda: GraphIndex.build(passages, gazetteer=names))
    held, last = warned(lambda: index.gazetteer)
    assert held == index.known_names == {"committee of public safety"}
    assert [len(one) for one in (seen, more, last)] == [1, 1, 1]


VECTOR, WORDS = Ranking("vector", ["a", "b", "c"], [0.9, 0.5, 0.1]), Ranking("bm25", ["c", "d"], [9.0, 2.0])
BY_OLD_NAME = FusionPipeline(
    weights={"lexical": 0.6, "vector": 0.4},
    pool_caps={"lexical": 30},
    accept=AcceptancePolicy({"lexical": Threshold(1.0, promise="told", sources=("lexical", "vector"))}),
    min_agreement={("lexical", "vector"): 0.1},
)


def test_a_saved_pipeline_that_names_a_source_by_its_old_name_decides_with_a_warning(tmp_path: Path) -> None:
    BY_OLD_NAME.save(tmp_path / "kept.json")
    kept = FusionPipeline.load(tmp_path / "kept.json")
    by_new_name = FusionPipeline.from_dict(json.loads(json.dumps(BY_OLD_NAME.to_dict()).replace("lexical", "bm25")))
    found, seen = warned(lambda: kept.decide([VECTOR, WORDS]))
    expected, none = warned(lambda: by_new_name.decide([VECTOR, WORDS]))
    assert (found.ids, found.fused.tolist()) == (expected.ids, expected.fused.tolist())
    assert [str(one.message) for one in seen] == [
        "source 'lexical' is now called 'bm25'; the old name works for one more release"
    ]
    assert not none


def test_a_source_of_the_old_name_is_found_by_a_preset_of_the_new_name() -> None:
    old = replace(WORDS, source="lexical")
    found, seen = warned(lambda: FusionPipeline.convex().decide([VECTOR, old]))
    assert found.ids == FusionPipeline.convex().decide([VECTOR, WORDS]).ids
    assert len(seen) == 1


def test_a_retriever_takes_weights_thresholds_and_a_pipeline_by_the_old_name() -> None:
    specs = {name: SourceSpec(retriever=None) for name in ("bm25", "vector")}
    for given in (
        {"weights": {"lexical": 0.6, "vector": 0.4}},
        {"accept": {"lexical": 1.0}},
        {"pipeline": BY_OLD_NAME},
    ):
        engine, seen = warned(lambda: FusionEngine.of(specs, **given))  # noqa: B023 - called at once
        assert len(seen) == 1, given
        assert "lexical" not in json.dumps(engine.pipeline.to_dict())
        assert "bm25" in json.dumps(engine.pipeline.to_dict())
    with pytest.raises(InvalidInputError, match="weights must name sources among"):
        FusionEngine.of(specs, weights={"lexicon": 1.0, "vector": 1.0})


def test_a_preset_takes_a_lowest_score_by_the_old_name_of_its_source() -> None:
    found, seen = warned(lambda: FusionPipeline.convex(infima={"lexical": 1.0}))
    assert found == FusionPipeline.convex(infima={"bm25": 1.0})
    assert len(seen) == 1


def test_the_words_of_a_corpus_are_found_by_the_old_name() -> None:
    corpus = Corpus(GraphIndex.build([{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Cy sang."}]))
    for ask in (lambda: corpus.source("lexical"), lambda: corpus.lexical):  # type: ignore[arg-type]
        found, seen = warned(ask)
        assert found.search("Who sang?", 5, {}).ids == ("b",)
        assert len(seen) == 1
    with pytest.raises(InvalidInputError, match="the source of a corpus must be one of"):
        corpus.source("words")  # type: ignore[arg-type]


def test_the_papers_preset_answers_to_its_old_name_with_a_warning() -> None:
    for old, new, made in (
        ("phasegraph", "paper", FusionPipeline.paper()),
        ("phasegraph-2wiki", "paper-2wiki", FusionPipeline.paper("2wiki")),
    ):
        found, seen = warned(lambda: FusionPipeline.named(old))  # noqa: B023 - called at once
        assert found == made == FusionPipeline.named(new)
        assert str(seen[0].message).startswith(f"{old!r} is now called {new!r}")
        assert old not in PIPELINE_NAMES
    found, seen = warned(lambda: FusionPipeline.phasegraph("2wiki"))
    assert found == FusionPipeline.paper("2wiki")
    assert len(seen) == 1


def test_commands_take_the_old_name_of_a_system_and_say_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder, told = str(write_dataset(tmp_path / "tiny", many_queries())), []
    for name in ("phasegraph", "paper"):
        run = tmp_path / f"{name}.json"
        assert main(["evaluate", folder, "--systems", f"vector,{name}", "--json", str(run)]) == 0
        told.append(json.loads(run.read_text())["systems"])
        said = "phasegraph: 'phasegraph' is now called 'paper'; the old name works for one more release\n"
        assert (said in capsys.readouterr().err) == (name == "phasegraph")
    assert [list(one) for one in told] == [["vector", "paper"]] * 2
    assert told[0]["paper"]["LastHop@10"] == told[1]["paper"]["LastHop@10"] > 0


def test_the_report_of_a_build_answers_to_its_old_name() -> None:
    found, seen = warned(lambda: distributed.Built)
    assert found is distributed.BuildReport
    assert [str(one.message) for one in seen] == [
        "Built is now called BuildReport; the old name works for one more release"
    ]
    with pytest.raises(AttributeError, match="has no attribute 'Build'"):
        _ = distributed.Build
