"""Serve a folder that changes: new requests use its new version, and running requests finish on the old version."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phasegraph.apps.server.view import LONGEST_QUERY, PassingIds, View
from phasegraph.errors import InvalidInputError, PhasegraphError, warn
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph.corpus.corpus import LOOKING
from phasegraph.graph.corpus.opening import FollowedIndex
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.retrieval.plain_filters import Filter
from phasegraph.sources.settings import CALL_TIMEOUT


class FollowingView:
    """A :class:`View` of passages that may change; after a change, a new view (`now`) answers the requests."""

    def __init__(self, view: View) -> None:
        self.now = view

    def __len__(self) -> int:
        return len(self.now)

    @property
    def has_vectors(self) -> bool:
        """Whether the search compares vectors, and not only names and words."""
        return self.now.has_vectors

    def answer(self, method: str, body: bytes) -> str:
        """Answer a request as :meth:`View.answer` does, in the current version of the passages."""
        return self.now.answer(method, body)


class Served:
    """The passages of a folder, served to several callers.

    Parameters
    ----------
    folder : path
        The folder of a saved entity graph with its passages.
    embed : callable, optional
        The embedding function, as in :class:`View`.
    filters : mapping of str to filter or None
        The filter on the metadata of the passages that each caller may see, by caller; None shows all passages.
    pipeline, timeout, max_query_length, metadata
        The pipeline, the time limit, the maximum length of a query, and the keys of the shown metadata, as in
        :class:`View`.

    Raises
    ------
    InvalidInputError
        If the folder contains no entity graph with its passages.
    """

    def __init__(
        self,
        folder: Path,
        embed: Callable[[str], Any] | None = None,
        *,
        filters: Mapping[str, Filter | None],
        pipeline: FusionPipeline | None = None,
        timeout: float | None = CALL_TIMEOUT,
        max_query_length: int = LONGEST_QUERY,
        metadata: Sequence[str] = (),
    ) -> None:
        self._name, self._embed, self._filters = folder.name, embed, dict(filters)
        self._options: dict[str, Any] = {
            "pipeline": pipeline,
            "timeout": timeout,
            "max_query_length": max_query_length,
            "metadata": metadata,
        }
        self._index = FollowedIndex(folder, embed)
        self._passing = PassingIds([one for one in self._filters.values() if one is not None])
        self._said = ""
        self.views = {caller: FollowingView(view) for caller, view in self._made().items()}

    def unused_vectors(self) -> str:
        """Return a sentence if the folder has vectors, but no embedder for the questions; otherwise ""."""
        index, made_by = self._index.index, self._index.made_by
        if self._embed is not None or not isinstance(index, GraphIndex) or index.graph.view.embeddings is None:
            return ""
        of = "" if made_by is None else f" of {made_by.name}"
        return f"{self._name!r} has vectors{of}; without --embedder, only words and the graph are searched"

    def unknown_metadata(self) -> list[str]:
        """Return the keys of the shown metadata that no passage has."""
        index, missing = self._index.index, dict.fromkeys(self._options["metadata"])
        if missing and isinstance(index, GraphIndex):
            for record in index.records.values():
                for key in missing.keys() & record.metadata.keys():
                    del missing[key]
                if not missing:
                    break
        return list(missing)

    def __len__(self) -> int:
        index = self._index.index
        return len(index.records) if isinstance(index, GraphIndex) else 0

    def _made(self) -> dict[str, View]:
        """Create the views of the current index, by caller."""
        index = self._index.index
        if not isinstance(index, GraphIndex):
            raise InvalidInputError(
                f"{self._name}: the folder contains a chunk graph, which stores no texts; serve an entity graph"
            )
        passing = iter(self._passing.of(index.records))
        return {
            caller: View(index, self._embed, only=only, ids=None if only is None else next(passing), **self._options)
            for caller, only in self._filters.items()
        }

    def refresh(self, warns: bool = True) -> bool:
        """Load the changes that another process made to the folder; return True if there were changes.

        All callers of this object get the new version at the same time. If the new version cannot be read, this method
        warns once (unless `warns` is false), and all callers continue with the old version.
        """
        try:
            if not self._index.refresh():
                return False
            made = self._made()
        except (PhasegraphError, OSError) as error:
            if warns and self._said != str(error):
                self._said = str(error)
                warn(
                    f"{self._name}: the folder changed but cannot be read; the old version stays: {error}",
                    cause=error,
                )
            return False
        for caller, view in made.items():
            self.views[caller].now = view
        self._said = ""
        return True

    def follow(self, seconds: float = LOOKING, warns: bool = True) -> Callable[[], None]:
        """Check for changes every `seconds` seconds in a background thread; return the function that stops it.

        `warns` is as in :meth:`refresh`.
        """
        done = threading.Event()

        def looking() -> None:
            while not done.wait(seconds):
                self.refresh(warns)

        threading.Thread(target=looking, name="phasegraph-follow", daemon=True).start()
        return done.set
