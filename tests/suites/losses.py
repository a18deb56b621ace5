"""Shared tests of both integrations that no hit is lost without a warning, whatever a source returns."""

from __future__ import annotations

from typing import Any

import pytest

from phasegraph.errors import PhasegraphWarning
from phasegraph.retrieval import HitFields, SourceSpec


class LossSuite:
    """Tests of lost hits; derive a class ``Test…`` that creates documents and searches retrievers of a framework."""

    retriever: Any
    """The class of the fused retriever."""

    def document(self, name: str | None, text: str, **metadata: Any) -> Any:
        """Create a document of the framework with the id `name`; None creates a document without an id."""
        raise NotImplementedError

    def asked(self, retriever: Any) -> list[tuple[str, str]]:
        """Return the ids and texts of the hits of a retriever for any query."""
        raise NotImplementedError

    def found(self, *answers: Any, **fields: Any) -> list[tuple[str, str]]:
        """Return the ids and texts of the fused hits if each source returns one of `answers`."""
        return self.asked(self.made(*answers, **fields))

    def made(self, *answers: Any, **fields: Any) -> Any:
        """Create a retriever with a source for each of `answers`; the source returns this answer."""
        specs = [SourceSpec(retriever=lambda q, one=one: one, fields=HitFields(**fields)) for one in answers]
        return self.retriever(retrievers={f"source {row}": spec for row, spec in enumerate(specs)})

    def texts(self, found: list[tuple[str, str]]) -> list[str]:
        """Return the texts of the hits, sorted."""
        return sorted(text for _, text in found)

    @pytest.mark.filterwarnings("ignore:source .* returns hits without an id")
    @pytest.mark.parametrize(
        ("answer", "texts"),
        [
            (["one", "two", "three"], ["one", "three", "two"]),
            (("one", "two"), ["one", "two"]),
            ("the answer", ["the answer"]),
            ([("one", 0.9), ("two", 0.3)], ["one", "two"]),
            (["same", "same ", "other"], ["other", "same"]),
        ],
    )
    def test_plain_texts_are_hits(self, answer: Any, texts: list[str]) -> None:
        assert self.texts(self.found(answer)) == texts

    @pytest.mark.filterwarnings("ignore:source .* returns hits without an id")
    @pytest.mark.parametrize("key", ["doc_id", "source_id", "id"])
    @pytest.mark.parametrize("rows", [True, False])
    def test_chunks_of_one_document_are_different_passages(self, key: str, rows: bool) -> None:
        texts = ["one", "three", "two"]
        answer: list[Any] = (
            [{"text": text, key: "d"} for text in texts]
            if rows
            else [self.document(None, text, **{key: "d"}) for text in texts]
        )
        with pytest.warns(PhasegraphWarning, match=f"metadata '{key}' gives one id to different texts"):
            assert self.texts(self.found(answer)) == texts

    def test_chunks_of_one_document_from_two_sources_are_different_passages(self) -> None:
        first = [{"text": "one", "doc_id": "d"}, {"text": "two", "doc_id": "e"}]
        with pytest.warns(PhasegraphWarning, match="name different texts in other sources") as told:
            found = self.found(first, [{"text": "three", "doc_id": "d"}])
        assert self.texts(found) == ["one", "three", "two"]
        assert ("e", "two") in found
        assert len(told) == 2, "one of each source"

    def test_the_same_text_under_one_id_of_a_document_is_one_passage(self) -> None:
        assert self.found([{"text": "one", "doc_id": "d"}], [{"text": "one ", "doc_id": "d"}]) == [("d", "one")]

    def test_of_a_repeated_id_the_best_is_kept_and_not_the_first(self) -> None:
        nan = float("nan")
        hits = [("low", 0.1), ("none", nan), ("best", 0.9), ("middle", 0.5)]
        answer = [(self.document("a", text), score) for text, score in hits]
        with pytest.warns(PhasegraphWarning, match=r"different texts under one id \('a'\), and only the best"):
            assert self.found([*answer, (self.document("b", "x"), 0.4)], higher_is_better=True) == [
                ("a", "best"), ("b", "x")
            ]  # fmt: skip
        with pytest.warns(PhasegraphWarning, match="and only the best of these hits is used"):
            assert self.found([*answer, (self.document("b", "x"), 0.4)], higher_is_better=False)[0] == ("a", "low")

    def test_equal_ids_of_two_tenants_in_one_answer_are_told(self) -> None:
        answer = [self.document("1", "theirs", tenant="a"), self.document("1", "ours", tenant="b")]
        with pytest.warns(PhasegraphWarning, match=r"source 'source 0' returns different texts under one id \('1'\)"):
            assert len(self.found(answer)) == 1

    def test_equal_ids_of_two_tenants_in_two_sources_are_told(self) -> None:
        first, second = self.document("1", "theirs", tenant="a"), self.document("1", "ours", tenant="b")
        (said,) = self.made([first], [second]).explain("q").warnings[-1:]
        assert said == "id '1' has different texts in source 0 and in source 1: the text of source 0 is used"

    def notes(self, retriever: Any) -> str:
        """Return the notes in the report of the first source, joined."""
        return " ".join(retriever.explain("q").reports[0].notes)

    @pytest.mark.parametrize("rows", [True, False])
    def test_a_films_score_is_no_relevance(self, rows: bool) -> None:
        films = {"a": 1.1, "b": 9.3, "c": 3.2, "d": 4.0}
        answer: list[Any] = [
            {"id": name, "text": f"film {name}", "score": score}
            if rows
            else self.document(name, f"film {name}", score=score)
            for name, score in films.items()
        ]
        for wrong in (answer, sorted(answer, key=lambda one: films[self.name_of(one)])):
            retriever = self.made(wrong)
            assert [name for name, _ in self.asked(retriever)] == [self.name_of(one) for one in wrong]
            if rows or self.reads_metadata:
                assert "the values of metadata 'score' do not descend from hit to hit" in self.notes(retriever)
        best = sorted(answer, key=lambda one: -films[self.name_of(one)])
        if rows or self.reads_metadata:
            assert "higher is better: inferred from the order of its scores" in self.notes(self.made(best))

    reads_metadata = True
    """True if phasegraph reads scores from the metadata of a document; False if the framework's hits have a score."""

    def name_of(self, one: Any) -> str:
        """Return the id of a row or a document."""
        return str(one["id"] if isinstance(one, dict) else self.id_of(one))

    def id_of(self, document: Any) -> str:
        """Return the id of a document."""
        return str(document.id)

    def test_one_answer_of_three_hits_does_not_set_the_direction_for_good(self) -> None:
        answers = [[0.1, 0.2, 0.3], *[[0.9, 0.8, 0.5, 0.3, 0.2]] * 4]
        at = iter(answers)

        def search(query: str) -> list[tuple[Any, float]]:
            return [(self.document(f"p{row}", f"text {row}"), score) for row, score in enumerate(next(at))]

        retriever = self.retriever(retrievers={"vector": search})
        assert "lower is better" in self.notes(retriever)
        with pytest.warns(PhasegraphWarning, match="source 'vector': higher is better: inferred from all"):
            said = [self.notes(retriever) for _ in answers[1:]]
        assert all("higher is better" in one for one in said)
