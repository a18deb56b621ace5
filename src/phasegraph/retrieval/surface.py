"""What the retrievers of both integrations offer beside asking: calibrating, saving, and a callback for results."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from phasegraph._support.clock import Deadline
from phasegraph.errors import InvalidTypeError, warn
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.result import Result
from phasegraph.retrieval.driver import Sources
from phasegraph.retrieval.engine import FusionEngine
from phasegraph.retrieval.fitting import calibration_queries
from phasegraph.retrieval.source_config import PIPELINE, read_pipeline


def version_attribute(module: str, distribution: str) -> Callable[[str], str]:
    """The ``__getattr__`` of an integration: its installed version, read when it is first named."""

    def read(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return import_module("importlib.metadata").version(distribution)  # type: ignore[no-any-return]

    return read


class Calibrating:
    """Part of a retriever that has an engine: calibrating it, saving and loading what was fitted.

    A retriever inherits it beside its framework's class, keeps its engine in ``_engine`` and binds its sources to a
    query in :meth:`_sources`.
    """

    _engine: FusionEngine

    def calibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """Fit each source's reference calibrator, how far sources agree, and the bar of ``Result.confidence``.

        Parameters
        ----------
        queries : sequence of str
            Unlabelled. At least 20 different ones; some hundred are better.
        relevant : mapping of str to collection of str, optional
            By query, the ids that answer it, where some are judged; none where the corpus has no answer. A source whose
            scores fall where relevance rises is refused (distances read as similarities), and with 20 judged queries
            ``Result.confidence`` becomes the probability that the corpus holds an answer, as if it did for every
            second query.
        progress : bool, default True
            Show a bar where standard error is a terminal and tqdm is installed.

        Returns
        -------
        Self
            The retriever, fitted. Sources that state their background or give ranks only are left as they are, and so
            is, with a warning, one that answered fewer than 20 queries or whose scores cannot be fitted, while another
            can.

        Raises
        ------
        InsufficientDataError
            If there are fewer than 20 different queries, or no source can be fitted; nothing is fitted then.
        """
        asked, gatherer = calibration_queries(queries, relevant, progress), self._engine.gatherer
        rewriting = partial(self._engine.stages.rewriting, deadline=Deadline.after(gatherer.clock, None))
        answers = [(one, gatherer.gather(rewriting(self._sources(one)), one).rankings) for one in asked]
        self._engine = self._engine.fit(answers, relevant)
        return self

    async def acalibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """As :meth:`calibrate`."""
        asked, gatherer = calibration_queries(queries, relevant, progress), self._engine.gatherer
        rewriting = partial(self._engine.stages.rewriting, deadline=Deadline.after(gatherer.clock, None))
        answers = [(one, (await gatherer.agather(rewriting(self._sources(one)), one)).rankings) for one in asked]
        self._engine = self._engine.fit(answers, relevant)
        return self

    @property
    def fitted_pipeline(self) -> FusionPipeline:
        """The pipeline that decides, with the weights and calibrators in use."""
        return self._engine.pipeline

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted pipeline, weights and number of results included, to one JSON file.

        Into the folder of a retriever that has one, it is taken when that is loaded.
        """
        self._engine.pipeline.save(Path(path) / PIPELINE if Path(path).is_dir() else path)

    def load_pipeline(self, path: str | os.PathLike[str]) -> Self:
        """Take the pipeline that :meth:`save` wrote, or the one in a folder of a retriever.

        IntegrityError if the file is damaged, foreign or newer.

        What the constructor was given (weights, number of results, `accept`, `selection`) wins over the file.
        """
        self._engine = self._engine.with_pipeline(read_pipeline(path))
        return self

    def _sources(self, query: str) -> Sources:
        """The sources of `_engine.asked`, bound to a query of the calibration."""
        raise NotImplementedError


class ResultCallback:
    """Run the ``on_result`` callback of a retriever; an exception it raises becomes a warning.

    A coroutine function is awaited in asynchronous calls, and cannot be in others.

    >>> seen = []
    >>> ResultCallback(seen.append).notify("a result")
    >>> seen
    ['a result']
    """

    __slots__ = ("_function", "_warned")

    def __init__(self, function: Callable[[Result], Any] | None) -> None:
        if function is not None and not callable(function):
            raise InvalidTypeError(f"on_result must be a function or None; got {function!r}")
        self._function = function
        self._warned = False

    @property
    def is_set(self) -> bool:
        """Whether there is a function to call."""
        return self._function is not None

    def notify(self, result: Result) -> None:
        """Call it; what it would have to await is closed, with a warning the first time."""
        if self._function is None:
            return
        try:
            pending = self._function(result)
        except Exception as error:  # noqa: BLE001 - the answer stands whatever a callback raises
            _warn_of_callback(error)
            return
        if inspect.isawaitable(pending):
            if inspect.iscoroutine(pending):
                pending.close()
            if not self._warned:
                self._warned = True
                warn(
                    "on_result is a coroutine function, which a synchronous call cannot await: it was not run; give a "
                    "plain function, or ask asynchronously",
                    stacklevel=3,
                )

    async def anotify(self, result: Result) -> None:
        """Call it, and await what it gives back."""
        if self._function is None:
            return
        try:
            pending = self._function(result)
            if inspect.isawaitable(pending):
                await pending
        except Exception as error:  # noqa: BLE001 - the answer stands whatever a callback raises
            _warn_of_callback(error)


def _warn_of_callback(error: Exception) -> None:
    warn(f"on_result raised {type(error).__name__}", cause=error, stacklevel=4)
