"""FAISS, for which the framework has no filters, within the nodes that some let through."""

from __future__ import annotations

import copy
import importlib
from typing import Any

from llama_index.core.vector_stores.types import MetadataFilters

from llama_index.retrievers.phasegraph.filtering import allowed_ids


class SelectedIndex:
    """A FAISS index in which only some rows are looked at: the library's own selection, made before it scores.

    An index that cannot select raises when it is asked, so the source fails rather than answer.
    """

    def __init__(self, index: Any, rows: list[int]) -> None:
        self._index = index
        library = importlib.import_module("faiss")
        chosen, probes = library.IDSelectorBatch(rows), getattr(index, "nprobe", None)
        self._parameters = (
            library.SearchParameters(sel=chosen)
            if probes is None
            else library.SearchParametersIVF(sel=chosen, nprobe=probes)
        )

    def search(self, vectors: Any, k: int) -> Any:
        """The nearest of the selected rows."""
        return self._index.search(vectors, k, params=self._parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


def is_faiss(retriever: object) -> bool:
    """Whether it searches LlamaIndex's FAISS store."""
    store = type(getattr(retriever, "_vector_store", None))
    return store.__name__ == "FaissVectorStore" and store.__module__.startswith("llama_index.vector_stores.faiss")


def faiss_within(retriever: Any, filters: MetadataFilters) -> Any:
    """A copy that looks at the matching nodes alone."""
    names = retriever._index.index_struct.nodes_dict
    held = retriever._docstore.get_nodes(sorted(set(names.values())))
    kept = allowed_ids(held, filters)
    made, store = copy.copy(retriever), copy.copy(retriever._vector_store)
    rows = sorted(int(row) for row, name in names.items() if name in kept)
    store._faiss_index = SelectedIndex(store._faiss_index, rows)
    made._vector_store = store
    return made
