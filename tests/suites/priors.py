"""Shared tests of both integrations that priors read the metadata and texts of a framework's own passages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phasegraph import ExactMatchBonus, FusionPipeline, RecencyPrior, UnitPrior

PASSAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "rome": ("Rome lies on the Tiber.", {"fame": 1.0, "published": "1999-01-01"}),
    "code": ("The code is ERR-1042.", {"fame": "0.5", "published": "2026-01-01T00:00:00Z"}),
    "oslo": ("Oslo lies on a fjord.", {"fame": "unknown"}),
}


class PriorSuite:
    """Tests of priors; derive a class ``Test…`` that creates the sources of a framework."""

    retriever: Any
    """The class of the fused retriever."""

    def sources(self) -> dict[str, Any]:
        """Return the arguments of a retriever with the sources ``vector`` and ``bm25`` over `PASSAGES`."""
        raise NotImplementedError

    def made(self, *priors: object, **fields: Any) -> Any:
        """Create a retriever with the given priors."""
        pipeline = replace(FusionPipeline.reciprocal_rank(), priors=priors)
        return self.retriever(**self.sources(), pipeline=pipeline, **fields)

    def first(self, retriever: Any, query: str) -> tuple[str, dict[str, Any]]:
        """Return the id and the metadata of a retriever's first hit."""
        raise NotImplementedError

    def test_metadata_reaches_the_priors_and_what_is_missing_is_counted(self) -> None:
        result = self.made(UnitPrior("fame", strength=1.0)).explain("Which town?")
        assert dict(zip(result.ids, result.priors.tolist(), strict=True)) == {"rome": 1.0, "code": 0.5, "oslo": 1.0}
        (reading,) = result.extras["priors"]
        assert (reading.found, reading.missing, reading.unusable) == (2, 0, 1)
        assert "'oslo' has 'unknown'" in result.warnings[-1]

    def test_dates_are_read_from_the_metadata(self) -> None:
        result = self.made(RecencyPrior(365.25 * 86400, strength=1.0, key="published")).explain("Which town?")
        value = dict(zip(result.ids, result.priors.tolist(), strict=True))
        assert 0 < value["rome"] < 1e-6 < value["code"] < value["oslo"] == 1.0

    @pytest.mark.parametrize("query", ["What is ERR-1042?", 'What is "err-1042"?'])
    def test_an_exact_match_in_the_text_is_one_more_source(self, query: str) -> None:
        retriever = self.made(ExactMatchBonus(weight=100.0), evidence_key="why")
        name, metadata = self.first(retriever, query)
        assert name == "code"
        assert metadata["why"]["sources"]["exact_match"]["rank"] == 1.0
        assert [one.source for one in retriever.explain(query).reports] == ["bm25", "exact_match", "vector"]
