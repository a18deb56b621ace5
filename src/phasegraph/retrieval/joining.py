"""Join the hits of different sources that are the same passage, and separate different passages with the same id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phasegraph.ranking import Ranking
from phasegraph.retrieval.identity import is_text_id, text_id
from phasegraph.retrieval.notes import joined_notes
from phasegraph.retrieval.once import Once
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sources.protocol import Upstream


def join_hits(
    rankings: Sequence[Ranking], text: Callable[[Any], str], once: Once
) -> tuple[tuple[Ranking, ...], dict[str, list[str]]]:
    """Give each passage one id in all rankings; return the rankings and notes by source name.

    First apply :func:`replace_shared_ids`, then :func:`join_by_text`. `once` warns of the ids that are replaced.
    """
    rankings, replaced = replace_shared_ids(rankings, text, once)
    rankings, joined = join_by_text(rankings, text)
    return rankings, joined_notes(replaced, joined) if replaced or joined else {}


def replace_shared_ids(
    rankings: Sequence[Ranking], text: Callable[[Any], str], once: Once
) -> tuple[tuple[Ranking, ...], dict[str, list[str]]]:
    """Replace ids that were read from metadata if another source uses the same id for a different text.

    Such a hit gets an id made from its text, which ``text(hit)`` returns. Return the rankings in the same order,
    and notes by source name. `once` warns once for each source.
    """
    held = [one.payloads if isinstance(one.payloads, Payloads) else None for one in rankings]
    if len(rankings) < 2 or not any([one is not None and one.derived for one in held]):
        return tuple(rankings), {}
    out, notes = [], {}
    for row, (ranking, own) in enumerate(zip(rankings, held, strict=True)):
        taken: dict[str, str] = {}
        for identifier in sorted(own.derived) if own is not None else ():
            others = (one.get(identifier) for place, one in enumerate(held) if place != row and one is not None)
            mine = text(own.get(identifier)) if own is not None and own.get(identifier) is not None else ""
            if mine and any(_differ(mine, text(hit)) for hit in others if hit is not None):
                taken[identifier] = text_id(mine)
        if taken:
            ranking = renamed(ranking, taken)
            said = (
                f"{len(taken)} ids read from metadata name different texts in other sources: these hits got ids "
                "made from their texts"
            )
            notes[ranking.source] = [said]
            once.warn(
                f"source {ranking.source!r}: {said} ({next(iter(taken))!r}); give each passage its own id",
                key=ranking.source,
            )
        out.append(ranking)
    return tuple(out), notes


def _differ(one: str, other: str) -> bool:
    """Return True if both texts are non-empty and different after normalization of white space and Unicode."""
    return bool(one and other) and one != other and text_id(one) != text_id(other)


def join_by_text(
    rankings: Sequence[Ranking], text: Callable[[Any], str]
) -> tuple[tuple[Ranking, ...], dict[str, list[str]]]:
    """Replace missing ids: a hit without an id gets the id of another source's hit with the same text.

    Return the rankings in the same order, and notes by source name. ``text(hit)`` returns the text of a hit. If several
    ids have the same text, the first id in alphabetical order is used; the result then does not depend on the order of
    the sources.
    """
    if len(rankings) < 2 or not any(["text-" in " ".join(ranking.ids) for ranking in rankings]):
        return tuple(rankings), {}
    named: dict[str, str] = {}
    for ranking in rankings:
        for identifier, hit in ranking.payloads.items() if isinstance(ranking.payloads, Payloads) else ():
            held = "" if is_text_id(identifier) else text(hit)
            made = text_id(held) if held else identifier
            if made != identifier and identifier < named.get(made, "\U0010ffff"):
                named[made] = identifier
    out, notes = [], {}
    for ranking in rankings:
        taken = {one: named[one] for one in ranking.ids if one in named}
        if not taken:
            out.append(ranking)
            continue
        out.append(renamed(ranking, taken))
        notes[ranking.source] = [
            f"{len(taken)} of {len(ranking)} hits without an id joined to hits of other sources with the same text"
        ]
    return tuple(out), notes


def named_by_text(upstream: Upstream, known: Collection[str], text: Callable[[Any], str]) -> Upstream:
    """Replace the ids in other sources' rankings by the ids that this source made from the same texts.

    `upstream` maps source names to rankings. `known` are the ids that this source made from texts. If `known` is empty,
    the rankings are returned unchanged. ``text(hit)`` returns the text of a hit.
    """
    if not known:
        return upstream
    out: dict[str, Ranking | None] = {}
    for name, ranking in upstream.items():
        held = {} if ranking is None or not isinstance(ranking.payloads, Payloads) else ranking.payloads
        made = {one: text_id(text(hit)) for one, hit in held.items() if one not in known}
        taken = {one: other for one, other in made.items() if other in known}
        out[name] = renamed(ranking, taken) if ranking is not None and taken else ranking
    return out


def renamed(ranking: Ranking, taken: Mapping[str, str]) -> Ranking:
    """Return the ranking with new ids; `taken` maps old ids to new ids. Other ids stay unchanged."""
    ids = [taken.get(one, one) for one in ranking.ids]
    payloads = ranking.payloads
    held = payloads if isinstance(payloads, Payloads) else Payloads((), ())
    evidence = getattr(payloads, "evidence", payloads)
    old = dict(zip(reversed(ids), reversed(ranking.ids), strict=True))
    return replace(
        ranking,
        ids=tuple(ids),
        payloads=Payloads(ids, [held.get(one) for one in ranking.ids], _Evidence(evidence, old)),
    )


@dataclass(frozen=True, slots=True)
class _Evidence(Mapping[str, object]):
    """A source's evidence after its ids were replaced; `old` maps each new id to the id under which `held` has it.

    The evidence is read on demand, because paths are slow to compute.
    """

    held: Mapping[str, object]
    old: Mapping[str, str]

    def __getitem__(self, identifier: str) -> object:
        return self.held[self.old[identifier]]

    def __contains__(self, identifier: object) -> bool:
        return identifier in self.old and self.old[str(identifier)] in self.held

    def __iter__(self) -> Iterator[str]:
        return filter(self.__contains__, self.old)

    def __len__(self) -> int:
        return sum(1 for _ in self)
