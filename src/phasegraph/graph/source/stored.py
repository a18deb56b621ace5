"""A graph in Neo4j with its passages' texts: what a framework's retriever needs to be made of an address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.corpora import list_corpora
from phasegraph.graph.neo4j.reading import read_graph
from phasegraph.graph.neo4j.records import GraphRecords
from phasegraph.graph.neo4j.schema import PHASEGRAPH, GraphSchema, detect_schema, schema_named
from phasegraph.graph.source.graph_source import GraphSource
from phasegraph.graph.source.online import Neo4jGraphSource
from phasegraph.pipeline.checks import check_flag
from phasegraph.sources.protocol import Source

Texts = Callable[[Sequence[str]], Mapping[str, tuple[str, str]]]
_ANSWERS = "RETURN 1"
_TEXTS = """\
UNWIND $ids AS id MATCH (p:`PhasegraphPassage` {corpus: $corpus, id: id}) RETURN p.id, p.title, p.text"""


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """A graph out of Neo4j as a source, and its passages by id.

    Parameters
    ----------
    source : Source
        Walks it, in memory or where it lies.
    texts : callable
        ``texts(ids)`` gives title and text of those ids that there are.
    """

    source: Source
    texts: Texts = field(repr=False)


def stored_graph(
    connection: Neo4jConnection,
    corpus: str | None = None,
    *,
    schema: str | GraphSchema | None = None,
    load: bool = True,
    embed: Callable[[list[str]], Sequence[Any]] | None = None,
    embed_query: Callable[[str], Any] | None = None,
) -> StoredGraph:
    """Make a source of a graph in Neo4j, after looking whether it is there.

    Parameters
    ----------
    connection : Neo4jConnection
        Asked at once, within its own deadline, whether it answers.
    corpus : str, optional
        A corpus written by `write_graph`; None for a graph that another library wrote.
    schema : str or GraphSchema, optional
        As for `read_graph`; None is our own where a corpus is named, else detected.
    load : bool, default True
        Read all of it now and walk it in memory; or walk it where it lies (our own schema only), and fetch only
        the texts that are returned.
    embed, embed_query : callable, optional
        ``embed(texts)`` and ``embed_query(query)`` give vectors, so that passages nearer to the query are entered
        more readily; with `load` only.

    Returns
    -------
    StoredGraph

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is no such corpus, no passage or no schema that fits, or an argument is out of range.
    StoreError
        If the server cannot be reached, refuses, or does not answer in time.
    """
    if not isinstance(connection, Neo4jConnection):
        raise InvalidTypeError(
            f"connection must be a Neo4jConnection (see Neo4jConnection.connect); got {type(connection).__name__}"
        )
    if not check_flag("load", load) and embed is not None:
        raise InvalidInputError("embeddings must be None where the graph is walked in Neo4j (load=False); some given")
    connection.read(_ANSWERS)  # a reading of everything may take long, and tries for as long to reach a server
    chosen = _schema(connection, corpus, schema)
    if chosen == PHASEGRAPH:
        _check_there(connection, corpus)
    elif not load:
        raise InvalidInputError(f"load=False needs a corpus written by write_graph; the schema is {chosen.name!r}")
    if not load:
        source = Neo4jGraphSource(connection, str(corpus))
        source.verify()
        return StoredGraph(source, _fetching(connection, str(corpus)))
    return _loaded(read_graph(connection, chosen, corpus=corpus), chosen, embed, embed_query)


def _schema(connection: Neo4jConnection, corpus: str | None, schema: str | GraphSchema | None) -> GraphSchema:
    if schema is not None:
        return schema_named(schema)
    if corpus is not None:
        return PHASEGRAPH
    try:
        return detect_schema(connection)
    except InvalidInputError as error:
        raise InvalidInputError(f"schema must be given, or a corpus: {error}") from error


def _check_there(connection: Neo4jConnection, corpus: str | None) -> None:
    there = list_corpora(connection)
    if corpus not in there:
        listed = ", ".join(repr(one) for one in there[:10]) + (", ..." if len(there) > 10 else "")
        raise InvalidInputError(f"corpus must be one of the database's ({listed or 'it holds none'}); got {corpus!r}")


def _loaded(
    records: GraphRecords,
    schema: GraphSchema,
    embed: Callable[[list[str]], Sequence[Any]] | None,
    embed_query: Callable[[str], Any] | None,
) -> StoredGraph:
    held = {one.id: (one.title, one.text) for one in records.passages}
    if not held:
        raise InvalidInputError(f"the graph must hold passages; under the schema {schema.name!r} there are none")
    vectors = None if embed is None else embed([text for _, text in held.values()])
    source = GraphSource(records.graph(embeddings=vectors), embedder=embed_query)
    return StoredGraph(source, lambda ids: {one: held[one] for one in ids if one in held})


def _fetching(connection: Neo4jConnection, corpus: str) -> Texts:
    def texts(ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        rows = connection.read(_TEXTS, {"corpus": corpus, "ids": list(ids)})
        return {str(name): (title or "", text or "") for name, title, text in rows}

    return texts
