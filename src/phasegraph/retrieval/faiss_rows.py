"""Restrict the search of a FAISS index to some of its rows."""

from __future__ import annotations

import importlib
from typing import Any

from phasegraph.sources.protocol import FilterRefusedError


class SelectedIndex:
    """A wrapper around a FAISS index that computes scores only for selected rows.

    If the index cannot select rows, its search raises an error instead of returning other rows.
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
        """Return the distances and row numbers of the `k` nearest selected rows.

        Raise FilterRefusedError if the index cannot search only some of its rows.
        """
        try:
            return self._index.search(vectors, k, params=self._parameters)
        except RuntimeError as error:  # FAISS has its own exceptions, whose messages contain its source code
            raise FilterRefusedError(
                f"a FAISS {type(self._index).__name__} cannot search only some of its rows: use a flat, HNSW "
                "or IVF index, or give each tenant its own index"
            ) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)
