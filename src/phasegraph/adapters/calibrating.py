"""Calibrating, saving and showing the pipeline of a fusing retriever: the same for every framework."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from phasegraph.adapters.fitting import Fitted, calibration_queries
from phasegraph.adapters.planning import Bind, Plan
from phasegraph.adapters.provenance import with_text_warnings
from phasegraph.pipeline import FusionPipeline, Result


def settled(result: Result, winners_of: Callable[[Result], list[Any]]) -> tuple[Result, list[Any]]:
    """A result that says which of its winners came with differing texts, and the winners in the framework's words."""
    winners = winners_of(result)
    return with_text_warnings(result, winners), winners


class Calibrating:
    """Part of a retriever that has a plan, binds its sources to a query, and takes what was fitted.

    A retriever inherits it beside its framework's class and fills in :meth:`_planned`, :meth:`_bound`, :meth:`_take`
    and :meth:`_decide_by`.
    """

    __slots__ = ()

    def calibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """Fit each source's reference calibrator, and how far sources agree, from unlabelled queries.

        Parameters
        ----------
        queries : sequence of str
            At least enough for 20 scores per source; some hundred are better.
        relevant : mapping of str to collection of str, optional
            By query, the ids that answer it, where some are judged. For one purpose: a source whose scores fall where
            relevance rises is refused (distances read as similarities).
        progress : bool, default True
            Show a bar where standard error is a terminal and tqdm is installed.

        Returns
        -------
        Self
            The retriever, fitted. Sources that state their background or give ranks only are left as they are, and so
            is, with a warning, one whose scores cannot be fitted while another's can.
        """
        asked = calibration_queries(queries, relevant, progress)
        answers = [(query, self._planned().rankings(query, self._bound(query))) for query in asked]
        self._take(self._planned().fit(answers, relevant))
        return self

    async def acalibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """As :meth:`calibrate`."""
        asked = calibration_queries(queries, relevant, progress)
        answers = [(query, await self._planned().arankings(query, self._bound(query))) for query in asked]
        self._take(self._planned().fit(answers, relevant))
        return self

    @property
    def fusion(self) -> FusionPipeline:
        """The pipeline that decides, with the weights and calibrators in use."""
        return self._planned().pipeline

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted pipeline, weights and number of results included, to one JSON file."""
        self._planned().pipeline.save(path)

    def load(self, path: str | os.PathLike[str]) -> Self:
        """Take the pipeline that :meth:`save` wrote; IntegrityError if the file is damaged, foreign or newer.

        What the constructor was given (weights, number of results, `accept`, `selection`) wins over the file.
        """
        self._decide_by(FusionPipeline.load(path))
        return self

    def _planned(self) -> Plan:
        """The plan in use."""
        raise NotImplementedError

    def _bound(self, query: str) -> Bind:
        """What binds the sources to a query of the calibration."""
        raise NotImplementedError

    def _take(self, fitted: Fitted) -> None:
        """Go on with what was fitted."""
        raise NotImplementedError

    def _decide_by(self, pipeline: FusionPipeline) -> None:
        """Go on with another pipeline."""
        raise NotImplementedError
