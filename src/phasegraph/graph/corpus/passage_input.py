"""Check the passages, triples and metadata keys that a user gives to a corpus."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phasegraph._support.validation import nearest_key
from phasegraph.errors import InvalidInputError, InvalidTypeError, warn
from phasegraph.graph.index.records import check_plain
from phasegraph.graph.model.building import Triples, by_passage, read_passages


def fields_of(given: Triples | None, known: Mapping[str, object]) -> dict[str, list[list[Any]]]:
    """Convert a user's triples or extractions to JSON lists, by passage id.

    Each passage has a list of extractions. An extraction is the list of its entities, triples, titles and lead (the
    name at the start of the passage). `known` contains the ids of the passages; another id raises InvalidInputError.

    >>> fields_of({"a": [("Ada", "met", "Bo")]}, {"a": None})
    {'a': [[[], [['Ada', 'met', 'Bo']], [], '']]}
    """
    return {
        name: [
            [list(one.entities), [list(triple) for triple in one.triples], list(one.titles), one.lead] for one in each
        ]
        for name, each in by_passage(given, known).items()
    }


def metadata_hint(metadata: Mapping[str, Any]) -> str:
    """Return the metadata of a passage in parentheses, for a message; "" if there are no metadata to show.

    Entries that a framework adds are left out: keys with a leading underscore, and the text "None".

    >>> metadata_hint({"page": 3, "_node_type": "TextNode", "doc_id": "None"})
    " (metadata: {'page': 3})"
    """
    shown = {
        key: value for key, value in metadata.items() if not str(key).startswith("_") and value not in (None, "None")
    }
    return f" (metadata: {shown!r:.200})" if shown else ""


def check_passages(passages: Sequence[Mapping[str, Any]], *, kept: bool, tokenizer: object = "") -> None:
    """Raise an error for the first invalid passage; the message names the passage.

    A passage must have a text and a unique id. If the passages are `kept` in a folder, JSON must be able to represent
    their metadata, and the tokenizer must be given by name.
    """
    for one in passages:
        if not one["text"].strip() and not one["title"].strip():
            raise InvalidInputError(
                f"passage {one['id']!r} must have text; leave out passages of blank pages"
                f"{metadata_hint(one['metadata'])}"
            )
    read_passages(passages)
    if kept and not isinstance(tokenizer, str):
        raise InvalidInputError(f"a corpus in a folder needs the name of a tokenizer; got {tokenizer!r:.80}")
    for one in passages if kept else ():
        check_plain(one["id"], one["metadata"])
        if any("\ud800" <= letter <= "\udfff" for letter in one["id"]):
            raise InvalidInputError(
                f"passage {one['id']!r} must have an id without lone surrogates to be stored in a folder"
            )


@dataclass(frozen=True, slots=True)
class Keys:
    """The metadata keys of a corpus: `title` for a passage's title, and `source` for the name of its document.

    If `source` is None, the usual keys are tried; see :func:`~phasegraph.graph.corpus.document_table.document_of`.
    """

    title: str = "title"
    source: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Keys:
        """Read the metadata keys from a folder's settings."""
        source = settings.get("source_key")
        return cls(str(settings.get("title_key", "title")), None if source is None else str(source))

    def to_json(self) -> dict[str, object]:
        """Return the metadata keys as settings of a folder: ``title_key`` and, if it is set, ``source_key``."""
        told: dict[str, object] = {"title_key": self.title}
        return told if self.source is None else {**told, "source_key": self.source}


def check_source_key(source_key: str | None, metadata: Collection[Mapping[str, Any]]) -> None:
    """Warn if no passage has the name of its document under the chosen key.

    Raise InvalidTypeError if the key is not a text.
    """
    if source_key is not None and (not isinstance(source_key, str) or not source_key):
        raise InvalidTypeError(f"source_key must be the name of a metadata key; got {source_key!r:.80}")
    if source_key is None or any(source_key in one for one in metadata):
        return
    hint = nearest_key(source_key, metadata)
    warn(f"source_key {source_key!r} is in no passage's metadata, so no passage names its document; {hint}")
