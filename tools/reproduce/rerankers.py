"""Two studies of stages that score the fused candidates again: readers of passages or paths, and mean-field Ising."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from claims import LAST, RECALL, Claim, gap, highest, p_of, plain
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.source_runs import graph_of
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO, Batch, System, pipeline_system
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.lexical import TOKENIZERS
from phasegraph.methods.ising import IsingReranker
from phasegraph.ranking import RERANK, Ranking
from phasegraph.retrieval.stages.models import Passage
from phasegraph.retrieval.stages.reranking import bridges_to
from studies import Rankings, Study, hard_slice

DEPTH = 30
"""How many of the fused candidates are read: the default of ``Rerank``."""
Scores = Callable[[int, Sequence[str], Sequence[Ranking]], "Sequence[float | None]"]
"""``scores(row of the query, ids, rankings)``: one number a candidate."""
Reader = Callable[[Dataset], Scores]
Of = Literal["passage", "path"]


def reranked(name: str, pipeline: FusionPipeline, reader: Reader, blend: float) -> System:
    """Return a system that scores its 30 best fused candidates with `reader`, and blends them in as ``Rerank`` does."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        scores, found = reader(dataset), []
        for row in range(len(dataset.queries)):
            rankings = [batch[source][row] for source in TWO]
            context = dataset.context(row, rankings)
            ids = pipeline.decide(rankings, context, k=DEPTH).ids
            judged = Ranking.from_hits(RERANK, ids, scores(row, ids, rankings))
            found.append(tuple(pipeline.decide([*rankings, judged], replace(context, blend=blend), k=k).ids))
        return found

    return System(name, TWO, answer)


def by_words(of: Of) -> Reader:
    """Return a reader that scores a text by the share of the question's words that it contains.

    A text is a passage, or with ``of="path"`` a passage and the passage before it on the walk's path.
    """

    def reader(dataset: Dataset) -> Scores:
        split = TOKENIZERS["english"]
        words = {passage.id: frozenset(split(passage.content)) for passage in dataset.passages} | {"": frozenset()}

        def scores(row: int, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[float]:
            asked = frozenset(split(dataset.queries[row].text))
            texts = zip(ids, _before(of, ids, rankings), strict=True)
            return [len(asked & (words[one] | words[bridge])) / max(len(asked), 1) for one, bridge in texts]

        return scores

    return reader


def by_cosine(of: Of) -> Reader:
    """Return a reader that scores a text by the cosine of its embedding with the question's embedding.

    With ``of="path"``, a text is two passages. Its embedding is the sum of their embeddings, because this study runs no
    model.
    """

    def reader(dataset: Dataset) -> Scores:
        vectors = {one.id: vector for one, vector in zip(dataset.passages, dataset.passage_vectors, strict=True)}
        vectors[""] = np.zeros_like(dataset.passage_vectors[0])

        def scores(row: int, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[float]:
            texts = zip(ids, _before(of, ids, rankings), strict=True)
            read = np.array([vectors[one] + vectors[bridge] for one, bridge in texts], dtype=np.float64)
            lengths = np.maximum(np.linalg.norm(read, axis=1), 1e-12)
            return list(((read @ dataset.query_vectors[row]) / lengths).tolist())

        return scores

    return reader


def _before(of: Of, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[str]:
    """Return, for each candidate, the id of the passage before it on the walk's path.

    The id is "" if there is no such passage, or if `of` is "passage".
    """
    return bridges_to(ids, rankings, str) if of == "path" else [""] * len(ids)


def by_ising() -> Reader:
    """Return a reader that scores candidates by mean-field Ising over the data set's entity graph, built only once."""
    made: dict[str, IsingReranker] = {}

    def reader(dataset: Dataset) -> Scores:
        if dataset.name not in made:
            made[dataset.name] = IsingReranker(graph_of(dataset))
        stage = made[dataset.name]
        return lambda row, ids, rankings: stage(dataset.queries[row].text, [Passage(one, "", None) for one in ids])

    return reader


READERS = {"words": by_words, "cosine": by_cosine}
SHARES = (0.05, 0.15, 0.25, 0.5)


def readings(dataset: str, other: Rankings) -> list[System]:
    """Return the default, and systems that rerank its candidates: each reader, on passages and paths, at two blends."""
    found = [OWN_SYSTEMS["default"]]
    for name, reader in READERS.items():
        for blend in (1.0, 0.5):
            ofs: tuple[Of, ...] = ("passage", "path")
            found += [
                reranked(f"{name} of the {of}, blend {blend:g}", FusionPipeline(), reader(of), blend) for of in ofs
            ]
    return found


def spins(dataset: str, other: Rankings) -> list[System]:
    """Return the default and the paper's hard-slice setting, each without Ising reranking and at four blends."""
    paper, reader = FusionPipeline.paper("hard-slice"), by_ising()
    found = [OWN_SYSTEMS["default"]]
    found += [reranked(f"default, Ising {share:g}", FusionPipeline(), reader, share) for share in SHARES]
    found.append(pipeline_system("paper's", paper, TWO))
    return [*found, *(reranked(f"paper's, Ising {share:g}", paper, reader, share) for share in SHARES)]


RERANKINGS = (
    Study(
        "reranker-last-hop",
        "A reranker that reads passages loses the last hop",
        "The paper's cross-encoder reads the question and one passage. It lowers LastHop from 78.8 % to 9.1 % of "
        "the 66 hard queries (52 and 6 queries). No cross-encoder runs here. Two stand-ins need no model: the "
        "share of the question's words in the text, and the cosine of embeddings. Each stand-in rates the "
        "default's 30 best candidates. It reads the passage alone, or the passage together with the previous "
        "passage on the walk's path (`Rerank(of=\"path\")`). A query is hard if the vectors' first ten hits do not "
        "contain its last hop; this definition is reconstructed. So the cosine must lose on hard queries, because "
        "the vectors define these queries. The share of words need not lose.",
        readings,
        baseline="default",
        limit=50,
        split=hard_slice,
        differences=(LAST, RECALL),
    ),
    Study(
        "ising",
        "Mean-field Ising reranking",
        "In appendix D of the paper, relevance spreads along the entities that candidates share. The paper reports "
        "one more of 66 hard queries, a net loss over the full corpus, and a different behavior above a blend of "
        ".25. The formulas are reconstructed (`phasegraph.methods.ising`), with coupling .5 and temperature 1, "
        "over the 30 best candidates. A blend of .25 gives the reranker a quarter of the final score.",
        spins,
        baseline="default",
        limit=50,
        split=hard_slice,
        differences=(LAST, RECALL),
    ),
)
RERANKING_FINDINGS = {
    "reranker-last-hop": (
        *(
            Claim(
                f"A reader of single passages (blend 1) lowers LastHop@10 on hard queries, as in the paper ({name})",
                gap(f"{name} of the passage, blend 1", "default", LAST),
                high=-0.1,
                part="hard",
            )
            for name in READERS
        ),
        *(
            Claim(
                f"On hard queries, a reader of paths loses less LastHop@10 than a reader of single passages ({name})",
                gap(f"{name} of the path, blend 1", f"{name} of the passage, blend 1", LAST),
                0.1,
                part="hard",
            )
            for name in READERS
        ),
        Claim(
            "A reader of paths with blend .5 does not lower the Recall@5 of the fused order (the better stand-in)",
            highest(*(gap(f"{name} of the path, blend 0.5", "default") for name in READERS)),
            0,
        ),
    ),
    "ising": (
        Claim(
            "With a blend of .15, the reranker raises the default's LastHop@10 on hard queries",
            gap("default, Ising 0.15", "default", LAST),
            0.1,
            part="hard",
        ),
        Claim(
            "This gain is significant (p of LastHop@10)",
            lambda table: (
                p_of("default, Ising 0.15")(table) if gap("default, Ising 0.15", "default", LAST)(table) > 0 else 1.0
            ),
            high=0.05,
            part="hard",
            shown=plain,
        ),
        Claim(
            "With a blend of .15, the reranker lowers Recall@5 on no part of the queries",
            gap("default, Ising 0.15", "default"),
            0,
        ),
        Claim(
            "With a blend of .15 on the paper's own fusion, the reranker raises LastHop@10 on hard queries",
            gap("paper's, Ising 0.15", "paper's", LAST),
            0.1,
            part="hard",
        ),
        Claim(
            "A blend of .5 has a lower Recall@5 than a blend of .25",
            gap("default, Ising 0.5", "default, Ising 0.25"),
            high=-0.1,
        ),
    ),
}
