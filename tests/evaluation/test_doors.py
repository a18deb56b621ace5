"""Every door of the evaluation refuses ids that are not text, and a system whose ids nobody knows."""

from dataclasses import replace

import numpy as np
import pytest

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.evaluation import evaluate
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.experiment import Answers, compare
from phasegraph.evaluation.judgements import Judgement, check_judged
from phasegraph.evaluation.measures import ANSWER_MEASURES, MEASURES, Measure, score_run
from phasegraph.evaluation.peers import ensemble
from phasegraph.evaluation.query_files import Query
from phasegraph.evaluation.runs import Run, write_run
from phasegraph.evaluation.source_runs import ExperimentInput
from phasegraph.evaluation.system_runs import run_systems, run_within
from phasegraph.evaluation.systems import System
from phasegraph.ranking import Ranking

JUDGED = [Judgement("q1", (("a",), ("b",))), Judgement("q2", (("c",),))]
PAIR = ("a", 0.5)
ADVICE = r"pass the ids alone, \[identifier for identifier, score in hits\]"


def test_the_pairs_of_a_peer_are_refused_with_the_system_the_question_and_what_to_pass(folder):
    dataset = load_dataset(folder)
    ids = [passage.id for passage in dataset.passages[:5]]
    batch = {
        source: [Ranking(source, ids, np.linspace(1, 0.5, 5)) for _ in dataset.queries]
        for source in ("vector", "graph")
    }
    found = dict(zip([query.id for query in dataset.queries], ensemble(dataset, batch, 5), strict=True))
    first = dataset.queries[0].id
    with pytest.raises(InvalidTypeError, match=rf"EnsembleRetriever, question '{first}'.*\('{ids[0]}', 0\.0.*{ADVICE}"):
        Answers("EnsembleRetriever", found)


@pytest.mark.parametrize("wrong", [PAIR, 7, None, ["a"]], ids=str)
def test_answers_take_text_alone(wrong):
    with pytest.raises(InvalidTypeError, match=r"pairs, question 'q2': an id must be text; got"):
        Answers("pairs", {"q1": ("a",), "q2": ("c", wrong)})


def test_only_a_pair_is_told_to_leave_its_score_out():
    with pytest.raises(InvalidTypeError) as seven:
        Answers("numbers", {"q1": (7,)})
    assert str(seven.value) == "numbers, question 'q1': an id must be text; got 7; pass text, such as str(id)"


def test_one_string_is_no_list_of_ids():
    with pytest.raises(
        InvalidTypeError, match=r"one, question 'q1': ids must be a sequence of text, best first; got 'abc'"
    ):
        Answers("one", {"q1": "abc"})


def test_a_question_s_id_is_text():
    with pytest.raises(InvalidTypeError, match=r"numbers: a question's id must be a string; got 1"):
        Answers("numbers", {1: ("a",)})


@pytest.mark.parametrize("name", [*MEASURES, *ANSWER_MEASURES, "P", "AP"])
def test_no_measure_scores_a_pair(name):
    judged = Judgement("q1", (("a",),), answers=("a",))
    with pytest.raises(InvalidTypeError, match=rf"question 'q1': .* must be text; got \('a', 0.5\); {ADVICE}"):
        Measure(name, 5)([PAIR], judged)
    with pytest.raises(InvalidTypeError, match=r"question 'q1'"):
        score_run({"q1": [PAIR]}, [judged], Measure(name, 5))
    for own in {**MEASURES, **ANSWER_MEASURES}.values():
        with pytest.raises(InvalidTypeError, match=r"question 'q1'"):
            own([PAIR], judged, 5)


def test_a_judgement_is_of_ids_that_are_text():
    with pytest.raises(
        InvalidTypeError, match=r"the judgement of 'q': a hop must be a tuple of ids; got 'ab'.*\(\('ab',\),\)"
    ):
        Judgement("q", ("ab",))
    with pytest.raises(
        InvalidTypeError, match=rf"the judgement of 'q': an id must be text; got \('a', 0.5\); {ADVICE}"
    ):
        Judgement("q", ((PAIR,),))
    with pytest.raises(InvalidTypeError, match=r"the grades of 'q': an id must be text; got 3"):
        Judgement("q", (("a",),), grades={3: 1.0})
    with pytest.raises(InvalidTypeError, match=r"a question's id must be a string; got 3"):
        Judgement(3, ())


def test_passages_and_questions_have_text_for_an_id():
    with pytest.raises(InvalidTypeError, match=r"Passage.id must be a string; got 3"):
        Passage(3, "title", "text")
    with pytest.raises(InvalidTypeError, match=r"Query.id must be a string; got \('q', 1\)"):
        Query(("q", 1), "text", JUDGED[0])


def test_a_run_takes_rankings_alone(tmp_path):
    with pytest.raises(InvalidTypeError, match=r"run 'r', question 'q1': the answer must be a Ranking; got list"):
        write_run(Run("r", {"q1": [PAIR]}), tmp_path / "r.run")
    with pytest.raises(InvalidTypeError, match=r"r, question 'q1': an id must be text"):
        check_judged({"q1": [PAIR]}, JUDGED, "r")


def test_a_system_that_gives_pairs_is_named_and_not_run_as_zeros(folder):
    dataset = load_dataset(folder)
    pairs = System("mine", (), lambda data, batch, k: [((data.passages[0].id, 1.0),) for _ in data.queries])
    with pytest.raises(InvalidTypeError, match=rf"mine, question '.*{ADVICE}"):
        run_systems(ExperimentInput(dataset, 5), [pairs], 5)


def test_a_system_within_collections_is_named_too(folder):
    whole = load_dataset(folder)
    passages = tuple(replace(one, extra={"collection_id": "one"}) for one in whole.passages)
    queries = tuple(replace(one, extra={"collection_id": "one"}) for one in whole.queries)
    collections = replace(whole, passages=passages, queries=queries)
    pairs = System("mine", (), lambda data, batch, k: [((data.passages[0].id, 1.0),) for _ in data.queries])
    with pytest.raises(InvalidTypeError, match=rf"mine, question '.*{ADVICE}"):
        run_within(ExperimentInput(collections, 5), [pairs], 5, "collection_id")


@pytest.mark.parametrize(
    "judged", [{"Who?": [PAIR]}, {"Who?": {3: 1.0}}, [{"question": "Who?", "relevant": [7]}]], ids=str
)
def test_judged_questions_name_ids_that_are_text(judged):
    with pytest.raises(InvalidInputError, match=r"judged.*must contain ids \(text\)|an id must be text"):
        evaluate(lambda question: ["a"], judged)


def test_a_retriever_s_pairs_of_id_and_score_are_read_as_such():
    found = evaluate(lambda question: [("a", 0.9), ("x", 0.2)], {"Who?": ["a"]})
    assert found.means["<lambda>"]["MRR@10"] == 1.0


def test_a_system_none_of_whose_ids_is_judged_is_an_error_not_a_row_of_zeros():
    known = Answers("vector", {"q1": ("a",), "q2": ("x",)})
    foreign = Answers("mine", {"q1": ("doc-1",), "q2": ("doc-2", "doc-1")})
    with pytest.raises(
        InvalidInputError,
        match=r"none of the 2 ids of 'mine' is judged for any question; a returned id is 'doc-1', a known id is "
        "'a'.*corpus=",
    ):
        compare([known, foreign], JUDGED)


def test_a_system_that_finds_passages_of_the_corpus_may_find_nothing_right():
    known, poor = Answers("vector", {"q1": ("a",)}), Answers("mine", {"q1": ("x",)})
    assert compare([known, poor], JUDGED, corpus=["a", "b", "c", "x"])["mine"].means[Measure("Recall", 5)] == 0
    with pytest.raises(
        InvalidInputError,
        match=r"none of the 1 ids of 'mine' is in the corpus or judged for any question; a returned id is 'X 1'",
    ):
        compare([known, Answers("mine", {"q1": ("X 1",)})], JUDGED, corpus=["a", "b", "c", "x"])


def test_a_system_that_finds_nothing_at_all_scores_nothing():
    table = compare([Answers("vector", {"q1": ("a",)}), Answers("mine", {"q1": ()})], JUDGED)
    assert table["mine"].means[Measure("Recall", 5)] == 0


@pytest.mark.parametrize("name", [*MEASURES, "P"])
def test_a_run_none_of_whose_ids_is_known_is_no_array_of_zeros(name):
    paged = [replace(one, pages=("page",), sources={"a": "page"}) for one in JUDGED]
    measure = Measure(name, 5)
    with pytest.raises(
        InvalidInputError, match=r"none of the 1 ids of the run is judged.*returned id is 'zzz', a known id is 'a'"
    ):
        score_run({"q1": ["zzz"]}, paged, measure)
    with pytest.raises(InvalidInputError, match=r"is in the corpus or judged for any question; a returned id is 'zzz'"):
        score_run({"q1": ["zzz"]}, paged, measure, corpus=["a", "x"])
    assert score_run({"q1": ["x", "zzz"]}, paged, measure, corpus=["a", "x"])[0] == 0
    assert score_run({}, paged, measure)[0] == 0
    assert measure(["zzz"], paged[0]) == 0


def test_answers_are_texts_that_nobody_need_know():
    assert score_run({"q1": ["zzz"]}, [Judgement("q1", (), answers=("a",))], Measure("EM", 1)).tolist() == [0.0]


def test_a_retriever_of_another_id_scheme_is_an_error():
    with pytest.raises(InvalidInputError, match=r"none of the 1 ids of 'search' is judged.*id_key.*corpus="):
        evaluate({"search": lambda question: ["doc-1"]}, {"Who?": ["a"]})
    with pytest.raises(InvalidInputError, match=r"none of the 1 ids of 'search' is in the corpus or judged.*id_key"):
        evaluate({"search": lambda question: ["doc-1"]}, {"Who?": ["a"]}, corpus=[Passage("a", "", "text")])
