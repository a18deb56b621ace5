"""Compute the changes that update a corpus to match given documents, and the ids of new passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from phasegraph.errors import InvalidInputError


@dataclass(frozen=True)
class SyncCounts:
    """The numbers of documents and passages that a sync changed.

    Parameters
    ----------
    added, changed, deleted, unchanged : int
        Numbers of documents.
    embedded : int
        Number of passages that were embedded.
    """

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    embedded: int = 0

    def __str__(self) -> str:
        return (
            f"{self.added} documents added, {self.changed} changed, {self.deleted} deleted, {self.unchanged} as they "
            f"were; {self.embedded} passages embedded"
        )


class Content(NamedTuple):
    """The parts of a framework's document or node that a sync compares and stores.

    `id` is the id that the document or node carries, or None. `names` is the metadata that contains the name of its
    document. `item` is the framework's object.
    """

    id: str | None
    text: str
    metadata: Mapping[str, Any]
    names: Mapping[str, Any]
    item: Any


class Given(NamedTuple):
    """A passage in a sync's input: the id that it carries or None, its document's name, and a digest of its content."""

    id: str | None
    document: str
    digest: bytes


@dataclass(frozen=True)
class SyncPlan:
    """The changes of a sync: ids of passages to delete, positions of input passages to add, and counts."""

    removed: tuple[str, ...]
    rows: tuple[int, ...]
    counts: SyncCounts


class Described(NamedTuple):
    """The id and metadata of a passage."""

    id: str
    metadata: Mapping[str, Any]


def described(index: Any) -> list[Described]:
    """Return the id and the metadata of every passage of an index, for use with a filter."""
    records = index.records
    held = records.held
    return [Described(name, held[name].metadata if name in held else records.content(name)[1]) for name in records]


def plan_sync(
    there: Mapping[str, tuple[str, bytes]],
    given: Sequence[Given],
    *,
    full: bool,
    stays: Callable[[str], bool] | None = None,
) -> SyncPlan:
    """Compute which passages a sync deletes and adds; an unchanged passage of the same document keeps its id.

    `there` maps the id of each stored passage to its document and digest. With `full`, stored documents that are not in
    the input are deleted, unless ``stays(name)`` is True.

    >>> table = {"p": ("a.md", b"1"), "q": ("b.md", b"2")}
    >>> plan = plan_sync(table, [Given(None, "a.md", b"1"), Given(None, "a.md", b"3")], full=True)
    >>> plan.removed, plan.rows
    (('q',), (1,))
    >>> str(plan.counts)
    '0 documents added, 1 changed, 1 deleted, 0 as they were; 1 passages embedded'
    """
    wanted = dict.fromkeys(one.document for one in given)
    held: dict[str, dict[bytes, list[str]]] = {}
    gone: list[str] = []
    for name, (document, digest) in there.items():
        if document in wanted:
            held.setdefault(document, {}).setdefault(digest, []).append(name)
        elif full and document and not (stays is not None and stays(document)):
            gone.append(name)
    vanished = {there[name][0] for name in gone}
    rows = []
    for row, one in enumerate(given):
        same = held.get(one.document, {}).get(one.digest)
        if not same:
            rows.append(row)
            continue
        same.remove(one.id if one.id in same else same[0])
    left = {document: [name for names in digests.values() for name in names] for document, digests in held.items()}
    changed = {given[row].document for row in rows} | {document for document, names in left.items() if names}
    added = {document for document in wanted if document not in held}
    removed = [*gone, *(name for names in left.values() for name in names)]
    counts = SyncCounts(len(added), len(changed - added), len(vanished), len(wanted) - len(changed | added), len(rows))
    return SyncPlan(tuple(removed), tuple(rows), counts)


def free_ids(
    there: Mapping[str, object], removed: Collection[str], given: Sequence[Given], names: Sequence[str]
) -> list[str]:
    """Return an id for each passage in `given`: its proposed id in `names`, or a new id if this id is in use.

    `there` contains the ids in use, and `removed` the ids of passages that the sync deletes. Raise InvalidInputError if
    the id that a passage itself carries is in use.

    >>> free_ids({"p": 0, "q": 0}, ["q"], [Given(None, "a.md", b""), Given("q", "a.md", b"")], ["x", "q"])
    ['x', 'q']
    """
    ids: dict[str, None] = {}
    leaving, count = frozenset(removed), Counter[str]()

    def taken(name: str) -> bool:
        return name in ids or (name in there and name not in leaving)

    for one, name in zip(given, names, strict=True):
        free = name
        while one.id is None and taken(free):
            seed = f"{one.document}\0{count[name]}\0{name}".encode("utf-8", "surrogatepass")
            free = f"{name}-{blake2b(seed, digest_size=16).hexdigest()}"
            count[name] += 1
        if taken(free):
            raise InvalidInputError(
                f"documents: the id {name!r} of a passage of document {one.document!r} is already the id of another "
                "passage: give each passage its own id, or no id"
            )
        ids[free] = None
    return list(ids)
