"""The bundled corpus as graph records, whole or a slice of it."""

import json
from pathlib import Path

import numpy as np

from phasegraph.graph import Extraction, RuleExtractor
from phasegraph.neo4j import PassageRecord, records_from_extractions
from phasegraph.ranking import Ranking

FOLDER = Path(__file__).parents[2] / "data" / "musique-openie"


def lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def records(count: int | None = None) -> tuple[PassageRecord, ...]:
    """The first passages with names found by rule and the triples that come with them."""
    passages = lines("corpus.jsonl")[:count]
    kept = {passage["id"] for passage in passages}
    rules = RuleExtractor(titles=[passage["title"] for passage in passages])
    found = [rules(passage["id"], passage["title"], passage["text"]) for passage in passages]
    for row in lines("triples.jsonl"):
        if row["id"] in kept:
            found.append(Extraction(row["id"], triples=[triple for triple in row["triples"] if len(triple) == 3]))
    return records_from_extractions(passages, found)


def questions(limit: int, count: int | None = None) -> list[tuple[str, Ranking]]:
    """Questions with the dense ranking of the first passages for each."""
    ids = [passage["id"] for passage in lines("corpus.jsonl")[:count]]
    passages = np.load(FOLDER / "passages.f16.npy")[:count].astype(np.float32)
    queries = np.load(FOLDER / "queries.f16.npy").astype(np.float32)
    asked = []
    for row, vector in zip(lines("queries.jsonl")[:limit], queries, strict=False):
        scores = passages @ vector
        best = np.argsort(-scores, kind="stable")[:50]
        asked.append((row["question"], Ranking("vector", [ids[place] for place in best], scores[best])))
    return asked
