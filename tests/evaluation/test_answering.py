"""Reading, judging and scoring answers: with chat models that are functions, and answers kept in a file."""

import pytest
from langchain_core.language_models import FakeListChatModel
from tiny import PASSAGES, QUERIES, write_dataset, write_jsonl

from langchain_phasegraph import text_model
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError
from phasegraph.evaluation.answering import (
    AnswerReader,
    ChatJudge,
    ChatReader,
    FaithfulnessJudge,
    answer_questions,
    extract_answer,
    extract_support,
    judge_answers,
)
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.experiment import Answers, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.retrieval import ModelAnswers

RIGHT = {"q0": "Missolonghi", "q1": "River Thames", "q2": "Gloucestershire", "q3": "Athens"}
FOUND = Answers("vector", {"q0": ("p00", "p01"), "q1": ("p04",), "q2": ("p08",), "q3": ()})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = write_dataset(tmp_path_factory.mktemp("data") / "small")
    write_jsonl(
        folder / "queries.jsonl",
        [{"id": i, "question": q, "hops": h, "answer": RIGHT[i], "last_hop_known": k} for i, q, h, k in QUERIES],
    )
    return load_dataset(folder)


def test_readers_and_judges_are_functions_or_chat_models():
    assert isinstance(extract_answer, AnswerReader)
    assert isinstance(ChatReader(str), AnswerReader)
    assert isinstance(ChatJudge(str), FaithfulnessJudge)


def test_a_reader_sees_the_first_passages_in_order_and_the_answers_are_scored(dataset):
    seen = []

    def reader(question, passages):
        seen.append((question, list(passages)))
        return "the river Thames" if "London" in "".join(passages) else ""

    read = answer_questions(dataset, FOUND, reader, depth=1)
    texts = {name: f"{title}\n{text}" for name, title, text in PASSAGES}
    assert seen == [(q, [texts[name] for name in FOUND.found[i][:1]]) for i, q, _, _ in QUERIES]
    table = compare([read], dataset.judgements, measures=(Measure("EM", 1), Measure("F1", 1)))
    assert table["vector"].means == {Measure("EM", 1): 0.25, Measure("F1", 1): 0.25}


def test_a_chat_model_of_langchain_reads_and_judges(dataset):
    reader = ChatReader(text_model(FakeListChatModel(responses=[" Missolonghi\n", "Thames", "", "Athens"])))
    read = answer_questions(dataset, FOUND, reader)
    assert [read.found[name] for name in RIGHT] == [("Missolonghi",), ("Thames",), ("",), ("Athens",)]
    judge = ChatJudge(text_model(FakeListChatModel(responses=["100", "Score: 50.", "-3", "120"])))
    assert judge_answers(dataset, FOUND, read, judge) == {"q0": 1.0, "q1": 0.5, "q2": 0.0, "q3": 0.0}


def test_the_prompt_holds_question_and_passages_once_whatever_they_say():
    prompts = []
    ChatReader(lambda prompt: prompts.append(prompt) or "x")("What is {passages}?", ["{query}", "two"])
    assert prompts[0].endswith("Question: What is {passages}?\n\n[1] {query}\n\n[2] two")
    with pytest.raises(InvalidInputError, match=r"\{passages\}"):
        ChatReader(str, prompt="{query}")


def test_the_stand_in_for_a_judge_marks_the_sentence_that_holds_the_answer():
    assert isinstance(extract_support, FaithfulnessJudge)
    passages = ["Ada sang. Bo met Ada in Paris.", "Boston is where Ada met Cy."]
    assert extract_support("Where did Bo meet Ada?", "paris", passages) == pytest.approx(2 / 5)
    assert extract_support("Bo, Ada?", "Paris", passages) == 1.0
    assert extract_support("Bo, Ada?", "Bo", passages[1:]) == 0.0, "Boston is another word"
    assert extract_support("Bo, Ada?", "Oslo", passages) == extract_support("Bo, Ada?", "Oslo", []) == 0.0


@pytest.mark.parametrize("mark", [2.0, -0.1, float("nan")])
def test_a_mark_outside_its_range_is_refused_with_the_question(dataset, mark):
    read = answer_questions(dataset, FOUND, extract_answer)
    with pytest.raises(InvalidInputError, match="question 'q0'"):
        judge_answers(dataset, FOUND, read, lambda question, answer, passages: mark)


def test_what_is_no_text_and_no_number_is_refused(dataset):
    with pytest.raises(InvalidTypeError, match="'q0', it returned int"):
        answer_questions(dataset, FOUND, lambda question, passages: 7)
    with pytest.raises(InvalidTypeError, match="it returned str"):
        judge_answers(dataset, FOUND, answer_questions(dataset, FOUND, extract_answer), lambda *given: "high")
    with pytest.raises(InvalidInputError, match="number from 0 to 100; got 'fine'"):
        ChatJudge(lambda prompt: "fine")("q", "a", ["p"])


def test_an_id_that_is_no_passage_is_refused_with_its_system_and_question(dataset):
    found = Answers("mine", {"q0": ("p00", "zz")})
    with pytest.raises(InvalidInputError, match="mine: question 'q0' has the id 'zz', but small has no such passage"):
        answer_questions(dataset, found, extract_answer)


def test_a_run_is_replayed_offline_from_its_file(dataset, tmp_path):
    file = tmp_path / "kept.jsonl"
    asked = ModelAnswers(file)
    reader, judge = (
        kind(asked.around(lambda prompt: str(len(prompt) % 90), "lengths")) for kind in (ChatReader, ChatJudge)
    )
    read = answer_questions(dataset, FOUND, reader)
    marks = judge_answers(dataset, FOUND, read, judge)
    kept = ModelAnswers(file, offline=True)
    replayed = answer_questions(dataset, FOUND, ChatReader(kept.around(None, "lengths")))
    assert replayed == read
    assert judge_answers(dataset, FOUND, replayed, ChatJudge(kept.around(None, "lengths"))) == marks
    with pytest.raises(InsufficientDataError, match="no answer of 'lengths'"):
        answer_questions(dataset, FOUND, ChatReader(kept.around(None, "lengths")), depth=1)
