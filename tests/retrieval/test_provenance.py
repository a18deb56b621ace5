"""Evidence in plain types, and under which payload a result is returned."""

import copy
import json
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasegraph import FusionPipeline, Ranking, SourceReport
from phasegraph.retrieval import EvidenceBlock
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.answer import select_hits, with_text_warnings
from phasegraph.retrieval.notes import with_notes
from phasegraph.retrieval.provenance import plain, provenance

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


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


def test_blocks_compare_and_print_alike_and_are_dumped_whole():
    one, other = EvidenceBlock(score=0.5), EvidenceBlock(score=0.7)
    assert one == other
    assert str({"k": one}) == str({"k": other})
    assert one != {"score": 0.5}
    assert json.dumps(copy.deepcopy(one)) == '{"score": 0.5}'


def test_the_payload_of_the_heaviest_source_with_a_text_is_kept_and_other_texts_are_told():
    rankings = [
        Ranking("a", ["x", "y"], [2.0, 1.0], payloads={"x": "text a", "y": "facts: same"}),
        Ranking("b", ["x", "y"], [2.0, 1.0], payloads={"x": "", "y": "same"}),
        Ranking("c", ["x"], [2.0], payloads={"x": "text c"}),
    ]
    result = FusionPipeline(weights={"a": 1, "b": 3, "c": 2}).decide(rankings)
    hits = dict(zip(result.ids, select_hits(result, HitAccess()), strict=True))
    assert (hits["x"].source, hits["x"].payload, hits["x"].others) == ("c", "text c", ("a",))
    assert (hits["y"].source, hits["y"].others) == ("b", ())
    (warned,) = with_text_warnings(result, list(map(hits.get, result.ids))).warnings
    assert warned == "id 'x' has different texts in c and in a: the text of c is used"
