"""What the core has to know of a framework: what its hits are called, how they are made, read and looked up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from phasegraph.embedding.identity import EmbeddingModel


class HitFilter(Protocol):
    """A filter of the framework: `key` tells filters apart, `names` are the metadata keys that it asks for."""

    @property
    def key(self) -> Hashable:
        """What tells filters apart."""

    @property
    def names(self) -> Collection[str]:
        """The metadata keys that it asks for."""

    def rows(self, hits: Sequence[Any]) -> Collection[int]:
        """The places of the hits, or of records with metadata, that it lets through."""


class Framework:
    """A framework's documents or nodes, as the core makes, reads and embeds them; an integration derives one.

    `name` is kept in folders. `hit`, `filters` and `model` are the framework's words: for a hit, for its argument with
    a filter, and for its argument with an embedding model.
    """

    name = hit = filters = model = ""

    @property
    def hits(self) -> str:
        """The word for several hits, which is also the argument that holds them."""
        return f"{self.hit}s"

    def held_by_id(self, hits: Iterable[Any]) -> dict[str, Any]:
        """Hits by id; an error for anything else, and for an id that repeats."""
        raise NotImplementedError

    def of_record(self, record: Any) -> Any:
        """A passage of a corpus as a hit."""
        raise NotImplementedError

    def of_text(self, identifier: str, text: str, metadata: Mapping[str, Any], own: Collection[str] = ()) -> Any:
        """A text as a hit; `own` are metadata keys of ours, which neither a prompt nor an embedding should read."""
        raise NotImplementedError

    def text_of(self, hit: Any) -> str:
        """The text of a hit."""
        raise NotImplementedError

    def with_text(self, hit: Any, text: str) -> Any:
        """A copy of a hit with another text."""
        raise NotImplementedError

    def passages_of(
        self, held: Mapping[str, Any], title_key: str, given: Mapping[str, Sequence[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Hits as passages of a corpus, with what is `given` of each by its id."""
        raise NotImplementedError

    def filter_of(self, where: Any) -> HitFilter:
        """A filter as a caller gave it, or an error."""
        raise NotImplementedError

    def check_model(self, model: Any) -> None:
        """InvalidTypeError for anything but an embedding model of the framework."""
        raise NotImplementedError

    def model_of(self, model: Any) -> EmbeddingModel | None:
        """An embedding model as a corpus takes it; None for None."""
        raise NotImplementedError

    def embeds_texts(self, model: Any) -> Callable[[list[str]], Any] | None:
        """The model's function from texts to vectors; None for None."""
        raise NotImplementedError

    def embedded(self, model: Any, hits: Sequence[Any], progress: bool | None) -> Any:
        """The vectors of hits, as the framework embeds them, with a bar for many; None without a model."""
        raise NotImplementedError

    def carries_vectors(self, hits: Iterable[Any]) -> bool:
        """Whether hits hold vectors of their own, so that it is not known which model made them."""
        return False


@dataclass(frozen=True, slots=True)
class HitLookup:
    """Hits by passage id, from wherever they are; `kind` is ``none``, ``mapping``, ``callable`` or a store's."""

    kind: str
    held: Any

    @property
    def is_set(self) -> bool:
        """Whether there are any hits to look up."""
        return self.kind != "none"

    @property
    def corpus(self) -> Any:
        """The corpus whose passages they are; None where they are others."""
        from phasegraph.graph import CorpusLookup

        return self.held.corpus if isinstance(self.held, CorpusLookup) else None

    @property
    def kept_ids(self) -> Iterable[str]:
        """Ids of the hits in memory; none where they come from a store."""
        corpus = self.corpus
        if corpus is not None:
            ids: Iterable[str] = corpus.index.records
            return ids
        return self.held if self.kind == "mapping" else ()

    def __call__(self, ids: Sequence[str]) -> dict[str, Any]:
        """The hits that there are."""
        raise NotImplementedError

    @staticmethod
    def _paired(ids: Sequence[str], found: Any) -> dict[str, Any]:
        """What a mapping has of some ids, or a list has for each of them in turn, None left out."""
        values = [found.get(one) for one in ids] if isinstance(found, Mapping) else found
        return {one: value for one, value in zip(ids, values, strict=True) if value is not None}
