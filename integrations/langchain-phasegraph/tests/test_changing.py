"""Fields assigned or copied after the retriever was built."""

import pytest
from langchain_stores import ids_of, pairs

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphError, PhasegraphWarning
from phasegraph.acceptance import AcceptancePolicy

TEN = pairs(**{f"p{row}": 10.0 - row for row in range(10)})


def falling(query):
    return TEN


def other(query):
    return pairs(**{f"q{row}": 30.0 - row**2 for row in range(10)})


def test_what_is_taken_back_after_calibrating_is_off_and_the_calibrators_stay():
    retriever = PhaseGraphRetriever(
        vector=falling,
        retrievers={"other": other},
        weights={"vector": 0.0, "other": 1.0},
        accept=AcceptancePolicy({"other": 29.5}),
        strict=True,
    )
    retriever.calibrate([f"question {n}" for n in range(24)], progress=False)
    assert ids_of(retriever.invoke("q")) == ["q0"]
    retriever.weights = None
    retriever.accept = None
    retriever.strict = False
    fusion = retriever.fitted_pipeline
    assert (fusion.weights, fusion.accept, fusion.strict) == (None, None, False)
    assert set(fusion.calibrators) == {"other"}
    assert len(retriever.invoke("q")) == 10


def test_another_k_builds_nothing_anew():
    calls = []

    def broken(query):
        calls.append(query)
        raise ConnectionError("down")

    retriever = PhaseGraphRetriever(vector=falling, retrievers={"broken": broken})
    with pytest.warns(PhasegraphWarning, match="source 'broken' failed 10 times in a row"):
        assert len([retriever.invoke("q") for _ in range(20)]) == 20
    asked = len(calls)
    retriever.k = 2
    assert len(retriever.invoke("q")) == 2
    assert retriever.fitted_pipeline.k == 2
    assert len(calls) == asked < 20


def test_a_copy_with_other_fields_uses_them(tmp_path):
    retriever = PhaseGraphRetriever(vector=falling, retrievers={"other": other})
    copied = retriever.model_copy(update={"weights": {"vector": 1.0, "other": 0.0}, "k": 3})
    assert ids_of(copied.invoke("q")) == ["p0", "p1", "p2"]
    assert retriever.fitted_pipeline.weights is None
    assert len(retriever.invoke("q")) == 10
    with pytest.raises(InvalidInputError, match="weights"):
        retriever.model_copy(update={"weights": {"nope": 1.0}})
    with pytest.raises(InvalidTypeError, match="nope"):
        retriever.model_copy(update={"nope": 1})
    with pytest.raises(PhasegraphError, match="k"):
        retriever.model_copy(update={"k": -1})


def test_an_unknown_field_names_the_nearest():
    retriever = PhaseGraphRetriever(vector=falling)
    with pytest.raises(InvalidTypeError, match="unexpected argument 'kk'; did you mean 'k'"):
        retriever.kk = 2


def test_an_error_of_an_existing_attribute_is_not_an_unknown_field():
    class Subclass(PhaseGraphRetriever):
        @property
        def depth(self):
            return 1

        @depth.setter
        def depth(self, value):
            raise ValueError(f"depth must be 1; got {value}")

    retriever = Subclass(vector=falling)
    with pytest.raises(ValueError, match="depth must be 1; got 2"):
        retriever.depth = 2
    with pytest.raises(ValueError, match="invoke") as caught:
        retriever.invoke = falling
    assert "unexpected argument" not in str(caught.value)
