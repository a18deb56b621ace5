"""The corpora of a database that are ours: list them, drop one, and nothing else."""

from __future__ import annotations

from phasegraph.graph.neo4j.checks import check_corpus
from phasegraph.graph.neo4j.connection import BULK_SECONDS, Neo4jConnection
from phasegraph.graph.neo4j.gds import drop_projections, has_gds

_DROP_SOME = """\
MATCH (n) WHERE (n:`PhasegraphPassage` OR n:`PhasegraphRemoved` OR n:`PhasegraphEntity`) AND
  n.corpus = $corpus
WITH n LIMIT 2000 DETACH DELETE n RETURN count(*)"""
_DROP_CORPUS = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) DELETE c"
_CORPORA = "MATCH (c:`PhasegraphCorpus`) RETURN c.name ORDER BY c.name"


def list_corpora(connection: Neo4jConnection) -> tuple[str, ...]:
    """Return the corpora that were written by us into this database, sorted."""
    return tuple(str(row[0]) for row in connection.read(_CORPORA, deadline=BULK_SECONDS))


def drop_corpus(connection: Neo4jConnection, corpus: str) -> None:
    """Delete one corpus with all its history and its projections; other nodes, corpora and graphs are not touched.

    Raises
    ------
    InvalidInputError
        If `corpus` is blank.
    StoreError
        If the server fails; call again to resume.
    """
    check_corpus(corpus)
    while connection.write(_DROP_SOME, {"corpus": corpus})[0][0] > 0:
        continue
    connection.write(_DROP_CORPUS, {"corpus": corpus})
    if has_gds(connection):
        drop_projections(connection, corpus)
