"""The operations that the core needs from a framework: create, read, embed and find its documents or nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from phasegraph._support.text import counted
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import warn


def is_blank(text: str, title: object) -> bool:
    """Return True if neither the text nor the title of a passage has a character that is not white space."""
    return not text.strip() and not str(title or "").strip()


def warn_of_blank(count: int, noun: str, example: object, metadata: Mapping[str, Any]) -> None:
    """Warn that `count` passages without text are left out.

    `noun` is the framework's word for a passage. `example` and `metadata` describe one of the passages.
    """
    from phasegraph.graph import metadata_hint

    verb = "is" if count == 1 else "are"
    warn(f"{counted(count, noun)} without text {verb} left out, for example {example!r}{metadata_hint(metadata)}")


class HitFilter(Protocol):
    """The protocol of a metadata filter that an integration has validated."""

    @property
    def key(self) -> Hashable:
        """A hashable key that identifies the filter in a cache; equal filters have equal keys."""

    @property
    def names(self) -> Collection[str]:
        """The metadata keys that the filter reads."""

    @property
    def compared(self) -> Mapping[str, Sequence[Any]]:
        """The values with which the filter compares each metadata key; conditions such as "not equal" are left out."""

    def rows(self, hits: Sequence[Any]) -> Collection[int]:
        """Return the positions, in `hits`, of the objects that match the filter; an object is a hit or a record."""


class Framework:
    """Base class for the operations on a framework's documents or nodes (hits); each integration derives a class.

    `name` is the framework's name, which is stored in folders. `hit` is the framework's word for a hit. `filters` and
    `model` are the names of the arguments for a filter and for an embedding model.
    """

    name = hit = filters = model = ""

    @property
    def hits(self) -> str:
        """The framework's word for several hits, which is also the name of the argument that contains hits."""
        return f"{self.hit}s"

    def held_by_id(self, hits: Iterable[Any]) -> dict[str, Any]:
        """Return the hits by id; raise an error if an id is repeated, or an object is not a hit of the framework."""
        raise NotImplementedError

    def of_record(self, record: Any) -> Any:
        """Convert a stored passage to a hit."""
        raise NotImplementedError

    def of_text(self, identifier: str, text: str, metadata: Mapping[str, Any], own: Collection[str] = ()) -> Any:
        """Convert a text to a hit; the metadata keys `own` are excluded from prompts and embeddings."""
        raise NotImplementedError

    def text_of(self, hit: Any) -> str:
        """Return the text of a hit."""
        raise NotImplementedError

    def metadata_of(self, hit: Any) -> Mapping[str, Any]:
        """Return the metadata of a hit, including names of its document that the framework stores elsewhere."""
        metadata: Mapping[str, Any] = hit.metadata
        return metadata

    def with_text(self, hit: Any, text: str) -> Any:
        """Return a copy of a hit with another text."""
        raise NotImplementedError

    def passages_of(
        self, held: Mapping[str, Any], title_key: str, given: Mapping[str, Sequence[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Convert hits to passages of a corpus; `held` maps ids to hits, and `given` maps ids to extractions.

        Extractions are triples and names. `title_key` is the metadata key of the title.
        """
        raise NotImplementedError

    def filter_of(self, where: Any) -> HitFilter:
        """Convert a caller's filter to a :class:`HitFilter`; raise an error if the filter is invalid."""
        raise NotImplementedError

    def check_model(self, model: Any) -> None:
        """Raise InvalidTypeError unless the argument is an embedding model of the framework."""
        raise NotImplementedError

    def model_of(self, model: Any) -> EmbeddingModel | None:
        """Wrap the framework's embedding model as a model of the core; return None if `model` is None."""
        raise NotImplementedError

    def embeds_texts(self, model: Any) -> Callable[[list[str]], Any] | None:
        """Return the model's function from a list of texts to vectors; return None if `model` is None."""
        raise NotImplementedError

    def embedded(self, model: Any, hits: Sequence[Any], progress: bool | None) -> Any:
        """Embed hits as the framework does, with a progress bar for many hits; return None without a model."""
        raise NotImplementedError

    def embedded_text(self, hit: Any) -> str | None:
        """Return the text of a hit that :meth:`embedded` gives to the model; None if the hit contains its vector."""
        raise NotImplementedError

    def with_words(self, held: Mapping[str, Any], title_key: str, *, may_be_empty: bool = False) -> dict[str, Any]:
        """Return the hits in `held`, a mapping by id, that have a text or a title; a warning counts the other hits.

        If no hit has a text, return all hits, unless `may_be_empty`; the check of the passages then raises an error.
        """
        kept = {name: one for name, one in held.items() if not is_blank(self.text_of(one), one.metadata.get(title_key))}
        if len(kept) == len(held) or not (kept or may_be_empty):
            return dict(held)
        example = next(name for name in held if name not in kept)
        warn_of_blank(len(held) - len(kept), self.hit, example, held[example].metadata)
        return kept

    def carries_vectors(self, hits: Iterable[Any]) -> bool:
        """Return True if the hits contain their vectors; the model that computed the vectors is then unknown."""
        return False


@dataclass(frozen=True, slots=True)
class HitLookup:
    """A lookup of hits by passage id in `held`; `kind` says what `held` is: none, a mapping, a callable or a store."""

    kind: str
    held: Any

    @property
    def is_set(self) -> bool:
        """True if the lookup has a mapping, function or store to search."""
        return self.kind != "none"

    @property
    def waits(self) -> bool:
        """True if the lookup may wait, for example for a server; False if all hits are in memory."""
        return self.kind not in ("none", "mapping")

    @property
    def corpus(self) -> Any:
        """The corpus that owns the passages; None if the hits do not come from a corpus."""
        from phasegraph.graph import CorpusLookup

        return self.held.corpus if isinstance(self.held, CorpusLookup) else None

    @property
    def kept_ids(self) -> Iterable[str]:
        """The ids of the hits in memory; empty if the hits come from a store or a function."""
        corpus = self.corpus
        if corpus is not None:
            ids: Iterable[str] = corpus.index.records
            return ids
        return self.held if self.kind == "mapping" else ()

    def __call__(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the existing hits by id; ids without a hit are left out."""
        raise NotImplementedError

    @staticmethod
    def _paired(ids: Sequence[str], found: Any) -> list[tuple[str, Any]]:
        """Return pairs (id, hit) for the ids that have a hit in `found`, a mapping or a list in the order of `ids`."""
        values = map(found.get, ids) if isinstance(found, Mapping) else found
        return [pair for pair in zip(ids, values, strict=True) if pair[1] is not None]
