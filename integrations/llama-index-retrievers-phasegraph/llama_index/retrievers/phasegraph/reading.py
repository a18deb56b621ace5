"""What a retriever returned, as a ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from llama_index.core.schema import BaseNode, NodeWithScore

from llama_index.retrievers.phasegraph.knowledge import facts_by_passage, passage_id
from phasegraph import Ranking
from phasegraph.adapters import Direction, Identities, contradicts, limited, scores_of
from phasegraph.adapters.payloads import Payloads
from phasegraph.adapters.specs import Reading
from phasegraph.graph.source import Trail

BLOCK = "phasegraph"
Evidence: TypeAlias = Mapping[str, Mapping[str, object]]


class Paths(Mapping[str, Mapping[str, object]]):
    """The paths that led to passages, as plain values, each worked out when it is asked for."""

    def __init__(self, trails: Mapping[str, object]) -> None:
        self._trails = trails

    def __getitem__(self, identifier: str) -> Mapping[str, object]:
        trail = self._trails[identifier]
        if not isinstance(trail, Trail):
            return {"path": str(trail)}
        seeds = {step.name: share for step, share in trail.seeds}
        return {"path": str(trail), "steps": [[step.kind, step.name] for step in trail.path], "seeds": seeds}

    def __iter__(self) -> Iterator[str]:
        return iter(self._trails)

    def __len__(self) -> int:
        return len(self._trails)


class Found(Payloads[BaseNode]):
    """Nodes by id, and what a source says about how it found them."""

    __slots__ = ("evidence",)

    def __init__(
        self, ids: Sequence[str], nodes: Sequence[BaseNode], evidence: Mapping[str, Mapping[str, object]]
    ) -> None:
        super().__init__(ids, nodes)
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class Knowledge:
    """How hits of a knowledge graph name their passage.

    Parameters
    ----------
    keeps_text : bool
        The hits are passages, facts in front, and carry the passage's id.
    exact : bool
        The passage is that of the relation; else that of the subject's node, which may be another.
    """

    keeps_text: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the answers of one source; remembers its direction, and that it warned about ids."""

    name: str
    reading: Reading
    direction: Direction
    knowledge: Knowledge | None = None
    identities: Identities = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identities", Identities(self.name))

    def ranking(self, hits: Sequence[NodeWithScore], limit: int | None, notes: list[str]) -> Ranking:
        """The answer as a ranking; what had to be handled is added to `notes`."""
        ids = self._ids(hits, notes)
        scores = scores_of(self._scores(hits), self.reading, notes, len(hits))
        higher = self._higher(scores, notes) if scores is not None else True
        evidence: Evidence = {}
        if self.knowledge is not None:
            evidence = facts_by_passage(ids, hits)
        payloads = Found(ids, [hit.node for hit in hits], evidence)
        found = Ranking.from_hits(
            self.name,
            ids,
            None if higher is None else scores,
            higher_is_better=higher is not False,
            size=self.reading.size,
            payloads=payloads,
        )
        if found.ids == tuple(ids):
            payloads.follow(found)
        elif scores is not None and higher is not None and contradicts(found, ids):
            notes.append("its order contradicts its scores; the scores were believed")
        return limited(found, limit, notes)

    def _ids(self, hits: Sequence[NodeWithScore], notes: list[str]) -> list[str]:
        if self.reading.id_fn is not None:
            own: list[object] = [self.reading.id_fn(hit) for hit in hits]
        elif self.knowledge is not None:
            own = [passage_id(hit, self.knowledge.keeps_text) for hit in hits]
            if not self.knowledge.exact:
                notes.append("passages of its triples are those of their subjects, not of the facts themselves")
        else:
            own = [hit.node.id_ for hit in hits]
        ids, found = self.identities.read(own, lambda row: _details(hits[row]))
        notes.extend(found)
        return ids

    def _scores(self, hits: Sequence[NodeWithScore]) -> list[object]:
        reading = self.reading
        if reading.score_fn is not None:
            return [reading.score_fn(hit) for hit in hits]
        if reading.score_key is not None:
            return [hit.node.metadata.get(reading.score_key) for hit in hits]
        return [hit.score for hit in hits]

    def _higher(self, scores: Sequence[object], notes: list[str]) -> bool | None:
        higher, note = self.direction.of(scores)
        if higher is None and len({score for score in scores if isinstance(score, int | float)}) < 2:
            notes.append("uninformative: all its scores are equal")
            return True
        if note:
            notes.append(note)
        return higher


def _details(hit: NodeWithScore) -> tuple[Mapping[str, object], str]:
    return hit.node.metadata, hit.node.get_content()
