"""A FAISS index of which only some rows are looked at."""

from __future__ import annotations

import importlib
from typing import Any

from phasegraph.sources.protocol import FilterRefusedError


class SelectedIndex:
    """A FAISS index in which only some rows are looked at: the library's own selection, made before it scores.

    An index that cannot select raises when it is asked: no answer rather than one with other rows.
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
        """The nearest of the selected rows; FilterRefusedError where the index cannot select."""
        try:
            return self._index.search(vectors, k, params=self._parameters)
        except RuntimeError as error:  # FAISS throws of its own kinds; their text quotes its source
            raise FilterRefusedError(
                f"a FAISS {type(self._index).__name__} cannot look at some of its rows alone: filter over a flat, HNSW "
                "or IVF index, or give each tenant one of its own"
            ) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)
