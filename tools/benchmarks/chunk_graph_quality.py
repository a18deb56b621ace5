"""Measure the recall of vectors, of walks over chunks, entities and both graphs in one, alone and fused.

    python tools/benchmarks/chunk_graph_quality.py FOLDER [--document doc_id] [--position char_start]
        [--kind modality] [--code code] [--split split] [--limit 50]

FOLDER is a data set. `--document`, `--position`, `--kind` and `--split` name fields of its lines; `--code` is the value
of the field `--kind` for code. "a+b" is the default pipeline over the lists a and b.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.measures import recall
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph import EntityGraph, GraphSource, build_graph
from phasegraph.graph.chunk_graph import KINDS, ChunkGraph, ChunkGraphSource, ChunkSettings, build_chunk_graph
from phasegraph.ranking import Ranking


@dataclass(frozen=True, eq=False)
class Joined(EntityGraph):
    """An entity graph to which the edges of a chunk graph are added, with their weights multiplied by `share`."""

    chunks: ChunkGraph | None = None
    share: float = 1.0

    @cached_property
    def adjacency(self) -> Any:
        links = self.chunks.walkable.adjacency.tocoo()
        added = (links.data * np.float32(self.share), (links.row, links.col))
        return (super().adjacency + sparse.csr_array(added, shape=(self.size, self.size))).tocsr()


def chunks_of(data: Dataset, options: argparse.Namespace, settings: ChunkSettings) -> ChunkGraph:
    """Build the chunk graph of the data set, from the fields of its lines that `options` names."""
    lines = [passage.extra for passage in data.passages]
    kinds = [line.get(options.kind) for line in lines]
    return build_chunk_graph(
        data.passages,
        documents=[str(line[options.document]) for line in lines],
        positions=[float(line[options.position]) for line in lines],
        code=[kind == options.code for kind in kinds] if any(kinds) else None,
        embeddings=data.passage_vectors,
        settings=settings,
    )


def values(answers: Sequence[Sequence[str]], data: Dataset, k: int) -> np.ndarray:
    """Return an (n,) array with the Recall@k of every query, in percent."""
    pairs = zip(answers, data.judgements, strict=True)
    return 100 * np.array([recall(tuple(ids)[:k], judgement, k) for ids, judgement in pairs])


def report(name: str, answers: Sequence[Sequence[str]], data: Dataset, parts: Sequence[str]) -> None:
    """Print the recall of one list or fusion: Recall@5, Recall@10, and Recall@10 for each part of the queries."""
    ten = values(answers, data, 10)
    by_part = "  ".join(
        f"{part} {ten[[one == part for one in parts]].mean():5.1f}" for part in dict.fromkeys(parts) if part
    )
    print(f"{name:32} R@5 {values(answers, data, 5).mean():5.1f}  R@10 {ten.mean():5.1f}  {by_part}", flush=True)


def main() -> None:
    """Measure the recall of every list and fusion on the data set, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, usual in (("document", "doc_id"), ("position", "char_start"), ("kind", "modality"), ("code", "code")):
        parser.add_argument(f"--{name}", default=usual)
    parser.add_argument("--split", default="split")
    parser.add_argument("--limit", type=int, default=50)
    options = parser.parse_args()
    data = load_dataset(options.folder)
    parts = [str(query.extra.get(options.split, "")) for query in data.queries]
    dense = search_sources(ExperimentInput(data, options.limit), ["vector"])["vector"].rankings
    vectors = {query.text: vector for query, vector in zip(data.queries, data.query_vectors, strict=True)}
    look_up, pipeline = vectors.__getitem__, FusionPipeline()

    def measure(name: str, source: GraphSource | ChunkGraphSource) -> list[Ranking]:
        pairs = list(zip(data.queries, dense, strict=True))
        walked = [source.search(query.text, options.limit, {"vector": ranking}) for query, ranking in pairs]
        fused = [pipeline.decide([one, other]).ids for one, other in zip(dense, walked, strict=True)]
        report(name, [ranking.ids for ranking in walked], data, parts)
        report(f"vector+{name}", fused, data, parts)
        return walked

    report("vector", [ranking.ids for ranking in dense], data, parts)
    usual = ChunkSettings()
    chunks = chunks_of(data, options, usual)
    print(chunks.counts())
    walked = measure("chunks", ChunkGraphSource(chunks, embedder=look_up))
    for kind in KINDS:
        alone = replace(usual, **{other: 0.0 for other in KINDS if other != kind})
        measure(f"chunks, {kind} only", ChunkGraphSource(chunks_of(data, options, alone), embedder=look_up))
    entities = build_graph(data.passages, embeddings=data.passage_vectors)
    by_entity = measure("entities", GraphSource(entities, embedder=look_up))
    three = zip(dense, by_entity, walked, strict=True)
    fused = [pipeline.decide([one, two, replace(other, source="chunks")]).ids for one, two, other in three]
    report("vector+entities+chunks", fused, data, parts)
    fields = {name: getattr(entities, name) for name in EntityGraph.__dataclass_fields__}
    for share in (1.0, 3.0, 10.0):
        joined = Joined(**fields, chunks=chunks, share=share)
        measure(f"entities and chunks x {share:g}", GraphSource(joined, embedder=look_up))


if __name__ == "__main__":
    main()
