"""What a re-scorer adds to the default when fitted on a corpus's own judged questions (docs/research/rescoring.md).

    python tools/research/rescoring.py DATASET_DIR... [--sources vector,graph,bm25] [--limit 50]

Every question is answered by a re-scorer fitted on four fifths of the questions that do not hold it (five folds by
seed 0). Prints Recall@5 and Recall@10 of the default and re-scored, with the 95 % bootstrap interval of the gain.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from phasegraph import FusionPipeline
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.measures import Measure, score_run
from phasegraph.evaluation.significance import paired_bootstrap, sign_flip
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.tuning import FOLDS, learn_rescorer

MEASURES = (Measure("Recall", 5), Measure("Recall", 10))


def measured(folder, names, limit):
    """Per measure the (n,) scores of the default and re-scored."""
    data = load_dataset(folder)
    runs = search_sources(ExperimentInput(data, limit), names)
    judged, plain = data.judgements, FusionPipeline()
    rows = [[runs[name].rankings[row] for name in names] for row in range(len(judged))]
    contexts = {one.query: data.context(row, rows[row]) for row, one in enumerate(judged)}
    answers = {False: {}, True: {}}
    for fold in np.array_split(np.random.default_rng(0).permutation(len(judged)), FOLDS):
        train = np.setdiff1d(np.arange(len(judged)), fold).tolist()
        lists = {name: [runs[name].rankings[row] for row in train] for name in names}
        rescorer = learn_rescorer(plain, lists, [judged[row] for row in train], contexts)
        for row in fold.tolist():
            query = judged[row].query
            for rescored, pipeline in ((False, plain), (True, replace(plain, rescorer=rescorer))):
                answers[rescored][query] = pipeline.decide(rows[row], contexts[query]).ids
    return {str(one): [score_run(answers[which], judged, one) for which in (False, True)] for one in MEASURES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--sources", default="vector,graph,bm25")
    parser.add_argument("--limit", type=int, default=50)
    given = parser.parse_args()
    print("| set | measure | default | re-scored | gain (95 %) | p |\n|---|---|---|---|---|---|")
    for folder in given.folders:
        for name, (before, after) in measured(folder, given.sources.split(","), given.limit).items():
            gain = paired_bootstrap(after - before, rng=0)
            means = f"{100 * before.mean():.1f} | {100 * after.mean():.1f}"
            interval = f"{100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
            print(
                f"| {folder.name} | {name} | {means} | {interval} | {sign_flip(after - before, rng=0):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
