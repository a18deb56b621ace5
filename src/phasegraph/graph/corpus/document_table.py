"""The document name and content digest of every passage, computed once and stored next to a large index."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from phasegraph._support.serialization import MISFITS, read_bundle, write_bundle
from phasegraph.errors import PhasegraphError
from phasegraph.graph.index.records import PassageRecord, PassageRecords
from phasegraph.graph.model.storage import packed, unpacked

SOURCE_KEYS = ("source", "doc_id", "ref_doc_id", "file_path")
"""Metadata keys that may name a passage's document, if the caller gives no key; the first key with a value is used.

A random id under ``doc_id`` or ``ref_doc_id`` is used only if no other key has a value, because LlamaIndex draws a new
id for the same file at each reading.
"""
_RANDOM_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""The form of a random UUID (version 4)."""
_NO_NAME = (None, "", "None")
"""Metadata values that name no document; LlamaIndex writes "None"."""
KIND, VERSION, BESIDE = "document-table", 1, "documents"
"""Kind and version of the bundle that stores a :class:`DocumentTable`; its subfolder in the index's folder.

The version must change if the digest of a passage is computed in another way.
"""
_WIDTH = 16
_JSON = json.JSONEncoder(sort_keys=True, default=repr)
_TEXT, _SIMPLE = frozenset({str}), frozenset({str, int})


class DocumentColumns(NamedTuple):
    """The document name and the content digest of each passage, by passage id.

    Two dicts of plain values replace a dict of pairs, because the garbage collector visits every pair.
    """

    documents: Mapping[str, str]
    digests: Mapping[str, bytes]


def document_of(metadata: Mapping[str, Any], key: str | None = None) -> str:
    """Return the name of a passage's document from its metadata, or "" if the metadata name no document.

    `key` is the metadata key of the name; with None, the usual keys (`SOURCE_KEYS`) are tried in order, and then random
    ids.

    >>> document_of({"doc_id": "None", "file_path": "a.md"}), document_of({"page": 3}, "page"), document_of({})
    ('a.md', '3', '')
    """
    random = ""
    for one in SOURCE_KEYS if key is None else (key,):
        found = metadata.get(one)
        if found in _NO_NAME:
            continue
        if key is not None or not one.endswith("doc_id") or not _RANDOM_ID.fullmatch(str(found)):
            return str(found)
        random = random or str(found)
    return random


def digest_of(text: str, metadata: Mapping[str, Any], without: Collection[str] = ()) -> bytes:
    """Return a digest of a passage's text and metadata; the metadata keys in `without` are left out."""
    told = {key: value for key, value in metadata.items() if key not in without} if without else metadata
    said = f"[{encode_basestring_ascii(text)}, {_json_of(told)}]"
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=_WIDTH).digest()


def _json_of(metadata: Mapping[str, Any]) -> str:
    """Return the metadata as JSON with sorted keys; a faster encoder is used if all values are texts or integers."""
    if not (_TEXT.issuperset(map(type, metadata)) and _SIMPLE.issuperset(map(type, metadata.values()))):
        return _JSON.encode(dict(metadata))
    pairs = [
        f"{encode_basestring_ascii(key)}: {encode_basestring_ascii(value) if type(value) is str else value}"
        for key, value in sorted(metadata.items())
    ]
    return f"{{{', '.join(pairs)}}}"


class DocumentTable:
    """The document name and content digest of every passage, updated when the corpus changes.

    `key` is the metadata key that names a document; None means the keys of :func:`document_of`. `without` are
    metadata keys that the digest leaves out. If passage records are packed in a memory-mapped file, the names and
    digests of these passages are stored in a bundle next to this file.
    """

    def __init__(self, key: str | None, without: Collection[str] = ()) -> None:
        self._key, self._without = key, frozenset(without)
        self._packed_in: object = None
        self._packed = self._columns = DocumentColumns({}, {})
        self._held: dict[str, tuple[PassageRecord, str, bytes]] = {}
        self._of: object = None
        self._members: tuple[object, dict[str, list[str]]] = (None, {})

    @classmethod
    def beside(cls, directory: Path) -> Self | None:
        """Create a table that uses the same metadata keys as the table stored in an index's folder.

        Returns None if the folder contains no readable table.
        """
        try:
            body, _ = read_bundle(directory / BESIDE, KIND, VERSION)
            key, without = body["key"], body["without"]
            return cls(None if key is None else str(key), list(map(str, without)))  # type: ignore[call-overload]
        except (PhasegraphError, OSError, *MISFITS):
            return None

    def of(self, index: Any) -> DocumentColumns:
        """Return the document name and the digest of each passage, by passage id.

        Only names and digests of passages that changed since the last call are computed.
        """
        if index is not self._of:
            records = index.records
            if records.base is not self._packed_in:
                self._packed_in, self._packed = records.base, self._of_packed(records)
            held = {}
            for name, record in records.held.items():
                seen = self._held.get(name)
                if seen is None or seen[0] is not record:
                    seen = record, self.document(record.metadata), self.digest(record.text, record.metadata)
                held[name] = seen
            self._columns, self._held, self._of = self._joined(records, held), held, index
        return self._columns

    def _joined(self, records: PassageRecords, held: Mapping[str, tuple[PassageRecord, str, bytes]]) -> DocumentColumns:
        """Return the document names and digests of all `records`.

        `held` maps the id of each record in memory to the record, its document name and its digest.
        """
        if not held and len(records) == len(self._packed.documents):
            return self._packed
        ids = list(records)
        documents = {name: self._packed.documents.get(name, "") for name in ids}
        digests = {name: self._packed.digests.get(name, b"") for name in ids}
        for name, (_, document, digest) in held.items():
            documents[name], digests[name] = document, digest
        return DocumentColumns(documents, digests)

    def members(self, index: Any) -> Mapping[str, Sequence[str]]:
        """Return the passage ids of each document, by document name."""
        columns = self.of(index)
        of, found = self._members
        if of is not columns:
            found = {}
            for name, document in columns.documents.items():
                found.setdefault(document, []).append(name)
            self._members = columns, found
        return found

    def document(self, metadata: Mapping[str, Any]) -> str:
        """Return the document name of a passage from its metadata; see :func:`document_of`."""
        return document_of(metadata, self._key)

    def digest(self, text: str, metadata: Mapping[str, Any]) -> bytes:
        """Return the digest of a passage's text and metadata; see :func:`digest_of`."""
        return digest_of(text, metadata, self._without)

    def _of_packed(self, records: PassageRecords) -> DocumentColumns:
        """Return the document name and the digest of each record in the memory-mapped file, by passage id.

        The names and digests are read from the stored table. If there is no stored table, they are computed and stored.
        """
        file = records.file
        kept = None if file is None else self._read(file, records.base)
        if kept is not None:
            return kept
        documents: dict[str, str] = {}
        digests: dict[str, bytes] = {}
        for name, text, metadata in records.contents():
            documents[name], digests[name] = self.document(metadata), self.digest(text, metadata)
        made = DocumentColumns(documents, digests)
        if file is not None and file.is_file():  # otherwise, the folder was moved
            self.keep(file, made)
        return made

    def keep(self, file: Path, columns: DocumentColumns) -> None:
        """Write `columns` to a folder beside `file`, the file of the saved records.

        `columns` contain the names and digests of all these records, in their order. A failed write is ignored.
        """
        names = {name: row for row, name in enumerate(dict.fromkeys(columns.documents.values()))}
        arrays = packed("names", list(names)) | {
            "rows": np.array([names[name] for name in columns.documents.values()], dtype=np.int32),
            "digests": np.frombuffer(b"".join(columns.digests.values()), dtype=np.uint8).reshape(-1, _WIDTH),
        }
        body = self._body(file)
        with suppress(PhasegraphError, OSError):  # for example, a read-only folder: the next start computes it again
            write_bundle(file.parent / BESIDE, KIND, VERSION, body, arrays)

    def _body(self, file: Path) -> dict[str, Any]:
        """Return the settings of the stored table; a table with other settings is computed again."""
        tried = {} if self._key is not None else {"random_ids": "last"}
        return {"of": file.name, "key": self._key, "without": sorted(self._without), **tried}

    def _read(self, file: Path, ids: Collection[str]) -> DocumentColumns | None:
        try:
            body, arrays = read_bundle(file.parent / BESIDE, KIND, VERSION)
            if body != self._body(file):
                return None
            names, joined = unpacked("names", arrays), arrays["digests"].tobytes()
            documents = [names[row] for row in arrays["rows"].tolist()]
            if len(documents) != len(ids) or len(joined) != _WIDTH * len(ids):
                return None
            digests = [joined[at : at + _WIDTH] for at in range(0, len(joined), _WIDTH)]
            listed = list(ids)
            return DocumentColumns(dict(zip(listed, documents, strict=True)), dict(zip(listed, digests, strict=True)))
        except (PhasegraphError, OSError, *MISFITS):
            return None  # the stored table is missing or damaged: compute it again
