"""Use a retriever as a LangChain document index; ``index()`` with a record manager can then write to the retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.indexing import UpsertResponse
from langchain_core.indexing.base import DeleteResponse, DocumentIndex
from pydantic import ConfigDict

from langchain_phasegraph.conversion import document_of
from phasegraph import InvalidInputError


class RetrieverIndex(DocumentIndex):
    """A LangChain document index that reads and changes the documents of a retriever.

    Parameters
    ----------
    retriever : PhaseGraphRetriever or EntityGraphRetriever
        A retriever from ``from_documents``, ``from_vectorstore`` or ``load``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    retriever: Any

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add documents, and replace documents that have the same ids."""
        return {"succeeded": self.retriever.add_documents(items, progress=False), "failed": []}

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents by id; unknown ids are ignored. Raise InvalidInputError if `ids` is None."""
        if ids is None:
            raise InvalidInputError("delete() needs ids; got None: pass the ids of the documents to delete")
        there = [one for one in ids if one in self.retriever._own_corpus()]
        count = self.retriever.delete(there) if there else 0
        return {"num_deleted": count, "succeeded": there, "num_failed": 0, "failed": []}

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return the documents that have these ids; unknown ids are ignored."""
        return [document_of(one) for one in self.retriever._own_corpus().records(ids).values()]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        found: list[Document] = self.retriever.invoke(query, config={"callbacks": run_manager.get_child()}, **kwargs)
        return found
