import io
import json
import warnings
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasegraph import (
    DegradedError,
    FusionPipeline,
    InsufficientDataError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphWarning,
    Ranking,
    SourceReport,
)
from phasegraph.retrieval import (
    Direction,
    Identities,
    check_queries,
    contradicts,
    fit_calibrators,
    infer_direction,
    known_direction,
    plain,
    provenance,
    resolve_id,
    text_id,
    with_notes,
    with_progress,
)

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def details(*rows):
    return lambda row: rows[row]


# --- which hit is which


@pytest.mark.parametrize(
    ("own", "metadata", "expected"),
    [
        ("a", {"id": "b"}, ("a", "own")),
        ("", {"id": "b"}, ("b", "id")),
        (None, {"id": "c", "_id": "b"}, ("b", "_id")),
        (None, {"pk": 7}, ("7", "pk")),
        (None, {"id": None, "doc_id": "d"}, ("d", "doc_id")),
        (None, {"id": True, "source_id": "s"}, ("s", "source_id")),
    ],
)
def test_the_own_id_comes_before_the_known_metadata_keys(own, metadata, expected):
    assert resolve_id(own, metadata, "text") == expected


def test_a_text_without_any_id_gets_one_that_ignores_white_space_and_unicode_form():
    assert text_id("cafe\u0301  x\n") == text_id("caf\u00e9 x")
    assert text_id("one") != text_id("two")
    assert resolve_id(None, {}, "one") == (text_id("one"), "text")


@given(st.text())
def test_every_text_has_an_id_lone_surrogates_included(text):
    assert text_id(text + "\ud800").startswith("text-")


def test_a_source_that_gives_no_ids_warns_once():
    identities = Identities("bm25")
    with pytest.warns(PhasegraphWarning, match="'bm25'"):
        ids, notes = identities.read([None, "b"], details(({}, "one"), ({}, "two")))
    assert ids == [text_id("one"), "b"]
    assert notes == ("ids of 1 of 2 hits from a hash of their text",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        identities.read([None], details(({}, "three")))


def test_hits_that_carry_their_ids_are_not_looked_into():
    assert Identities("v").read(["a", "b"], lambda row: pytest.fail("looked")) == (["a", "b"], ())


# --- which way is better


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.999, 0.707, -0.981], True),
        ([0.002, 0.586, 3.96], False),
        ([0.5, 0.5, 0.4], True),
        ([1.0, 1.0, 1.0], None),
        ([0.7], None),
        ([], None),
        ([0.3, 0.9, 0.5], None),
        ([None, None], None),
        ([0.9, float("nan"), "x", 0.5], True),
        ([np.float32(3.0), np.float32(4.0)], False),
    ],
)
def test_a_best_first_order_tells_similarities_from_distances(scores, expected):
    assert infer_direction(scores) is expected


@given(st.lists(finite, min_size=2, max_size=30).filter(lambda x: len(set(x)) > 1))
def test_negating_the_scores_turns_the_direction_round(scores):
    falling = sorted(scores, reverse=True)
    assert infer_direction(falling) is True
    assert infer_direction([-s for s in falling]) is False


def test_a_declared_direction_comes_before_the_known_one_and_that_before_the_inferred_one():
    assert Direction(declared=False, known=True).of([1.0, 2.0, 3.0]) == (False, "")
    assert Direction(known=True).of([1.0, 2.0, 3.0])[0] is True


def test_a_declaration_that_the_order_contradicts_is_believed_and_doubted_aloud_once():
    declared = Direction(declared=True, source="vector")
    for quiet in ([0.1, 0.2], [0.5, 0.5, 0.5], [0.1, 0.3, 0.2]):
        assert declared.of(quiet) == (True, "")
    with pytest.warns(PhasegraphWarning, match="source 'vector': declared higher_is_better=True, but the order"):
        higher, note = declared.of([0.1, 0.2, 0.4])
    assert (higher, note.endswith("the declaration was believed")) == (True, True)
    assert declared.of([0.1, 0.2, 0.4]) == (True, note), "every report says it, the warning comes once"


def test_a_direction_is_inferred_once_and_remembered():
    direction = Direction()
    assert direction.of([1.0, 1.0, 1.0]) == (True, "uninformative: its scores do not differ")
    assert direction.of([2.0, 1.0, 3.0])[0] is None
    assert direction.of([1.0, 2.0])[0] is False
    assert direction.higher_is_better is None
    assert direction.of([3.0, 2.0, 1.0])[0] is True
    assert direction.of([1.0, 2.0, 3.0])[0] is True
    assert direction.higher_is_better is True


def store(name, module, **attributes):
    kind = type(name, (), {"__module__": module})
    made = kind()
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


class Index:
    def __init__(self, metric_type):
        self.metric_type = metric_type


def postgres(strategy, **settings):
    inner = SimpleNamespace(distance_strategy=SimpleNamespace(name=strategy), **settings)
    return store("PGVectorStore", "langchain_postgres.v2", _PGVectorStore__vs=inner)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (store("InMemoryVectorStore", "langchain_core.vectorstores"), True),
        (store("FAISS", "langchain_community.vectorstores", index=Index(1)), False),
        (store("FAISS", "langchain_community.vectorstores", index=Index(0)), True),
        (store("FAISS", "langchain_community.vectorstores"), None),
        (store("Chroma", "langchain_chroma"), False),
        (store("QdrantVectorStore", "langchain_qdrant", distance="Euclid"), False),
        (store("QdrantVectorStore", "langchain_qdrant", distance="Cosine"), True),
        (store("PGVector", "langchain_postgres"), False),
        (postgres("COSINE_DISTANCE"), False),
        (postgres("INNER_PRODUCT"), True),
        (postgres("INNER_PRODUCT", hybrid_search_config=object()), None),
        (store("PGVectorStore", "langchain_postgres.v2"), None),
        (store("PGVectorStore", "llama_index.vector_stores.postgres"), True),
        (store("FaissVectorStore", "llama_index.vector_stores.faiss", _faiss_index=Index(1)), False),
        (store("Chroma", "somebody.else"), None),
    ],
)
def test_the_direction_of_known_stores_is_read_from_their_class_and_metric(made, expected):
    assert known_direction(made) is expected


def test_a_subclass_has_the_direction_of_its_store():
    base = type(store("Chroma", "langchain_chroma"))
    assert known_direction(type("Mine", (base,), {"__module__": "mine"})()) is False


# --- provenance in plain types


def test_anything_becomes_json():
    cycle: list[object] = []
    cycle.append(cycle)
    value = {
        "a": np.float32(0.5),
        "b": np.array([[1, 2]]),
        "c": {3, 1},
        "d": date(2020, 1, 2),
        "e": b"x",
        "f": object(),
        "g": cycle,
        "h": float("inf"),
        5: (1, None, True),
        "s": "\ud800",
    }
    out = plain(value)
    assert json.loads(json.dumps(out, allow_nan=False).encode()) == out
    assert out["a"] == 0.5
    assert out["b"] == [[1, 2]]
    assert out["c"] == [1, 3]
    assert out["5"] == [1, None, True]
    assert out["g"] == ["…"]


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdefghij"), finite, min_size=1),
    st.dictionaries(st.sampled_from("abcdefghij"), finite, min_size=1),
)
def test_the_blocks_say_what_the_evidence_says(first, second):
    rankings = [Ranking("g", list(first), list(first.values())), Ranking("v", list(second), list(second.values()))]
    result = FusionPipeline().decide(rankings)
    blocks = provenance(result)
    assert [block["id"] for block in blocks] == list(result.ids)
    json.dumps(blocks, allow_nan=False)
    for block in blocks:
        evidence = result.evidence(block["id"])
        assert block["score"] == evidence.score
        parts = sum(one["contribution"] for one in block["sources"].values())
        assert parts + block["bonus"] == pytest.approx(block["fused"], abs=1e-9)
        for one in evidence.sources:
            told = block["sources"][one.source]
            assert (told["rank"], told["raw"]) == (one.rank, one.raw)
            assert (told["calibrated"], told["weight"], told["contribution"]) == (
                one.calibrated,
                one.weight,
                one.contribution,
            )


def test_an_empty_result_has_no_blocks():
    assert provenance(FusionPipeline().decide([])) == []


def test_notes_join_the_report_of_their_source():
    reports = with_notes([SourceReport("a", "ok"), SourceReport("b", "ok", notes=("x",))], {"b": ("", "y")})
    assert [report.notes for report in reports] == [(), ("x", "y")]


def test_an_order_that_contradicts_the_scores_is_seen():
    assert contradicts(Ranking("v", ["a", "b"], [0.1, 0.9]), ["a", "b"])
    assert not contradicts(Ranking("v", ["a", "b"], [0.9, 0.1]), ["a", "b"])
    assert not contradicts(Ranking("v", ["b", "a"], [0.5, 0.5]), ["b", "a"])


# --- fitting


def lists(source, queries=4, hits=10, **more):
    return [Ranking(source, [f"p{i}" for i in range(hits)], np.arange(hits) + q / 9.0, **more) for q in range(queries)]


def test_sources_with_scores_get_a_reference_calibrator_each_in_normal_scores():
    fitted = fit_calibrators([*lists("w"), *lists("v")], {"v": 1000, "w": None})
    assert list(fitted) == ["v", "w"]
    assert (fitted["v"].fraction, fitted["v"].size, fitted["v"].normal_scores) == (0.01, 1000, True)
    assert fitted["w"].size == 1_000_000


def test_the_size_a_ranking_states_is_used_and_a_share_never_exceeds_one():
    assert fit_calibrators(lists("v", size=500))["v"].fraction == 0.02
    assert fit_calibrators(lists("v"), {"v": 5})["v"].fraction == 1.0


def test_rank_only_sources_are_not_fitted():
    assert fit_calibrators([Ranking.from_hits("v", list("abcdef"), None)] * 10) == {}


def test_too_small_a_sample_is_an_error_that_names_the_source():
    with pytest.raises(InsufficientDataError, match=r"source 'v'.*20"):
        fit_calibrators(lists("v", queries=1))


def test_a_source_that_cannot_be_fitted_leaves_the_others_fitted_and_is_named():
    constant = [Ranking("flat", [f"p{i}" for i in range(10)], np.ones(10))] * 4
    with pytest.warns(PhasegraphWarning, match=r"'dead': it returned nothing; 'flat'.*two distinct"):
        fitted = fit_calibrators([*lists("v"), *constant], sources=["dead", "flat", "v"])
    assert list(fitted) == ["v"]
    with pytest.raises(DegradedError, match="'flat'"):
        fit_calibrators([*lists("v"), *constant], strict=True)


@pytest.mark.parametrize("queries", ["one text", None, [], ["a", " "], ["a", 3]])
def test_queries_must_be_several_texts(queries):
    with pytest.raises(InvalidInputError):
        check_queries(queries)
    with pytest.raises((InvalidInputError, InvalidTypeError)):
        check_queries(queries)


def test_without_a_terminal_there_is_no_bar(capsys):
    assert list(with_progress(["a", "b"], True)) == ["a", "b"]
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_bar_goes_along_unless_it_is_turned_off(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    assert list(with_progress(["a", "b"], False)) == ["a", "b"]
    assert screen.getvalue() == ""
    assert list(with_progress(["a", "b"], True)) == ["a", "b"]
    assert "calibrate" in screen.getvalue()
    assert "2/2" in screen.getvalue()
