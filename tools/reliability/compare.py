"""Check the laws of fusion in several packages: ``python tools/reliability/compare.py [--cases 150] [--queries 1000]``.

The laws I1 to I28 are checked on random cases with a fixed seed, without looking inside the packages. The packages are
phasegraph's two retrievers, LangChain's EnsembleRetriever, LlamaIndex's QueryFusionRetriever, Haystack's
DocumentJoiner, ranx and qdrant-client. In separate processes, the faults of chaos.py are injected into the first four,
which search sources. phasegraph must satisfy every law that is not in :data:`CONDITIONAL`. ``--json FILE`` writes the
figures.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np
from chaos import DEADLINE, HANG, NO_FAULT, SEEN, WRONG, Tally, one_by_one, oracle
from fusers import OURS, EnsembleOf, QueryFusionOf, question
from peers import ALL, Fused, Fuser, Hit, OursLangChain, fusers
from runs import Stalls, arguments, bar, finish, percentiles, quiet, versions

from phasegraph import FusionPipeline
from phasegraph.testing import FAILING, FATAL, HARMLESS, FaultPlan

CLOSE = 1e-9
CONDITIONAL = {
    "I10": "holds for calibrators that are fitted again after the transform, not for calibrators that use only the "
    "returned list",
    "I19": "holds for backgrounds that a source states or that are fitted, not for backgrounds that are estimated from "
    "the returned list",
}


class BrokenError(AssertionError):
    """Raised by a law that a package breaks in a case; the text says how."""


class NotApplicableError(Exception):
    """Raised by a law that does not apply to a package; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Case:
    """The input of one check: two or three lists of hits for one query; half of the lists have many equal scores.

    Each list is sorted by descending score and then by id.
    """

    number: int
    lists: list[list[Hit]]


def case(number: int) -> Case:
    rng = np.random.default_rng([14, number])
    lists = []
    for _ in range(2 + number % 2):
        size = int(rng.integers(5, 13))
        ids = [f"p{row:02}" for row in rng.permutation(15)[:size]]
        scores = rng.integers(1, 5, size) / 4 if rng.random() < 0.5 else np.round(rng.random(size), 6)
        if len(set(scores)) == 1:
            scores[0] += 0.5
        hits = [(name, f"text of {name}", float(score)) for name, score in zip(ids, scores, strict=True)]
        lists.append(sorted(hits, key=lambda hit: (-hit[2], hit[0])))
    return Case(number, lists)


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenError(what)


def ids(fused: Fused) -> list[str]:
    return [name for name, _ in fused]


def same(one: Fused, other: Fused, what: str) -> None:
    demand(ids(one) == ids(other), f"{what}: {ids(one)} and {ids(other)}")
    for (name, score), (_, again) in zip(one, other, strict=True):
        near = score is again is None or abs(float(score or 0.0) - float(again or 0.0)) <= CLOSE
        demand(near, f"{what}: {name} has {score} and {again}")


def keeps(fused: Fused, hits: list[Hit], what: str) -> None:
    """Raise BrokenError if `fused` lacks a hit of `hits`, or ranks a hit above one with a higher score in `hits`."""
    place = {name: row for row, name in enumerate(ids(fused))}
    demand(set(place) >= {name for name, _, _ in hits}, f"{what}: a hit is lost")
    for better, _, high in hits:
        for worse, _, low in hits:
            demand(not (high > low and place[better] > place[worse]), f"{what}: {worse} above {better}")


def scores_of(fuser: Fuser, fused: Fused) -> list[float]:
    if not fuser.scored:
        raise NotApplicableError("it gives no scores")
    return [float("nan") if score is None else float(score) for _, score in fused]


def needs(holds: bool, why: str) -> None:
    if not holds:
        raise NotApplicableError(why)


def mapped(hits: list[Hit], change: Callable[[float], float]) -> list[Hit]:
    return [(name, text, change(score)) for name, text, score in hits]


def single(fuser: Fuser, case: Case) -> None:
    """one source alone keeps its order"""
    needs(fuser.alone, "it refuses a single list")
    for hits in case.lists:
        fused = fuser.fuse([hits])
        demand(len(fused) == len(hits), "a hit is lost")
        keeps(fused, hits, "alone")


def empty(fuser: Fuser, case: Case) -> None:
    """an empty source changes nothing: the same hits, order and scores as without the source"""
    same(fuser.fuse(case.lists[:2]), fuser.fuse([*case.lists[:2], []]), "with an empty list")


def weight_zero(fuser: Fuser, case: Case) -> None:
    """a source with weight 0 changes nothing"""
    needs(fuser.weighted, "it takes no weights")
    others = case.lists[1:]
    if not fuser.alone and len(others) == 1:
        return
    weights = [1.0] * len(others)
    with_it = fuser.fuse(case.lists, [0.0, *weights])
    demand(ids(with_it) == ids(fuser.fuse(others, weights)), "a list of weight 0 counts")


def permuted(fuser: Fuser, case: Case) -> None:
    """the order of the sources, and of hits with equal scores, changes nothing"""
    shuffled = [*reversed(case.lists)]
    if fuser.scored:  # else the order is all that a source says
        shuffled = [sorted(hits, key=lambda hit: (-hit[2], hit[0][::-1])) for hits in shuffled]
    same(fuser.fuse(case.lists), fuser.fuse(shuffled), "in another order")


def deterministic(fuser: Fuser, case: Case) -> None:
    """a repeated call gives the same answer, also in processes with other hash seeds"""
    demand(fuser.fuse(case.lists) == fuser.fuse(case.lists), "another answer the second time")


def idempotent(fuser: Fuser, case: Case) -> None:
    """a source fused with its copy keeps its order"""
    keeps(fuser.fuse([case.lists[0], case.lists[0]]), case.lists[0], "with its copy")


def unanimous(fuser: Fuser, case: Case) -> None:
    """a hit with better scores in every source has a better rank in the answer"""
    place = {name: row for row, name in enumerate(ids(fuser.fuse(case.lists)))}
    held = [{name: score for name, _, score in hits} for hits in case.lists]
    shared = sorted(set.intersection(*(set(one) for one in held)))
    for one in shared:
        for other in shared:
            if all(scores[one] > scores[other] for scores in held):
                demand(place[one] < place[other], f"{one} is better everywhere, and below {other}")


def monotone(fuser: Fuser, case: Case) -> None:
    """a higher score never lowers the rank of a hit"""
    hits = case.lists[0]
    before = ids(fuser.fuse(case.lists))
    name, text, _ = hits[-1]
    raised = [(name, text, hits[0][2] + 0.5), *hits[:-1]]
    after = ids(fuser.fuse([raised, *case.lists[1:]]))
    demand(after.index(name) <= before.index(name), f"{name} fell when it was raised")


def extra(fuser: Fuser, case: Case) -> None:
    """a hit that one more source returns never falls"""
    hits = case.lists[0]
    before = ids(fuser.fuse(case.lists))
    new = next((one for one in before if one not in {name for name, _, _ in hits}), None)
    if new is None:
        return
    after = ids(fuser.fuse([[(new, f"text of {new}", hits[0][2] + 0.5), *hits], *case.lists[1:]]))
    demand(after.index(new) <= before.index(new), f"{new} fell when one more source found it")


def transformed(fuser: Fuser, case: Case) -> None:
    """a strictly increasing transform of one source's scores changes no order"""
    changed = [mapped(case.lists[0], lambda score: score**3 + score), *case.lists[1:]]
    demand(ids(fuser.fuse(case.lists)) == ids(fuser.fuse(changed)), "the order changed")


def affine(fuser: Fuser, case: Case) -> None:
    """scores doubled and shifted change no order"""
    changed = [mapped(case.lists[0], lambda score: 2.0 * score + 3.0), *case.lists[1:]]
    demand(ids(fuser.fuse(case.lists)) == ids(fuser.fuse(changed)), "the order changed")


def bounded(fuser: Fuser, case: Case) -> None:
    """scores are finite, in [0, 1] and descend"""
    wide = [mapped(hits, lambda score: 40.0 * score - 10.0) for hits in case.lists]
    for lists in (case.lists, wide):
        found = scores_of(fuser, fuser.fuse(lists))
        demand(all(0.0 <= one <= 1.0 for one in found), f"scores from {min(found):g} to {max(found):g}")
        demand(all(one >= other - CLOSE for one, other in pairwise(found)), "scores rise")


def contained(fuser: Fuser, case: Case) -> None:
    """hits with NaN or infinite scores are left out, and the others are unchanged"""
    needs(fuser.scored, "its sources have no scores")
    clean = fuser.fuse(case.lists)
    for bad in (float("nan"), float("inf")):
        dirty = [[("bad", "text of bad", bad), *case.lists[0]], *case.lists[1:]]
        same(clean, fuser.fuse(dirty), f"with a score of {bad}")


def constant(fuser: Fuser, case: Case) -> None:
    """a source with equal scores for all hits does not change the order of other hits"""
    flat = mapped(sorted(case.lists[0], key=lambda hit: hit[0][::-1]), lambda score: 1.0)
    keeps(fuser.fuse([case.lists[0], flat]), case.lists[0], "with a constant list")


def negative(fuser: Fuser, case: Case) -> None:
    """negative scores give the same order as the same scores shifted above 0"""
    shifted = [mapped(hits, lambda score: score - 2.0) for hits in case.lists]
    demand(ids(fuser.fuse(case.lists)) == ids(fuser.fuse(shifted)), "the order changed")


def duplicated(fuser: Fuser, case: Case) -> None:
    """a hit that a source returns twice counts once, with its best score"""
    needs(fuser.repeats, "its lists are mappings of ids, so an id cannot occur twice")
    lists = [[*case.lists[0], (*case.lists[0][0][:2], case.lists[0][-1][2] - 0.1)], *case.lists[1:]]
    same(fuser.fuse(case.lists), fuser.fuse(lists), "with a hit twice")


def identity(fuser: Fuser, case: Case) -> None:
    """two ids with the same text both stay in the answer, each once"""
    alike = [[(name, "one text", score) for name, _, score in hits] for hits in case.lists]
    found = ids(fuser.fuse(alike))
    demand(sorted(found) == sorted({name for hits in alike for name, _, _ in hits}), f"{len(found)} are left")


def prefix(fuser: Fuser, case: Case) -> None:
    """the first k hits of a longer answer are the answer for k"""
    needs(fuser.cut, "it has no parameter for the number of results")
    whole = fuser.fuse(case.lists)
    for k in (1, 3, len(whole) // 2):
        same(whole[:k], fuser.fuse(case.lists, None, k), f"the first {k}")


def appended(fuser: Fuser, case: Case) -> None:
    """a worst hit at the end of a list does not change the order of the hits that all sources returned"""
    everywhere = set.intersection(*({name for name, _, _ in hits} for hits in case.lists))
    before = [name for name in ids(fuser.fuse(case.lists)) if name in everywhere]
    for row, hits in enumerate(case.lists):
        longer = [*hits, ("zz", "text of zz", hits[-1][2] - 0.5)]
        after = ids(fuser.fuse([*case.lists[:row], longer, *case.lists[row + 1 :]]))
        demand([name for name in after if name in everywhere] == before, "the order changed")


def poor(fuser: Fuser, case: Case) -> None:
    """the best hit of a source with unusually low scores does not outrank the best hit of a good source"""
    needs(isinstance(fuser, OursLangChain), "it does not know the usual scores of a source")

    def source(name: str, usual: float, now: float) -> Callable[[str], list[Hit]]:
        def search(query: str) -> list[Hit]:
            rng = np.random.default_rng([case.number, zlib.crc32(f"{name} {query}".encode())])
            scores = np.sort(rng.normal(now if query == "who?" else usual, 0.05, 12))[::-1]
            return [(f"{name}{row}", f"text of {name}{row}", float(one)) for row, one in enumerate(scores)]

        return search

    retriever, _ = ours(fuser).built([source("good", 0.6, 0.7), source("poor", 0.6, 0.2)])
    retriever.calibrate([f"question {row}" for row in range(40)], progress=False)
    found = ids(ours(fuser).ask(retriever, "who?"))
    demand(found[0] == "good0" and found.index("poor0") > 0, f"{found[0]} is first")


def untouched(fuser: Fuser, case: Case) -> None:
    """fusion does not change its input"""
    fuser.fuse(case.lists)
    demand(not fuser.changed, "inputs were changed")


def ours(fuser: Fuser) -> OursLangChain:
    if not isinstance(fuser, OursLangChain):
        raise NotApplicableError("it has no such thing")
    return fuser


def bonus(fuser: Fuser, case: Case) -> None:
    """a bonus for agreement is bounded, and its bound is stated"""
    raise NotApplicableError(
        "it has no bonus by default; tests/fusion tests the bonus" if fuser.ours else "it has no bonus for agreement"
    )


def nested(fuser: Fuser, case: Case) -> None:
    """a higher threshold only removes hits; without a threshold, no hit is removed"""
    needs(fuser.ours, "it has no thresholds")
    scores = sorted({score for _, _, score in case.lists[0]})
    names = []
    for threshold in (scores[0] - 1.0, *scores):
        retriever, _ = ours(fuser).built(case.lists, accept={"s0": threshold})
        names.append(set(ids(ours(fuser).ask(retriever, "who?"))))
    demand(all(later <= earlier for earlier, later in pairwise(names)), "a threshold added a hit")
    whole = set(ids(fuser.fuse(case.lists)))
    demand(names[0] <= whole, "an accepted hit was not returned before")


def selected(fuser: Fuser, case: Case) -> None:
    """a selection contains at most k of the fused hits, each once"""
    needs(fuser.ours, "it has no selection of diverse hits")
    result = ours(fuser).selecting(case.lists, 3).explain("who?")
    found = result.ids
    demand("selection" in result.extras, f"nothing was selected: {result.warnings}")
    demand(len(found) <= 3 and len(set(found)) == len(found), f"{found}")
    demand(set(found) <= set(ids(fuser.fuse(case.lists))), "a selected hit was not fused")


def scaled(fuser: Fuser, case: Case) -> None:
    """weights multiplied by 7 give the same answer"""
    needs(fuser.weighted, "it takes no weights")
    weights = [1.0 + row for row in range(len(case.lists))]
    same(fuser.fuse(case.lists, weights), fuser.fuse(case.lists, [7.0 * one for one in weights]), "weights times 7")


def explained(fuser: Fuser, case: Case) -> None:
    """the contributions add up to the fused value, and the stored rankings give the same answer again"""
    needs(fuser.ours, "it gives no explanation of a score")
    retriever, _ = ours(fuser).built(case.lists)
    result = retriever.explain("who?")
    gap = np.abs(result.contributions.sum(axis=1) + result.bonuses - result.fused)
    demand(bool((gap <= CLOSE * max(1.0, float(np.abs(result.fused).max()))).all()), f"parts miss it by {gap.max():g}")
    again = FusionPipeline(k=ALL).decide(result.candidates.rankings)
    demand(again.ids == result.ids and again.fused.tobytes() == result.fused.tobytes(), "the replay differs")


def saved(fuser: Fuser, case: Case) -> None:
    """after saving and loading, the answer is the same to the bit"""
    needs(fuser.saved is not None, "it cannot be saved")
    again = fuser.saved() if fuser.saved is not None else fuser
    demand(fuser.fuse(case.lists) == again.fuse(case.lists), "another answer")


def subset(fuser: Fuser, case: Case) -> None:
    """if a source fails, the answer equals that of a retriever without this source"""
    needs(fuser.asks, "it fuses lists that were fetched before, so no source can fail during the call")
    failed = [*case.lists[:1], RuntimeError("injected"), *case.lists[1:]]
    same(fuser.fuse(case.lists), fuser.fuse(failed), "with a failed source")


LAWS: Mapping[str, Callable[[Fuser, Case], None]] = {
    f"I{number}": law
    for number, law in enumerate(
        (
            single, empty, weight_zero, permuted, deterministic, idempotent, unanimous, monotone, extra, transformed,
            affine, bounded, contained, constant, negative, duplicated, identity, prefix, appended, poor, bonus,
            untouched, nested, selected, scaled, explained, saved, subset,
        ),
        1,
    )
}  # fmt: skip


def judged(fuser: Fuser, cases: list[Case], show: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    """Check each law on every case; return, by law, how often the package breaks it, with the first break as example.

    If the law does not apply to the package, its row holds the reason instead.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name, law in show(LAWS.items()):
        row: dict[str, Any] = {"broken": 0}
        for one in cases:
            try:
                law(fuser, one)
            except NotApplicableError as reason:
                row = {"not_applicable": str(reason)}
                break
            except Exception as error:  # noqa: BLE001 - a valid input that raises breaks the law
                said = str(error) if isinstance(error, BrokenError) else f"{type(error).__name__} raised: {error}"
                row.setdefault("example", f"case {one.number}: {said:.200}")
                row["broken"] += 1
        rows[name] = row
    return rows


def digests(cases: list[Case]) -> dict[str, str]:
    """Return, by package, a digest of its answers to all cases."""
    return {
        fuser.name: hashlib.sha256(repr([fuser.fuse(one.lists) for one in cases]).encode()).hexdigest()
        for fuser in fusers()
    }


def unlike(cases: int) -> set[str]:
    """Return the packages whose answers depend on the hash seed of the process."""
    command = [sys.executable, __file__, "--digest", str(cases)]
    said = [
        json.loads(
            subprocess.run(
                command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}
            ).stdout.splitlines()[-1]
        )
        for seed in ("0", "1", "2")
    ]
    return {name for name in said[0] if len({one[name] for one in said}) > 1}


SCORES = {"nan", "infinite", "minus infinite", "none score", "text score", "true score", "unusable"}
PEER_KINDS = {
    # A LangChain retriever returns no scores; how much it returns is its own.
    EnsembleOf: [one for one in (*FAILING, *HARMLESS, "empty", "hang", *FATAL) if one not in SCORES | NO_FAULT],
    QueryFusionOf: [
        one
        for one in (*FAILING, *HARMLESS, "empty", "hang", "unusable", *FATAL)
        if one not in {"text score", *NO_FAULT}
    ],
}


def chaos(kind: type[Any], kinds: list[str], queries: int, seed: int) -> tuple[str, dict[str, Any]]:
    """Inject the faults of chaos.py into a retriever of the class `kind`; return its name, and the counts and times.

    The questions are asked one after another.
    """
    plan = FaultPlan(0.2, kinds, seed)
    with quiet():
        expected = oracle(kind)
        struck = kind(plan=plan, seconds=HANG, timeout=DEADLINE)
        asked = [question(number) for number in range(queries)]
        with Stalls() as stalls:
            tally = Tally(expected, plan, stalls)
            for outcome in bar(one_by_one(struck, asked), f"chaos, {kind.name}", queries):
                tally.see(*outcome)
    return kind.name, {
        **{name: tally.counts[name] for name in (*SEEN, *WRONG)},
        "kinds": len(kinds),
        "late": sum(one > DEADLINE + 0.05 for one in tally.hung),
        "longest_stall_ms": round(stalls.longest * 1000, 1),
        "ms": percentiles(tally.seconds),
        "examples": tally.examples[:5],
    }


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--digest":
        with quiet():
            print(json.dumps(digests([case(number) for number in range(int(sys.argv[2]))])))
        return
    given = arguments(__doc__, cases=150, queries=1000, seed=1)
    cases = [case(number) for number in range(given.cases)]
    table, broken, begun = {}, [], time.perf_counter()
    struck = {**{one: PEER_KINDS[QueryFusionOf] for one in OURS.values()}, **PEER_KINDS}
    with ProcessPoolExecutor(1, get_context("spawn")) as beside, quiet():
        running = [beside.submit(chaos, one, kinds, given.queries, given.seed) for one, kinds in struck.items()]
        seeded = unlike(min(given.cases, 50))
        for fuser in fusers():
            rows = judged(fuser, cases, lambda laws, fuser=fuser: bar(list(laws), fuser.name))
            if fuser.name in seeded:
                rows["I5"] = {"broken": given.cases, "example": "answers depend on PYTHONHASHSEED"}
            table[fuser.name] = {"adapter": fuser.adapter, "laws": rows}
            if fuser.ours:
                wrong = {name: row["broken"] for name, row in rows.items() if row.get("broken")}
                broken += [f"{fuser.name}: {name}: {count}" for name, count in wrong.items() if name not in CONDITIONAL]
        found = dict(one.result() for one in running)
    broken += [f"{one.name}: {n} {name}" for one in OURS.values() for name in WRONG if (n := found[one.name][name])]
    figures = {
        "cases": given.cases,
        "laws": {name: str(law.__doc__) for name, law in LAWS.items()},
        "conditional": CONDITIONAL,
        "order": [fuser.name for fuser in fusers()],
        "table": table,
        "chaos": found,
        "versions": versions(
            "haystack-ai", "langchain-classic", "langchain-core", "llama-index-core", "qdrant-client", "ranx"
        ),
        "seconds": round(time.perf_counter() - begun, 1),
    }
    finish("compare", given, figures, broken)


if __name__ == "__main__":
    main()
