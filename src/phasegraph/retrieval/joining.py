"""Join the hits of different sources that have the same text, if a source gives no ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phasegraph.ranking import Ranking
from phasegraph.retrieval.identity import is_text_id, text_id
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sources.protocol import Upstream


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
