"""Convert the evidence of results to plain JSON types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np

from phasegraph.errors import warn
from phasegraph.ranking import Ranking, standing
from phasegraph.result import Result
from phasegraph.retrieval.answer import SelectedHit
from phasegraph.retrieval.once import Once

_DEEPEST = 16


def plain(value: object, /) -> object:
    """Convert a copy of `value` to types that ``json.dumps(..., allow_nan=False)`` accepts.

    Numpy values become Python values, NaN and infinity become None, sets become sorted lists, and dates become ISO
    text. Other objects become the names of their types. A cycle, or nesting deeper than 16 levels, becomes ``"…"``.

    >>> plain({"score": np.float32(0.5), "tags": {"b", "a"}, "bad": float("nan")})
    {'score': 0.5, 'tags': ['a', 'b'], 'bad': None}
    """
    return _plain(value, 0, ())


def _plain(value: object, depth: int, above: tuple[int, ...]) -> object:
    if value is None or isinstance(value, bool | str):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return _plain(value.item(), depth, above) if not isinstance(value, np.void) else "void"
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if depth >= _DEEPEST or id(value) in above:
        return "…"
    inside = (*above, id(value))
    if isinstance(value, np.ndarray):
        return _plain(value.tolist(), depth, inside)
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(item, depth + 1, inside) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, depth + 1, inside) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1, inside) for item in value]
    return type(value).__name__


def _text(value: str) -> str:
    """Replace lone surrogates by question marks, because UTF-8 cannot encode them."""
    return str(value) if value.isascii() else value.encode("utf-8", "replace").decode()


def provenance(result: Result) -> list[dict[str, object]]:
    """Return the evidence of each result as a dictionary, in order, with the content of :meth:`Result.evidence`.

    The keys are ``id``, ``position`` (from 1), ``score`` (in [0, 1]), ``fused``, ``bonus``, ``prior``, ``degraded`` and
    ``sources``. ``sources`` maps each source name to ``rank`` (from 1; ties share their mean rank), ``raw`` (the
    source's own score), ``calibrated``, ``weight`` and ``contribution``. ``rank`` and ``raw`` are None if the source
    did not return the passage. Contributions and bonus add up to ``fused``. If the pipeline computes ``energy``,
    ``entropy`` or ``set_entropy``, these keys exist, too. All numbers are Python numbers.

    >>> from phasegraph import FusionPipeline
    >>> block = provenance(FusionPipeline().decide([Ranking("v", ["a", "b"], [0.9, 0.4])]))[0]
    >>> block["id"], block["sources"]["v"]["rank"], block["sources"]["v"]["raw"]
    ('a', 1.0, 0.9)
    """
    columns = zip(
        result.candidates.rankings,
        result.weights.tolist(),
        result.calibrated.T.tolist(),
        result.contributions.T.tolist(),
        strict=True,
    )
    parts = zip(*[_parts(result.ids, *column) for column in columns], strict=True)
    names, degraded = result.candidates.sources, result.degraded
    heads = zip(
        result.ids, result.scores.tolist(), result.fused.tolist(), result.bonuses.tolist(), result.priors.tolist(),
        parts, strict=True,
    )  # fmt: skip
    return [
        {
            "id": identifier,
            "position": position,
            "score": score,
            "fused": fused,
            "bonus": bonus,
            "prior": prior,
            "degraded": degraded,
            "sources": dict(zip(names, sources, strict=True)),
            **result.entropies(position - 1),
        }
        for position, (identifier, score, fused, bonus, prior, sources) in enumerate(heads, start=1)
    ]


def _parts(
    ids: Sequence[str], ranking: Ranking, weight: float, calibrated: list[float], contributed: list[float]
) -> list[dict[str, float | None]]:
    """Return one source's evidence for each result in `ids`, as mappings with five keys.

    The keys are ``rank`` and ``raw`` (None if the source did not return the result), ``calibrated``, ``weight`` and
    ``contribution``. `calibrated` and `contributed` have a number for each result.
    """
    out: list[dict[str, float | None]] = []
    for identifier, value, part in zip(ids, calibrated, contributed, strict=True):
        rank, raw, _ = standing(ranking, identifier)
        out.append({"rank": rank, "raw": raw, "calibrated": value, "weight": weight, "contribution": part})
    return out


class EvidenceBlock(dict[str, object]):
    """The evidence of a result in plain JSON types, for a framework's metadata.

    All blocks compare equal and have the same text. Frameworks identify passages by comparing or hashing metadata, and
    evidence must not change the identity of a passage.
    """

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EvidenceBlock)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        return "EvidenceBlock(...)"

    def __reduce__(self) -> tuple[object, ...]:
        return EvidenceBlock, (dict(self),)


def is_taken(key: str | None, metadata: Mapping[str, object]) -> bool:
    """Return True, and warn, if the passage's metadata have a value under `key` that is not evidence.

    Return False if `key` is None.
    """
    if key is None or key not in metadata or isinstance(metadata[key], EvidenceBlock):
        return False
    warn(
        f"passages already use the metadata key {key!r}: its value is unchanged, and no evidence is added; choose "
        "another evidence_key="
    )
    return True


def lacks_score(key: str, metadata: Mapping[str, object], once: Once | None) -> bool:
    """Return True if a document has no value under the `score_key`; otherwise, `once` warns of it."""
    if key not in metadata:
        return True
    if once is not None:
        once.warn(
            f"passages already use the metadata key {key!r}: its value is unchanged, and no score is added; choose "
            "another score_key=",
            key=key,
        )
    return False


def evidence_blocks(result: Result, hits: Sequence[SelectedHit]) -> list[EvidenceBlock]:
    """Return an :class:`EvidenceBlock` for each result: the entry of :func:`provenance`, and the sources' evidence.

    The evidence of a source says how it found the result, for example by a graph path.
    """
    blocks: list[dict[str, Any]] = list(provenance(result))
    for block, hit in zip(blocks, hits, strict=True):
        for name, evidence in hit.evidence.items():
            block["sources"][name]["evidence"] = plain_evidence(evidence)
    return [EvidenceBlock(block) for block in blocks]


def walk_block(ranking: Ranking, row: int) -> EvidenceBlock:
    """Return the evidence of the hit in a row of a graph's ranking: its score, its rank, and the evidence of the walk.

    The evidence of a source that is not a graph walk is under the key ``evidence``.

    >>> dict(walk_block(Ranking("graph", ["a"], [0.5], payloads={"a": {"by": "name"}}), 0))
    {'score': 0.5, 'rank': 1, 'by': 'name'}
    """
    found = plain_evidence(ranking.payloads.get(ranking.ids[row]))
    said = found if isinstance(found, dict) else {"evidence": found}
    return EvidenceBlock({"score": ranking.scores.item(row), "rank": row + 1, **said})


def plain_evidence(evidence: Any) -> object:
    """Convert the evidence of a source to plain JSON types.

    Evidence of a graph walk becomes a dictionary. It contains the path as kinds and names of nodes, the seeds (the
    nodes at which the walk starts), the query's words, and the path as text.
    """
    steps = getattr(evidence, "path", None)
    if not isinstance(steps, tuple) or not all(hasattr(node, "kind") and hasattr(node, "name") for node in steps):
        return plain(evidence)
    path = [[node.kind, node.name] for node in steps]
    seeds = [[node.kind, node.name, share] for node, share in getattr(evidence, "seeds", ())]
    edges = {"edges": plain(evidence.kinds)} if hasattr(evidence, "kinds") else {}
    words = {"words": list(evidence.words)} if getattr(evidence, "words", ()) else {}
    return {"path": path, "seeds": seeds, **edges, **words, "text": str(evidence)}
