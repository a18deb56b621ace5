"""Serve a folder that changes: later requests see its new version, requests under way finish on the old one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phasegraph.apps.server.view import PassingIds, View
from phasegraph.errors import InvalidInputError, PhasegraphError, warn
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph.corpus.corpus import LOOKING
from phasegraph.graph.corpus.opening import FollowedIndex
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.retrieval.plain_filters import Filter


class FollowingView:
    """A :class:`View` in whose place another comes when the passages change."""

    def __init__(self, view: View) -> None:
        self.now = view

    def __len__(self) -> int:
        return len(self.now)

    async def search(self, query: str, k: int = 5) -> dict[str, Any]:
        """As :meth:`View.search`."""
        return await self.now.search(query, k)

    async def explain(self, query: str, k: int = 5) -> dict[str, Any]:
        """As :meth:`View.explain`."""
        return await self.now.explain(query, k)

    def passages(self, ids: Sequence[str]) -> dict[str, Any]:
        """As :meth:`View.passages`."""
        return self.now.passages(ids)


class Served:
    """The passages of a folder, for several callers.

    Parameters
    ----------
    folder : path
    embed : callable, optional
        As for :class:`View`.
    filters : mapping of str to filter or None
        By caller: the metadata that a passage must have; None for all passages.
    pipeline, timeout
        As for :class:`View`.

    Raises
    ------
    InvalidInputError
        If the folder holds no entity graph with its passages.
    """

    def __init__(
        self,
        folder: Path,
        embed: Callable[[str], Any] | None = None,
        *,
        filters: Mapping[str, Filter | None],
        pipeline: FusionPipeline | None = None,
        timeout: float | None = 10.0,
    ) -> None:
        self._name, self._embed, self._filters = folder.name, embed, dict(filters)
        self._options: dict[str, Any] = {"pipeline": pipeline, "timeout": timeout}
        self._index = FollowedIndex(folder, embed)
        self._passing = PassingIds([one for one in self._filters.values() if one is not None])
        self._said = ""
        self.views = {caller: FollowingView(view) for caller, view in self._made().items()}

    def __len__(self) -> int:
        index = self._index.index
        return len(index.records) if isinstance(index, GraphIndex) else 0

    def _made(self) -> dict[str, View]:
        """The views of the index as it is now."""
        index = self._index.index
        if not isinstance(index, GraphIndex):
            raise InvalidInputError(
                f"{self._name}: it holds a graph of chunks, which keeps no texts; serve an entity graph"
            )
        passing = iter(self._passing.of(index.records))
        return {
            caller: View(index, self._embed, only=only, ids=None if only is None else next(passing), **self._options)
            for caller, only in self._filters.items()
        }

    def refresh(self) -> bool:
        """Take over what another process changed in the folder; whether anything was.

        All callers get the new version, or none: where it cannot be read, a warning says so once.
        """
        try:
            if not self._index.refresh():
                return False
            made = self._made()
        except (PhasegraphError, OSError) as error:
            if self._said != str(error):
                self._said = str(error)
                warn(f"{self._name}: the folder changed, and its old version is served on: {error}", cause=error)
            return False
        for caller, view in made.items():
            self.views[caller].now = view
        self._said = ""
        return True

    def follow(self, seconds: float = LOOKING) -> Callable[[], None]:
        """Look for changes every so many seconds, in a thread of its own; returns what ends that."""
        done = threading.Event()

        def looking() -> None:
            while not done.wait(seconds):
                self.refresh()

        threading.Thread(target=looking, name="phasegraph-follow", daemon=True).start()
        return done.set
