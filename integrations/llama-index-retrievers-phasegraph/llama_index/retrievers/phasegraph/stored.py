"""The entity graph out of Neo4j as a retriever of the framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode, TextNode

from phasegraph.graph.neo4j import GraphSchema, Neo4jConnection
from phasegraph.graph.source.stored import StoredGraph, stored_graph


class FromNeo4j:
    """What makes an ``EntityGraphRetriever`` of a graph in Neo4j."""

    @classmethod
    def from_neo4j(
        cls,
        connection: Neo4jConnection,
        corpus: str | None = None,
        *,
        schema: str | GraphSchema | None = None,
        load: bool = True,
        embed_model: BaseEmbedding | None = None,
        **fields: Any,
    ) -> Self:
        """Take the graph and its passages' texts from Neo4j.

        Parameters
        ----------
        connection : Neo4jConnection
            Asked at once whether it answers; see ``Neo4jConnection.connect``.
        corpus : str, optional
            A corpus written by ``write_graph``; None for a graph that another library wrote.
        schema : str or GraphSchema, optional
            Who wrote the graph: ``"llama_index"``, ``"langchain"``, ``"neo4j_graphrag"``; None is our own where a
            corpus is named, else detected.
        load : bool, default True
            Read the graph now and walk it in memory; or walk it in Neo4j, for graphs that are not to be held here
            (only those of ``write_graph``). What changes in Neo4j later is seen with False only.
        embed_model : BaseEmbedding, optional
            Embeds every passage and each query; with `load` only.
        **fields
            The other arguments of the retriever. Neo4j holds texts and titles: filters on other metadata need
            ``nodes=`` (or a docstore), which then take the place of its texts, also in a fusion.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If there is no such corpus, no schema that fits, no passage, or an argument is out of range.
        StoreError
            If the server cannot be reached, refuses, or does not answer in time.
        """
        stored = stored_graph(
            connection, corpus, schema=schema, load=load,
            embed=None if embed_model is None else embed_model.get_text_embedding_batch,
            embed_query=None if embed_model is None else embed_model.get_query_embedding,
        )  # fmt: skip
        given = {"nodes": _Nodes(stored), "embed_model": embed_model, **fields}
        return cast(Any, cls)(stored.source, **given)  # type: ignore[no-any-return]


class _Nodes:
    """The nodes of some ids, their titles as metadata."""

    def __init__(self, stored: StoredGraph) -> None:
        self._texts = stored.texts

    def __call__(self, ids: Sequence[str]) -> dict[str, BaseNode]:
        return {
            name: TextNode(id_=name, text=text, metadata={"title": title} if title else {})
            for name, (title, text) in self._texts(ids).items()
        }
