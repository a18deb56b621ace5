"""The corpora of a database that are ours: list them, drop one, and nothing else."""

from __future__ import annotations

from phasegraph.graph.neo4j.checks import check_corpus
from phasegraph.graph.neo4j.connection import BULK_SECONDS, Neo4jConnection
from phasegraph.graph.neo4j.gds import drop_projections, has_gds

# What is kept of a corpus does not outlive the first passage that is dropped, and no revision of it can be caught up
# with: a drop may end in the middle.
_FORSAKE = """\
MATCH (c:`PhasegraphCorpus` {name: $corpus}) WITH c, coalesce(c.revision, 0) + 1 AS next
SET c.stamp = coalesce(c.stamp, 0) + 1, c.revision = next, c.created = next"""
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
    values = {"corpus": corpus}
    while connection.write_all([(_FORSAKE, values), (_DROP_SOME, values)])[0][0] > 0:
        continue
    connection.write(_DROP_CORPUS, values)
    if has_gds(connection):
        drop_projections(connection, corpus)
