"""Measure the confidence for docs/guide/thresholds.md: python tools/research/confidence.py DATA NAME… OUT.json

bayesian-bm25 is a row if it is installed. Every corpus is asked its own questions, and the questions of all data sets
with another topic. Then the passages of either half of the questions are removed, and its own questions are asked
again. Probabilities are fitted on one half and scored on the other half.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from phasegraph.evaluation.abstention import _confidences, abstain_auc, calibration_errors, without
from phasegraph.evaluation.calibrated_system import calibrated_system
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.source_runs import ExperimentInput, graph_of, search_sources
from phasegraph.evaluation.splits import split_by_id
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO
from phasegraph.fusion.fitting import fit_confidence
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.lexical import read_hits

NAMES = ("vector", "graph", "bm25", "rrf", "default", "default-three")
TOPICS = {"hetdocqa": "papers", "multihoprag": "news"}


def topic(name):
    return TOPICS.get(name, "encyclopedia")


def isotonic(model, good, poor):
    from scipy.optimize import isotonic_regression

    values = np.concatenate([good, poor])
    order = np.argsort(values, kind="stable")
    labels = (np.arange(len(values)) < len(good))[order].astype(float)
    fit = isotonic_regression(labels).x
    return lambda x: np.interp(x, values[order], fit)


def main(folder, names, out):
    data = {name: load_dataset(Path(folder) / name) for name in names}
    result = json.loads(Path(out).read_text()) if Path(out).exists() else {}
    for name in names:
        if name in result:
            continue
        own = data[name]
        others = [one for one in data if topic(one) != topic(name)]
        systems = [OWN_SYSTEMS[one] for one in NAMES]
        systems += [calibrated_system(own.path, own, 50)]
        if find_spec("bayesian_bm25") is not None:
            systems += [PEERS["bayesian-bm25"]]
        asked = [own, *(data[one] for one in others)]
        whole = replace(
            own,
            queries=tuple(query for one in asked for query in one.queries),
            query_vectors=np.concatenate([one.query_vectors for one in asked]),
        )
        inputs = ExperimentInput(whole, 50, graph=graph_of(own))
        found, _ = _confidences(inputs, systems)
        ends = np.cumsum([0, *(len(one.queries) for one in asked)])
        row = {"off": {}, "un": {}, "intact": {}}
        for place, other in enumerate(others, start=1):
            row["off"][other] = {
                system: 100 * abstain_auc(values[: ends[1]], values[ends[place] : ends[place + 1]])
                for system, values in found.items()
            }
        ids = [query.id for query in own.queries]
        tune, confirm = split_by_id(ids, "tune"), split_by_id(ids, "confirm")
        runs = search_sources(ExperimentInput(own, 50, graph=inputs.graph), TWO)
        answers = [(own.queries[r].text, [runs[one].rankings[r] for one in TWO]) for r in tune.tolist()]
        relevant = {own.queries[r].text: own.queries[r].judgement.passages for r in tune.tolist()}

        def words(question, rankings, own=own):
            return read_hits(question, rankings, own.contents.__getitem__)

        fitted = fit_confidence(answers, FusionPipeline(), words, relevant)
        plain = replace(fitted, slope=None, intercept=None)
        judge = replace(FusionPipeline(), confidence=plain)
        good, poor = [], []
        for (text, lists), gold in zip(answers, relevant.values(), strict=True):
            for part, into in ((lists, good), ([one.without(gold) for one in lists], poor)):
                into.append(plain.judge(part, words(text, part)).value)
        curve = isotonic(plain, np.array(good), np.array(poor))
        auc, intact, values_of = {}, {}, {}
        for label, lost, kept in (("tune", tune, confirm), ("confirm", confirm, tune)):
            gone = frozenset().union(*(own.queries[r].judgement.passages for r in lost.tolist()))
            clean = [r for r in kept.tolist() if not own.queries[r].judgement.passages & gone]
            less = without(own, gone)
            found, _ = _confidences(ExperimentInput(less, 50), systems)
            for system, values in found.items():
                auc.setdefault(system, []).append(100 * abstain_auc(values[kept], values[lost]))
                intact.setdefault(system, []).append(100 * abstain_auc(values[clean], values[lost]))
            runs = search_sources(ExperimentInput(less, 50), TWO)
            values_of[label] = [
                judge.decide(lists, less.context(r, lists)).confidence
                for r in confirm.tolist()
                for lists in [[runs[one].rankings[r] for one in TWO]]
            ]
            if label == "tune":
                keep = [place for place, r in enumerate(confirm.tolist()) if r in set(clean)]
        row["un"] = {system: float(np.mean(both)) for system, both in auc.items()}
        row["intact"] = {system: float(np.mean(both)) for system, both in intact.items()}
        row["clean"] = len(keep)
        values = np.array([*(values_of["tune"][place] for place in keep), *values_of["confirm"]])
        labels = np.arange(len(values)) < len(keep)
        row["errors"] = {
            "plain": calibration_errors(values, labels),
            "platt": calibration_errors(fitted.probabilities(values), labels),
            "isotonic": calibration_errors(curve(values), labels),
        }
        row["model"] = fitted.to_dict()
        result[name] = row
        Path(out).write_text(json.dumps(result, indent=1))
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:-1], sys.argv[-1])
