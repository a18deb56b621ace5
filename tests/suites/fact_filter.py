"""Shared tests of both integrations for the fact filter: a language model over a graph source, in a fusion."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from phasegraph import PhasegraphWarning, Result
from phasegraph.graph import Extraction, FactIndex, GraphSource, filter_facts_with, graph_from_extractions

TEXTS = [f"Ada {verb} Bo in place {row}." for row, verb in enumerate(["met", "saw", "left"])]
VECTORS = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
RECORDS = [Extraction(str(row), triples=[("ada", text.split()[1], "bo")]) for row, text in enumerate(TEXTS)]
GRAPH = graph_from_extractions(["0", "1", "2"], RECORDS, embeddings=VECTORS)
SOURCE = GraphSource(
    GRAPH, embedder=lambda query: [0.9, 0.1], facts=FactIndex.of_extractions(GRAPH, RECORDS, lambda texts: VECTORS)
)


class FactFilterSuite:
    """Tests of the fact filter; derive a class ``Test…`` that creates a framework's retrievers and language models."""

    def fused(self, source: GraphSource) -> Any:
        """Create a retriever over vectors of `TEXTS` with the ids 0, 1 and 2, and over a graph source."""
        raise NotImplementedError

    def model(self, answer: str) -> Any:
        """Create the framework's language model that always returns `answer`, as a function from prompt to text."""
        raise NotImplementedError

    async def hits(self, retriever: Any, query: str) -> list[Any]:
        """Return the hits of a retriever, asked asynchronously."""
        raise NotImplementedError

    def found(self, answer: str | None = None) -> Result:
        """Ask a retriever whose fact filter gets `answer` from its model; None means no fact filter."""
        return self.asked(answer).explain("Who met Bo?")

    def asked(self, answer: str | None) -> Any:
        """Create a retriever whose fact filter gets `answer` from its model; None means no fact filter."""
        return self.fused(
            SOURCE if answer is None else replace(SOURCE, fact_filter=filter_facts_with(self.model(answer)))
        )

    def test_keeping_all_facts_is_no_filter_to_the_bit(self) -> None:
        one, other = self.found(), self.found('{"facts": [1, 2, 3]}')
        assert one.ids == other.ids
        assert one.scores.tobytes() == other.scores.tobytes()

    def test_the_papers_answer_keeps_the_facts_that_it_lists(self) -> None:
        listed = [["Ada", verb, "Bo"] for verb in ("met", "saw", "left")]
        plainly = self.found('{"facts": [1, 2, 3]}')
        for answer, said in ((listed, ""), ([*listed, ["Ada", "met", "Cy"]], ""), ([], "kept none of 3 facts")):
            result = self.found(json.dumps({"fact": answer}))
            assert said in reason(result)
            assert (result.scores.tobytes() == plainly.scores.tobytes()) == bool(answer)

    def test_keeping_none_is_said_in_the_report(self) -> None:
        retriever = self.asked('{"facts": []}')
        assert "kept none of 3 facts" in reason(retriever.explain("Who met Bo?"))
        assert asyncio.run(self.hits(retriever, "Who met Bo?"))

    def test_an_answer_that_cannot_be_read_costs_nothing(self) -> None:
        with pytest.warns(PhasegraphWarning, match="fact filter failed"):
            result = self.found("I would rather not.")
        assert reason(result).startswith("the fact filter failed (")
        assert result.scores.tobytes() == self.found().scores.tobytes()


def reason(result: Result) -> str:
    """Return the reason in the report of the graph source."""
    return next(one.reason for one in result.reports if one.source == "graph")
