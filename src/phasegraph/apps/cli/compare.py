"""The command ``phasegraph try --compare``: compare a user's retriever with other retrieval methods and phasegraph."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phasegraph._support.text import counted
from phasegraph.apps.cli.output import console, percent, progress, show_table
from phasegraph.apps.inspector.inspector import LIMIT, OWN, Inspector
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.comparison import BEST, Comparison, Flip, compare_own
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.own_questions import WORDS, known_items, two_part
from phasegraph.evaluation.query_files import Query, read_questions
from phasegraph.evaluation.recommendation import recommendation_beside
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph.model.entity_graph import EntityGraph

VECTORS, BM25, ENSEMBLE, OURS = "vectors", "bm25", "ensemble", "phasegraph"
MADE = 40
"""Maximum number of questions of each kind generated from the files."""
_SOURCES = {"vector": "vectors", "graph": "graph", "bm25": "BM25"}
_ABOUT = {
    VECTORS: "cosine similarity of the embeddings of --embedder",
    BM25: "BM25 over the words of the passages",
    ENSEMBLE: "vectors and BM25 fused by reciprocal ranks, as in LangChain's EnsembleRetriever",
    OURS: "the default pipeline over these sources and the graph",
}


def questions_for(path: Path | None, passages: Sequence[Passage], graph: EntityGraph) -> tuple[list[Query], list[str]]:
    """Read the judged questions of a file; if `path` is None, generate questions from the passages.

    Return the questions, and printable lines that describe them.
    """
    if path is not None:
        found = list(read_questions(path, passages))
        return found, [f"asking {counted(len(found), 'question')} of {path}"]
    known, parts = known_items(passages, MADE), two_part(passages, graph, MADE)
    if not known and not parts:
        raise InvalidInputError(
            "the passages of these files are too short to make questions from: give a QUESTIONS.jsonl file"
        )
    return [*known, *parts], [
        f"asking {counted(len(known) + len(parts), 'question')} generated from the files, not asked by users:",
        f"  {len(known)} known-item: {WORDS} words of a passage, which is the answer; these questions favor BM25",
        f"  {len(parts)} two-part: words of two passages that share a name; these questions favor the graph",
    ]


def answers_of(inspector: Inspector, queries: Sequence[Query]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Answer the questions with every method; return the ids of the passages by method and question id.

    Without an embedder, the methods that use vectors are left out.
    """
    with_vectors = "vector" in inspector.sources
    ways = [*([VECTORS] * with_vectors), BM25, *([ENSEMBLE] * with_vectors), OURS]
    found: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in ways}
    ensemble = FusionPipeline.reciprocal_rank()
    for query in progress(queries, OURS):
        asked = inspector.ask(query.text)
        rankings = {one.source: one for one in asked.rankings}
        everything = inspector.decide(asked, inspector.pipelines[OWN])[1]
        answers = {OURS: everything.ids, BM25: rankings["bm25"].ids if "bm25" in rankings else ()}
        if with_vectors:
            pair = [rankings[name] for name in ("vector", "bm25") if name in rankings]
            answers[VECTORS] = rankings["vector"].ids if "vector" in rankings else ()
            answers[ENSEMBLE] = ensemble.decide(pair, asked.context, k=LIMIT).ids
        for name, ids in answers.items():
            found[name][query.id] = tuple(ids)
    return found


def compare_and_print(
    name: str, retriever: object, path: Path | None, passages: Sequence[Passage], inspector: Inspector
) -> None:
    """Compare the retriever with the other methods; print tables, three explained questions and a recommendation.

    `path` is the file of judged questions. If it is None, questions are generated from `passages`.
    """
    to = console()
    queries, lines = questions_for(path, passages, inspector.collection.graph)
    for line in lines:
        to.print(line)
    ways = answers_of(inspector, queries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user's retriever may warn once per question
        found = compare_own(name, retriever, queries, passages, ways, progress=progress)
    title = f"{inspector.name}: {counted(len(queries), 'question')}, 95 % intervals in brackets"
    show_table(to, title, *_means(found), marked=(OURS,))
    for way in ways:
        to.print(f"{way}: {_ABOUT[way]}")
    if VECTORS not in ways:
        to.print(f"without --embedder, {VECTORS} and {ENSEMBLE} are left out, and {OURS} uses no vectors")
    for line in found.notes:
        to.print(line)
    show_table(to, f"questions won / lost in {found.measure}, row against column", *_won_lost(found), marked=(OURS,))
    flips = found.flips(OURS)
    if not flips:
        to.print(f"{name} and {OURS} find the same judged passages in the first {found.measure.k} hits")
    for number, flip in enumerate(flips, start=1):
        for line in explained(number, flip, found, inspector):
            to.print(line)
    advice = recommendation_beside(found.table, OURS, found.measure)
    made = " on questions made from the files" if path is None else ""
    to.print(f"verdict{made}: {advice.sentence}")
    if path is None:
        to.print("your users' questions may give another result: write 40 questions to a file (docs/guide/try.md)")


def _means(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of the table of means: each method's mean in each measure, with its interval.

    If the questions were generated, the table also has the means for each kind of question.
    """
    table, measure = found.table, found.measure
    kinds = [str(query.extra.get("kind", "")) for query in found.queries]
    by_kind = table.means_by(kinds) if all(kinds) else {}
    columns = ["way", *(f"{one}" for one in table.measures), *by_kind]
    rows = []
    for row in table.rows:
        cells = [row.name]
        for one in table.measures:
            low, high = row.intervals[one]
            cells.append(f"{percent(row.means[one])} [{100 * low:.0f}, {100 * high:.0f}]")
        shares = (of[row.name][str(measure)] for of in by_kind.values())
        rows.append([*cells, *("–" if share is None else f"{share:.1f}" for share in shares)])
    return columns, rows


def _won_lost(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of the table that compares each method (row) with each method (column).

    A cell has the numbers of questions that the method of its row won and lost against the method of its column.
    """
    pairs = found.pairs()
    names = list(pairs)
    rows = [[one, *("–" if one == other else "{}/{}".format(*pairs[one][other]) for other in names)] for one in names]
    return ["", *names], rows


def explained(number: int, flip: Flip, found: Comparison, inspector: Inspector) -> list[str]:
    """Format a :class:`Flip` in four lines: question, passage, its ranks in both answers, and the reason.

    `number` is the number of the first line. `found` contains the answers, and `inspector` gives the reason.
    """
    title, text = inspector.collection.read(flip.passage)
    view = inspector.view(flip.query.text, {})
    row: Mapping[str, Any] = next((one for one in view["rows"] if one["id"] == flip.passage), {"sources": {}})
    ranks = {name: row["sources"].get(name, {}).get("rank") for name in _SOURCES if name in inspector.sources}
    snippet = " ".join(text.split())
    own = found.table.baseline
    returned = len(found.table.found[own].get(flip.query.id, ()))
    sides = [f"{OURS}: {_rank(flip.rank)}", f"{own}: {_rank(flip.own_rank, returned)}"]
    return [
        f"{number}. {'won' if flip.won else 'lost'}: {flip.query.text}",
        f"   {flip.passage}{f' {title!r}' if title else ''}: {snippet[:100]}{' …' if len(snippet) > 100 else ''}",
        f"   {'; '.join(sides)}",
        f"   why: {_why(flip, ranks, row.get('walk'))}",
    ]


def _rank(rank: int | None, returned: int | None = None) -> str:
    if rank is not None:
        return f"rank {rank}"
    return "not found" if returned is None else f"not among its {returned}"


def _why(flip: Flip, ranks: Mapping[str, float | None], walk: Mapping[str, Any] | None) -> str:
    """Explain a :class:`Flip` by the passage's rank in each source (None: not found) and by the path of the walk."""
    said = {name: f"rank {rank:g}" if rank is not None else f"not among its {LIMIT}" for name, rank in ranks.items()}
    listed = ", ".join(f"{_SOURCES[name]} {text}" for name, text in said.items())
    steps = [name for _, name in walk["path"]] if walk else []
    path = f"; the walk: {' → '.join(steps)}" if len(steps) > 1 else ""
    known = {name: rank for name, rank in ranks.items() if rank is not None}
    if not known:
        return f"no source of phasegraph found the passage ({listed})"
    least = min(known.values())
    if not flip.won and least > BEST:
        return f"no source of phasegraph ranks it among its first {BEST} ({listed}){path}"
    best = " and ".join(_SOURCES[name] for name, rank in known.items() if rank == least)
    outvoted = "" if flip.won else ", but the other sources rank it too low"
    return f"best by {best}{outvoted} ({listed}){path}"
