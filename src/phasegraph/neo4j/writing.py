"""Write passages, mentions and facts into Neo4j with phasegraph's own schema, and list and drop corpora."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from phasegraph._support.validation import check_names, check_range
from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.neo4j.connection import BULK_SECONDS, Neo4jConnection, check_connection
from phasegraph.neo4j.gds import drop_projections, has_gds
from phasegraph.neo4j.records import PassageRecord, check_corpus, checked_records

# The first statement in every transaction of a drop, which may stop in the middle. It invalidates all cached data of
# the corpus, and prevents that an earlier reading of the corpus is updated instead of read again.
_FORSAKE = """\
MATCH (c:`PhasegraphCorpus` {name: $corpus}) WITH c, coalesce(c.revision, 0) + 1 AS next
SET c.stamp = coalesce(c.stamp, 0) + 1, c.revision = next, c.created = next"""
_DROP_SOME = """\
MATCH (n) WHERE (n:`PhasegraphPassage` OR n:`PhasegraphRemoved` OR n:`PhasegraphEntity`) AND
  n.corpus = $corpus
WITH n LIMIT 2000 DETACH DELETE n RETURN count(*)"""
_DROP_CORPUS = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) DELETE c"
_CORPORA = "MATCH (c:`PhasegraphCorpus`) RETURN c.name ORDER BY c.name"


def list_corpora(connection: Neo4jConnection, *, timeout: float | None = None) -> tuple[str, ...]:
    """Return the names of the corpora that `write_graph` wrote into this database, sorted.

    `timeout` is the maximum duration in seconds; default the connection's `timeout`. Raises StoreError if the server
    does not answer in this time.
    """
    return tuple(str(row[0]) for row in connection.read(_CORPORA, timeout=timeout))


def existing_corpus(connection: Neo4jConnection, corpus: str | None, *, timeout: float = BULK_SECONDS) -> str:
    """Return the name of a corpus in the database; None means the only corpus of the database.

    Raise InvalidInputError if the corpus does not exist, or if `corpus` is None and the database has none or several.
    """
    names = list_corpora(connection, timeout=timeout)
    found = names[0] if corpus is None and len(names) == 1 else corpus
    if found is None or found not in names:
        said = f"{len(names)} corpora" if corpus is None else f"no corpus {corpus!r}; its corpora"
        raise InvalidInputError(
            f"the database has {said}: {first_ten(names)}. Give corpus= one of these names, or write the corpus with "
            "write_graph"
        )
    return found


def first_ten(names: Sequence[object]) -> str:
    """Return a list of at most ten names for a message; "none" if there are no names.

    >>> first_ten(["a", "b"])
    "'a', 'b'"
    """
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "") or "none"


def drop_corpus(connection: Neo4jConnection, corpus: str, *, missing_ok: bool = False) -> None:
    """Delete a corpus with everything that was stored for it.

    This includes the records of removed passages, and the projections (copies of the edges in the server's memory). If
    the corpus does not exist, raise InvalidInputError, unless `missing_ok` is True.

    After a StoreError, call the function again with ``missing_ok=True``, because the corpus may be deleted already.
    """
    check_corpus(corpus)
    if not missing_ok:
        existing_corpus(connection, corpus)
    values = {"corpus": corpus}
    while connection.write_all([(_FORSAKE, values), (_DROP_SOME, values)])[0][0] > 0:
        continue
    if has_gds(connection):
        drop_projections(connection, corpus)
    connection.write(_DROP_CORPUS, values)  # last: while the corpus exists, an interrupted drop can be repeated


# A constraint has an index with the same name. A label and a relationship type may have the same name.
_PRESENT = """\
SHOW INDEXES YIELD name, type, entityType, labelsOrTypes, properties, owningConstraint, state
WHERE size(labelsOrTypes) = 1 AND type = 'RANGE' AND
  NOT labelsOrTypes[0] STARTS WITH CASE entityType WHEN 'NODE' THEN 'PHASEGRAPH_' ELSE 'Phasegraph' END
RETURN name, labelsOrTypes[0], properties, owningConstraint IS NOT NULL, state"""
_AWAIT = "CALL db.awaitIndexes(60)"


@dataclass(frozen=True)
class SchemaObject:
    """A uniqueness constraint or an index (`kind`) of phasegraph's schema in a database.

    It covers the `properties` of the label or relationship type `covers`. `state` is the state of the index in the
    database, such as "ONLINE"; "" if the object does not exist.
    """

    name: str
    kind: str  # "constraint" or "index"
    covers: str  # the label or the relationship type
    properties: tuple[str, ...]
    state: str = ""  # of the index or the constraint's index: ONLINE, POPULATING or FAILED; "" if it does not exist


CREATED = (
    SchemaObject("phasegraph_passage", "constraint", "PhasegraphPassage", ("corpus", "id")),
    SchemaObject("phasegraph_removed", "constraint", "PhasegraphRemoved", ("corpus", "id")),
    SchemaObject("phasegraph_entity", "constraint", "PhasegraphEntity", ("corpus", "name")),
    SchemaObject("phasegraph_corpus", "constraint", "PhasegraphCorpus", ("name",)),
    SchemaObject("phasegraph_fact", "index", "PHASEGRAPH_FACT", ("corpus", "passage")),
)


def ensure_schema(connection: Neo4jConnection) -> None:
    """Create the missing constraints and indexes of phasegraph's schema, and wait until they are online.

    Functions that write call this function themselves. An existing uniqueness constraint over the same label and
    properties is used even if it has another name. If the server refuses, or an existing object prevents the creation,
    this function raises a StoreError that names the object.
    """
    missing = _not_serving(_present(connection))
    if not missing:
        return
    # Obstacles are searched after a failed attempt, not before. While another writer creates a constraint, only its
    # index exists, and it would look like an obstacle.
    for wanted, _ in missing:
        try:
            connection.write(_creation(wanted))
        except StoreError as error:
            if "EquivalentSchemaRuleAlreadyExists" in str(error):  # another writer created it first
                continue
            for refused, obstacle in _not_serving(_present(connection)):
                if refused is wanted and obstacle is not None:
                    raise _in_the_way(wanted, obstacle) from error
            raise
    connection.read(_AWAIT, timeout=BULK_SECONDS)
    for wanted, obstacle in _not_serving(_present(connection)):
        raise _in_the_way(wanted, obstacle)


def list_schema(connection: Neo4jConnection, *, timeout: float | None = None) -> tuple[SchemaObject, ...]:
    """Return the constraints and indexes of phasegraph's schema that exist in the database.

    `timeout` is the maximum duration in seconds; default the connection's `timeout`. Raises StoreError if the server
    does not answer in this time.
    """
    present = {(each.name, each.kind, each.covers, each.properties): each for each in _present(connection, timeout)}
    wanted = [(each.name, each.kind, each.covers, each.properties) for each in CREATED]
    return tuple(present[each] for each in wanted if each in present)


def drop_schema(connection: Neo4jConnection, *, corpora_may_remain: bool = False) -> tuple[str, ...]:
    """Drop the constraints and indexes of phasegraph's schema, and return their names.

    Parameters
    ----------
    connection : Neo4jConnection
        The connection to the database.
    corpora_may_remain : bool, default False
        If True, drop the schema even if the database contains corpora. Without the schema, searches are slow, and
        parallel writers may write a passage twice. The next write creates the schema again.

    Raises
    ------
    InvalidInputError
        If the database contains a corpus and `corpora_may_remain` is False.
    """
    left = () if corpora_may_remain else list_corpora(connection, timeout=BULK_SECONDS)
    if left:
        named = ", ".join(f"{corpus!r:.60}" for corpus in left[:5])
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        raise InvalidInputError(
            f"the schema must not be dropped while the database contains corpora ({named}{more}): drop the corpora "
            "first, or pass corpora_may_remain=True"
        )
    dropped = list_schema(connection, timeout=BULK_SECONDS)
    for each in dropped:
        connection.write(f"DROP {each.kind.upper()} {each.name} IF EXISTS")
    return tuple(each.name for each in dropped)


def _present(connection: Neo4jConnection, timeout: float | None = BULK_SECONDS) -> list[SchemaObject]:
    """Return all constraints and indexes on phasegraph's labels and relationship types, whoever created them."""
    return [
        SchemaObject(name, "constraint" if constraint else "index", covers, tuple(properties), state)
        for name, covers, properties, constraint, state in connection.read(_PRESENT, timeout=timeout)
    ]


def _not_serving(present: list[SchemaObject]) -> list[tuple[SchemaObject, SchemaObject | None]]:
    """Find the constraints and indexes of phasegraph's schema that are missing or not online.

    `present` are the objects in the database. Returns pairs: an object that is missing or not online, and the object
    that prevents its creation, or None.
    """
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
        what = "it is not online yet, or another object has its name"
    elif obstacle.name == wanted.name:
        what = f"another {obstacle.kind} has that name; drop or rename it"
    else:
        what = f"the index {obstacle.name!r:.60} over the same properties prevents it; drop that index"
    return StoreError(
        f"conflict: the {wanted.kind} {wanted.name} over {over} cannot be created: {what}. Write again when this is "
        "resolved"
    )


Statement: TypeAlias = tuple[str, dict[str, Any]]
_DIGESTS = "MATCH (p:`PhasegraphPassage` {corpus: $corpus}) RETURN p.id, p.digest"
# The first statement in every writing transaction. Setting a property takes a lock; writers of a corpus therefore
# take turns, and a reader of a revision finds all writes up to this revision. Revisions start with the current time:
# a corpus that was dropped and written again thus differs from the old corpus.
_TAKE_TURN = """\
MERGE (c:`PhasegraphCorpus` {name: $corpus})
ON CREATE SET c.created = timestamp(), c.revision = timestamp(), c.stamp = timestamp()
SET c.created = coalesce(c.created, 0)"""
_NEXT_REVISION = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) SET c.revision = coalesce(c.revision, 0) + 1"
_REVISION = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) RETURN c.revision"
# Every transaction that changes a corpus increases its stamp. Cached data with another stamp is invalid.
_STAMP = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) SET c.stamp = coalesce(c.stamp, 0) + 1"
# Edges are created, not merged. The old edges of the same passages are dropped in the same transaction, so a repeated
# transaction is harmless, and no search for existing edges is necessary. The statements name the indexes, because
# otherwise the server would cache a plan with a full scan if the database is empty at first.
_PUT_PASSAGES = """\
MATCH (c:`PhasegraphCorpus` {name: $corpus})
UNWIND $passages AS row MERGE (p:`PhasegraphPassage` {corpus: $corpus, id: row.id})
SET p.title = row.title, p.text = row.text, p.digest = row.digest, p.revision = c.revision"""
_FORGET_REMOVAL = "UNWIND $ids AS id MATCH (p:`PhasegraphRemoved` {corpus: $corpus, id: id}) DELETE p"
_DROP_MENTIONS = (
    "UNWIND $ids AS id MATCH (:`PhasegraphPassage` {corpus: $corpus, id: id})-[m:`PHASEGRAPH_MENTIONS`]->() DELETE m"
)
_DROP_FACTS = """\
UNWIND $ids AS id MATCH ()-[f:`PHASEGRAPH_FACT` {corpus: $corpus, passage: id}]->()
USING INDEX f:`PHASEGRAPH_FACT`(corpus, passage) DELETE f"""
_PUT_ENTITIES = "UNWIND $entities AS name MERGE (:`PhasegraphEntity` {corpus: $corpus, name: name})"
_PUT_MENTIONS = """\
UNWIND $mentions AS row
MATCH (p:`PhasegraphPassage` {corpus: $corpus, id: row[0]}), (e:`PhasegraphEntity` {corpus: $corpus, name: row[1]})
USING INDEX p:`PhasegraphPassage`(corpus, id) USING INDEX e:`PhasegraphEntity`(corpus, name)
CREATE (p)-[:`PHASEGRAPH_MENTIONS` {count: row[2], home: row[3]}]->(e)"""
_PUT_FACTS = """\
UNWIND $facts AS row
MATCH (a:`PhasegraphEntity` {corpus: $corpus, name: row[1]}), (b:`PhasegraphEntity` {corpus: $corpus, name: row[3]})
USING INDEX a:`PhasegraphEntity`(corpus, name) USING INDEX b:`PhasegraphEntity`(corpus, name)
CREATE (a)-[:`PHASEGRAPH_FACT` {corpus: $corpus, passage: row[0], predicate: row[2], count: row[4]}]->(b)"""
_BURY = """\
MATCH (c:`PhasegraphCorpus` {name: $corpus}) UNWIND $ids AS id MATCH (p:`PhasegraphPassage` {corpus: $corpus, id: id})
DETACH DELETE p MERGE (r:`PhasegraphRemoved` {corpus: $corpus, id: id}) SET r.revision = c.revision"""
_DROP_ORPHANS = """\
MATCH (e:`PhasegraphEntity` {corpus: $corpus})
WHERE NOT EXISTS { (e)<-[:`PHASEGRAPH_MENTIONS`]-() } AND NOT EXISTS { (e)-[:`PHASEGRAPH_FACT`]-() } DETACH DELETE e"""
_DROP_SYNONYMS = "MATCH (:`PhasegraphEntity` {corpus: $corpus})-[s:`PHASEGRAPH_SYNONYM`]->() DELETE s"
_PUT_SYNONYMS = """\
UNWIND $pairs AS row
MATCH (a:`PhasegraphEntity` {corpus: $corpus, name: row[0]}), (b:`PhasegraphEntity` {corpus: $corpus, name: row[1]})
USING INDEX a:`PhasegraphEntity`(corpus, name) USING INDEX b:`PhasegraphEntity`(corpus, name)
CREATE (a)-[:`PHASEGRAPH_SYNONYM` {similarity: row[2]}]->(b)"""


@dataclass(frozen=True)
class WriteReport:
    """The numbers of passages that were written, unchanged and removed, and the new revision of the corpus.

    `kept` is the number of other passages of the corpus: the call did not name them, so they stay.
    """

    written: int
    unchanged: int
    removed: int
    revision: int
    kept: int = 0


def write_graph(
    connection: Neo4jConnection,
    passages: Iterable[PassageRecord],
    *,
    corpus: str,
    replace: bool = False,
    allow_empty: bool = False,
    batch: int = 500,
) -> WriteReport:
    """Write passages with their mentions and facts into a corpus; unchanged passages are not sent.

    Other passages of the corpus stay, unless `replace` is True.

    Parameters
    ----------
    connection : Neo4jConnection
        The connection to the database.
    passages : iterable of PassageRecord
        The passages, with different ids.
    corpus : str
        Name of the corpus. A database can contain several corpora; each has its own entities, so no walk leaves its
        corpus.
    replace : bool, default False
        If True, remove all other passages of the corpus.
    allow_empty : bool, default False
        If True, `replace` may remove all passages of the corpus because no passages are given.
    batch : int, default 500
        Number of passages per transaction, at least 1.

    Returns
    -------
    WriteReport
        The numbers of passages that were written, unchanged, removed and kept, and the new revision.

    Raises
    ------
    InvalidInputError
        If an id is given twice, an argument is out of range, or `replace` would empty the corpus (see `allow_empty`).
    StoreError
        If the server fails; call again to resume.
    """
    check_connection(connection)
    records = checked_records(passages, corpus, batch)
    ensure_schema(connection)
    stored = dict(connection.read(_DIGESTS, {"corpus": corpus}, timeout=BULK_SECONDS))
    digests = {record.id: record.digest() for record in records}
    wanted = [record for record in records if stored.get(record.id) != digests[record.id]]
    others = sorted(passage for passage in stored if passage not in digests)
    if replace and others and not records and not allow_empty:
        raise InvalidInputError(
            f"passages is empty, and replace=True would remove all {len(others)} passages of {corpus!r:.60}: give "
            "allow_empty=True to remove them"
        )
    gone = others if replace else []
    steps = (_batch_statements(some, digests, corpus) for some in _batches(wanted, batch))
    revision = _write_steps(connection, corpus, itertools.chain(steps, _removals(gone, corpus, batch)))
    return WriteReport(len(wanted), len(records) - len(wanted), len(gone), revision, len(others) - len(gone))


def remove_passages(connection: Neo4jConnection, ids: Iterable[str], *, corpus: str, batch: int = 500) -> WriteReport:
    """Remove passages with their mentions and facts, and entities without any remaining mention.

    The return value and the errors are those of `write_graph`, and the corpus must exist.

    Parameters
    ----------
    ids : iterable of str
        Ids of the passages to remove; unknown ids are ignored.
    connection, corpus, batch
        As for `write_graph`.
    """
    checked_records((), corpus, batch)
    ids = check_names("ids", ids)
    existing_corpus(connection, corpus)
    ensure_schema(connection)
    stored = dict(connection.read(_DIGESTS, {"corpus": corpus}, timeout=BULK_SECONDS))
    gone = sorted({passage for passage in ids if passage in stored})
    revision = _write_steps(connection, corpus, _removals(gone, corpus, batch))
    return WriteReport(0, 0, len(gone), revision, len(stored) - len(gone))


def write_synonyms(
    connection: Neo4jConnection, pairs: Mapping[tuple[str, str], float], *, corpus: str, batch: int = 5000
) -> int:
    """Replace the synonyms of a corpus; return its new revision.

    Parameters
    ----------
    connection, corpus
        As for `write_graph`.
    pairs : mapping of (str, str) to float
        The similarity, in (0, 1], of two entity names. A pair with a name that is not an entity of the corpus is
        ignored.
    batch : int, default 5000
        Number of pairs per statement, at least 1; all statements run in a single transaction.

    Raises
    ------
    InvalidInputError
        If a similarity is out of range, or the corpus does not exist.
    StoreError
        If the server fails; the corpus is then unchanged.
    """
    checked_records((), corpus, batch)
    best: dict[tuple[str, str], float] = {}
    for (one, other), similarity in pairs.items():
        check_range("the similarity of a synonym", similarity, 0, 1, ends="(]")
        key = (min(one, other), max(one, other))
        if one != other:
            best[key] = max(best.get(key, 0.0), float(similarity))
    rows = [[*key, best[key]] for key in sorted(best)]
    existing_corpus(connection, corpus)
    ensure_schema(connection)
    statements: list[Statement] = [(_DROP_SYNONYMS, {"corpus": corpus})]
    statements += [(_PUT_SYNONYMS, {"corpus": corpus, "pairs": list(some)}) for some in _batches(rows, batch)]
    return _write(connection, corpus, statements)


def _removals(gone: Sequence[str], corpus: str, batch: int) -> Iterator[list[Statement]]:
    """Yield a list of statements for each batch of passages to remove; `gone` are the ids of all these passages."""
    for ids in _batches(gone, batch):
        some = {"corpus": corpus, "ids": list(ids)}
        yield [(_DROP_FACTS, some), (_BURY, some)]


def _write_steps(connection: Neo4jConnection, corpus: str, steps: Iterable[list[Statement]]) -> int:
    """Run each step, a list of statements, in its own transaction, and return the revision of the corpus.

    The last step also drops entities without mentions and facts. If the process crashes before the last step, a second
    call runs the last step, so these entities are always dropped.
    """
    revision, waiting = 0, None
    for step in steps:
        if waiting is not None:
            _write(connection, corpus, waiting)
        waiting = step
    if waiting is not None:
        revision = _write(connection, corpus, [*waiting, (_DROP_ORPHANS, {"corpus": corpus})])
    if not revision:
        rows = connection.read(_REVISION, {"corpus": corpus}, timeout=BULK_SECONDS)
        revision = int(rows[0][0]) if rows else 0
    return revision


def _write(connection: Neo4jConnection, corpus: str, statements: Iterable[Statement]) -> int:
    """Run statements in a single transaction that gives the corpus a new revision, and return this revision."""
    values = {"corpus": corpus}
    first = [(_TAKE_TURN, values), (_NEXT_REVISION, values), (_STAMP, values)]
    return int(connection.write_all([*first, *statements, (_REVISION, values)])[0][0])


def _batch_statements(records: Sequence[PassageRecord], digests: dict[str, str], corpus: str) -> list[Statement]:
    passages = [{"id": each.id, "title": each.title, "text": each.text, "digest": digests[each.id]} for each in records]
    homes = [dict(each.homes) for each in records]
    mentions = [
        [each.id, name, count, home.get(name, 0)]
        for each, home in zip(records, homes, strict=True)
        for name, count in each.mentions
    ]
    facts = [[each.id, *fact] for each in records for fact in each.facts]
    names = [row[1] for row in mentions] + [name for row in facts for name in (row[1], row[3])]
    ids = {"corpus": corpus, "ids": [each.id for each in records]}
    return [
        (_PUT_PASSAGES, {"corpus": corpus, "passages": passages}),
        (_FORGET_REMOVAL, ids),
        (_DROP_MENTIONS, ids),
        (_DROP_FACTS, ids),
        # All writers merge entities in the same order; otherwise, two writers of the same entities could deadlock.
        (_PUT_ENTITIES, {"corpus": corpus, "entities": sorted(set(names))}),
        (_PUT_MENTIONS, {"corpus": corpus, "mentions": mentions}),
        (_PUT_FACTS, {"corpus": corpus, "facts": facts}),
    ]


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
