"""The query's words in the hits: taken from a corpus where it has counted them, read where it has not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from phasegraph import IntegrityError, Ranking
from phasegraph.graph import Corpus, EntityGraph, GraphIndex
from phasegraph.lexical import tokenizers
from phasegraph.ranking import QueryWords
from phasegraph.retrieval import HitAccess

PASSAGES = [{"id": f"p{row}", "title": f"Name {row % 3}", "text": f"Ada met Bo {row} times."} for row in range(9)]
QUERY = "How often did Ada meet Bo? 3 4"


def _access(corpus: Corpus | None = None) -> HitAccess:
    return HitAccess(lambda hit: hit["text"], lambda hit: {"title": hit["title"]}, corpus=corpus)


def _ranking(hits: list[dict[str, Any]]) -> Ranking:
    return Ranking(
        "graph", [hit["id"] for hit in hits], -np.arange(len(hits), dtype=float),
        payloads={hit["id"]: hit for hit in hits}, words=QueryWords({"ada": 1.0, "times": 2.0}),
    )  # fmt: skip


@pytest.fixture
def corpus() -> Corpus:
    return Corpus(GraphIndex.build(PASSAGES), lambda _: np.ones(1))


def _split(monkeypatch: pytest.MonkeyPatch, call: Any) -> tuple[Any, list[str]]:
    seen: list[str] = []
    tokens_of = tokenizers.tokens_of

    def noted(tokenize: Any, text: str) -> Any:
        seen.append(text)
        return tokens_of(tokenize, text)

    with monkeypatch.context() as patched:
        patched.setattr("phasegraph.lexical.hits.tokens_of", noted)
        return call(), seen


def test_texts_that_the_corpus_has_counted_are_not_read(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    rankings = [_ranking(PASSAGES)]
    read = _access().words(QUERY, rankings)
    found, seen = _split(monkeypatch, lambda: _access(corpus).words(QUERY, rankings))
    assert found == read
    assert read.order
    assert seen == [QUERY]


def test_a_hit_with_another_text_or_title_is_read_itself(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [*PASSAGES[:6], {**PASSAGES[6], "text": "Ada"}, {**PASSAGES[7], "title": "Ada times"}]
    foreign = {"id": "foreign", "title": "", "text": "Ada, Ada and Ada 3 times."}
    rankings = [_ranking([*changed, foreign])]
    read = _access().words(QUERY, rankings)
    found, seen = _split(monkeypatch, lambda: _access(corpus).words(QUERY, rankings))
    assert found == read
    texts = ["Name 0\nAda", "Ada times\nAda met Bo 7 times.", "\nAda, Ada and Ada 3 times."]
    assert sorted(seen) == sorted([QUERY, *texts])


def test_a_passage_that_left_or_changed_is_read(corpus: Corpus) -> None:
    rankings = [_ranking(PASSAGES)]
    read = _access().words(QUERY, rankings)
    corpus.replace(["p0", "p1"], [{"id": "p1", "title": "Other", "text": "Ada.", "metadata": {}}], None)
    assert _access(corpus).words(QUERY, rankings) == read


def test_another_tokenizer_or_a_damaged_file_leads_to_reading(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(_ranking(PASSAGES), words=QueryWords({"did": 1.0}, 0.0, "plain"))
    assert _access(corpus).words(QUERY, [plain]) == _access().words(QUERY, [plain])

    def cut(graph: EntityGraph) -> None:
        raise IntegrityError("cut off")

    monkeypatch.setattr(EntityGraph, "check_files", cut)
    rankings = [_ranking(PASSAGES)]
    assert _access(corpus).words(QUERY, rankings) == _access().words(QUERY, rankings)
