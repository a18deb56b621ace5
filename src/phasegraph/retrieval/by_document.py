"""Compute the changes that update a corpus to match given documents, and the ids of new passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from phasegraph._support.text import counted
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
            f"{counted(self.added, 'document')} added, {self.changed} changed, {self.deleted} deleted, "
            f"{self.unchanged} as they were; {counted(self.embedded, 'passage')} embedded"
        )


class Content(NamedTuple):
    """The parts of a framework's document or node that a sync compares and stores.

    `item` is the framework's object, and `id` is the id that this object carries, or None. `names` are metadata that
    contain the name of the document to which the object belongs.
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


class GivenPassages:
    """The passages in a sync's input: a list for each field of :class:`Given`, and a list of the framework's objects.

    Lists of plain values replace a list of :class:`Given`, because the garbage collector visits every tuple.
    `emptied` are documents with passages that were left out; a document without other passages is in the input, too.
    """

    __slots__ = ("digests", "documents", "emptied", "ids", "items")

    def __init__(self, passages: Iterable[Given] = ()) -> None:
        self.ids: list[str | None] = []
        self.documents: list[str] = []
        self.digests: list[bytes] = []
        self.items: list[Any] = []
        self.emptied: frozenset[str] = frozenset()
        for one in passages:
            self.append(*one)

    def append(self, name: str | None, document: str, digest: bytes, item: Any = None) -> None:
        """Add a passage: its own id or None, its document's name, its digest, and the framework's object."""
        self.ids.append(name)
        self.documents.append(document)
        self.digests.append(digest)
        self.items.append(item)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> Given:
        return Given(self.ids[row], self.documents[row], self.digests[row])


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
    documents: Mapping[str, str],
    digests: Mapping[str, bytes],
    given: GivenPassages,
    *,
    full: bool,
    stays: Callable[[str], bool] | None = None,
) -> SyncPlan:
    """Compute which passages a sync deletes and adds; an unchanged passage of the same document keeps its id.

    `documents` and `digests` map the id of each stored passage to its document and to its digest; all digests have the
    same length. With `full`, stored documents that are not in the input are deleted, unless ``stays(name)`` is True.

    >>> given = GivenPassages([Given(None, "a.md", b"1"), Given(None, "a.md", b"3")])
    >>> plan = plan_sync({"p": "a.md", "q": "b.md"}, {"p": b"1", "q": b"2"}, given, full=True)
    >>> plan.removed, plan.rows
    (('q',), (1,))
    >>> str(plan.counts)
    '0 documents added, 1 changed, 1 deleted, 0 as they were; 1 passage embedded'
    """
    stored = _joined(documents.values(), digests.values())
    wanted = dict.fromkeys(given.emptied & stored.keys(), bytearray()) | _joined(given.documents, given.digests)
    compared = {document for document, joined in wanted.items() if stored.get(document) != joined}
    gone: list[str] = []
    if full and not stored.keys() <= wanted.keys():
        kept = {"", *(name for name in stored if stays and name and name not in wanted and stays(name))}
        gone = [name for name, one in documents.items() if one not in wanted and one not in kept]
    vanished = {documents[name] for name in gone}
    held: dict[str, dict[bytes, list[str]]] = {}
    rows: list[int] = []
    if compared:
        for name, document in documents.items():
            if document in compared:
                held.setdefault(document, {}).setdefault(digests[name], []).append(name)
        rows = [row for row, one in enumerate(given.documents) if one in compared and _taken(given[row], held) is None]
    left = {document: [one for names in by_digest.values() for one in names] for document, by_digest in held.items()}
    changed = {given.documents[row] for row in rows} | {document for document, names in left.items() if names}
    added = wanted.keys() - stored.keys()
    removed = [*gone, *(name for names in left.values() for name in names)]
    counts = SyncCounts(len(added), len(changed - added), len(vanished), len(wanted) - len(changed | added), len(rows))
    return SyncPlan(tuple(removed), tuple(rows), counts)


def copies_of_stored(
    documents: Mapping[str, str], digests: Mapping[str, bytes], given: GivenPassages, removed: Collection[str] = ()
) -> int:
    """Count the new documents whose passages are all stored already, in documents that are not in the input.

    `documents` and `digests` are described at :func:`plan_sync`. `removed` are the ids of the passages that the sync
    deletes.

    >>> given = GivenPassages([Given(None, "new", b"1"), Given(None, "other", b"2")])
    >>> copies_of_stored({"p": "old"}, {"p": b"1"}, given)
    1
    """
    stored, named = frozenset(documents.values()), frozenset(given.documents)
    if named <= stored:
        return 0
    gone = frozenset(removed)
    there = {digests[name] for name, one in documents.items() if one and one not in named and name not in gone}
    different = {one for one, digest in zip(given.documents, given.digests, strict=True) if digest not in there}
    return len(named - stored - different) if there else 0


def _joined(documents: Iterable[str], digests: Iterable[bytes]) -> dict[str, bytearray]:
    """Return, by document name, the joined digests of the document's passages; equal bytes mean equal passages.

    The arguments contain the document name and the digest of each passage.
    """
    found: dict[str, bytearray] = {}
    for document, digest in zip(documents, digests, strict=True):
        if document in found:
            found[document] += digest
        else:
            found[document] = bytearray(digest)
    return found


def _taken(one: Given, held: Mapping[str, Mapping[bytes, list[str]]]) -> str | None:
    """Find a stored passage with the same document and digest as `one`, and remove its id from `held`.

    Return this id; None if there is no such passage. `held` maps each document to the ids of its passages by digest.
    """
    same = held.get(one.document, {}).get(one.digest)
    if not same:
        return None
    name = one.id if one.id in same else same[0]
    same.remove(name)
    return name


def id_of_copy(name: str, document: str, number: int = 0) -> str:
    """Return an id for a passage of a document if another document has a passage with the id `name`, made from a text.

    `number` distinguishes equal passages of one document.
    """
    seed = f"{document}\0{number}\0{name}".encode("utf-8", "surrogatepass")
    return f"{name}-{blake2b(seed, digest_size=16).hexdigest()}"


def free_ids(
    there: Mapping[str, str], removed: Collection[str], given: Sequence[Given], names: Sequence[str]
) -> list[str]:
    """Return an id for each passage in `given`: its proposed id in `names`, or a new id if this id is in use.

    `there` maps the ids in use to the names of their documents, and `removed` contains the ids of passages that the
    sync deletes. Raise InvalidInputError if the id that a passage itself carries is in use.

    >>> free_ids({"p": "b.md", "q": "a.md"}, ["q"], [Given(None, "a.md", b""), Given("q", "a.md", b"")], ["x", "q"])
    ['x', 'q']
    """
    ids: dict[str, None] = {}
    leaving, count = frozenset(removed), Counter[str]()

    def taken(name: str) -> bool:
        return name in ids or (name in there and name not in leaving)

    for one, name in zip(given, names, strict=True):
        free = name
        while one.id is None and taken(free):
            free = id_of_copy(name, one.document, count[name])
            count[name] += 1
        if taken(free):
            old = "" if name in ids else there[name]
            renamed = (
                f", of document {old!r}. If this document was renamed, sync all documents with full=True, or delete"
            )
            advice = f"{renamed} the passages of {old!r} first. Otherwise" if old else ":"
            raise InvalidInputError(
                f"documents: the id {name!r} of a passage of document {one.document!r} is already the id of another "
                f"passage{advice} give each passage its own id, or no id"
            )
        ids[free] = None
    return list(ids)
