"""The scripts run, and say what the passages say."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from example_runs import EXAMPLES, run_script, run_scripts
from real_servers import contents

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What a script that needs no server prints; those of a framework run in one process, each by itself alone."""
    found = {}

    def of(name):
        if name not in found:
            framework = name.partition("_")[0]
            paths = sorted(EXAMPLES.glob(f"{framework}_*.py"))
            found.update(run_scripts(paths, tmp_path_factory.mktemp(framework)))
        done = found[name]
        assert not done["error"], done["error"]
        return done["printed"].splitlines()

    return of


AGENTS = ["langchain_agent.py", "llamaindex_agent.py"]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_asks_the_retriever_and_reads_two_passages_together(name, printed):
    lines = printed(name)
    assert lines == [
        "asked: Where was the director of Vertigo born?",
        "answer: Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.",
    ]


SUMMARIES = ["langchain_summaries.py", "llamaindex_summaries.py"]


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_come_first_change_where_they_must_and_facts_are_filtered(name, printed):
    lines = printed(name)
    assert [line.partition(":")[0] for line in lines[:2]] == ["level 1, 6 passages"] * 2
    assert lines[2].strip().startswith("['harbour Bergen', 'harbour Lund'")
    assert lines[-2:] == ["summaries kept: 1 of 2", "walked to: mill Lund"]


def test_every_script_is_run_here_or_in_test_demo():
    named = {"demo.py", "langchain_quickstart.py", "llamaindex_quickstart.py", "neo4j_graph.py", *AGENTS}
    named |= {"langchain_stages.py", "llamaindex_stages.py", *SUMMARIES}
    assert {path.name for path in EXAMPLES.glob("*.py")} == named


@pytest.mark.parametrize("name", ["langchain_quickstart.py", "llamaindex_quickstart.py"])
def test_a_quickstart_finds_what_the_vectors_miss(name, printed):
    question, *lines = printed(name)
    found = [re.fullmatch(r"  0\.\d{3}  (.+) \(vectors alone: (\d) of 8\)", line) for line in lines]
    assert question == "Where was the director of Vertigo born?"
    assert [one and one[1] for one in found] == ["Vertigo", "Alfred Hitchcock"]
    assert {one and int(one[2]) for one in found} == {5, 6}  # the stand-in finds both equally near


@pytest.fixture(params=["langchain", "llamaindex"])
def stages(request, printed):
    """By stage: its line of states and costs, the passages without it, and the passages with it; a star: the answer."""
    first, *lines = printed(f"{request.param}_stages.py")
    assert "stand-ins" in first
    found = {}
    for title, costs, without, found_with in zip(*(lines[place::5] for place in (1, 2, 3, 4)), strict=False):
        lists = [line.split(None, 1)[1].split(", ") for line in (without, found_with)]
        found[title.partition(":")[0]] = (costs, *lists)
    assert found
    return found


OF_A_FRAMEWORK = {"chat model routes", "selector routes", "HyDE of the framework", "reranker of the framework"}


def test_every_stage_runs_and_costs_the_calls_that_the_guide_says(stages):
    calls = {"a third source": 0, "HyDE": 1, "step back": 1, "HyDE per modality": 3, "several queries": 1, "DPHF": 1}
    calls |= {"keyword route": 0, "entropy route": 0, "reranker": 0, "reranker of paths": 0, "correction": 2}
    assert set(stages) - OF_A_FRAMEWORK == set(calls)
    for name, (costs, _, _) in stages.items():
        assert f"model calls: {calls.get(name, 1)})" in costs, name
        assert not [word for word in ("failed", "late", "unused") if word in costs], name


def test_a_stage_finds_the_answer_that_is_missing_without_it(stages):
    for name, (_, without, found) in stages.items():
        assert not [one for one in without if one.endswith(" *")], name
        assert len([one for one in found if one.endswith(" *")]) == 1, name
    routed = [name for name in stages if "route" in name]
    assert len(routed) == 3
    assert all(stages[name][2][0].endswith(" *") for name in [*routed, "HyDE", "reranker", "reranker of paths"])
    assert "sources: desk, graph, vector;" in stages["a third source"][0]
    assert "sources: desk;" in stages["keyword route"][0]


@pytest.mark.parametrize("framework", ["langchain", "llamaindex"])
def test_a_model_that_reads_the_passages_corrects_its_guess(framework, printed):
    alone, grounded = printed(f"{framework}_stages.py")[-2:]
    assert alone.endswith("who was born in Dover.")
    assert grounded.endswith(": Alfred Hitchcock was born in Leytonstone and went to Hollywood in 1939.")


@pytest.mark.timeout(600)
def test_a_graph_is_written_walked_refreshed_and_dropped_on_a_real_server(address, tmp_path):
    before = contents(address)
    lines = run_script(EXAMPLES / "neo4j_graph.py", address.environment, tmp_path).splitlines()
    assert lines[0] == "written: 6; written again: 0, unchanged: 6"
    assert {line.split("  ")[-1] for line in lines[2:4]} == {"Alfred Hitchcock", "Vertigo"}
    best = lines[2].split("  ")[-1]
    assert lines[-2:] == [f"removed: 1; read_changes reports: {[best]}", "dropped; corpora left: []"]
    assert contents(address) == before


def test_without_an_address_the_graph_script_says_what_it_needs(tmp_path):
    with pytest.raises(AssertionError, match="NEO4J_URI must name a server"):
        run_script(EXAMPLES / "neo4j_graph.py", {}, tmp_path)
