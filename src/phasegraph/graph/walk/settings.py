"""The settings of a graph source: for seeds, for the query's words, and for the walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasegraph._support.validation import check_count, check_flag, check_range
from phasegraph.errors import InvalidInputError
from phasegraph.pagerank.solve import push_settings
from phasegraph.pagerank.workspace import Kernel, check_kernel


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings for the seeds of a query.

    Parameters
    ----------
    seed_passages : int, default 10
        Maximum number of passages that become seeds.
    sharpness : float, default 10
        The mass of a seed passage is proportional to its similarity raised to this power; these masses sum to 1.
    name_mass : float, default 2
        Maximum total mass of the entities that the query names; the seed passages together have mass 1.
    specificity_power : float, default 3
        Exponent of the rarity of an entity, >= 0. An entity that the query names gets at most
        ``name_mass * rarity ** specificity_power``, with a rarity in (0, 1].
    unanchored : float, default 0.3
        Factor in [0, 1] for the mass of an entity that has no home passage. A home passage of an entity is a passage
        about this entity.
    fact_mass : float, default 0.5
        Total mass of the entities of the facts nearest to the query, if there are embedded facts.
    top_facts : int, default 5
        Number of nearest facts whose entities are seeds; at least 1.
    """

    seed_passages: int = 10
    sharpness: float = 10.0
    name_mass: float = 2.0
    specificity_power: float = 3.0
    unanchored: float = 0.3
    fact_mass: float = 0.5
    top_facts: int = 5

    def __post_init__(self) -> None:
        check_count("LinkSettings.seed_passages", self.seed_passages)
        check_count("LinkSettings.top_facts", self.top_facts, minimum=1)
        for name in ("sharpness", "name_mass", "specificity_power", "fact_mass"):
            check_range(f"LinkSettings.{name}", getattr(self, name))
        check_range("LinkSettings.unanchored", self.unanchored, 0, 1)


@dataclass(frozen=True, slots=True)
class WordSettings:
    """Settings for the effect of the query's words on seeds, walk and scores.

    Parameters
    ----------
    weight : float, default 0.2
        Relevance that the best BM25 score adds to a cosine; lower BM25 scores add proportionally less.
    seed_pool : int, default 50
        Number of most relevant passages from which seeds are chosen.
    seed_cover : float, default 0.3
        Amount added to a passage's relevance if it contains all query words and earlier seeds contain none of them.
        A part of the words adds a part of the amount, in proportion to their idf.
    cover : float, default 2.5
        Amount added to a passage's log score if it contains all query words and earlier passages contain none of them.
        A part of the words adds a part of the amount, in proportion to their idf.
    cover_pool, cover_picks : int, default 30, 10
        Number of best passages that can move up by `cover`, and number of first positions that are filled in this way.
    relation : float, default 1
        Relative increase of the weight of edges into a passage with query words that are not names. The passage with
        the best BM25 score for these words gets the full increase; lower scores get proportionally less. The increase
        is also multiplied by the mass of the entities that the query names and that have a home passage.
    """

    weight: float = 0.2
    seed_pool: int = 50
    seed_cover: float = 0.3
    cover: float = 2.5
    cover_pool: int = 30
    cover_picks: int = 10
    relation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("weight", "seed_cover", "cover", "relation"):
            check_range(f"WordSettings.{name}", getattr(self, name))
        for name in ("seed_pool", "cover_pool", "cover_picks"):
            check_count(f"WordSettings.{name}", getattr(self, name), minimum=1)


Compare: TypeAlias = Literal["auto", "all", "listed"]


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Settings for the walk.

    Parameters
    ----------
    follow_probability : float, default 0.85
        Probability of following an edge, in [0, 1); otherwise the walk restarts at a seed.
    tolerance : float, default 3e-6
        A node passes mass on only if its mass is greater than `tolerance` times its number of out-edges.
    floor : float, default 2e-3
        Positive value that is added to a mass before the logarithm is computed.
    relevance : bool, default True
        If True, the walk prefers passages that are relevant to the query, and their scores are higher.
    closeness : float, default 0.5
        Exponent of a passage's relevance in its score; at least 0.
    kernel : {"auto", "numpy", "compiled"}, default "auto"
        ``compiled`` uses numba (``phasegraph[graph]``), and ``auto`` uses numba if it is installed. All kernels give
        identical results. numba compiles at the first walk; see :meth:`GraphSource.prepare`.
    compare : {"auto", "all", "listed"}, default "auto"
        The passages that are compared with the query. ``all`` compares all passages. ``listed`` compares passages in
        the dense ranking or among the best by BM25, passages that receive much of the walk's mass, and a sample. The
        cost of ``listed`` does not depend on the size of the collection. ``auto`` compares all passages in collections
        of up to 50,000 passages. In larger collections, ``auto`` uses ``listed`` for a search with a limit, unless the
        search has vectors to compare but no dense ranking.
    """

    follow_probability: float = 0.85
    tolerance: float = 3e-6
    floor: float = 2e-3
    relevance: bool = True
    closeness: float = 0.5
    kernel: Kernel = "auto"
    compare: Compare = "auto"

    def __post_init__(self) -> None:
        if self.compare not in ("auto", "all", "listed"):
            raise InvalidInputError(f'WalkSettings.compare must be "auto", "all" or "listed"; got {self.compare!r:.80}')
        push_settings(self.follow_probability, self.tolerance, 0, None, "numpy")
        check_kernel(self.kernel)
        check_range("WalkSettings.floor", self.floor, ends="(]")
        check_flag("WalkSettings.relevance", self.relevance)
        check_range("WalkSettings.closeness", self.closeness)
