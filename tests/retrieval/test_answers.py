"""Answers of models in a file: what is asked once, what is read again, and what a damaged file costs."""

from __future__ import annotations

import asyncio
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasegraph import InsufficientDataError, InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.retrieval import ModelAnswers, hyde


def shout(prompt: str) -> str:
    return prompt.upper()


def refused(*given: Any) -> Any:
    raise AssertionError("the model is asked")


def test_an_input_is_asked_once_in_each_file_and_for_each_name(tmp_path: Path) -> None:
    asked: list[Any] = []

    def rerank(query: str, texts: list[str]) -> Any:
        asked.append((query, texts))
        return np.arange(len(texts), dtype=np.float32) / 3

    file = tmp_path / "made" / "answers.jsonl"
    answers = ModelAnswers(file)
    one = answers.around(rerank, "m")
    first = one("q", ["a", "b"])
    assert first == [0.0, float(np.float32(1) / np.float32(3))]
    assert one("q", ["a", "b"]) == first
    assert one("q", ["b", "a"]) == first
    answers.around(rerank, "other")("q", ["a", "b"])
    assert (len(asked), answers.asked, answers.replayed, len(answers)) == (3, 3, 1, 3)
    replay = ModelAnswers(file, offline=True).around(None, "m")
    assert replay("q", ["a", "b"]) == first
    with pytest.raises(InsufficientDataError, match=r"answers.jsonl contains no answer of 'm' to this input"):
        replay("q", ["a", "c"])


def test_the_file_holds_answers_and_no_input(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    ModelAnswers(file).around(lambda query, texts: "\udc80 37", "grader")("a secret", ["of a passage"])
    (line,) = file.read_text(encoding="ascii").splitlines()
    row = json.loads(line)
    assert (row["model"], row["answer"], len(row["input"])) == ("grader", "\udc80 37", 64)
    assert "secret" not in line


def test_a_line_that_was_cut_off_is_said_and_asked_for_again(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    whole = ModelAnswers(file)
    for prompt in "abc":
        whole.around(shout, "m")(prompt)
    file.write_bytes(b"[]\n" + file.read_bytes()[:-5])
    with pytest.warns(PhasegraphWarning, match="2 damaged lines are ignored"):
        mended = ModelAnswers(file)
    assert [mended.around(shout, "m")(prompt) for prompt in "abc"] == ["A", "B", "C"]
    assert mended.asked == 1
    with pytest.warns(PhasegraphWarning, match="2 damaged lines"):
        assert len(ModelAnswers(file)) == 3


def test_errors_are_not_kept(tmp_path: Path) -> None:
    answers = ModelAnswers(tmp_path / "a.jsonl")
    with pytest.raises(AssertionError):
        answers.around(refused, "m")("q")
    assert answers.around(shout, "m")("q") == "Q"


def test_coroutines_threads_pickles_and_copies_share_the_file(tmp_path: Path) -> None:
    async def later(prompt: str) -> str:
        await asyncio.sleep(0)
        return prompt.upper()

    answers = ModelAnswers(tmp_path / "a.jsonl")
    awaited = answers.around(later, "m")
    assert asyncio.run(awaited.acall("q")) == awaited("q") == "Q"
    prompts = [f"p{row % 40}" for row in range(400)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(answers.around(shout, "m"), prompts)) == [one.upper() for one in prompts]
    opened = pickle.loads(pickle.dumps(answers.around(shout, "m")))  # noqa: S301 - our own
    assert (opened("q"), opened("p7"), opened.answers.asked, len(opened.answers)) == ("Q", "P7", 0, 41)
    assert deepcopy(answers.around(shout, "m")).answers is answers


@pytest.mark.parametrize("answer", [object(), b"bytes", {1: 2}, [object()], type("Marked", (str,), {})("text")])
def test_an_answer_that_would_not_come_back_as_it_is_is_refused(tmp_path: Path, answer: Any) -> None:
    with pytest.raises(InvalidTypeError, match="a model's answer can be stored only if"):
        ModelAnswers(tmp_path / "a.jsonl").around(lambda prompt: answer, "m")("q")


def test_a_file_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    model = ModelAnswers(tmp_path / "file" / "a.jsonl").around(shout, "m")
    with pytest.warns(PhasegraphWarning, match="answers cannot be stored in this file") as told:
        assert [model(prompt) for prompt in "aab"] == ["A", "A", "B"]
    assert len(told) == 1


def test_bad_input_is_named(tmp_path: Path) -> None:
    answers = ModelAnswers(tmp_path / "a.jsonl")
    with pytest.raises(InvalidInputError, match="name must be text"):
        answers.around(shout, " ")
    with pytest.raises(InvalidTypeError, match="None is valid only with"):
        answers.around(None, "m")
    with pytest.raises(InvalidTypeError, match="got a Rewriter, which already contains"):
        answers.around(hyde(shout), "m")
    with pytest.raises(InvalidTypeError, match="got object"):
        answers.around(shout, "m")(object())
    with pytest.raises(InvalidTypeError, match="offline must be"):
        ModelAnswers(tmp_path / "a.jsonl", offline="yes")  # type: ignore[arg-type]
    with pytest.raises(InsufficientDataError, match="no such file"):
        ModelAnswers(tmp_path / "none.jsonl", offline=True)
