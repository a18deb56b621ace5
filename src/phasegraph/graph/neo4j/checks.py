"""What every door of the store asks of a corpus and of records."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.neo4j.records import PassageRecord

MAX_KEY_BYTES = 2000


def check_corpus(corpus: str) -> None:
    """Refuse a corpus without a name, or with one too long for an index."""
    if not isinstance(corpus, str) or not corpus.strip():
        raise InvalidInputError("corpus must be a text that is not blank; a blank or another type was given")
    if any("\ud800" <= letter <= "\udfff" for letter in corpus):
        raise InvalidInputError("corpus must be text that UTF-8 can hold; one that is not was given")
    check_length(corpus, "corpus")


def checked_records(passages: Iterable[PassageRecord], corpus: str, batch: int) -> list[PassageRecord]:
    """Return the records as a list, or name what is wrong with them."""
    check_corpus(corpus)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InvalidInputError(f"batch must be an integer of at least 1; {batch!r:.40} was given")
    if not isinstance(passages, Iterable):
        raise InvalidTypeError(
            f"passages must hold PassageRecord (see records_from_extractions); {type(passages).__name__} was given"
        )
    records = list(passages)
    seen: set[str] = set()
    for record in records:
        if not isinstance(record, PassageRecord):
            raise InvalidTypeError(f"passages must hold PassageRecord; {type(record).__name__} was given")
        if record.id in seen:
            raise InvalidInputError(f"ids of passages must differ; {record.id[:40]!r} was given twice")
        seen.add(record.id)
        check_length(record.id, "the id of a passage")
        ends = (name for subject, _, other, _ in record.facts for name in (subject, other))
        for name in itertools.chain((name for name, _ in record.mentions + record.homes), ends):
            check_length(name, "the name of an entity")
    return records


def check_length(text: str, field: str) -> None:
    """Refuse what a range index of the server cannot hold."""
    if len(text) > MAX_KEY_BYTES // 4 and len(text.encode(errors="replace")) > MAX_KEY_BYTES:
        raise InvalidInputError(f"{field} must have at most {MAX_KEY_BYTES} bytes in UTF-8; {text[:40]!r}... has more")
