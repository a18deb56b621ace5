"""Measure the confidence without vectors: python tools/research/confidence_by_words.py DIR…

Every corpus is asked its own questions, and the questions of the folders with another topic. Then the passages of
either half of the questions are removed, and its own questions are asked again. The walk and BM25 answer. `words` is
the share of the question's words in the first hits, which was the whole confidence in earlier versions. `confidence` is
this share multiplied by a factor that grows with the number of rare words in a single hit.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from phasegraph.acceptance.confidence import ConfidenceModel
from phasegraph.evaluation.abstention import abstain_auc, without
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.splits import split_by_id
from phasegraph.graph import GraphSource, build_graph
from phasegraph.graph.flat import LexicalSource
from phasegraph.lexical import read_hits

TOPICS = {"hetdocqa": "papers", "multihoprag": "news", "gitdocs": "git", "perlfaq": "perl", "scifact": "science"}
LEAST = 0.2
"""The confidence below which the inspector says that the answer is probably not in the collection."""


def judged(corpus, questions):
    """Return an (n, 2) array: for each question, the share of its words in the first hits, and the confidence."""
    graph = build_graph(corpus.passages)
    sources, rows = (GraphSource(graph), LexicalSource(graph)), []
    for question in questions:
        lists = [found for one in sources if len(found := one.search(question, 50, {}))]
        found = ConfidenceModel().judge(lists, read_hits(question, lists, corpus.contents.__getitem__))
        rows.append((found.value / found.together if found.together else 0.0, found.value or 0.0))
    return np.array(rows)


def main(folders):
    data = {Path(one).name: load_dataset(Path(one)) for one in folders}
    print(f"corpus: off-topic lowest / mean, for words, confidence; unanswerable, likewise; share at {LEAST} or more")
    for name, own in data.items():
        others = [one for one in data if TOPICS.get(one, "encyclopedia") != TOPICS.get(name, "encyclopedia")]
        texts = [query.text for query in own.queries]
        found = judged(own, [*texts, *(query.text for one in others for query in data[one].queries)])
        ends = np.cumsum([len(texts), *(len(data[one].queries) for one in others)])
        off = np.array(
            [
                [abstain_auc(found[: ends[0], kind], found[start:end, kind]) for kind in (0, 1)]
                for start, end in pairwise(ends)
            ]
        )
        ids, gone_auc, left = [query.id for query in own.queries], [], []
        halves = [split_by_id(ids, "tune").tolist(), split_by_id(ids, "confirm").tolist()]
        for lost, kept in (halves, halves[::-1]):
            gone = frozenset().union(*(own.queries[row].judgement.passages for row in lost))
            whole = [row for row in kept if not own.queries[row].judgement.passages & gone]
            rows = judged(without(own, gone), [texts[row] for row in (*whole, *lost)])
            good, poor = rows[: len(whole)], rows[len(whole) :]
            gone_auc.append([abstain_auc(good[:, kind], poor[:, kind]) for kind in (0, 1)])
            left.append((poor[:, 1] >= LEAST).mean())
        lowest, mean, un = 100 * off.min(axis=0), 100 * off.mean(axis=0), 100 * np.mean(gone_auc, axis=0)
        shares = [(found[: ends[0], 1] >= LEAST).mean(), (found[ends[0] :, 1] >= LEAST).mean(), np.mean(left)]
        print(
            f"{name}: {lowest[0]:.1f} / {mean[0]:.1f}, {lowest[1]:.1f} / {mean[1]:.1f}; {un[0]:.1f}, {un[1]:.1f}; "
            + "own {:.0%}, off-topic {:.0%}, unanswerable {:.0%}".format(*shares)
            + f"; greatest off-topic {found[ends[0] :].max(axis=0).round(2)}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
