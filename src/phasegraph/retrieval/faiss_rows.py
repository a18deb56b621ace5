"""A FAISS index of which only some rows are looked at."""

from __future__ import annotations

import importlib
from typing import Any


class SelectedIndex:
    """A FAISS index in which only some rows are looked at: the library's own selection, made before it scores.

    An index that cannot select raises when it is asked, so the source fails rather than answer.
    """

    def __init__(self, index: Any, rows: list[int]) -> None:
        self._index, self._rows = index, rows
        library = importlib.import_module("faiss")
        chosen, probes = library.IDSelectorBatch(rows), getattr(index, "nprobe", None)
        self._parameters = (
            library.SearchParameters(sel=chosen)
            if probes is None
            else library.SearchParametersIVF(sel=chosen, nprobe=probes)
        )

    def __reduce__(self) -> tuple[object, ...]:
        return SelectedIndex, (self._index, self._rows)

    def search(self, vectors: Any, k: int) -> Any:
        """The nearest of the selected rows."""
        return self._index.search(vectors, k, params=self._parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)
