"""Methods that the retrievers of both frameworks share: calibrate, save, load, and pass results to a callback."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from phasegraph._support.clock import Deadline
from phasegraph._support.files import make_folder
from phasegraph.errors import InvalidTypeError, StoreError, warn
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.result import Result
from phasegraph.retrieval.driver import Sources
from phasegraph.retrieval.engine import FusionEngine
from phasegraph.retrieval.fitting import calibration_queries
from phasegraph.retrieval.once import Once
from phasegraph.retrieval.source_config import PIPELINE, read_pipeline


def version_attribute(module: str, distribution: str) -> Callable[[str], str]:
    """Return a ``__getattr__`` for a module that reads ``__version__`` from the installed distribution at first use."""

    def read(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return import_module("importlib.metadata").version(distribution)  # type: ignore[no-any-return]

    return read


class Calibrating:
    """A base class of retrievers with an engine: it fits, saves and loads the pipeline.

    A retriever inherits from this class and from its framework's class. ``_engine`` is its engine, and :meth:`_sources`
    binds its sources to a query.
    """

    _engine: FusionEngine

    def calibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """Fit the calibrators of the sources, the minimum agreement between sources, and ``Result.confidence``.

        Parameters
        ----------
        queries : sequence of str
            At least 20 different queries without labels; several hundred are better.
        relevant : mapping of str to collection of str, or to mapping of str to float, optional
            The ids of the relevant passages for each judged query, or an empty collection if the corpus has no answer.
            Instead of ids, gains by id are possible; ids with a gain of 0 or less are not relevant.
            An error names a source whose relevant passages have lower scores than its other passages. The scores of
            such a source are probably distances that were read as similarities. With at least 20 judged queries,
            ``Result.confidence`` becomes the probability that the corpus contains an answer. This probability assumes
            that half of all queries have an answer.
        progress : bool, default True
            Show a progress bar if standard error is a terminal and tqdm is installed.

        Returns
        -------
        Self
            The same retriever, now fitted. A source gets no calibrator if it returns only ranks, or if it states its
            background (the mean and deviation of its scores over the whole collection). A source with fewer than 20
            answers, or with scores that cannot be fitted, also gets no calibrator, with a warning.

        Raises
        ------
        InsufficientDataError
            If there are fewer than 20 different queries, or no source can be fitted. In this case, nothing changes.
        InvalidInputError
            If `relevant` names another query, or none of its ids is in an answer. In this case, nothing changes.
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
        """Calibrate as :meth:`calibrate` does, without blocking the event loop."""
        asked, gatherer = calibration_queries(queries, relevant, progress), self._engine.gatherer
        rewriting = partial(self._engine.stages.rewriting, deadline=Deadline.after(gatherer.clock, None))
        answers = [(one, (await gatherer.agather(rewriting(self._sources(one)), one)).rankings) for one in asked]
        self._engine = self._engine.fit(answers, relevant)
        return self

    @property
    def fitted_pipeline(self) -> FusionPipeline:
        """The pipeline in use, with its weights and calibrators."""
        return self._engine.pipeline

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted pipeline, including weights and number of results, to a JSON file.

        If `path` is the folder of a retriever, loading the folder also loads this pipeline.
        """
        self._save_pipeline(Path(path))

    def _save_pipeline(self, path: Path) -> None:
        """Write the pipeline to the file `path`, or to its file in the folder `path`; create missing parent folders."""
        file = path / PIPELINE if path.is_dir() else path
        try:
            make_folder(file.parent)
            self._engine.pipeline.save(file)
        except OSError as error:
            raise StoreError(f"{file}: the pipeline could not be written: {error}") from error

    def load_pipeline(self, path: str | os.PathLike[str]) -> Self:
        """Use the pipeline that :meth:`save` wrote to a file or to a retriever's folder.

        Constructor arguments (weights, number of results, `accept`, `selection`) override the values in the file.
        Raise IntegrityError if the file is damaged, has another format, or was written by a newer version.
        """
        self._engine = self._engine.with_pipeline(read_pipeline(path))
        return self

    def _sources(self, query: str) -> Sources:
        """Return the sources to search for a calibration query, by name; each source is prepared for this query.

        These are the sources with a weight above 0, and the sources on which they depend.
        """
        raise NotImplementedError


class ResultCallback:
    """The ``on_result`` callback of a retriever; an exception in the callback becomes a warning.

    If the callback is a coroutine function, only asynchronous calls run it.

    >>> seen = []
    >>> ResultCallback(seen.append).notify("a result")
    >>> seen
    ['a result']
    """

    __slots__ = ("_function", "_once")

    def __init__(self, function: Callable[[Result], Any] | None) -> None:
        if function is not None and not callable(function):
            raise InvalidTypeError(f"on_result must be a function or None; got {function!r}")
        self._function = function
        self._once = Once()

    @property
    def is_set(self) -> bool:
        """True if there is a callback."""
        return self._function is not None

    def notify(self, result: Result) -> None:
        """Call the callback with a result; if it returns a coroutine, close this coroutine unrun, and warn once."""
        if self._function is None:
            return
        try:
            pending = self._function(result)
        except Exception as error:  # noqa: BLE001 - an error of the callback must not lose the answer
            _warn_of_callback(error)
            return
        if inspect.isawaitable(pending):
            if inspect.iscoroutine(pending):
                pending.close()
            self._once.warn(
                "on_result is a coroutine function, which a synchronous call cannot await, so it was not run: give "
                "a plain function, or use the asynchronous methods of the retriever"
            )

    async def anotify(self, result: Result) -> None:
        """Call the callback with a result, and await the return value if it is awaitable."""
        if self._function is None:
            return
        try:
            pending = self._function(result)
            if inspect.isawaitable(pending):
                await pending
        except Exception as error:  # noqa: BLE001 - an error of the callback must not lose the answer
            _warn_of_callback(error)


def _warn_of_callback(error: Exception) -> None:
    warn(f"on_result raised {type(error).__name__}", cause=error)
