"""A change of a corpus: the passages it removes and adds, and the format of its files in the subfolder `changes`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._support.serialization import MISFITS, read_bundle, write_bundle
from phasegraph._support.typing import Float32Array
from phasegraph.errors import IntegrityError, InvalidTypeError
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import check_plain
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.graph.model.storage import packed, unpacked

KIND, VERSION = "passage-change", 1
"""The kind of the bundle that stores a change; the version of the format of changes and folders."""


@dataclass(frozen=True)
class Change:
    """A change of a corpus: the passages to remove first, and the passages to add afterwards.

    `removed` are ids. `passages` are mappings with the keys that :meth:`Corpus.replace` describes, and `embeddings`
    their vectors. `settings` are new values of the folder's settings. If `reembedded` is True, no passage is removed or
    added, and `embeddings` are new vectors of all passages by another model.
    """

    removed: tuple[str, ...]
    passages: tuple[Mapping[str, Any], ...] = ()
    embeddings: Float32Array | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    reembedded: bool = False

    @property
    def size(self) -> int:
        """The number of passages that the change affects."""
        return len(self.touched) if self.embeddings is None or not self.reembedded else len(self.embeddings)

    @property
    def touched(self) -> frozenset[str]:
        """The ids of all passages that the change adds or removes."""
        return frozenset(self.removed) | {one["id"] for one in self.passages}

    def made_in(self, index: GraphIndex) -> GraphIndex:
        """Apply the change to an index, and return the new index."""
        if self.reembedded:
            return index.reembedded(self.embeddings)
        given = [Extraction(one["id"], *parts) for one in self.passages for parts in one.get("given", ())]
        return index.replace(self.removed, self.passages or None, triples=given, embeddings=self.embeddings)

    def write(self, directory: Path) -> None:
        """Write the change to a directory; after a crash, the directory contains the whole change or none."""
        lines = [json.dumps({**one, "metadata": check_plain(one["id"], one["metadata"])}) for one in self.passages]
        arrays = packed("passages", lines) | packed("removed", self.removed)
        if self.embeddings is not None:
            arrays["embeddings"] = self.embeddings
        body: dict[str, object] = {"passages": len(lines)}
        if self.settings:
            body["settings"] = dict(self.settings)
        if self.reembedded:
            body["reembedded"] = True
        write_bundle(directory, KIND, VERSION, body, arrays)

    @classmethod
    def read(cls, directory: Path) -> Change:
        """Read a change that :meth:`write` wrote."""
        body, arrays = read_bundle(directory, KIND, VERSION)
        try:
            passages = tuple(json.loads(line) for line in unpacked("passages", arrays))
            if not all(isinstance(one, dict) and isinstance(one["id"], str) for one in passages):
                raise InvalidTypeError(f"each of the {len(passages)} passages must be a mapping with a text as id")
            vectors: Any = arrays.get("embeddings")
            settings: Any = body.get("settings", {})
            reembedded = body.get("reembedded") is True
            return cls(unpacked("removed", arrays), passages, vectors, dict(settings), reembedded)
        except MISFITS as error:
            raise IntegrityError(
                f"{directory.name}: the parts of the change do not fit together: {error}. "
                "Restore the whole folder from a backup"
            ) from error


def joined(changes: Sequence[Change]) -> list[Change]:
    """Combine consecutive changes into fewer changes with the same effect; a re-embedding stays separate.

    >>> first = Change((), ({"id": "a", "text": "Ada"}, {"id": "b", "text": "Bo"}))
    >>> joined([first, Change(("a", "c"), ({"id": "c", "text": "Cy"},))])
    [Change(removed=('c',), passages=({'id': 'b', 'text': 'Bo'}, {'id': 'c', 'text': 'Cy'}), embeddings=None, \
settings={}, reembedded=False)]
    """
    out: list[Change] = []
    run: list[Change] = []
    for one in changes:
        if one.reembedded:
            out += [*_as_one(run), one]
            run = []
        else:
            run.append(one)
    return [*out, *_as_one(run)]


def _as_one(changes: Sequence[Change]) -> list[Change]:
    """Return a list with one change that has the effect of all `changes`, none of which may be a re-embedding.

    The result is an empty list if there are no changes.
    """
    if len(changes) < 2:
        return list(changes)
    removed: dict[str, None] = {}
    came: dict[str, tuple[Mapping[str, Any], Any]] = {}
    settings: dict[str, object] = {}
    for change in changes:
        for name in change.removed:
            if came.pop(name, None) is None:
                removed[name] = None
        vectors = itertools.repeat(None) if change.embeddings is None else change.embeddings
        came |= {one["id"]: (one, vector) for one, vector in zip(change.passages, vectors, strict=False)}
        settings |= change.settings
    rows = [vector for _, vector in came.values()]
    embeddings = np.array(rows, dtype=np.float32) if rows and rows[0] is not None else None
    return [Change(tuple(removed), tuple(one for one, _ in came.values()), embeddings, settings)]
