"""The constraints and the index that we put into a database: made, listed and dropped by us alone.

Ours is what has a name of ours over a label and properties of ours. What only looks like it, another's constraint
called ``phasegraph_mine`` or one of another name over our labels, is never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.graph.neo4j.connection import BULK_SECONDS, Neo4jConnection
from phasegraph.graph.neo4j.corpora import list_corpora

# A constraint has an index of its name. Labels and types of relationships may have the same names.
_PRESENT = """\
SHOW INDEXES YIELD name, type, entityType, labelsOrTypes, properties, owningConstraint, state
WHERE size(labelsOrTypes) = 1 AND type = 'RANGE' AND
  NOT labelsOrTypes[0] STARTS WITH CASE entityType WHEN 'NODE' THEN 'PHASEGRAPH_' ELSE 'Phasegraph' END
RETURN name, labelsOrTypes[0], properties, owningConstraint IS NOT NULL, state"""
_AWAIT = "CALL db.awaitIndexes(60)"


@dataclass(frozen=True)
class SchemaObject:
    """A constraint or an index of ours in a database.

    Parameters
    ----------
    name : str
        Its name there.
    kind : {"constraint", "index"}
        A constraint is one of uniqueness.
    covers : str
        The label or the type of relationship.
    properties : tuple of str
        The properties, in order.
    state : str
        Of the index, the constraint's own too: ONLINE, POPULATING or FAILED; "" where it is not there yet.
    """

    name: str
    kind: str
    covers: str
    properties: tuple[str, ...]
    state: str = ""


CREATED = (
    SchemaObject("phasegraph_passage", "constraint", "PhasegraphPassage", ("corpus", "id")),
    SchemaObject("phasegraph_removed", "constraint", "PhasegraphRemoved", ("corpus", "id")),
    SchemaObject("phasegraph_entity", "constraint", "PhasegraphEntity", ("corpus", "name")),
    SchemaObject("phasegraph_corpus", "constraint", "PhasegraphCorpus", ("name",)),
    SchemaObject("phasegraph_fact", "index", "PHASEGRAPH_FACT", ("corpus", "passage")),
)


def ensure_schema(connection: Neo4jConnection) -> None:
    """Create our constraints and index where they are missing, and wait until they serve.

    Parameters
    ----------
    connection : Neo4jConnection
        May be called by several writers at once.

    Raises
    ------
    StoreError
        If the server refuses, or something of another's stands in the way; the message names it.

    Notes
    -----
    A uniqueness constraint of another name over the same label and properties does what ours would do, and is
    used in its place.
    """
    missing = _not_serving(_present(connection))
    if not missing:
        return
    # Looked at afterwards, not before: while another writer creates a constraint its index stands there alone,
    # and would be taken for somebody else's.
    for wanted, _ in missing:
        try:
            connection.write(_creation(wanted))
        except StoreError as error:
            for refused, obstacle in _not_serving(_present(connection)):
                if refused is wanted and obstacle is not None:
                    raise _in_the_way(wanted, obstacle) from error
            raise
    connection.read(_AWAIT, deadline=BULK_SECONDS)
    for wanted, obstacle in _not_serving(_present(connection)):
        raise _in_the_way(wanted, obstacle)


def list_schema(connection: Neo4jConnection) -> tuple[SchemaObject, ...]:
    """Return those constraints and indexes of ours that the database has, with their states.

    Parameters
    ----------
    connection : Neo4jConnection
        Any database.

    Returns
    -------
    tuple of SchemaObject
        In the order of `CREATED`; empty where nothing was ever written.

    Raises
    ------
    StoreError
        If the server fails.
    """
    present = {(each.name, each.kind, each.covers, each.properties): each for each in _present(connection)}
    wanted = [(each.name, each.kind, each.covers, each.properties) for each in CREATED]
    return tuple(present[each] for each in wanted if each in present)


def drop_schema(connection: Neo4jConnection, *, corpora_may_remain: bool = False) -> tuple[str, ...]:
    """Drop our constraints and index, and nothing else.

    Parameters
    ----------
    connection : Neo4jConnection
        The database.
    corpora_may_remain : bool, default False
        Drop them also while corpora lie in the database, which are slow to search then and may be written
        twice; the next write creates them anew.

    Returns
    -------
    tuple of str
        The names of what was dropped.

    Raises
    ------
    InvalidInputError
        If a corpus lies in the database and may not remain; the message names the first ones.
    StoreError
        If the server fails; call again to resume.
    """
    left = () if corpora_may_remain else list_corpora(connection)
    if left:
        named = ", ".join(f"{corpus!r:.60}" for corpus in left[:5])
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        raise InvalidInputError(
            "corpora must be dropped before the schema is, or corpora_may_remain be True; "
            f"the database holds {named}{more}"
        )
    dropped = list_schema(connection)
    for each in dropped:
        connection.write(f"DROP {each.kind.upper()} {each.name} IF EXISTS")
    return tuple(each.name for each in dropped)


def _present(connection: Neo4jConnection) -> list[SchemaObject]:
    """Every constraint and index of the kinds that ours are, whoever made it."""
    return [
        SchemaObject(name, "constraint" if constraint else "index", covers, tuple(properties), state)
        for name, covers, properties, constraint, state in connection.read(_PRESENT, deadline=BULK_SECONDS)
    ]


def _not_serving(present: list[SchemaObject]) -> list[tuple[SchemaObject, SchemaObject | None]]:
    """What of ours is missing or not ready, each with what keeps it from being created."""
    found: list[tuple[SchemaObject, SchemaObject | None]] = []
    for wanted in CREATED:
        same = [each for each in present if (each.covers, each.properties) == (wanted.covers, wanted.properties)]
        serving = [each for each in same if wanted.kind in ("index", each.kind)]
        if any(each.state == "ONLINE" for each in serving):
            continue
        named = [each for each in present if each.name == wanted.name and each not in serving]
        others = [each for each in same if each not in serving]
        found.append((wanted, next(iter(named + others), None)))
    return found


def _creation(wanted: SchemaObject) -> str:
    properties = ", ".join(f"x.{name}" for name in wanted.properties)
    if wanted.kind == "index":
        return f"CREATE INDEX {wanted.name} IF NOT EXISTS FOR ()-[x:`{wanted.covers}`]-() ON ({properties})"
    return f"CREATE CONSTRAINT {wanted.name} IF NOT EXISTS FOR (x:`{wanted.covers}`) REQUIRE ({properties}) IS UNIQUE"


def _in_the_way(wanted: SchemaObject, obstacle: SchemaObject | None) -> StoreError:
    over = f"{wanted.covers}({', '.join(wanted.properties)})"
    if obstacle is None:
        what = "it is not ready, or something else has its name"
    elif obstacle.name == wanted.name:
        what = f"another {obstacle.kind} has that name; drop or rename it"
    else:
        what = f"an index {obstacle.name!r:.60} over the same is in the way; drop it"
    return StoreError(f"conflict: the {wanted.kind} {wanted.name} over {over} must be there; {what}")
