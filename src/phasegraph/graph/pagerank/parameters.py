"""The numbers of a semantic flow, and the published sets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from phasegraph.errors import InvalidInputError
from phasegraph.graph.checks import check_range
from phasegraph.pipeline.checks import check_count, check_flag

LocalMin = Literal["self_loop", "merge", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowParameters:
    """The numbers of a semantic flow and of what seeds it.

    Parameters
    ----------
    directed : bool
        Whether edges are directed and weighted by the query at all.
    penalty : float
        Price of a unit of difference in abstractness (the paper's lambda), at least 0.
    down_share : float
        Share of an entity's semantic mass that flows downhill, in (0, 1).
    floor : float
        Least weight of an edge before it is divided by its group's sum, above 0.
    passage_share : float, optional
        Share of an entity's mass that goes to its passages, in [0, 1]; None weighs each passage 1 against 1
        for all links together, so that an entity in m passages sends m / (1 + m) there.
    local_min : {"self_loop", "merge", "drop"}
        Where no link goes downhill: keep that share in a self loop, add it to the links uphill, or leave it
        out (which weakens the links against the passages).
    follow_probability : float
        Of walking on, in [0, 1).
    facts, entity_seeds : int
        How many facts are kept, and how many entities seed the walk.
    passage_weight : float
        Weight of every passage's similarity in the reset distribution.
    """

    directed: bool = True
    penalty: float = 1.0
    down_share: float = 0.9
    floor: float = 1e-6
    passage_share: float | None = None
    local_min: LocalMin = "self_loop"
    follow_probability: float = 0.5
    facts: int = 12
    entity_seeds: int = 20
    passage_weight: float = 0.08

    def __post_init__(self) -> None:
        check_flag("directed", self.directed)
        check_range("penalty", self.penalty)
        check_range("down_share", self.down_share, 0, 1, ends="()")
        check_range("floor", self.floor, ends="(]")
        if self.passage_share is not None:
            check_range("passage_share", self.passage_share, 0, 1)
        if self.local_min not in ("self_loop", "merge", "drop"):
            raise InvalidInputError(f'local_min must be "self_loop", "merge" or "drop"; got {self.local_min!r}')
        check_range("follow_probability", self.follow_probability, 0, 1, ends="[)")
        check_count("facts", self.facts, minimum=1)
        check_count("entity_seeds", self.entity_seeds, minimum=1)
        check_range("passage_weight", self.passage_weight)


SEMFLOW_PARAMETERS: Mapping[str, FlowParameters] = MappingProxyType(
    {
        "paper": FlowParameters(),
        "released": FlowParameters(directed=False, facts=5, entity_seeds=5),
    }
)
"""By name: what the paper states, and what the released entry point runs.

The released code leaves the directed walk off, so that it is HippoRAG 2's undirected walk with a passage weight
of .08; it keeps 5 facts and 5 entities where the paper says 12 and 20. The paper gives no rule for a relevance
below the penalty (the code floors it at 1e-6) and seeds with similarity / frequency (the code with the mean
over a fact's mentions).
"""
