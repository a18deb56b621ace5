from __future__ import annotations

import math
import re

import numpy as np
import pytest

from phasegraph import FusionPipeline
from phasegraph._support.validation import (
    check_choice,
    check_count,
    check_flag,
    check_flat,
    check_keys,
    check_mapping,
    check_names,
    check_number,
    check_query,
    check_range,
    check_real,
    check_rows,
    check_seconds,
    check_text,
    unexpected_argument,
)
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import Execution, SourceSpec
from phasegraph.sources import BreakerSettings

VALUE, TYPE = InvalidInputError, InvalidTypeError


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: check_count("k", np.int64(3)), 3),
        (lambda: check_number("x", np.float32(0.5)), 0.5),
        (lambda: check_number("x", -1, minimum=None), -1.0),
        (lambda: check_real("x", math.inf), math.inf),
        (lambda: check_range("x", 0, 0, 1), 0.0),
        (lambda: check_seconds("timeout", None), None),
        (lambda: check_flag("strict", False), False),
        (lambda: check_text("name", ""), ""),
        (lambda: check_query(" who? "), " who? "),
        (lambda: check_names("ids", ["a", "b"]), ("a", "b")),
        (lambda: list(check_mapping("weights", {"b": 1, "a": 2})), ["a", "b"]),
        (lambda: check_keys("Threshold", {"value": 1}, ["value", "lower"], required=["value"]), {"value": 1}),
        (lambda: check_flat("scores", [1, 2]).tolist(), [1.0, 2.0]),
    ],
)
def test_what_holds_comes_back_in_the_type_that_is_worked_with(found, wanted) -> None:
    result = found()
    assert result == wanted
    assert type(result) is type(wanted)


@pytest.mark.parametrize(
    ("check", "kind", "message"),
    [
        (lambda: check_count("k", True), TYPE, "k must be an integer; got True"),
        (lambda: check_count("k", 1.0), TYPE, r"k must be an integer; got 1\.0"),
        (lambda: check_count("k", 0, minimum=1), VALUE, "k must be >= 1; got 0"),
        (lambda: check_real("x", "1"), TYPE, "x must be a number; got '1'"),
        (lambda: check_number("x", math.nan), VALUE, "x must be finite and >= 0; got nan"),
        (lambda: check_number("x", -1), VALUE, "x must be finite and >= 0; got -1"),
        (lambda: check_number("x", math.inf, minimum=None), VALUE, "x must be finite; got inf"),
        (lambda: check_range("x", 0, 0, 1, ends="(]"), VALUE, r"x must lie in \(0, 1\]; got 0"),
        (lambda: check_range("x", 0, ends="(]"), VALUE, "x must be finite and > 0; got 0"),
        (lambda: check_seconds("timeout", 0), VALUE, "timeout must be finite and > 0; got 0"),
        (lambda: check_flag("strict", 1), TYPE, "strict must be True or False; got 1"),
        (lambda: check_choice("mode", ["a"], ("a", "b")), VALUE, r"mode must be one of \['a', 'b'\]; got \['a'\]"),
        (lambda: check_text("name", 3), TYPE, "name must be a string; got 3"),
        (lambda: check_query(None), TYPE, "query must be text; got NoneType"),
        (lambda: check_query(" "), VALUE, "query must not be empty or blank; got ' '"),
        (lambda: check_rows("ids", "ab"), TYPE, "ids must be a list, not a string; got 'ab'"),
        (lambda: check_names("ids", ["a", 1]), TYPE, "ids must contain only strings; got 1"),
        (lambda: check_mapping("weights", {1: 1}), TYPE, "weights must be a mapping with names as keys"),
        (lambda: check_keys("Threshold", "x", ["value"]), TYPE, "Threshold must be read from a JSON object; got 'x'"),
        (lambda: check_keys("Threshold", {"x": 1}, ["value"]), VALUE, "Threshold has no field 'x'; it has value"),
        (
            lambda: check_keys("Threshold", {}, ["value"], required=["value"]),
            VALUE,
            "Threshold needs the field 'value'",
        ),
        (lambda: check_flat("scores", ["a"]), TYPE, "scores must be a flat array of numbers"),
        (lambda: check_flat("scores", [[1.0]]), VALUE, r"scores must be a flat array; got shape \(1, 1\)"),
        (lambda: check_flat("scores", [1, math.nan]), VALUE, "scores must be finite; got nan"),
    ],
)
def test_what_does_not_hold_is_refused_by_name(check, kind: type[Exception], message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{message}") as caught:
        check()
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("made", "given", "said"),
    [
        (BreakerSettings, "failure", "did you mean 'failures'?"),
        (SourceSpec, "id", "did you mean fields=HitFields(id=...)?"),
        (Execution, "in_worker", "did you mean 'in_thread'?"),
    ],
)
def test_a_misspelt_setting_of_a_source_names_the_one_that_was_meant(made, given, said):
    with pytest.raises(InvalidTypeError, match=re.escape(f"unexpected argument {given!r}; {said}")):
        made(**{given: 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("id_key", "docs/guide/coming-from.md describes its replacement"),
        ("search_type", "did you mean selection='mmr' for search_type='mmr'?"),
        ("vector_store_query_mode", "did you mean selection='mmr'?"),
        ("score_threshold", "did you mean accept={'vector': ...}?"),
        ("similarity_cutoff", "did you mean accept={'vector': ...}?"),
        ("search_kwargs", "did you mean k=... or filter=...?"),
        ("persist_directory", "did you mean path=...?"),
    ],
)
def test_an_argument_of_another_retriever_names_its_replacement(given: str, said: str) -> None:
    known = ["accept", "evidence_key", "filter", "k", "path", "retrievers", "selection", "vector_store"]
    assert str(unexpected_argument(given, known)) == f"unexpected argument {given!r}; {said}"


def test_a_hint_names_only_arguments_that_a_pipeline_accepts() -> None:
    with pytest.raises(InvalidTypeError, match=r"'search_kwargs'; did you mean k=\.\.\.\?$"):
        FusionPipeline(search_kwargs={})
    for threshold in ("score_threshold", "similarity_cutoff"):
        with pytest.raises(InvalidTypeError, match=f"^unexpected argument '{threshold}'; known are accept, "):
            FusionPipeline(**{threshold: 0.5})
