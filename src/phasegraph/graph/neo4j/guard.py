"""Cypher that is not ours runs only if the server's own planner says that all it does is read the graph.

Three locks: the planner's type must be ``r``; the plan must hold no operator that reaches beyond the graph;
and the transaction is a managed read with a time limit and a cap on rows. The type alone is not enough:
``LOAD CSV``, ``TERMINATE TRANSACTION``, ``SHOW TRANSACTIONS`` and ``CALL apoc.load.json`` are all of type
``r``. A reader's role on the server is the lock that none of these replaces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.neo4j.connection import Neo4jConnection, Row

MAX_STATEMENT = 20_000
READING_PROCEDURES = frozenset({"db.index.vector.queryNodes", "db.index.fulltext.queryNodes"})
_BEYOND_THE_GRAPH = ("LoadCSV", "Show", "Terminate", "Administration")


def read_guarded(
    connection: Neo4jConnection,
    statement: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    limit: int = 1000,
    procedures: Collection[str] = READING_PROCEDURES,
    deadline: float | None = None,
) -> list[Row]:
    """Run a caller's or a model's statement if it only reads the graph.

    Parameters
    ----------
    connection : Neo4jConnection
        Where to run it; preferably as a user who may only read.
    statement : str
        At most 20,000 characters.
    parameters : mapping, optional
        Its values.
    limit : int, default 1000
        Rows taken at most, at least 1; the rest is left on the server.
    procedures : collection of str, optional
        Procedures it may call; by default those that query a vector or full-text index.
    deadline : float, optional
        Seconds for each of planning and running; None takes the connection's.

    Returns
    -------
    list of list
        As `Neo4jConnection.read`.

    Raises
    ------
    InvalidInputError
        If the statement writes, changes the schema, administers, or reaches beyond the graph.
    StoreError
        If the server refuses it or fails.

    Notes
    -----
    Functions that are installed on the server are not looked at; those of APOC that run Cypher run it in the
    same reading transaction.
    """
    _check(statement, limit)
    kind, plan = connection.explain(statement, parameters, deadline=deadline)
    if kind != "r":
        raise InvalidInputError(f"a statement that is not ours must only read; the server plans it as {kind!r}")
    for operator, details in _operators(plan):
        if operator.startswith(_BEYOND_THE_GRAPH):
            raise InvalidInputError(f"a statement that is not ours must keep to the graph; its plan holds {operator}")
        if operator.startswith("ProcedureCall") and details.partition("(")[0] not in procedures:
            raise InvalidInputError(
                f"a statement that is not ours may call {', '.join(sorted(procedures)) or 'no procedure'}; "
                f"it calls {details.partition('(')[0]:.80}"
            )
    return connection.read(statement, parameters, deadline=deadline, limit=limit, warm=False)


def _check(statement: str, limit: int) -> None:
    if not isinstance(statement, str):
        raise InvalidTypeError(f"statement must be a str; {type(statement).__name__} was given")
    if not statement.strip() or len(statement) > MAX_STATEMENT:
        raise InvalidInputError(
            f"statement must hold 1 to {MAX_STATEMENT} characters, not only blanks; {len(statement)} were given"
        )
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInputError(f"limit must be an integer of at least 1; {limit!r:.40} was given")


def _operators(plan: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Every operator of a plan with its details, from the root down."""
    waiting = [plan] if plan else []
    while waiting:
        here = waiting.pop()
        yield str(here.get("operatorType", "")), str(here.get("args", {}).get("Details", ""))
        waiting.extend(here.get("children", ()))
