"""The document name and content digest of every passage, computed once and stored next to a large index."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from phasegraph._support.serialization import MISFITS, read_bundle, write_bundle
from phasegraph.errors import PhasegraphError
from phasegraph.graph.index.records import PassageRecord, PassageRecords
from phasegraph.graph.model.storage import packed, unpacked

SOURCE_KEYS = ("source", "doc_id", "ref_doc_id", "file_path")
"""Metadata keys that may name a passage's document, if the caller gives no key; the first key with a value is used."""
_NO_NAME = (None, "", "None")
"""Metadata values that name no document; LlamaIndex writes "None"."""
KIND, VERSION, BESIDE = "document-table", 1, "documents"
"""Kind and version of the bundle that stores a :class:`DocumentTable`; its subfolder in the index's folder.

The version must change if the digest of a passage is computed in another way.
"""
_WIDTH = 16
_JSON = json.JSONEncoder(sort_keys=True, default=repr)

Entry: TypeAlias = tuple[str, bytes]


def document_of(metadata: Mapping[str, Any], key: str | None = None) -> str:
    """Return the name of the passage's document from its metadata; an empty string if the metadata name no document.

    >>> document_of({"doc_id": "None", "file_path": "a.md"}), document_of({"page": 3}, "page"), document_of({})
    ('a.md', '3', '')
    """
    found = (metadata.get(one) for one in (SOURCE_KEYS if key is None else (key,)))
    return next((str(one) for one in found if one not in _NO_NAME), "")


def digest_of(text: str, metadata: Mapping[str, Any], without: Collection[str] = ()) -> bytes:
    """Return a digest of a passage's text and metadata; the metadata keys in `without` are left out."""
    told = {key: value for key, value in metadata.items() if key not in without}
    said = _JSON.encode([text, told])
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=_WIDTH).digest()


class DocumentTable:
    """The document name and content digest of every passage, updated when the corpus changes.

    `key` is the metadata key that names a document; None means the first of `SOURCE_KEYS` with a value. `without` are
    metadata keys that the digest leaves out. If passage records are packed in a memory-mapped file, the names and
    digests of these passages are stored in a bundle next to this file.
    """

    def __init__(self, key: str | None, without: Collection[str] = ()) -> None:
        self._key, self._without = key, frozenset(without)
        self._packed_in: object = None
        self._packed: Mapping[str, Entry] = {}
        self._held: dict[str, tuple[PassageRecord, Entry]] = {}
        self._rows: dict[str, Entry] = {}
        self._of: object = None
        self._members: tuple[object, dict[str, list[str]]] = (None, {})

    @classmethod
    def beside(cls, directory: Path) -> Self | None:
        """Create a table with the metadata keys of the table that is stored in an index's folder.

        Returns None if the folder contains no readable table.
        """
        try:
            body, _ = read_bundle(directory / BESIDE, KIND, VERSION)
            key, without = body["key"], body["without"]
            return cls(None if key is None else str(key), list(map(str, without)))  # type: ignore[call-overload]
        except (PhasegraphError, OSError, *MISFITS):
            return None

    def of(self, index: Any) -> Mapping[str, Entry]:
        """Return the pair (document name, digest) of each passage, by passage id.

        Only pairs of passages that changed since the last call are computed.
        """
        if index is not self._of:
            records = index.records
            if records.base is not self._packed_in:
                self._packed_in, self._packed = records.base, self._of_packed(records)
            held = {}
            for name, record in records.held.items():
                seen = self._held.get(name)
                known = seen is not None and seen[0] is record
                held[name] = seen if seen is not None and known else (record, self._entry(record.text, record.metadata))
            packed_ones = self._packed
            self._rows = {name: held[name][1] if name in held else packed_ones[name] for name in records}
            self._held, self._of = held, index
        return self._rows

    def members(self, index: Any) -> Mapping[str, Sequence[str]]:
        """Return the passage ids of each document, by document name."""
        rows = self.of(index)
        of, found = self._members
        if of is not rows:
            found = {}
            for name, (document, _) in rows.items():
                found.setdefault(document, []).append(name)
            self._members = rows, found
        return found

    def document(self, metadata: Mapping[str, Any]) -> str:
        """Return the document name of a passage from its metadata; see :func:`document_of`."""
        return document_of(metadata, self._key)

    def digest(self, text: str, metadata: Mapping[str, Any]) -> bytes:
        """Return the digest of a passage's text and metadata; see :func:`digest_of`."""
        return digest_of(text, metadata, self._without)

    def _entry(self, text: str, metadata: Mapping[str, Any]) -> Entry:
        return self.document(metadata), self.digest(text, metadata)

    def _of_packed(self, records: PassageRecords) -> Mapping[str, Entry]:
        """Return the pair (document name, digest) of each record in the memory-mapped file, by passage id.

        The pairs are read from the stored table; if there is none, they are computed and stored.
        """
        file = records.file
        kept = None if file is None else self._read(file, records.base)
        if kept is not None:
            return kept
        made = {name: self._entry(text, metadata) for name, text, metadata in records.contents()}
        if file is not None and file.is_file():  # otherwise, the folder was moved
            self.keep(file, made.values())
        return made

    def keep(self, file: Path, entries: Iterable[Entry]) -> None:
        """Store the pairs (document name, digest) of the records in `file`, in their order; ignore a failed write."""
        listed = list(entries)
        names = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in listed))}
        arrays = packed("names", list(names)) | {
            "rows": np.array([names[name] for name, _ in listed], dtype=np.int32),
            "digests": np.frombuffer(b"".join(one for _, one in listed), dtype=np.uint8).reshape(-1, _WIDTH),
        }
        body = {"of": file.name, "key": self._key, "without": sorted(self._without)}
        with suppress(PhasegraphError, OSError):  # for example, a read-only folder: the next start computes it again
            write_bundle(file.parent / BESIDE, KIND, VERSION, body, arrays)

    def _read(self, file: Path, ids: Collection[str]) -> Mapping[str, Entry] | None:
        try:
            body, arrays = read_bundle(file.parent / BESIDE, KIND, VERSION)
            wanted = {"of": file.name, "key": self._key, "without": sorted(self._without)}
            if body != wanted:
                return None
            names, digests = unpacked("names", arrays), arrays["digests"].tobytes()
            documents = [names[row] for row in arrays["rows"].tolist()]
            if len(documents) != len(ids) or len(digests) != _WIDTH * len(ids):
                return None
            starts = range(0, len(digests), _WIDTH)
            entries = ((name, digests[at : at + _WIDTH]) for name, at in zip(documents, starts, strict=True))
            return dict(zip(ids, entries, strict=True))
        except (PhasegraphError, OSError, *MISFITS):
            return None  # the stored table is missing or damaged: compute it again
