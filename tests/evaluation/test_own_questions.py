"""Questions made from a corpus: their words stand in their gold passages, and the shared name is not in them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.own_questions import known_item, known_items, two_part
from phasegraph.evaluation.query_files import read_questions
from phasegraph.graph import build_graph
from phasegraph.lexical import TOKENIZERS

WORDS = TOKENIZERS["english"]


@pytest.fixture(scope="module")
def passages() -> list[Passage]:
    rng = np.random.default_rng(0)
    vocabulary = [f"{first}{second}on" for first in "bcdfghklmnp" for second in ("ari", "elo", "imu", "osta", "urra")]
    names = [f"Lake {name.capitalize()}" for name in vocabulary[:12]]

    def text(row: int) -> str:
        filler = " ".join(rng.choice(vocabulary, 30).tolist())
        return f"The road passes {names[row % 12]} near {names[row % 12]} Town{row}. Then {filler} ends."

    return [Passage(f"p{row}", f"Report {row}", text(row), {"source": f"file{row}.md"}) for row in range(36)]


def test_a_known_item_question_is_words_of_its_passage_in_their_order(passages) -> None:
    made = known_items(passages, 20)
    assert len(made) == len({query.id for query in made}) == 20
    texts = {passage.id: passage.text for passage in passages}
    for query in made:
        ((gold,),) = query.judgement.hops
        words, places = WORDS(texts[gold]), []
        for word in query.text.split():
            places.append(words.index(word, places[-1] + 1 if places else 0))
        assert len(places) == 6
        assert query.extra["kind"] == "known-item"
    assert [query.text for query in known_items(passages, 20)] == [query.text for query in made]
    assert [query.text for query in known_items(passages, 20, seed=1)] != [query.text for query in made]


def test_a_chinese_text_gives_characters_in_a_row() -> None:
    text = "這是一個很長的句子它沒有任何標點符號可以把它分開來看看。"
    found = known_item(text, np.random.default_rng(0))
    assert found is not None
    assert len(found) == 18
    assert found in text
    assert known_item("too short", np.random.default_rng(0)) is None


def test_a_two_part_question_has_words_of_two_passages_that_share_a_name(passages) -> None:
    graph = build_graph(passages)
    made = two_part(passages, graph, 10)
    assert len(made) >= 5
    texts = {passage.id: passage.text for passage in passages}
    used = [gold for query in made for (gold,) in query.judgement.hops]
    assert len(used) == len(set(used)) == 2 * len(made)
    for query in made:
        (one,), (two,) = query.judgement.hops
        words = query.text.split()
        assert set(words[:3]) <= set(WORDS(texts[one]))
        assert set(words[3:]) <= set(WORDS(texts[two]))
        rows = [set(graph.mentions[[graph.passage_rows[name]]].indices.tolist()) for name in (one, two)]
        shared = {graph.entities[column] for column in rows[0] & rows[1]}
        assert any(not set(name.split()) & set(words) for name in shared)


def test_a_corpus_without_names_makes_no_two_part_question() -> None:
    passages = [Passage("a", "", "nothing here is named"), Passage("b", "", "nor is it there")]
    assert two_part(passages, build_graph(passages), 5) == []


def test_a_user_judges_by_quotes_files_and_ids(passages, tmp_path) -> None:
    lines = [
        {"question": "one", "quotes": [passages[3].text[-30:].upper(), passages[4].text[-30:]]},
        {"question": "two", "pages": ["file5.md"]},
        {"question": "three", "relevant": ["p6", "p7"]},
    ]
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    found = read_questions(file, passages)
    assert [query.judgement.hops for query in found] == [(("p3",), ("p4",)), (("p5",),), (("p6",), ("p7",))]
    assert not any(query.judgement.last_hop_known for query in found)
