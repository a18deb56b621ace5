"""The sentences beside the figures of the guides and of the README follow the figures."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

import guides
import tables

KEPT = Path(__file__).resolve().parents[2] / "docs" / "figures"


def kept(name):
    return json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))


def test_the_example_says_the_places_that_the_command_gives():
    found = kept("example")
    assert "Vectors rank **Victoria Falls** 16th. phasegraph ranks it 2nd, after **Bubye River**, and" in (
        guides.example(found)
    )
    assert guides.example(found).endswith("> `Bubye River → Zimbabwe → Victoria Falls`")
    river, falls = found["passages"][:2]
    assert [river["judged"], falls["judged"]] == [True, True]
    next(one for one in falls["sources"] if one["source"] == "vector")["rank"] = 41.0
    falls["position"] = 3
    assert "Vectors rank **Victoria Falls** 41st. phasegraph ranks it 3rd, after **Bubye River**, and shows" in (
        guides.example(found)
    )
    next(one for one in falls["sources"] if one["source"] == "vector")["rank"] = None
    assert "Vectors do not find **Victoria Falls**. phasegraph" in guides.example(found)


def test_whether_one_needs_it_is_said_by_the_collections():
    found = kept("ordinary")
    for one in found.values():
        systems = one["systems"]
        for name in ("vector", "bm25", "rrf-words", "relative-words"):
            systems[name]["Recall@5"] = 60.0
        systems["default"]["Recall@5"] = 60.0
    first, *_, last = found
    found[first]["systems"]["default"]["Recall@5"] = 58.0
    found[last]["systems"]["default"]["Recall@5"] = 65.5
    said = guides.when(found)
    assert f"On {len(found)} collections" in said
    low, high = guides.CONTENTS[first], guides.CONTENTS[last]
    assert f"between 2.0 points below (on {low}) and 5.5 points above (on {high}) the best of" in said


def verdict(difference, *, reliable):
    return {
        "difference": difference, "low": difference - 1, "high": difference + 1, "p_holm": 0.002, "p_groups": 0.0004,
        "other_difference": difference / 2, "reliable": reliable,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reliable", "said"),
    [
        (6, "All 6 systems differ reliably from `vector`, so this test does not say which system is best."),
        (1, "1 of 6 systems differs reliably from `vector`."),
        (0, "None of 6 systems differ reliably from `vector`."),
    ],
)
def test_how_many_systems_are_reliable_is_counted(reliable, said):
    systems = {name: verdict(3.0, reliable=row < reliable) for row, name in enumerate(guides.ORDER)}
    rules = {
        "measure": "nDCG@10", "tested": "dev", "signs_from": "calibration", "queries": [191, 200],
        "baseline": "vector", "systems": systems,
    }  # fmt: skip
    other = {**rules, "baseline": "rrf-three", "systems": {"default": verdict(-0.5, reliable=False)}}
    reached = dict.fromkeys([*systems, "vector"], 70.0)
    text = guides.protocol(
        {name: {"protocol": of, "reached": reached} for name, of in (("vector", rules), ("rrf-three", other))}
    )
    assert said in text
    assert "covers all 6 systems of the run" in text
    assert f"| `bm25` | 70.0 | +3.0 [+2.0, +4.0] | 0.002 | <.001 | +1.5 | {'yes' if reliable else 'no'} |" in text
    assert "The difference between `default` and `rrf-three` is -0.5 [-1.5, +0.5], p (Holm) 0.002." in text


def confident(default, errors=(0.2, 0.1, 0.3)):
    """One set, asked the questions of another, with the default at one AUC and every other system at 60."""
    auc = {"vector": 60.0, "graph": 60.0, "bm25": 60.0, "default": default}
    return {
        "off": {"far": auc}, "un": auc, "intact": auc,
        "errors": {name: [ece, 0.1] for name, ece in zip(("plain", "platt", "isotonic"), errors, strict=True)},
    }  # fmt: skip


def test_who_tells_questions_apart_is_said_by_the_least_difference():
    found = {"one": confident(70.0), "two": confident(58.0, (0.1, 0.2, 0.3))}
    said = guides.confidence(found)
    assert "is on two: there, the default is 2.0 points below this source." in said
    assert "the lowest value of the default is 58.0, for questions of far over the corpus of two." in said
    assert "| best score of `vector` | 60.0 / 60.0 | 60.0 (60.0) | 60.0 (60.0) |" in said
    assert "on 1 of 2 sets (one)." in guides.probabilities(found)
    assert "on 0 of 1 sets." in guides.probabilities({"two": found["two"]})


def test_another_rule_that_leads_is_named():
    found = kept("rules")
    assert "No other rule is above `linear`." in tables.spread(found)
    ahead = copy.deepcopy(found)
    first = next(iter(ahead))
    ahead[first]["isr"]["Recall@5"] = ahead[first]["linear"]["Recall@5"] + 1
    assert f"Another rule is above `linear` on {first}." in tables.spread(ahead)


def test_what_stages_add_is_what_their_removal_costs():
    of = {"difference": [-0.3, -0.35, -0.25], "p_holm": 0.0001}
    text = guides.effects({"ablation": dict.fromkeys(guides.STAGES, of)})
    assert "| reranker | no reranker | +0.300 [+0.250, +0.350] | <.001 |" in text
