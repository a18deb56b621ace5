"""How rankings become a result, as one value: its presets and its JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from phasegraph._support.frozen import by_fields
from phasegraph._support.renamed import new_system, renamed_sources, warn_of_old_name
from phasegraph._support.serialization import read_document, write_document
from phasegraph._support.validation import check_choice, check_mapping
from phasegraph.acceptance.confidence import ConfidenceModel
from phasegraph.calibration import BackgroundCalibrator, ListCalibrator, calibrator_from_dict
from phasegraph.candidates import PoolCapMode
from phasegraph.errors import InvalidInputError, PhasegraphError
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.context import Context
from phasegraph.fusion.decide import Shortlist, make_shortlist
from phasegraph.fusion.exact_match import ExactMatchBonus
from phasegraph.fusion.priors import UnitPrior
from phasegraph.fusion.settings import PARTS, FusionSettings, check_weights_mapping
from phasegraph.fusion.stored_priors import prior_from_dict
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport
from phasegraph.result import Result

KIND, VERSION = "pipeline", 1

_PAPER: Mapping[str, tuple[float, int | None, PoolCapMode]] = {
    "musique": (0.7, 30, "list"),
    "2wiki": (0.4, 20, "list"),
    "hard-slice": (0.3, None, "list"),
    "legacy": (0.4, 50, "unique_only"),
}

_ADR_WEIGHTS = MappingProxyType({"bm25": 1.0, "vector": 1.0, "graph": 0.35})

_CONVEX_WEIGHTS = MappingProxyType({"vector": 0.8, "bm25": 0.2})

PLAIN_FIELDS = ("pool_cap_mode", "rule", "weighting", "consensus_bonus", "consensus_bounded", "k", "strict")


class FusionPipeline(FusionSettings):
    """How rankings become a result. A frozen value: ``dataclasses.replace`` to vary, one JSON file to keep.

    Parameters
    ----------
    pool_caps : mapping of str to int
        Longest list per source, before calibration; >= 1.
    pool_cap_mode : {"list", "unique_only"}, default "list"
        Cut the list itself, or only its hits that no other source returned.
    calibrator : Calibrator
        For every source without one of its own; default background calibration.
    calibrators : mapping of str to Calibrator
        Fitted ones by source name. A source that states its background keeps it under the default `calibrator`.
    rule : str, default "linear"
        A name in ``FUSION_RULES``.
    rule_options : mapping of str to object
        Its keyword options; some may be held by source name (``FUSION_RULES[rule].by_source``). A rule that expects
        percentiles or values in [0, 1] needs calibrators that give them.
    weights : mapping of str to float, optional
        By source name, >= 0, not all 0; divided by their sum over the sources that answered, except that under a rule
        which the literature does not divide (reciprocal rank, CombSUM and others: ``FUSION_RULES[rule].sums``) equal
        weights count 1 each. A source whose weight is 0 is not fused. A source that is not named is an error.
        Default: by `weighting`.
    weighting : {"adaptive", "equal", "roles"}, default "adaptive"
        Weights where none are given.
    consensus_bonus : float, default 0
        Added to a candidate that at least two sources returned; >= 0.
    consensus_bounded : bool, default False
        Read the bonus as a share of the largest fused value.
    priors : tuple of Prior
        Multipliers from what the hits, or the context, say of a candidate, and :class:`~phasegraph.ExactMatchBonus`,
        one more source. ``extras["priors"]`` of the result counts what was missing.
    accept : AcceptancePolicy or Confidence, optional
        Thresholds per source, over calibrated values, for the published score and the confidence; what is not accepted
        is not returned. Default: everything is accepted.
    selection : SelectionPolicy or the name of its method, optional
        Which k of the 50 best accepted go together; default the k best.
    group_by : GroupBy or metadata key, optional
        Let the passages of one document count once, for example ``"source"``; ``extras["groups"]`` of the result lists
        the passages of each document. Default: every passage counts.
    k : int, default 10
        Results returned; >= 0. It changes neither scores nor, without a selection, order.
    strict : bool, default False
        Turn any degradation, calibration by list alone, and scores outside the calibration range, into an error.
    min_agreement : mapping of (str, str) to float
        For ordered pairs of sources the agreement below which the result warns, in [0, 1]: after calibrating, the 5th
        percentile over the calibration queries. For other pairs it warns where they agree on nothing.
    confidence : ConfidenceModel
        How ``Result.confidence`` is worked out.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside its range; the message names it.

    Examples
    --------
    >>> vector = Ranking("vector", ["a", "b", "c", "d", "e"], [0.62, 0.55, 0.41, 0.40, 0.12])
    >>> graph = Ranking("graph", ["c", "f", "b", "g"], [0.31, 0.02, 0.004, 0.001])
    >>> result = FusionPipeline.paper().decide([vector, graph])
    >>> result.ids[:3], result.fused[:3].round(6).tolist()
    (('a', 'c', 'b'), [0.393196, 0.28426, 0.217723])
    """

    __slots__ = ()
    __reduce__ = by_fields

    @classmethod
    def paper(cls, configuration: str = "musique", /) -> FusionPipeline:
        """Build the paper's pipeline: percentile ranks, Boltzmann rule, no bonus.

        Parameters
        ----------
        configuration : {"musique", "2wiki", "hard-slice", "legacy"}, default "musique"
            Vector weight .7 with the graph list capped at 30; .4 with 20; .3 uncapped; .4 with the graph's own
            additions, those hits that the vectors lack, capped at 50.

        Returns
        -------
        FusionPipeline

        Raises
        ------
        InvalidInputError
            If there is no such configuration.

        Notes
        -----
        Sources are named ``vector`` and ``graph``. The bonus's size is not recoverable from the paper: 0 here. Of the
        legacy configuration the paper states the cap alone; the weight is that of ``2wiki``, and that the cap counts
        divergent hits only is one of two readings.

        References
        ----------
        .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886
        """
        if configuration not in _PAPER:
            raise InvalidInputError(f"configuration must be one of {sorted(_PAPER)}; got {configuration!r}")
        vector_weight, cap, mode = _PAPER[configuration]
        return cls(
            pool_caps={} if cap is None else {"graph": cap},
            pool_cap_mode=mode,
            calibrator=ListCalibrator("percentile"),
            rule="boltzmann",
            weights={"vector": vector_weight, "graph": 1.0 - vector_weight},
        )

    @classmethod
    def phasegraph(cls, configuration: str = "musique", /) -> FusionPipeline:
        """Build the paper's pipeline, by the old name of :meth:`paper`."""
        warn_of_old_name("FusionPipeline.phasegraph", "FusionPipeline.paper")
        return cls.paper(configuration)

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

        Examples
        --------
        >>> lists = [Ranking("a", ["x", "y"], [2.0, 1.0]), Ranking("b", ["y"], [9.0])]
        >>> bool(FusionPipeline.reciprocal_rank().decide(lists).fused[0] == 1 / 61 + 1 / 62)
        True
        """
        return cls(
            calibrator=ListCalibrator("raw"),
            rule="rrf",
            rule_options={"rank_constant": rank_constant},
            weights=weights,
            weighting="equal",
        )

    @classmethod
    def adr(
        cls,
        weights: Mapping[str, float] | None = None,
        *,
        rank_constant: float = 60.0,
        exact_match: float = 1.0,
        importance: str = "importance",
        strength: float = 0.3,
    ) -> FusionPipeline:
        """Build the design record's pipeline: weighted reciprocal rank, exact matches as a source, importance.

        Parameters
        ----------
        weights : mapping of str to float, optional
            Default ``bm25`` 1, ``vector`` 1, ``graph`` .35; sources that are not there do no harm.
        rank_constant : float, default 60
            > 0.
        exact_match : float, default 1
            Weight of :class:`~phasegraph.ExactMatchBonus`, >= 0; the record names the bonus and gives no size.
        importance : str, default "importance"
            Metadata field in [0, 1].
        strength : float, default 0.3
            In [0, 1]; the fused value is multiplied by ``(1 - strength) + strength * importance``.

        Returns
        -------
        FusionPipeline
        """
        return replace(
            cls.reciprocal_rank(_ADR_WEIGHTS if weights is None else weights, rank_constant=rank_constant),
            priors=(ExactMatchBonus(exact_match), UnitPrior(importance, strength)),
        )

    @classmethod
    def convex(
        cls, weights: Mapping[str, float] | None = None, *, infima: Mapping[str, float] | None = None
    ) -> FusionPipeline:
        """Build TM2C2: theoretical min-max of each list, then a convex combination.

        Parameters
        ----------
        weights : mapping of str to float, optional
            Default ``vector`` .8, ``bm25`` .2; tune them.
        infima : mapping of str to float, optional
            The lowest score that each source's scorer can give. Default: -1 (a cosine) for ``vector``, 0 (BM25, a
            walk's mass) for any other.

        Returns
        -------
        FusionPipeline

        Notes
        -----
        A source that lacks a candidate gives it its infimum, that is 0, where the paper scores the union exactly. A
        source with a score below its infimum is reported as failed.

        References
        ----------
        .. [1] Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", arXiv:2210.11934

        Examples
        --------
        >>> lists = [Ranking("vector", ["x", "y"], [0.8, 0.2]), Ranking("bm25", ["y"], [9.0])]
        >>> found = FusionPipeline.convex().decide(lists)
        >>> found.ids, found.fused.round(4)
        (('x', 'y'), array([0.8   , 0.7333]))
        """
        given = _CONVEX_WEIGHTS if weights is None else check_weights_mapping(weights)
        stated = check_mapping("infima", infima or {})
        renamed = renamed_sources(stated, given)
        stated = {renamed.get(name, name): value for name, value in stated.items()}
        lowest = dict.fromkeys(given, 0.0) | {"vector": -1.0} | stated
        unknown = sorted(set(stated) - set(given))
        if unknown:
            raise InvalidInputError(f"infima must name sources among {sorted(given)}; got {unknown}")
        own = {name: ListCalibrator("theoretical_min_max", {"infimum": lowest[name]}) for name in given}
        return cls(calibrator=ListCalibrator("min_max"), calibrators=own, weights=given)

    @classmethod
    def named(cls, name: str, /, weights: Mapping[str, float] | None = None) -> FusionPipeline:
        """Build a preset or a fusion rule by its name.

        Parameters
        ----------
        name : str
            ``default``, ``reciprocal_rank``, ``adr``, ``convex``, ``min-max-sum``, ``z-score-sum``, ``paper``,
            ``paper-2wiki``, ``paper-hard-slice``, ``paper-legacy`` or a name in ``FUSION_RULES``: a rule with the
            calibrator that it expects. ``tsallis`` deforms the list of the source named ``graph`` alone,
            as its paper does.
        weights : mapping of str to float, optional
            By source name, in place of the preset's own; rules have equal ones.

        Returns
        -------
        FusionPipeline

        Raises
        ------
        InvalidInputError
            If there is no such name, or a weight is wrong.

        Examples
        --------
        >>> FusionPipeline.named("comb_mnz").calibrator
        ListCalibrator(name='min_max', options=mappingproxy({}))
        """
        name = new_system(name) if isinstance(name, str) else name
        check_choice("the name of a preset or a rule", name, PIPELINE_NAMES)
        if name in _PRESETS:
            made = _PRESETS[name](cls)
            return made if weights is None else replace(made, weights=weights)
        if name == "convex":
            return cls.convex(weights)
        by = FUSION_RULES[name].calibrator
        calibrator = BackgroundCalibrator() if by == "background" else ListCalibrator(by)
        return cls(calibrator=calibrator, rule=name, weights=weights, weighting="equal")

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
        return self.shortlist(rankings, context, reports=reports, k=k).decide()

    def shortlist(
        self,
        rankings: Sequence[Ranking],
        context: Context | None = None,
        *,
        reports: Sequence[SourceReport] = (),
        k: int | None = None,
    ) -> Shortlist:
        """Calibrate, fuse and accept; what is left of :meth:`decide` is the selection.

        Parameters
        ----------
        rankings, context, reports, k
            As for :meth:`decide`.

        Returns
        -------
        Shortlist
        """
        return make_shortlist(self, rankings, context, reports=reports, k=k)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        state: dict[str, object] = {name: getattr(self, name) for name in PLAIN_FIELDS}
        state["pool_caps"] = dict(self.pool_caps)
        state["rule_options"] = {
            name: dict(one) if isinstance(one, Mapping) else one for name, one in self.rule_options.items()
        }
        state["weights"] = None if self.weights is None else dict(self.weights)
        state["calibrator"] = dict(self.calibrator.to_dict())
        state["calibrators"] = {name: dict(one.to_dict()) for name, one in self.calibrators.items()}
        for name in PARTS:
            part = getattr(self, name)
            state[name] = None if part is None else part.to_dict()
        state["min_agreement"] = [[*pair, share] for pair, share in self.min_agreement.items()]
        state["priors"] = [dict(prior.to_dict()) for prior in self.priors]
        state["confidence"] = self.confidence.to_dict()
        return state

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> FusionPipeline:
        """Rebuild from :meth:`to_dict`; InvalidInputError names what does not fit."""
        try:
            return cls(**_fields_of(state))  # type: ignore[arg-type]
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


_PRESETS: Mapping[str, Callable[[type[FusionPipeline]], FusionPipeline]] = MappingProxyType(
    {
        "default": lambda kind: kind(),
        "reciprocal_rank": lambda kind: kind.reciprocal_rank(),
        "adr": lambda kind: kind.adr(),
        "min-max-sum": lambda kind: kind.named("comb_sum"),
        "z-score-sum": lambda kind: replace(kind.named("comb_sum"), calibrator=ListCalibrator("z_score")),
        "paper": lambda kind: kind.paper(),
        "paper-2wiki": lambda kind: kind.paper("2wiki"),
        "paper-hard-slice": lambda kind: kind.paper("hard-slice"),
        "paper-legacy": lambda kind: kind.paper("legacy"),
        "tsallis": lambda kind: kind(
            calibrator=ListCalibrator("percentile"),
            rule="tsallis",
            rule_options={"q": {"graph": 1.5}},
            weighting="equal",
        ),
    }
)

PIPELINE_NAMES = tuple(dict.fromkeys([*_PRESETS, "convex", *FUSION_RULES]))


def _fields_of(state: Mapping[str, object]) -> dict[str, object]:
    """Constructor arguments from what :meth:`FusionPipeline.to_dict` gives."""
    known = {
        *PLAIN_FIELDS,
        "pool_caps",
        "rule_options",
        "weights",
        "calibrator",
        "calibrators",
        "priors",
        "min_agreement",
        *PARTS,
        "confidence",
    }
    unknown = sorted(set(state) - known)
    if unknown:
        raise InvalidInputError(f"a pipeline's fields must be among {sorted(known)}; got {unknown}")
    fields = dict(state)
    if "calibrator" in fields:
        fields["calibrator"] = calibrator_from_dict(_mapping("calibrator", fields["calibrator"]))
    own = _mapping("calibrators", fields.get("calibrators", {}))
    fields["calibrators"] = {
        name: calibrator_from_dict(_mapping(f"calibrators[{name!r}]", one)) for name, one in own.items()
    }
    for name, kind in PARTS.items():
        if fields.get(name) is not None:
            fields[name] = kind.from_dict(_mapping(name, fields[name]))
    fields["min_agreement"] = {(one[0], one[1]): one[2] for one in _rows("min_agreement", fields)}
    if "confidence" in fields:
        fields["confidence"] = ConfidenceModel.from_dict(_mapping("confidence", fields["confidence"]))
    priors = fields.get("priors", [])
    if not isinstance(priors, list):
        raise InvalidInputError(f"priors must be a list; got {type(priors).__name__}")
    fields["priors"] = tuple(prior_from_dict(_mapping("priors", one)) for one in priors)
    return fields


def _rows(name: str, fields: Mapping[str, object]) -> list[tuple[str, str, float]]:
    rows = fields.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise InvalidInputError(f"{name} must be a list of [source, other source, share]; got {rows!r:.200}")
    return rows


def _mapping(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping; got {type(value).__name__}")
    return value
