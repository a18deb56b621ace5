"""A corpus of the bundled passages with everything that a passage may have, and the index of a single process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._support.serialization import MANIFEST
from phasegraph._support.vector_files import read_vectors
from phasegraph.apps.cli.search import answered
from phasegraph.graph import GraphIndex, NameSynonyms
from phasegraph.graph.model.building import read_openie

DATA = Path(__file__).resolve().parents[2] / "data" / "musique-openie"
GAZETTEER = ("Bo", "New York", "a name of many many many many words that is too long")


def passages(count: int = 400) -> list[dict[str, Any]]:
    """Passages with triples, metadata, titles that repeat or are blank, and an id and a text of strange characters."""
    with (DATA / "corpus.jsonl").open(encoding="utf-8") as lines:
        read = [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]
    rows: list[dict[str, Any]] = [{key: one[key] for key in ("id", "title", "text")} for one in read]
    for number, row in enumerate(rows):
        if number % 3 == 0:
            row["triples"] = [["Ada Lovelace", "met", row["title"]], [row["title"], "met", f"Bo {number % 5}"]]
        if number % 7 == 0:
            row["metadata"] = {"page": number, "tags": ["ü", None]}
    rows[5]["title"], rows[6]["title"] = "", rows[0]["title"]
    rows[8]["text"] += " The \ud800 lone Surrogate of İstanbul and 東京都."
    rows[9]["id"] = "an id with spaces, ünd 東京"
    return rows


def vectors(count: int) -> np.ndarray[Any, Any]:
    """Embeddings of any length."""
    return np.random.default_rng(0).normal(size=(count, 8)).astype(np.float32)


def of_one_process(rows: list[dict[str, Any]], embeddings: Any, out: Path) -> Path:
    """The index that everything must equal."""
    triples = {row["id"]: row["triples"] for row in rows if "triples" in row}
    GraphIndex.build(rows, embeddings=embeddings, triples=triples, known_names=GAZETTEER).save(out)
    return out


def plain(count: int) -> list[dict[str, Any]]:
    """Passages of text alone, as Parquet and the plain command read them."""
    rows = [{key: row[key] for key in ("id", "title", "text")} for row in passages(count)]
    rows[8]["text"] = "No lone surrogate: Arrow has none."
    return rows


def given_besides(folder: Path, rows: list[dict[str, Any]], form: str = "lines") -> dict[str, Path]:
    """Files of triples, some of them malformed, and of names, of which some are no entities and some are alike."""
    triples = [
        [["Ada Lovelace", "met", row["title"]], [row["title"], "met", f"Bo {number % 5}"], ["Ada"], ["?", "met", "Bo"]]
        for number, row in enumerate(rows)
    ]
    files = {name: folder / name for name in ("triples.json", "names.txt", "names.npy")}
    if form == "lines":
        lines = [json.dumps({"id": row["id"], "triples": each}) for row, each in zip(rows, triples, strict=True)]
        lines[4] = json.dumps({"id": rows[4]["id"]})
        files["triples.json"].write_text("\ufeff" + "\n\n".join(lines[::-2]), encoding="utf-8")
    else:
        docs = [
            {"idx": row["id"] if number % 2 else number, "passage": row["text"], "extracted_triples": each}
            for number, (row, each) in enumerate(zip(rows, triples, strict=True))
        ]
        files["triples.json"].write_text(json.dumps({"docs": docs[::-3]}, indent=form == "indented" or None))
    records = read_openie(files["triples.json"], rows, entities=False).extractions
    entities = GraphIndex.build(rows, triples=records, known_names=GAZETTEER).graph.entities
    listed = [*entities[1::2], "Nowhere Known", "!?", "ADA lovelace", "Ada Lovelace", *entities[:40:2]][::-1]
    files["names.txt"].write_text("\n".join(listed), encoding="utf-8")
    np.save(files["names.npy"], np.random.default_rng(1).normal(size=(len(listed), 6)).astype(np.float32))
    return files


def with_given(rows: list[dict[str, Any]], files: dict[str, Path], out: Path, *, triples: bool = True) -> Path:
    """The index of a single process with what is in these files."""
    listed = files["names.txt"].read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = {}
    for name, vector in zip(listed, read_vectors(files["names.npy"], len(listed), ""), strict=True):
        found.setdefault(name, vector)
    records = read_openie(files["triples.json"], rows, entities=False).extractions if triples else None
    index = GraphIndex.build(
        rows, triples=records, known_names=GAZETTEER, synonyms=NameSynonyms.of(found, threshold=0.9)
    )
    assert index.graph.synonyms.nnz > 100
    index.save(out)
    return out


def digests(index: Path) -> dict[str, Any]:
    """Content, and of each array type, shape and SHA-256."""
    body = json.loads((index / MANIFEST).read_text(encoding="utf-8"))["body"]
    return {"content": body["content"], **body["arrays"]}


def written(rows: list[dict[str, Any]], file: Path) -> Path:
    """The corpus as JSON lines, with blank ones and a mark at its start, or as Parquet in several groups of rows."""
    if file.suffix == ".jsonl":
        lines = [json.dumps(row) + ("\n\n" if number % 9 == 0 else "\n") for number, row in enumerate(rows)]
        file.write_bytes("\ufeff".encode() + "".join(lines).encode())
        return file
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = [row | {"metadata": json.dumps(row.get("metadata"))} for row in rows]
    pq.write_table(pa.Table.from_pylist(plain), file, row_group_size=90)
    return file


def dies_once(marks: Path, number: int, deaths: int) -> None:
    """A task whose process is killed the first time it is at number 2."""
    with (marks / str(number)).open("a") as handle:
        handle.write("x")
    if number == 2 and len((marks / "2").read_text()) <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)


def fails(number: int) -> None:
    """A task that raises what cannot be sent."""
    if number == 1:
        raise _UnsendableError


class _UnsendableError(Exception):
    def __init__(self) -> None:
        super().__init__("no")
        self.held = lambda: None


def lengths(texts: list[str]) -> list[list[float]]:
    """A model that is a function."""
    return [[float(len(text)), float(text.count("e")), 1.0] for text in texts]


class ChainModel:
    """As LangChain's embedding models are asked."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return lengths(texts)

    def embed_query(self, text: str) -> list[float]:
        return lengths([text])[0]


class IndexModel:
    """As LlamaIndex's embedding models are asked."""

    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]:
        return lengths(texts)

    def get_query_embedding(self, text: str) -> list[float]:
        return lengths([text])[0]


def questions(count: int = 60) -> list[dict[str, Any]]:
    """The bundled questions."""
    with (DATA / "queries.jsonl").open(encoding="utf-8") as lines:
        read = [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]
    return [{"id": one["id"], "question": one["question"]} for one in read]


def answers(index: Path, asked: list[dict[str, Any]], k: int = 5) -> list[tuple[str, list[str], list[float]]]:
    """What a single process answers, as ``phasegraph search`` does."""
    held = GraphIndex.load(index)
    return [
        (one["id"], list(found.ids), found.scores.tolist())
        for one in asked
        for found in [answered(held, one["question"], k, None, held.records)]
    ]


def hostile(kind: str, row: dict[str, Any], number: int) -> dict[str, Any]:
    """A row of a shard that goes wrong at number 30: it raises, is rubbish, or has another shard's id."""
    if number != 30:
        return row
    if kind == "raises":
        raise ZeroDivisionError("the shard is broken")
    return row | ({"id": "mqt-00000"} if kind == "repeats an id" else {"title": "", "text": ""})


HOSTILE = {
    "raises": r"(?s)ZeroDivisionError.*the shard is broken",
    "is rubbish": "must have text",
    "repeats an id": "'mqt-00000' is the id of rows 0 and 30",
}
"""What the error says, by kind of a hostile shard."""
