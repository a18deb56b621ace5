"""The index of a corpus from which all passages were deleted; its sources find nothing, and passages can be added."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from phasegraph._support.validation import check_names
from phasegraph.errors import InvalidInputError
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import PassageRecords
from phasegraph.graph.model.building import Triples
from phasegraph.graph.model.empty_graph import EmptyGraph
from phasegraph.graph.model.synonyms import NameVectors


class EmptyIndex(GraphIndex):
    """An index without passages. It keeps the settings of the index that it came from; it cannot be saved."""

    @classmethod
    def of(cls, index: GraphIndex) -> EmptyIndex:
        """Create an index without passages, with the settings of `index`.

        >>> index = GraphIndex.build([{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
        >>> empty = EmptyIndex.of(index)
        >>> list(empty.records), empty.add([{"id": "b", "text": "Ada met Cy."}]).graph.entities
        ([], ('ada', 'cy'))
        """
        graph = EmptyGraph.like(index.graph.view)
        return cls(PassageRecords(graph.passage_rows, {}), index.known_names, graph, None, index.synonyms)

    def replace(
        self,
        ids: Iterable[str],
        passages: Iterable[Any] | None,
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        name_embeddings: NameVectors | None = None,
    ) -> GraphIndex:
        """Build an index of these passages; parameters as for :meth:`GraphIndex.replace`."""
        unknown = next(iter(check_names("ids", ids)), None)
        if unknown is not None:
            raise InvalidInputError(f"passage {unknown!r} is not in the index: the index is empty")
        listed = [] if passages is None else list(passages)
        if not listed:
            return self
        lexical = self.graph.lexical
        made = GraphIndex.build(
            listed, triples=triples, embeddings=self._new_vectors(embeddings, len(listed)),
            known_names=self.known_names, weights=self.graph.weights,
            tokenizer="english" if lexical is None else lexical.tokenizer,
        )  # fmt: skip
        if self.synonyms is None:
            return made
        synonyms = self.synonyms.knowing(made.graph.entities, name_embeddings)
        graph = replace(made.graph, synonyms=synonyms.edges(made.graph.entities))
        return replace(made, graph=graph, synonyms=synonyms)

    def reembedded(self, embeddings: Any) -> GraphIndex:
        """Return an empty index for vectors of length d; `embeddings` is an array of shape (0, d)."""
        vectors = np.asarray(embeddings, dtype=np.float32)
        graph: Any = self.graph
        return replace(self, graph=replace(graph, embeddings=vectors.reshape(0, vectors.shape[-1])))

    def save(
        self,
        directory: str | os.PathLike[str],
        *,
        change: int = 0,
        committing: AbstractContextManager[object] | None = None,
    ) -> None:
        """Raise InvalidInputError, because only an index with passages can be saved."""
        raise InvalidInputError("an index without passages cannot be saved: add passages first")
