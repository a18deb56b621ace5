"""The runs of tools/reliability, small: they pass, they can fail, and the page says what their figures say."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "reliability"
FEWEST = 8
"""Questions of the small run of determinism."""


def run(name, *options, figures, seconds=110):
    command = [sys.executable, str(TOOLS / f"{name}.py"), *options, "--json", str(figures)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    return done, json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module


def test_the_page_says_what_the_figures_say(tool):
    promises = tool("promises")
    assert promises.PAGE.read_text(encoding="utf-8") == promises.page()


def test_the_page_says_of_a_run_that_it_left_no_figures(tool, tmp_path):
    assert tool("promises").page(tmp_path).count("There is no result of `make ") == 10


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_chaos_finds_every_answer_equal_to_the_oracle(tmp_path):
    done, figures = run("chaos", "--queries", "60", figures=tmp_path / "f.json")
    assert done.returncode == 0, done.stdout[-2000:]
    assert done.stdout.splitlines()[-1] == "chaos: every promise held"
    assert len(figures["modes"]) == 6
    assert all(one["degraded"] > 10 and one["faults"] > 20 for one in figures["modes"].values())


def test_chaos_sees_what_is_wrong(tool):
    chaos, fusers = tool("chaos"), tool("fusers")
    plan = chaos.FaultPlan(1.0, ["raise"])
    good = fusers.Answered((("a", "text of a"),), b"1", frozenset(), {})
    tally = chaos.Tally({(fusers.NAMES, fusers.seed_of("question 1")): good}, chaos.FaultPlan(0.0))
    for found in (
        good,
        RuntimeError("leaked"),
        fusers.Answered((("b", "text of b"),), b"1", frozenset({"graph"}), {"vector": 2}),
    ):
        tally.see("question 1", 0.0, 0.1, found)
    assert {name: tally.counts[name] for name in chaos.WRONG if tally.counts[name]} == {
        "leaked": 1, "different": 1, "falsely_reported": 1, "miscounted": 1,
    }  # fmt: skip
    tally = chaos.Tally({}, plan)
    tally.see("question 1", 0.0, 0.1, good)
    assert tally.counts["all_failed_not_raised"] == 1


def test_chaos_sees_a_call_that_is_late_of_itself(tool):
    chaos, fusers, runs = tool("chaos"), tool("fusers"), tool("runs")
    plan = chaos.FaultPlan(1.0, ["hang"])
    stalls = runs.Stalls()
    tally = chaos.Tally({}, plan, stalls)
    tally.see("question 1", 0.0, chaos.DEADLINE + 0.2, fusers.Answered((), b"", frozenset(fusers.NAMES), {}))
    (late,) = chaos.lateness({"beyond_stalls_ms": chaos.percentiles(tally.beyond)})
    assert late.startswith("p99 is 200 ms")
    stalls._found.append((0.5, 0.7))
    tally.see("question 1", 0.0, chaos.DEADLINE + 0.2, fusers.Answered((), b"", frozenset(fusers.NAMES), {}))
    assert not chaos.lateness({"beyond_stalls_ms": chaos.percentiles(tally.beyond[1:])})


def test_a_stall_that_goes_on_is_counted(tool):
    runs = tool("runs")
    stalls = runs.Stalls()
    now = stalls._since = time.perf_counter() - 0.3
    assert stalls.during(now, time.perf_counter()) >= 0.3


def test_a_broken_promise_ends_with_1(tool, tmp_path, capsys):
    runs = tool("runs")
    given = type("Given", (), {"json": tmp_path / "f.json", "queries": 3})()
    with pytest.raises(SystemExit) as ended:
        runs.finish("chaos", given, {}, ["something"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines()[-1] == "chaos: 1 promises broken"


def test_ties_reach_the_answers_so_that_their_order_is_seen(tool):
    fusers = tool("fusers")
    retriever = fusers.LangChain(timeout=60.0).retriever
    answers = [retriever.explain(fusers.question(number)).fused for number in range(40)]
    tied = [bool((one[1:] == one[:-1]).any()) for one in answers]
    assert sum(tied) >= 5
    assert any(tied[:FEWEST])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_digest_over_hash_seeds_orders_frameworks_asked_and_awaited(tmp_path):
    """Two hash seeds with faults and two without: a process has faults if its seed is odd."""
    options = ["--questions", str(FEWEST), "--seeds", "4"]
    done, figures = run("determinism", *options, figures=tmp_path / "f.json", seconds=290)
    assert done.returncode == 0, done.stdout[-2000:]
    digests = figures["digests"]
    assert {name: len(found) for name, found in digests.items()} == {"with faults": 1, "without faults": 1}
    assert digests["with faults"] != digests["without faults"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_soak_counts_what_stays(tmp_path):
    """Too short to judge memory and threads, which are still being made; descriptors and tasks are as many."""
    _, figures = run("soak", "--queries", "100", "--lists", "2", figures=tmp_path / "f.json")
    assert not [one for one in figures["broken"] if "memory" not in one and "threads" not in one]
    assert all(one["queries"] == 100 for one in figures["frameworks"].values())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_fuzz_runs_every_kind(tmp_path):
    done, figures = run("fuzz", "--cases", "130", figures=tmp_path / "f.json")
    assert done.returncode == 0, done.stdout[-2000:]
    assert len(figures["kinds"]) == 13
    assert figures["code_run"] == 0
    refused = {name: one.get("refused", 0) for name, one in figures["kinds"].items()}
    assert sum(count > 0 for count in refused.values()) >= 10, refused


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_siege_asks_beside_every_kind_of_hostile_client(tmp_path, tool):
    """Too short to judge p99; every other promise holds."""
    _, figures = run("siege", "--hostile", "10", "--honest", "4", "--seconds", "10", figures=tmp_path / "f.json")
    assert not [one for one in figures["broken"] if "p99" not in one]
    assert set(figures["hostile"]) == set(tool("siege").HOSTILE)
    assert min(figures["answers"].values()) > 5


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_many_connections_lock_no_honest_client_out(tmp_path):
    options = ["--connections", "1200", "--honest", "3", "--seconds", "5"]
    done, figures = run("connections", *options, figures=tmp_path / "f.json")
    assert done.returncode == 0, done.stdout[-2000:]
    assert figures["servers"]["room for all"]["most"] > 1000
    assert figures["servers"]["the default limit"]["most"] < 700  # 512, and those that it is about to accept or close


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_clock_that_is_set_back_and_forth_changes_nothing(tmp_path):
    done, figures = run("clocks", "--searches", "4", "--changes", "14", figures=tmp_path / "f.json")
    assert done.returncode == 0, done.stdout[-2000:]
    assert figures["clocks"]["set back and forth"]["years"] > 5
