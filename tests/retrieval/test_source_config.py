"""Bad settings of a source are errors that name the field, raised when the object is built."""

import inspect

import pytest

from phasegraph import FusionPipeline, InvalidInputError, InvalidTypeError
from phasegraph.retrieval import Execution, HitFields, SourceSpec


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"weight": -1}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"fetch_k": 0}, "fetch_k"),
        ({"fetch_k": "all"}, "fetch_k"),
        ({"timeout": -1}, "timeout"),
        ({"depends_on": "vector"}, "depends_on"),
        ({"fields": "id"}, "fields"),
        ({"execution": None}, "execution"),
        ({"nonsense": 1}, "nonsense"),
        ({"deadline": 1}, "did you mean 'timeout'"),
        ({"id_fn": len}, r"unexpected argument 'id_fn'; did you mean fields=HitFields\(id=...\)"),
        ({"score_key": "s"}, r"did you mean fields=HitFields\(score=...\)"),
    ],
)
def test_a_bad_source_is_an_error_that_names_its_field(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        SourceSpec(retriever=len, **arguments)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (HitFields, {"id": 3}),
        (HitFields, {"score": 3}),
        (HitFields, {"higher_is_better": 1}),
        (HitFields, {"size": 0}),
        (HitFields, {"resolve": {}}),
        (Execution, {"on_error": "ignore"}),
        (Execution, {"in_thread": "yes"}),
        (Execution, {"max_in_flight": 0}),
    ],
)
def test_bad_fields_and_execution_are_errors_that_name_them(kind, arguments):
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        kind(**arguments)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (HitFields, "scores", "'scores'; did you mean 'score'"),
        (HitFields, "unknown", "'unknown'; known are fingerprint, higher_is_better, id, resolve, score, size"),
        (Execution, "onerror", "'onerror'; did you mean 'on_error'"),
        (FusionPipeline, "weigths", "'weigths'; did you mean 'weights'"),  # codespell:ignore weigths
        (FusionPipeline, "top_k", "'top_k'; did you mean 'k'"),
    ],
)
def test_an_argument_that_there_is_not_is_named_with_the_nearest_that_there_is(kind, given, said):
    with pytest.raises(InvalidTypeError, match=f"unexpected argument {said}"):
        kind(**{given: 1})
    assert given not in inspect.signature(kind).parameters
    assert not hasattr(kind(), "__dict__")
