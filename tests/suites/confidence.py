"""Shared tests of both integrations for confidence, with a real store and an entity graph."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from phasegraph import Confidence
from phasegraph.lexical import split

TEXTS = {
    "film": ("Vertigo", "Vertigo is a film by Alfred Hitchcock."),
    "man": ("Alfred Hitchcock", "Alfred Hitchcock was born in Leytonstone."),
    "place": ("Leytonstone", "Leytonstone is a part of London."),
    "other": ("Paris", "Paris is the capital of France."),
}
ON, OFF = "Where was Alfred Hitchcock born?", "Which ramen restaurant in Osaka has a terrace?"
ASKS = ("Where is {}?", "Who knows {}?", "Tell me about {}.", "What was {} born as?", "Is {} a film?")
QUESTIONS = {ask.format(title): {name} for name, (title, _) in TEXTS.items() for ask in ASKS}


def counted(text: str) -> list[float]:
    """Return the numbers of a text's words, in 512 dimensions."""
    out = [1e-6] * 512
    for word in split(text):
        out[zlib.crc32(word.encode()) % 512] += 1.0
    return out


class ConfidenceSuite:
    """Tests of confidence; derive a class ``Test…`` that creates the sources of a framework."""

    retriever: Any
    """The class of the fused retriever."""

    def sources(self) -> dict[str, Any]:
        """Create the sources ``vector``, embedded by :func:`counted`, and ``graph`` of the passages in `TEXTS`."""
        raise NotImplementedError

    def ask(self, retriever: Any, query: str) -> list[Any]:
        """Return the hits of a retriever."""
        raise NotImplementedError

    async def aask(self, retriever: Any, query: str) -> list[Any]:
        """Return the hits of a retriever, asked asynchronously."""
        raise NotImplementedError

    def test_calibrated_it_answers_what_the_corpus_holds_and_abstains_from_the_rest(self, tmp_path: Path) -> None:
        sources = self.sources()
        retriever = self.retriever(**sources, accept=Confidence(min=0.2)).calibrate(list(QUESTIONS))
        assert self.ask(retriever, ON)
        assert self.ask(retriever, OFF) == []
        result = retriever.explain(OFF)
        assert (result.reason, result.degraded) == ("abstained", False)
        assert result.confidence < 0.2 < retriever.explain(ON).confidence
        assert result.confidence_evidence.reason == ""
        retriever.save(tmp_path / "fitted.json")
        again = self.retriever(**sources, pipeline=tmp_path / "fitted.json")
        assert again.fitted_pipeline.confidence == retriever.fitted_pipeline.confidence
        assert self.ask(again, OFF) == []

    async def test_judged_questions_make_it_a_probability(self) -> None:
        seen: list[Any] = []
        retriever = self.retriever(**self.sources(), on_result=seen.append)
        await retriever.acalibrate(list(QUESTIONS), relevant=QUESTIONS)
        assert await self.aask(retriever, ON)
        await self.aask(retriever, OFF)
        assert [one.confidence_evidence.probability for one in seen] == [True, True]
        assert seen[0].confidence > 0.5 > seen[1].confidence

    def test_hits_say_nothing_of_it(self) -> None:
        retriever = self.retriever(**self.sources(), evidence_key="phasegraph")
        hit = self.ask(retriever, ON)[0]
        assert "phasegraph" in hit.metadata
        assert "confidence" not in str(hit.metadata)
        assert retriever.explain(ON).confidence is not None

    def test_without_a_graph_the_words_are_weighed_by_the_hits(self) -> None:
        seen: list[Any] = []
        alone = self.retriever(vector=self.sources()["vector"], on_result=seen.append)
        self.ask(alone, ON)
        assert seen[0].confidence is None
        assert "use explain() or accept=Confidence(...)" in seen[0].confidence_evidence.reason
        assert alone.explain(ON).confidence > 2 * alone.explain(OFF).confidence
        assert alone.explain(ON).confidence_evidence.reason == "without a walk that knows the words"
