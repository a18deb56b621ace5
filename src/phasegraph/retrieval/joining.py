"""Join the hits of sources by their texts where they have no common ids."""

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
    """Hits whose id is made from their text take the id of another source's hit that has the same text.

    Gives the rankings in their order, and what to note of each source. Where several ids have the same text, the first
    of them in alphabetical order is taken: the outcome does not depend on the order of the sources.
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
            f"{len(taken)} of {len(ranking)} hits without an id joined to other sources' by their text"
        ]
    return tuple(out), notes


def named_by_text(upstream: Upstream, known: Collection[str], text: Callable[[Any], str]) -> Upstream:
    """The rankings, whose hits have ids of their own, under those of a source that knows its passages by their text.

    `known` are ids made from texts; nothing is done where there are none.
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
    """The ranking with some hits under other ids."""
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
    """Evidence by other ids than its source's, looked up where it is asked for: a path is worked out then."""

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
