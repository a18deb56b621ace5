"""Records out of what was extracted here, or of what another library wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from phasegraph.errors import InvalidInputError
from phasegraph.graph.entity_graph import Extraction, normalise_name
from phasegraph.graph.entity_graph.weights import HOME_LEAD, HOME_TITLE
from phasegraph.graph.extraction import lead_name, read_passages, title_names
from phasegraph.graph.neo4j.records import PassageRecord


def records_from_extractions(passages: Iterable[Any], extractions: Iterable[Extraction]) -> tuple[PassageRecord, ...]:
    """Return one record per passage, with everything that was extracted from it.

    Parameters
    ----------
    passages : iterable of mapping or object
        Each with ``id``, ``text`` and optionally ``title``, as for `build_graph`.
    extractions : iterable of Extraction
        Any number per passage.

    Returns
    -------
    tuple of PassageRecord
        Sorted by id; the graph made of them equals the one made of the extractions.

    Raises
    ------
    InvalidInputError
        If an extraction belongs to no passage, or a passage is not one.

    Examples
    --------
    >>> made = records_from_extractions([{"id": "1", "text": "Ada"}], [Extraction("1", ["ada", "ada"])])
    >>> made[0].mentions
    (('ada', 2),)
    """
    rows = {row[0]: row for row in read_passages(passages)}
    found: dict[str, list[Extraction]] = {passage: [] for passage in rows}
    for each in extractions:
        if each.passage_id not in found:
            raise InvalidInputError(f"an extraction must belong to a passage; {each.passage_id!r:.80} does not")
        found[each.passage_id].append(each)
    return tuple(_merged(*rows[passage], found[passage]) for passage in sorted(rows))


def _merged(passage: str, title: str, text: str, extractions: Iterable[Extraction]) -> PassageRecord:
    mentions: Counter[str] = Counter()
    facts: Counter[tuple[str, str, str]] = Counter()
    homes: dict[str, int] = {}
    for each in extractions:
        mentions.update(each.entities)
        for subject, predicate, other in each.triples:
            ends = normalise_name(subject), normalise_name(other)
            for name in ends:
                mentions.setdefault(name, 0)
            if all(ends):
                facts[ends[0], predicate.strip() or "-", ends[1]] += 1
        homes.setdefault(each.lead, HOME_LEAD)
        homes.update(dict.fromkeys(each.titles, HOME_TITLE))
    return PassageRecord(
        passage,
        title,
        text,
        tuple((name, max(count, 1)) for name, count in mentions.items() if name),
        tuple((*fact, count) for fact, count in facts.items()),
        tuple((name, kind) for name, kind in homes.items() if name),
    )


def named_record(
    passage: str,
    title: str,
    text: str,
    mentions: Iterable[tuple[str, int]],
    facts: Iterable[tuple[str, str, str, int]],
    normal: Mapping[str, str],
) -> PassageRecord:
    """Return a record from names as another library wrote them; title and opening words say what it is about."""
    named = ((normal[name], count) for name, count in mentions)
    ended = ((normal[one], word, normal[other], count) for one, word, other, count in facts)
    homes = dict.fromkeys(title_names(title), HOME_TITLE)
    homes.setdefault(lead_name(title, text), HOME_LEAD)
    return PassageRecord(
        passage,
        title,
        text,
        tuple(mention for mention in named if mention[0]),
        tuple(fact for fact in ended if fact[0] and fact[2]),
        tuple((name, kind) for name, kind in homes.items() if name),
    )
