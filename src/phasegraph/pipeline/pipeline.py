"""The pipeline as a value: fields in the order in which they act."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from phasegraph.acceptance import AcceptancePolicy
from phasegraph.calibration import BackgroundCalibrator, Calibrator, ListCalibrator
from phasegraph.candidates import Ranking, SourceReport
from phasegraph.candidates.copying import by_fields
from phasegraph.errors import InvalidInputError, InvalidTypeError, PhasegraphError
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.weighting import WEIGHTINGS
from phasegraph.persistence import read_document, write_document
from phasegraph.pipeline.checks import (
    check_calibrator,
    check_choice,
    check_count,
    check_flag,
    check_floor,
    check_mapping,
    check_number,
    check_priors,
    check_rule_options,
    check_scale,
    check_weights_mapping,
)
from phasegraph.pipeline.decide import decide
from phasegraph.pipeline.parts import PoolCapMode, calibrator_for
from phasegraph.pipeline.result import Result
from phasegraph.pipeline.state import pipeline_from_dict, pipeline_to_dict
from phasegraph.priors import Context, Prior
from phasegraph.selection import SelectionPolicy

KIND, VERSION = "pipeline", 1
_PAPER = {"musique": (0.7, 30), "2wiki": (0.4, 20)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPipeline:
    """How rankings become a result. A frozen value: ``dataclasses.replace`` to vary, one JSON file to keep.

    Parameters
    ----------
    pool_caps : mapping of str to int
        Longest list per source, before calibration; >= 1.
    pool_cap_mode : {"list", "graph_only"}, default "list"
        Cut the list itself, or only its hits that no other source returned.
    calibrator : Calibrator
        For every source without one of its own; default background calibration.
    calibrators : mapping of str to Calibrator
        Fitted ones by source name. A source that states its background keeps it under the default `calibrator`.
    rule : str, default "linear"
        A name in ``FUSION_RULES``.
    rule_options : mapping of str to object
        Its keyword options. A rule that expects percentiles or values in [0, 1] needs calibrators that give them.
    weights : mapping of str to float, optional
        By source name, >= 0, not all 0; divided by their sum over the sources that answered. A source whose
        weight is 0 is not fused. A source that is not named is an error. Default: by `weighting`.
    weighting : {"adaptive", "equal", "roles"}, default "adaptive"
        Weights where none are given.
    consensus_bonus : float, default 0
        Added to a candidate that at least two sources returned; >= 0.
    consensus_bounded : bool, default False
        Read the bonus as a share of the largest fused value.
    priors : tuple of Prior
        Multipliers and bonuses from the context.
    accept : AcceptancePolicy, optional
        Thresholds per source, over calibrated values and for the published score; what is not accepted is not
        returned. Default: everything is accepted.
    selection : SelectionPolicy, optional
        Which k of the 50 best accepted go together; default the k best.
    k : int, default 10
        Results returned; >= 0. It changes neither scores nor, without a selection, order.
    strict : bool, default False
        Turn any degradation, calibration by list alone, and scores outside the calibration range, into an error.
    agreement_floor : mapping of (str, str) to float
        For ordered pairs of sources the agreement below which the result warns, in [0, 1]: after calibrating, the 5th
        percentile over the calibration queries. For other pairs it warns where they agree on nothing.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside its range; the message names it.

    Examples
    --------
    >>> vector = Ranking("vector", ["a", "b", "c", "d", "e"], [0.62, 0.55, 0.41, 0.40, 0.12])
    >>> graph = Ranking("graph", ["c", "f", "b", "g"], [0.31, 0.02, 0.004, 0.001])
    >>> result = FusionPipeline.phasegraph().decide([vector, graph])
    >>> result.ids[:3], result.fused[:3].round(6).tolist()
    (('a', 'c', 'b'), [0.393196, 0.28426, 0.217723])
    """

    pool_caps: Mapping[str, int] = field(default_factory=dict, hash=False)
    pool_cap_mode: PoolCapMode = "list"
    calibrator: Calibrator = field(default_factory=BackgroundCalibrator, hash=False)
    calibrators: Mapping[str, Calibrator] = field(default_factory=dict, hash=False)
    rule: str = "linear"
    rule_options: Mapping[str, object] = field(default_factory=dict, hash=False)
    weights: Mapping[str, float] | None = field(default=None, hash=False)
    weighting: str = "adaptive"
    consensus_bonus: float = 0.0
    consensus_bounded: bool = False
    priors: tuple[Prior, ...] = ()
    accept: AcceptancePolicy | None = None
    selection: SelectionPolicy | None = None
    k: int = 10
    strict: bool = False
    agreement_floor: Mapping[tuple[str, str], float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("pool_caps", "calibrators", "rule_options"):
            put(self, name, check_mapping(name, getattr(self, name)))
        put(self, "agreement_floor", check_floor(self.agreement_floor))
        caps = {name: check_count(f"pool_caps[{name!r}]", cap, minimum=1) for name, cap in self.pool_caps.items()}
        put(self, "pool_caps", MappingProxyType(caps))
        check_choice("pool_cap_mode", self.pool_cap_mode, ("list", "graph_only"))
        check_calibrator("calibrator", self.calibrator)
        for source, own in self.calibrators.items():
            check_calibrator(f"calibrators[{source!r}]", own)
        check_choice("rule", self.rule, FUSION_RULES)
        check_rule_options(self.rule, self.rule_options)
        check_scale(self.rule, self.calibrator, self.calibrators)
        if self.weights is not None:
            put(self, "weights", check_weights_mapping(self.weights))
        check_choice("weighting", self.weighting, WEIGHTINGS)
        put(self, "consensus_bonus", check_number("consensus_bonus", self.consensus_bonus))
        put(self, "priors", check_priors(self.priors))
        for name, kind in (("accept", AcceptancePolicy), ("selection", SelectionPolicy)):
            if not isinstance(getattr(self, name), kind | None):
                raise InvalidTypeError(f"{name} must be a {kind.__name__} or None; got {getattr(self, name)!r}")
        put(self, "k", check_count("k", self.k))
        check_flag("consensus_bounded", self.consensus_bounded)
        check_flag("strict", self.strict)

    __reduce__ = by_fields

    @classmethod
    def phasegraph(cls, configuration: str = "musique", /) -> FusionPipeline:
        """Build the paper's pipeline: percentile ranks, Boltzmann rule, no bonus.

        Parameters
        ----------
        configuration : {"musique", "2wiki"}, default "musique"
            Vector weight .7 with the graph list capped at 30, or .4 with 20.

        Returns
        -------
        FusionPipeline

        Raises
        ------
        InvalidInputError
            If there is no such configuration.

        Notes
        -----
        Sources are named ``vector`` and ``graph``. The bonus's size is not recoverable from the paper: 0 here.

        References
        ----------
        .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886
        """
        if configuration not in _PAPER:
            raise InvalidInputError(f"configuration must be one of {sorted(_PAPER)}; got {configuration!r}")
        vector_weight, cap = _PAPER[configuration]
        return cls(
            pool_caps={"graph": cap},
            calibrator=ListCalibrator("percentile"),
            rule="boltzmann",
            weights={"vector": vector_weight, "graph": 1.0 - vector_weight},
        )

    @classmethod
    def reciprocal_rank(
        cls, weights: Mapping[str, float] | None = None, *, rank_constant: float = 60.0
    ) -> FusionPipeline:
        """Build weighted reciprocal rank fusion, equal weights unless told otherwise.

        Parameters
        ----------
        weights : mapping of str to float, optional
            By source name.
        rank_constant : float, default 60
            > 0.

        Returns
        -------
        FusionPipeline
        """
        return cls(
            calibrator=ListCalibrator("raw"),
            rule="rrf",
            rule_options={"rank_constant": rank_constant},
            weights=weights,
            weighting="equal",
        )

    def decide(
        self,
        rankings: Sequence[Ranking],
        context: Context | None = None,
        *,
        reports: Sequence[SourceReport] = (),
        k: int | None = None,
    ) -> Result:
        """Fuse the rankings of one query. Pure: no clock, no randomness, no I/O.

        Parameters
        ----------
        rankings : sequence of Ranking
            One per source that answered, in any order.
        context : Context, optional
            What priors, acceptance and selection read.
        reports : sequence of SourceReport, optional
            How the sources fared, failed ones included; made from the rankings where not given.
        k : int, optional
            In place of the pipeline's.

        Returns
        -------
        Result

        Raises
        ------
        InvalidInputError
            If a ranking comes from a source that `weights` does not name, or two from the same source.
        DegradedError
            If `strict` and a source could not look, was calibrated by its list alone, or gave scores of which most
            lie outside the range it was calibrated on; if a selection failed or a promise does not hold.

        Notes
        -----
        A result replays without its sources: ``decide(result.candidates.rankings, context, reports=result.reports)``
        gives the same bits under the same context (and caps that cut whole lists).
        """
        chosen = self if k is None else replace(self, k=k)
        return decide(chosen, rankings, Context() if context is None else context, reports)

    def calibrator_of(self, ranking: Ranking) -> Calibrator:
        """The calibrator this pipeline uses for a ranking: the source's own, or the one for all."""
        return calibrator_for(ranking, self.calibrators, self.calibrator)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return pipeline_to_dict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> FusionPipeline:
        """Rebuild from :meth:`to_dict`; InvalidInputError names what does not fit."""
        try:
            return cls(**pipeline_from_dict(state))  # type: ignore[arg-type]
        except PhasegraphError:
            raise
        except Exception as error:
            raise InvalidInputError(f"a pipeline's fields must be what to_dict gives; {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pipeline to one JSON file, in one step."""
        write_document(path, KIND, VERSION, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FusionPipeline:
        """Read a saved pipeline; IntegrityError if the file is damaged, foreign or newer."""
        return cls.from_dict(read_document(path, KIND, VERSION))
