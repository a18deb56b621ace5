"""The command ``phasegraph search``: answer a question from a saved index."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter, time
from typing import Any

from rich.console import Console
from rich.text import Text

from phasegraph._support.ordering import top_order
from phasegraph._support.products import times_vector
from phasegraph._support.text import legible
from phasegraph._support.validation import check_query
from phasegraph.apps.cli.models import opened_for_questions
from phasegraph.apps.cli.output import Embed, check_outputs, write_json
from phasegraph.apps.server.view import as_passage, paths_of
from phasegraph.embedding.identity import ModelIdentity
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.source_runs import DEFAULT_LIMIT
from phasegraph.fusion.context import Context
from phasegraph.fusion.grouping import GroupBy
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph import ChunkGraph, ChunkGraphSource, EntityGraph, GraphIndex, GraphSource
from phasegraph.graph.index.records import PassageRecord
from phasegraph.graph.walk.paths import WalkPath
from phasegraph.graph.walk.relevance import unit_vector
from phasegraph.lexical import Tokenizer, places_of, read_hits, tokenizer_of
from phasegraph.ranking import Ranking
from phasegraph.result import WHY_EMPTY, Result

WIDTH = 240
"""Approximate length of a snippet in characters."""


def graph_in(index: GraphIndex | ChunkGraph) -> EntityGraph | ChunkGraph:
    """Return the entity graph of an index; a chunk graph is returned unchanged."""
    return index.graph if isinstance(index, GraphIndex) else index


def answered(
    index: GraphIndex | ChunkGraph,
    question: str,
    k: int,
    embed: Embed | None,
    records: Mapping[str, PassageRecord],
    group_by: str | None = None,
) -> Result:
    """Answer a question with `k` passages, found by the graph walk and, with `embed`, by vectors.

    `embed` embeds the question; a chunk graph needs it. `records` are the passages by id. `group_by` is the metadata
    key with the name of a passage's document: the answer then contains only the best passage of each document. None
    means no grouping.
    """
    graph, limit = graph_in(index), max(k, DEFAULT_LIMIT)
    rankings: list[Ranking] = []
    if embed is not None:
        if graph.embeddings is None:
            raise InvalidInputError(
                "--embedder needs an index with embeddings, but this index has none: leave it out, or build another "
                "index with phasegraph index FILES --out NEW --embedder NAME"
            )
        vector = unit_vector(embed(question), graph.embeddings.shape[1])
        scores = times_vector(graph.embeddings, vector).astype(float)
        best = top_order(scores, graph.passages, limit)
        rankings.append(Ranking("vector", [graph.passages[row] for row in best.tolist()], scores[best]))
        embed = lambda _: vector  # noqa: E731 - embed the question only once
    elif isinstance(graph, ChunkGraph):
        raise InvalidInputError(
            "a chunk graph needs --embedder, because the walk starts from the chunks nearest to the question"
        )
    source = (
        ChunkGraphSource(graph, embedder=embed) if isinstance(graph, ChunkGraph) else GraphSource(graph, embedder=embed)
    )
    rankings.append(source.search(question, limit, {one.source: one for one in rankings}))
    words = read_hits(question, rankings, lambda name: records[name].content if name in records else "")
    context = Context(query=question, now=time(), words=words)
    if group_by is None:
        return FusionPipeline().decide(rankings, context, k=k)
    held = [
        one if one.payloads else replace(one, payloads={name: records[name] for name in one.ids if name in records})
        for one in rankings
    ]

    def metadata_of(hit: WalkPath | PassageRecord) -> Mapping[str, object]:
        return (records[hit.path[-1].name] if isinstance(hit, WalkPath) else hit).metadata

    return FusionPipeline(group_by=GroupBy(group_by)).decide(held, replace(context, metadata_of=metadata_of), k=k)


def snippet_of(
    text: str, words: Collection[str], tokenizer: Tokenizer = "english"
) -> tuple[str, list[tuple[int, int]]]:
    """Return the part of a text with the most distinct question words, and the positions (start, end) of these words.

    >>> snippet_of("Ada met  Bo.", {"bo"})
    ('Ada met Bo.', [(8, 10)])
    """
    line = " ".join(text.split())
    places = places_of(line, words, tokenizer)
    starts = (
        [max(line.rfind(" ", 0, max(start - WIDTH // 4, 0)) + 1, 0) for start, _ in places] if len(line) > WIDTH else []
    )

    def held(start: int) -> int:
        return len({line[one:end].lower() for one, end in places if start <= one and end <= start + WIDTH})

    start = max(starts, key=held, default=0)
    end = len(line) if len(line) - start <= WIDTH else line.rfind(" ", start + WIDTH // 2, start + WIDTH + 1)
    end = start + WIDTH if end < 0 else end
    before, after = "… " * (start > 0), " …" * (end < len(line))
    shift = len(before) - start
    marks = [(one + shift, other + shift) for one, other in places if start <= one and other <= end]
    return before + line[start:end] + after, marks


def run(folder: Path, question: str, k: int, embedder: str | None, group_by: str | None, json_to: str | None) -> None:
    """Run ``phasegraph search``; the parameters are the options of the command."""
    check_outputs(json=json_to)
    check_query(question)
    index, embed, made_by = opened_for_questions(folder, embedder)
    records: Mapping[str, PassageRecord] = index.records if isinstance(index, GraphIndex) else {}
    lexical = index.graph.lexical if isinstance(index, GraphIndex) else None
    tokenizer: Tokenizer = "english" if lexical is None else lexical.tokenizer
    started = perf_counter()
    result = answered(index, question, k, embed, records, group_by)
    milliseconds = 1000 * (perf_counter() - started)
    words = frozenset(tokenizer_of(tokenizer)(question))
    passages: list[dict[str, Any]] = []
    for name in result.ids:
        record = records.get(name)
        snippet, marks = ("", []) if record is None else snippet_of(record.text, words, tokenizer)
        said = {"title": "" if record is None else record.title, "snippet": snippet, "marks": marks}
        passages.append(as_passage(result.evidence(name)) | said)
    state = {
        "question": question,
        "ms": milliseconds,
        "confidence": result.confidence,
        "confidence_evidence": asdict(result.confidence_evidence),
        "reason": result.reason,
        "warnings": list(result.warnings),
        "passages": passages,
    }
    to = write_json(state, json_to)
    lacking = "the folder has none" if graph_in(index).embeddings is None else "they need --embedder"
    show(result, passages, question, to, lacking)
    if embed is None and (unused := unused_embeddings(index, made_by)):
        to.print(f"  {unused}")


def unused_embeddings(index: GraphIndex | ChunkGraph, made_by: ModelIdentity | None) -> str:
    """Return a sentence about a search without the embeddings of an index; "" if the index has none."""
    if graph_in(index).embeddings is None:
        return ""
    named = "" if made_by is None else f", which are from {made_by.name}"
    return f"searched by names and words only: --embedder also uses the embeddings of the index{named}"


def show(result: Result, passages: list[dict[str, Any]], question: str, to: Console, lacking: str) -> None:
    """Print an answer; words of the question are highlighted on a terminal, and set between asterisks elsewhere.

    `passages` are the passages of `result`, each with the snippet to print and the positions of the words. `lacking` is
    the reason for a search without vectors.
    """
    to.print(Text(legible(question), style="bold"))
    confidence = result.confidence_evidence.summary.replace("no source is named 'vector'", lacking)
    to.print(f"  confidence {confidence}")
    for line in result.warnings:
        to.print(f"  warning: {line}")
    if not passages:
        to.print(f"  no passages: {WHY_EMPTY.get(result.reason, result.reason)}")
    for passage in passages:
        title = f" {passage['title']!r}" if passage["title"] else ""
        line = legible(f"{passage['position']}. {passage['id']}{title}: score {passage['score']:.4f}")
        to.print(Text(line, style="bold"))
        found = Text(passage["snippet"])
        for start, end in reversed(passage["marks"]):
            found.stylize("bold yellow", start, end)
            if not to.is_terminal:
                found = found[:start] + Text("*") + found[start:end] + Text("*") + found[end:]
        if passage["snippet"]:
            to.print(Text("   ") + found, soft_wrap=True)
        for path in paths_of(result.evidence(passage["id"])):
            to.print(f"   {path}")
