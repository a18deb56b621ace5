"""Embed all passages of a folder again, and resume after an interruption."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._support.progress import with_progress
from phasegraph._support.serialization import MISFITS, read_bundle, write_bundle
from phasegraph._support.typing import Float32Array
from phasegraph.embedding.identity import ModelIdentity
from phasegraph.errors import InvalidInputError, PhasegraphError
from phasegraph.graph.corpus.document_table import digest_of
from phasegraph.graph.corpus.embedded import SAME, cosines
from phasegraph.graph.index.records import PassageRecord

KIND, VERSION, FOLDER = "reembedded-part", 1, "reembedding"
BATCH, PART = 256, 1024
"""Number of passages that are embedded in one call, and number of vectors that are written in one bundle."""
Embed = Callable[[Sequence[PassageRecord]], Any]


class VectorCheckpoint:
    """The vectors that a new embedding model has computed so far, stored in the folder under digests of the passages.

    Parameters
    ----------
    folder : path or None
        The folder of the corpus; None keeps the vectors only in memory.
    model : ModelIdentity
        The new embedding model; stored vectors of another model are not used.
    """

    def __init__(self, folder: Path | None, model: ModelIdentity) -> None:
        self._place = None if folder is None else folder / FOLDER
        self._model = model.to_json()
        self._held: dict[bytes, Float32Array] = {}
        self._parts = 0
        if self._place is not None and self._place.is_dir():
            self._read(self._place)

    def _read(self, place: Path) -> None:
        for part in sorted(place.iterdir()):
            try:
                body, arrays = read_bundle(part, KIND, VERSION)
                if body != {"model": self._model}:
                    continue
                digests, vectors = arrays["digests"], arrays["vectors"]
                self._held |= {one.tobytes(): row for one, row in zip(digests, vectors, strict=True)}
            except (PhasegraphError, OSError, *MISFITS):
                continue  # an incomplete bundle: its passages are embedded again
        self._parts = len(list(place.iterdir()))

    def embed(self, records: Sequence[PassageRecord], embed: Embed, progress: bool | None) -> Float32Array:
        """Return the vectors of all records, an array of shape (n, d); compute and store the missing vectors.

        Raises InvalidInputError if the model does not return one vector for each record.
        """
        digests = [digest_of(f"{one.title}\0{one.text}", one.metadata) for one in records]
        known = [row for row, one in enumerate(digests) if one in self._held]
        if known and not self._same_model(records[known[0]], self._held[digests[known[0]]], embed):
            self.forget()
            known = []
        lacking = [row for row, one in enumerate(digests) if one not in self._held]
        fresh: list[int] = []
        starts = range(0, len(lacking), BATCH)
        for first in with_progress(starts, progress if len(starts) > 1 else False, label="embed", unit="batch"):
            rows = lacking[first : first + BATCH]
            made = np.asarray(embed([records[row] for row in rows]), dtype=np.float32)
            if made.ndim != 2 or len(made) != len(rows):
                raise InvalidInputError(
                    f"the model must return one vector for each of {len(rows)} texts; got shape {made.shape}"
                )
            self._held |= {digests[row]: vector for row, vector in zip(rows, made, strict=True)}
            fresh += rows
            if len(fresh) >= PART:
                self._keep([digests[row] for row in fresh])
                fresh = []
        return np.array([self._held[one] for one in digests], dtype=np.float32)

    def _same_model(self, record: PassageRecord, vector: Float32Array, embed: Embed) -> bool:
        """Return True if the model reproduces the stored vector of a record."""
        made = np.asarray(embed([record]), dtype=np.float32)
        return made.shape == (1, len(vector)) and float(cosines(made, vector[None])[0]) >= SAME

    def _keep(self, digests: Sequence[bytes]) -> None:
        """Write the vectors of the records with these digests to the folder; ignore a failed write."""
        if self._place is None:
            return
        arrays: dict[str, Any] = {
            "digests": np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(digests), -1),
            "vectors": np.array([self._held[one] for one in digests], dtype=np.float32),
        }
        with suppress(PhasegraphError, OSError):
            write_bundle(self._place / f"{self._parts:06d}", KIND, VERSION, {"model": self._model}, arrays)
            self._parts += 1

    def forget(self) -> None:
        """Delete the stored vectors, because the corpus now contains them, or because another model computed them."""
        self._held, self._parts = {}, 0
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
