"""The fusion pipeline: a value with all settings of fusion, its presets, and its JSON form."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from phasegraph._support.frozen import by_fields
from phasegraph._support.renamed import new_system, renamed_sources, warn_of_old_name
from phasegraph._support.serialization import read_document, write_document
from phasegraph._support.validation import check_choice, check_mapping
from phasegraph.acceptance.confidence import ConfidenceModel
from phasegraph.calibration import BackgroundCalibrator, Calibrator, ListCalibrator, calibrator_from_dict
from phasegraph.candidates import PoolCapMode
from phasegraph.errors import InvalidInputError, PhasegraphError
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.context import Context
from phasegraph.fusion.decide import Shortlist, check_rankings, make_shortlist
from phasegraph.fusion.exact_match import ExactMatchBonus
from phasegraph.fusion.prior import Prior
from phasegraph.fusion.priors import UnitPrior
from phasegraph.fusion.renamed_sources import with_new_source_names
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


class FusionPipeline(FusionSettings):
    """The settings of a fusion, which turns the rankings of a query into a result.

    A pipeline is frozen. Create variants with ``dataclasses.replace``; store a pipeline as JSON with :meth:`save`.

    Parameters
    ----------
    pool_caps : mapping of str to int
        Maximum number of hits by source name, >= 1; longer rankings are cut before calibration.
    pool_cap_mode : {"list", "unique_only"}, default "list"
        ``list`` counts all hits of a ranking; ``unique_only`` counts only hits that no other source returned.
    calibrator : Calibrator
        The calibrator for every source that `calibrators` does not name; default background calibration.
    calibrators : mapping of str to Calibrator
        Fitted calibrators by source name. Under the default `calibrator`, the background that a source states itself
        takes precedence.
    rule : str, default "linear"
        A name in ``FUSION_RULES``.
    rule_options : mapping of str to object
        Keyword options of the rule. The options in ``FUSION_RULES[rule].by_source`` may also be mappings by source
        name. A rule that expects percentiles or values in [0, 1] needs calibrators with such output.
    weights : mapping of str to float, optional
        Weights by source name, >= 0, not all 0; they are divided by their sum over the sources that answered. For rules
        that add terms without dividing (``FUSION_RULES[rule].sums``), equal weights count 1 each. A source with weight
        0 is not fused. A source without a weight is an error. Default: `weighting` sets the weights.
    weighting : {"adaptive", "equal", "roles"}, default "adaptive"
        The method that sets the weights if `weights` is None.
    consensus_bonus : float, default 0
        Number that is added to the value of each candidate that at least two sources returned, >= 0.
    consensus_bounded : bool, default False
        Whether `consensus_bonus` is a share of the largest fused value.
    priors : tuple of Prior
        Multipliers that depend on fields of a candidate, in its hit or in the context. A
        :class:`~phasegraph.ExactMatchBonus` is fused as one more source instead. ``extras["priors"]`` of the result
        counts the candidates that had the fields.
    accept : AcceptancePolicy or Confidence, optional
        Thresholds for source scores, calibrated values, ``Result.scores`` and the confidence. Only accepted candidates
        are returned. Default: all candidates are accepted.
    selection : SelectionPolicy or the name of its method, optional
        The policy that chooses k of the 50 best accepted candidates; default the k best.
    group_by : GroupBy or metadata key, optional
        Return one passage per document, for example by ``"source"``. ``extras["groups"]`` of the result lists the
        passages of each document. Default: passages are not grouped.
    k : int, default 10
        Number of results, >= 0. Without a selection, k affects neither scores nor order.
    strict : bool, default False
        If True, raise a DegradedError instead of returning a degraded result: for example, if a source failed, or was
        calibrated from its returned list alone. :meth:`decide` lists all cases.
    min_agreement : mapping of (str, str) to float
        Minimum agreement, in [0, 1], by ordered pair of source names; the result warns of a lower agreement.
        Calibration sets it to the 5th percentile over the calibration queries. For other pairs, the result warns at an
        agreement of 0.
    confidence : ConfidenceModel
        The model that computes ``Result.confidence``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside its range; the message names the field.

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
            ``musique``: vector weight 0.7, at most 30 graph hits. ``2wiki``: vector weight 0.4, at most 20 graph hits.
            ``hard-slice``: vector weight 0.3, no cap. ``legacy``: vector weight 0.4, at most 50 graph hits that the
            vector source lacks.

        Returns
        -------
        FusionPipeline
            The pipeline with the paper's weights and cap.

        Raises
        ------
        InvalidInputError
            If `configuration` is unknown.

        Notes
        -----
        Name the sources ``vector`` and ``graph``. The paper does not state the size of its bonus, so the bonus is 0
        here. For the legacy configuration, the paper states only the cap. Here, its weight is that of ``2wiki``, and
        the cap limits the hits that only the graph returned.

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
        """Build the paper's pipeline; this is the deprecated name of :meth:`paper`."""
        warn_of_old_name("FusionPipeline.phasegraph", "FusionPipeline.paper")
        return cls.paper(configuration)

    @classmethod
    def reciprocal_rank(
        cls, weights: Mapping[str, float] | None = None, *, rank_constant: float = 60.0
    ) -> FusionPipeline:
        """Build a pipeline for weighted reciprocal rank fusion (RRF).

        Parameters
        ----------
        weights : mapping of str to float, optional
            Weights by source name; default equal weights.
        rank_constant : float, default 60
            Number that is added to each rank, > 0. A larger number makes the top ranks count less.

        Returns
        -------
        FusionPipeline
            The pipeline with the rule ``rrf``.

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
        """Build the pipeline of a design record (ADR, architecture decision record) that prefers RRF.

        It is weighted reciprocal rank fusion with exact matches as one more source and a prior for importance.

        Parameters
        ----------
        weights : mapping of str to float, optional
            Weights by source name; default ``bm25`` 1, ``vector`` 1, ``graph`` 0.35. A name without a source has no
            effect.
        rank_constant : float, default 60
            Number that is added to each rank, > 0.
        exact_match : float, default 1
            Weight of the :class:`~phasegraph.ExactMatchBonus`, >= 0. The record states no weight for this bonus.
        importance : str, default "importance"
            The metadata field with a passage's importance in [0, 1].
        strength : float, default 0.3
            Strength of the importance, in [0, 1]. The fused value is multiplied by
            ``(1 - strength) + strength * importance``.

        Returns
        -------
        FusionPipeline
            The pipeline with the rule ``rrf`` and both priors.
        """
        return replace(
            cls.reciprocal_rank(_ADR_WEIGHTS if weights is None else weights, rank_constant=rank_constant),
            priors=(ExactMatchBonus(exact_match), UnitPrior(importance, strength)),
        )

    @classmethod
    def convex(
        cls, weights: Mapping[str, float] | None = None, *, infima: Mapping[str, float] | None = None
    ) -> FusionPipeline:
        """Build the pipeline TM2C2: theoretical min-max normalization of each list, then a convex combination.

        Parameters
        ----------
        weights : mapping of str to float, optional
            Weights by source name; default ``vector`` 0.8, ``bm25`` 0.2. Tune them on your own queries.
        infima : mapping of str to float, optional
            The lowest possible score of each source. Default: -1 (a cosine) for ``vector``, 0 (BM25 or a graph walk)
            for other sources.

        Returns
        -------
        FusionPipeline
            The pipeline with a theoretical min-max calibrator for each source.

        Notes
        -----
        If a source did not return a candidate, the candidate gets the source's infimum, which is 0 after
        normalization. The paper scores every candidate with every source instead. A source with a score below its
        infimum is reported as failed.

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
        """Build the pipeline of a preset, or of a fusion rule, by its name.

        Parameters
        ----------
        name : str
            ``default``, ``reciprocal_rank``, ``adr``, ``convex``, ``min-max-sum``, ``z-score-sum``, ``paper``,
            ``paper-2wiki``, ``paper-hard-slice``, ``paper-legacy`` or a name in ``FUSION_RULES``. A rule gets the
            calibrator that it expects. ``tsallis`` deforms only the scores of the source named ``graph``, as its paper
            does.
        weights : mapping of str to float, optional
            Weights by source name; default the weights of the preset, or equal weights for a rule.

        Returns
        -------
        FusionPipeline
            The preset, or a pipeline with the rule and its calibrator.

        Raises
        ------
        InvalidInputError
            If the name is unknown or a weight is invalid.

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
        """Fuse the rankings of one query.

        This is a pure function: it uses no clock, no randomness and no input or output.

        Parameters
        ----------
        rankings : sequence of Ranking
            One ranking per source that answered, in any order.
        context : Context, optional
            Additional data about the query and the candidates for priors, acceptance and selection.
        reports : sequence of SourceReport, optional
            The outcome of each source, including failed sources; default reports made from the rankings.
        k : int, optional
            Number of results; default the pipeline's `k`.

        Returns
        -------
        Result
            The k best accepted candidates, with evidence for each.

        Raises
        ------
        InvalidInputError
            If `weights` does not name the source of a ranking, or two rankings come from the same source.
        DegradedError
            With `strict`, if a source failed, was calibrated from its returned list alone, or returned mostly scores
            outside its calibration range. Also with `strict`, if a selection failed or a threshold's guarantee is not
            valid.

        Notes
        -----
        You can reproduce a result without its sources with
        ``decide(result.candidates.rankings, context, reports=result.reports)``. With the same context, the output is
        equal bit by bit, unless `pool_cap_mode` is ``unique_only``.
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
        """Run all steps of :meth:`decide` except the selection: calibration, fusion and acceptance.

        Parameters
        ----------
        rankings, context, reports, k
            As for :meth:`decide`.

        Returns
        -------
        Shortlist
            The accepted candidates; its method ``decide`` runs the selection.
        """
        check_rankings(rankings, context)
        named = with_new_source_names(self, [ranking.source for ranking in rankings])
        return make_shortlist(named, rankings, context, reports=reports, k=k)

    def to_dict(self) -> dict[str, object]:
        """Return the pipeline in plain JSON types."""
        state = {one.name: _plain(getattr(self, one.name)) for one in fields(self)}
        state["min_agreement"] = [[*pair, share] for pair, share in self.min_agreement.items()]
        return state

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> FusionPipeline:
        """Create a pipeline from the output of :meth:`to_dict`; raise InvalidInputError for an unknown or bad field."""
        try:
            return cls(**_fields_of(state))  # type: ignore[arg-type]
        except PhasegraphError:
            raise
        except Exception as error:
            raise InvalidInputError(f"the pipeline's fields must have the form of to_dict(); {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pipeline to a JSON file; the file is replaced atomically."""
        write_document(path, KIND, VERSION, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FusionPipeline:
        """Read a saved pipeline; raise IntegrityError if the file is damaged, foreign or from a newer version."""
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


def _plain(value: Any) -> Any:
    """Return the value of a field in plain JSON types."""
    if hasattr(value, "to_dict"):
        return dict(value.to_dict())
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _fields_of(state: Mapping[str, object]) -> dict[str, object]:
    """Return the constructor arguments of a pipeline from `state`, the output of :meth:`FusionPipeline.to_dict`."""
    known = sorted(one.name for one in fields(FusionPipeline))
    unknown = sorted(set(state) - set(known))
    if unknown:
        raise InvalidInputError(f"a pipeline's fields must be among {known}; got {unknown}")
    return {name: _READERS[name](name, value) if name in _READERS else value for name, value in state.items()}


def _mapping(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping; got {type(value).__name__}")
    return value


def _calibrator(name: str, value: object) -> Calibrator:
    return calibrator_from_dict(_mapping(name, value))


def _calibrators(name: str, value: object) -> dict[str, Calibrator]:
    return {source: _calibrator(f"{name}[{source!r}]", one) for source, one in _mapping(name, value).items()}


def _priors(name: str, value: object) -> tuple[Prior, ...]:
    if not isinstance(value, list):
        raise InvalidInputError(f"{name} must be a list; got {type(value).__name__}")
    return tuple(prior_from_dict(_mapping(name, one)) for one in value)


def _agreements(name: str, value: object) -> dict[tuple[str, str], float]:
    if not isinstance(value, list) or not all(isinstance(row, list) and len(row) == 3 for row in value):
        raise InvalidInputError(f"{name} must be a list of [source, other source, share]; got {value!r:.200}")
    return {(row[0], row[1]): row[2] for row in value}


def _part(name: str, value: object) -> object:
    return None if value is None else PARTS[name].from_dict(_mapping(name, value))


def _confidence(name: str, value: object) -> ConfidenceModel:
    return ConfidenceModel.from_dict(_mapping(name, value))


_READERS: Mapping[str, Callable[[str, object], object]] = MappingProxyType(
    {
        "calibrator": _calibrator, "calibrators": _calibrators, "priors": _priors, "min_agreement": _agreements,
        "confidence": _confidence, **dict.fromkeys(PARTS, _part),
    }
)  # fmt: skip
"""Functions ``read(name, value)`` for the fields whose values are not plain JSON types."""
