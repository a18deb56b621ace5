"""Load damaged files and hostile texts: ``python tools/reliability/fuzz.py [--cases 200000] [--seconds 0]``.

Files of every kind that phasegraph loads are damaged (bytes, lines, JSON values). Their checksums are left unchanged or
computed again. Each damaged file is loaded and, if this succeeds, used. Hostile ids, titles, texts and queries go
through graphs, rankings and both retrievers. The outcome must be success or an error of phasegraph. No content may be
executed, the process must not end, and no case may take 20 seconds. Case n of a seed is the same on every machine; to
repeat it, use ``--first n --cases 1``. ``--json FILE`` writes the figures.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from runs import arguments, bar, finish, quiet

from phasegraph import Confidence, FusionPipeline, PhasegraphError, Ranking, RecencyPrior, UnitPrior, fit_reference_ecdf
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.acceptance.confidence import ConfidenceModel
from phasegraph.evaluation.corpus_files import read_corpus
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.predicted_answers import read_predictions
from phasegraph.evaluation.runs import read_qrels, read_run
from phasegraph.graph import (  # fmt: skip
    ChunkGraph,
    GraphIndex,
    GraphSource,
    LexicalSource,
    SummaryTree,
    build_chunk_graph,
    build_graph,
    load_graph,
    read_openie,
    save_graph,
)
from phasegraph.selection import SelectionPolicy

WORKERS = 2
LONGEST = 20  # seconds that one case may take
MEMORY = 16 * 1024**3
SENTINEL = "PHASEGRAPH_FUZZ_SENTINEL"
PASSAGES = [
    {
        "id": f"p{row}",
        "title": f"Page {row}",
        "text": f"Page {row} is about Ada Lovelace, who met Person {row % 4} in Town {row % 3} in 18{row:02}.",
    }
    for row in range(12)
]
RANKINGS = [
    Ranking("graph", [f"p{row}" for row in range(8)], np.linspace(3.0, 1.0, 8)),
    Ranking("vector", [f"p{row}" for row in range(3, 12)], np.linspace(0.9, 0.1, 9)),
]
HOSTILE = (
    "", " ", "\0", "\ud800", "\ufeff", "\u202e", "e" + "\u0301" * 400, "\u0f71\u0f72\u0f74" * 60, "١٢٣", "𝒜",
    "İ", "ﷺ", "ß" * 50, "'; DROP TABLE x; --", "`) DETACH DELETE (n", "\\u0060", "{{7*7}}", "${jndi:ldap://x}",
    "<script>", "__import__('os').abort()", "../../../etc/passwd", "/dev/zero", "C:\\con", "a" * 2000,
    "! / : [ ( \" ~ AND *",
    "\x1b[31m", "\r\n", "-0", "1e999", "nan", "NaN", "Infinity", "-1", "9" * 400, "true", "None", "\u2028",
    "🏳️‍🌈", "\u200d",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**200, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-300, [], {}, [[]],
    [None], {"": None}, {"name": {}}, [0] * 50, *HOSTILE,
)  # fmt: skip


class Payload:
    """An object that runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ.get(SENTINEL, "/nonexistent/x"),)


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def changed_json(rng: random.Random, value: Any) -> Any:
    """Return a JSON value in which one part is replaced, removed, doubled or renamed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        act = rng.random()
        if act < 0.08:
            return {name: one for name, one in value.items() if name != key}
        if act < 0.14:
            return {**value, rng.choice(HOSTILE): rng.choice(VALUES)}
        if act < 0.2:
            return {(rng.choice(HOSTILE) if name == key else name): one for name, one in value.items()}
        return {**value, key: changed_json(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        row, act = rng.randrange(len(value)), rng.random()
        if act < 0.08:
            return value[:row] + value[row + 1 :]
        if act < 0.16:
            return [*value, value[row]]
        return [*value[:row], changed_json(rng, value[row]), *value[row + 1 :]]
    if isinstance(value, float | int) and not isinstance(value, bool) and rng.random() < 0.4:
        return value * rng.choice([-1, 0.5, 2, 1e300, 1e-300]) + rng.choice([0, 1, -1])
    return deep(rng.choice([60, 900])) if rng.random() < 0.02 else rng.choice(VALUES)


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes with random damage."""
    act, size = rng.randrange(9), len(data)
    at = rng.randrange(size) if size else 0
    if act == 0:
        return data[:at]
    if act == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if size else b"\0"
    if act == 2:
        return data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:]
    if act == 3:
        return data[:at] + data[at + rng.randrange(1, 40) :]
    if act == 4:
        return data[at:] + data[:at]
    if act == 5:
        return b"\xef\xbb\xbf" + data
    if act == 6:
        return pickle.dumps(Payload())
    if act == 7:
        other = rng.randrange(size) if size else 0
        return data[:at] + data[other : other + 60] + data[at + 60 :]
    return data.replace(
        rng.choice([b"0", b"1", b":", b",", b'"', b"\n"]), rng.choice([b"", b"9", b"\n", b"-", b"e", b"\0"]), 3
    )


def changed_lines(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes with lines removed, doubled or exchanged, or with the words of a line replaced."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    row = rng.randrange(len(lines))
    act = rng.randrange(4)
    if act == 0:
        del lines[row]
    elif act == 1:
        lines.insert(rng.randrange(len(lines)), lines[row])
    else:
        try:
            lines[row] = json.dumps(changed_json(rng, json.loads(lines[row])))
        except ValueError:
            words = lines[row].split(" ")
            words[rng.randrange(len(words))] = rng.choice(HOSTILE)
            lines[row] = " ".join(words)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def changed_array(rng: random.Random, path: Path) -> None:
    """Change an npy file in place: other values, another type, another shape, or Python objects in it."""
    array = np.load(path)
    act = rng.randrange(5) if array.dtype.kind in "iufb" else rng.choice([1, 3, 4])
    if act == 0 and array.size:
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice([0, 1, 127] if array.dtype.kind == "u" else [-1, 0, 1, 127])
    elif act == 1:
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
    elif act == 2:
        array = array.astype(rng.choice(["int64", "float64", "uint8", "bool", "complex64"]))
    elif act == 3:
        array = np.concatenate([array, array])
    else:
        np.save(path, np.array([Payload()], dtype=object), allow_pickle=True)
        return
    np.save(path, array)


def sealed(document: dict[str, Any]) -> bytes:
    """Return the bytes of a saved JSON file whose checksum matches the changed body of `document`."""
    text = json.dumps(document["body"], sort_keys=True, separators=(",", ":"))
    return json.dumps(
        {**document, "sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}
    ).encode()


def damage_document(rng: random.Random, path: Path) -> None:
    """Damage a saved JSON file in place: its bytes, or its body with or without a new checksum."""
    data = path.read_bytes()
    if rng.random() < 0.3:
        path.write_bytes(changed_bytes(rng, data))
        return
    document = json.loads(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        body = changed_json(rng, document["body"])
        document["body"] = body if isinstance(body, dict) else {"x": body}
    path.write_bytes(sealed(document) if rng.random() < 0.9 else json.dumps(document).encode())


def damage_bundle(rng: random.Random, folder: Path) -> None:
    """Damage a file, an array or the manifest of a saved directory; if an array, also update its checksum."""
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    manifest = rng.choice([one for one in files if one.name == "manifest.json"])
    arrays = sorted(manifest.parent.glob("*.npy"))
    act = rng.random()
    if act < 0.15:
        damage_document(rng, manifest)
        return
    file = rng.choice(files)
    if act < 0.4:
        file.write_bytes(changed_bytes(rng, file.read_bytes()))
        return
    if act < 0.45:
        file.unlink()
        return
    document = json.loads(manifest.read_bytes())
    entries = document["body"]["arrays"]
    entry = rng.choice(list(entries.values()))
    one = manifest.parent / entry["file"]
    if one in arrays:
        changed_array(rng, one)
        try:
            array = np.load(one)
            shape, kind = list(array.shape), array.dtype.str
        except ValueError:
            shape, kind = [1], "|O"
        digest = hashlib.sha256(one.read_bytes()).hexdigest()
        entry |= {"sha256": digest, "bytes": one.stat().st_size, "shape": shape, "dtype": kind}
    manifest.write_bytes(sealed(document))


def damage_text(rng: random.Random, path: Path) -> None:
    """Damage a text file in place, in most cases by changed lines, otherwise by changed bytes."""
    change = changed_lines if rng.random() < 0.7 else changed_bytes
    path.write_bytes(change(rng, path.read_bytes()))


def damage_folder_of_lines(rng: random.Random, folder: Path) -> None:
    """Damage one file of a data set's folder."""
    file = rng.choice(sorted(one for one in folder.iterdir() if one.is_file()))
    if file.suffix == ".npy" and rng.random() < 0.5:
        changed_array(rng, file)
    else:
        (damage_text if file.suffix != ".npy" else lambda r, p: p.write_bytes(changed_bytes(r, p.read_bytes())))(
            rng, file
        )


def pipelines() -> list[FusionPipeline]:
    """Return pipelines that together contain every kind of setting that can be saved."""
    ecdf = fit_reference_ecdf(np.linspace(0.0, 1.0, 60) ** 2)
    return [
        FusionPipeline(),
        FusionPipeline.paper(),
        FusionPipeline(
            calibrators={"vector": ecdf},
            weights={"vector": 0.4, "graph": 0.6},
            accept=AcceptancePolicy({"vector": 0.3}, confidence=Confidence(0.2)),
            priors=(RecencyPrior(half_life=1e7), UnitPrior("importance")),
            confidence=ConfidenceModel(bar=0.3),
            selection=SelectionPolicy("top"),
        ),
    ]


def use_pipeline(path: Path) -> None:
    FusionPipeline.load(path).decide(RANKINGS)


def use_graph(path: Path) -> None:
    GraphSource(load_graph(path)).search("Who met Ada Lovelace?", 5, {})


def use_index(path: Path) -> None:
    index = GraphIndex.load(path)
    GraphSource(index.graph).search("Where is Page 3?", 5, {})


def use_chunks(path: Path) -> None:
    ChunkGraph.load(path)


def use_tree(path: Path) -> None:
    tree = SummaryTree.load(path)
    tree.source(lambda query: [1.0] * 4).search("Who met Ada Lovelace?", 5, {})
    tree.add([{"id": "new", "text": "Ada met Bo."}], [[1.0] * 4])


def use_folder(path: Path) -> None:
    from langchain_phasegraph import EntityGraphRetriever

    EntityGraphRetriever.load(path).invoke("Who met Ada Lovelace?")


def use_run(path: Path) -> None:
    read_run(path)


def use_openie(path: Path) -> None:
    build_graph(PASSAGES, triples=read_openie(path, PASSAGES).extractions)


def use_dataset(path: Path) -> None:
    load_dataset(path)


def make_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def make_dataset(folder: Path) -> Path:
    folder.mkdir()
    make_lines(folder / "corpus.jsonl", PASSAGES)
    make_lines(
        folder / "queries.jsonl",
        [
            {"id": f"q{row}", "question": f"Who met Person {row}?", "hops": [f"p{row}"], "last_hop_known": True}
            for row in range(5)
        ],
    )
    rng = np.random.default_rng(1)
    np.save(folder / "passages.f16.npy", rng.standard_normal((12, 8)).astype(np.float16))
    np.save(folder / "queries.f16.npy", rng.standard_normal((5, 8)).astype(np.float16))
    make_lines(folder / "triples.jsonl", [{"id": one["id"], "triples": [["Ada", "met", "Bo"]]} for one in PASSAGES])
    return folder


Damage = Callable[[random.Random, Path], None]
Kind = tuple[int, list[Path], Damage, Callable[[Path], None]]


def kinds(base: Path) -> dict[str, Kind]:
    """Return the kinds of damaged files by name: a weight, the original files, the damage, and the loading function."""
    from langchain_core.documents import Document

    from langchain_phasegraph import EntityGraphRetriever

    saved = []
    for row, one in enumerate(pipelines()):
        one.save(base / f"pipeline{row}.json")
        saved.append(base / f"pipeline{row}.json")
    graph = build_graph(PASSAGES)
    save_graph(graph, base / "graph")
    GraphIndex.build(PASSAGES).save(base / "index")
    texts = [f"def f{row}(x): return f{(row + 1) % 6}(x)" for row in range(6)]
    build_chunk_graph([{"id": f"c{row}", "text": text} for row, text in enumerate(texts)]).save(base / "chunks")
    SummaryTree.build(PASSAGES, np.random.default_rng(1).standard_normal((12, 4))).save(base / "tree")
    documents = [Document(one["text"], id=one["id"], metadata={"title": one["title"]}) for one in PASSAGES]
    EntityGraphRetriever.from_documents(documents).save(base / "folder")
    (base / "a.run").write_text(
        "".join(f"q{row} Q0 p{hit} {hit + 1} {9 - hit}.5 tag\n" for row in range(4) for hit in range(5)),
        encoding="utf-8",
    )
    (base / "a.qrels").write_text("".join(f"q{row} 0 p{row} 1\n" for row in range(6)), encoding="utf-8")
    run = make_lines(
        base / "b.jsonl", [{"query": f"q{row}", "ids": ["p1", "p2"], "scores": [2.0, 1.0]} for row in range(4)]
    )
    said = make_lines(base / "c.jsonl", [{"query": f"q{row}", "answer": "Bo", "system": "s"} for row in range(4)])
    facts = make_lines(
        base / "d.jsonl",
        [{"id": one["id"], "entities": ["Ada", "Bo"], "triples": [["Ada", "met", "Bo"]]} for one in PASSAGES],
    )
    corpus = make_lines(base / "e.jsonl", PASSAGES)
    return {
        "pipeline": (40, saved, damage_document, use_pipeline),
        "graph": (12, [base / "graph"], damage_bundle, use_graph),
        "index": (8, [base / "index"], damage_bundle, use_index),
        "chunk graph": (8, [base / "chunks"], damage_bundle, use_chunks),
        "summary tree": (4, [base / "tree"], damage_bundle, use_tree),
        "folder": (4, [base / "folder"], damage_bundle, use_folder),
        "run": (10, [base / "a.run", run], damage_text, use_run),
        "qrels": (4, [base / "a.qrels"], damage_text, lambda path: read_qrels(path) and None),
        "predictions": (4, [said], damage_text, lambda path: read_predictions(path) and None),
        "extractions": (4, [facts], damage_text, use_openie),
        "corpus": (3, [corpus], damage_text, lambda path: read_corpus(path) and None),
        "data set": (3, [make_dataset(base / "data")], damage_folder_of_lines, use_dataset),
    }


def hostile(rng: random.Random) -> str:
    return "".join(rng.choice([*HOSTILE, "Ada ", "Lovelace", " met "]) for _ in range(rng.randint(1, 3)))[:3000]


class Words:
    """A generator of hostile ids, titles, texts and queries."""

    def __init__(self) -> None:
        from langchain_core.documents import Document
        from llama_index.core.schema import TextNode

        from langchain_phasegraph import PhaseGraphRetriever
        from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

        self.document, self.node = Document, TextNode
        self.langchain, self.llamaindex = PhaseGraphRetriever, CalibratedFusionRetriever
        graph = build_graph(PASSAGES)
        self.sources = (GraphSource(graph), LexicalSource(graph))

    def case(self, rng: random.Random) -> None:
        act = rng.randrange(5)
        if act == 0:
            for source in self.sources:
                source.search(hostile(rng), 5, {})
        elif act == 1:
            passages = [{"id": hostile(rng), "title": hostile(rng), "text": hostile(rng)} for _ in range(3)]
            GraphSource(build_graph([*passages, *PASSAGES[:3]])).search(hostile(rng), 5, {})
        elif act == 2:
            ids = [hostile(rng) for _ in range(4)]
            ranking = Ranking.from_hits(hostile(rng), ids, [rng.choice(VALUES) for _ in ids])
            result = FusionPipeline().decide([ranking, *RANKINGS])
            if not np.isfinite(result.fused).all():
                raise ArithmeticError("a fused value is not finite")
        elif act == 3:
            hits = [(self.document(hostile(rng), id=hostile(rng) or None), rng.random()) for _ in range(4)]
            self.langchain(vector=lambda query: hits, graph=self.sources[0]).invoke(hostile(rng))
        else:
            nodes = [(self.node(text=hostile(rng), id_=hostile(rng)), rng.random()) for _ in range(4)]
            self.llamaindex(vector=lambda query: nodes, graph=self.sources[0]).retrieve(hostile(rng))


class StuckError(BaseException):
    """Raised if a case takes more time than allowed."""


def _stuck(*_: object) -> None:
    raise StuckError(f"more than {LONGEST} s")


def child(seed: int, first: int, count: int, step: int, seconds: float, base: Path, progress: Path) -> None:
    """Run every `step`-th case from number `first`, and print the numbers of outcomes as a line of JSON.

    The file `progress` names the present case, so that a case that ends the process can be found.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _stuck)
    os.environ[SENTINEL] = str(base / "sentinel")
    with quiet():
        made, words = kinds(base), Words()
        names = list(made)
        weights = [made[name][0] for name in names]
        counts: Counter[str] = Counter()
        examples: dict[str, str] = {}
        begun = time.monotonic()
        for number in range(first, first + count * step, step):
            if seconds and time.monotonic() - begun > seconds:
                break
            progress.write_text(f"{number} {json.dumps([counts, examples])}") if number % 500 < step else None
            rng = random.Random(f"{seed} {number}")
            kind = "words" if rng.random() < 0.2 else rng.choices(names, weights)[0]
            outcome = one_case(rng, kind, made, words, base / "work", progress, number)
            counts[f"{kind}: {outcome.splitlines()[0]}"] += 1
            if outcome not in ("success", "refused") and outcome.splitlines()[0] not in examples:
                examples[outcome.splitlines()[0]] = f"--seed {seed} --first {number} --cases 1: {kind}: {outcome}"
            if (base / "sentinel").exists():
                counts[f"{kind}: CODE RAN"] += 1
                examples["CODE RAN"] = f"--seed {seed} --first {number}"
                (base / "sentinel").rmdir()
    print(json.dumps({"counts": counts, "examples": examples}))


def one_case(
    rng: random.Random, kind: str, made: dict[str, Kind], words: Words, work: Path, progress: Path, number: int
) -> str:
    """Run case `number` of the given kind; return ``success``, ``refused``, or a description of the problem."""
    path = work
    if kind != "words":
        _, originals, damage, use = made[kind]
        original = rng.choice(originals)
        path = work / original.name
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (shutil.copytree if original.is_dir() else shutil.copy)(original, path)
        damage(rng, path)
    current = progress.with_suffix(".current")
    current.write_text(f"{number} {kind}")
    signal.alarm(LONGEST)
    try:
        words.case(rng) if kind == "words" else use(path)
        return "success"
    except PhasegraphError:
        return "refused"
    except StuckError as error:
        return f"stuck: {error}"
    except BaseException as error:  # noqa: BLE001 - counted
        where = traceback.extract_tb(error.__traceback__)[-1]
        lines = [f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)[-6:]]
        return (
            f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}\n{error!s:.200}\n{' > '.join(lines)}"
        )
    finally:
        signal.alarm(0)


def main() -> None:
    if len(sys.argv) == 9 and sys.argv[1] == "--child":
        seed, first, count, step = map(int, sys.argv[2:6])
        child(seed, first, count, step, float(sys.argv[6]), Path(sys.argv[7]), Path(sys.argv[8]))
        return
    given = arguments(__doc__, cases=200_000, seconds=0, first=0, seed=1)
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        running: dict[subprocess.Popen[str], tuple[Path, int]] = {}

        def start(first: int, last: int, step: int) -> None:
            base = Path(tempfile.mkdtemp(dir=folder))
            left = max(1.0, given.seconds - (time.monotonic() - begun)) if given.seconds else 0
            numbers = [given.seed, first, max(0, -(-(last - first) // step)), step, left]
            command = [sys.executable, __file__, "--child", *map(str, numbers), str(base), str(base / "progress")]
            running[subprocess.Popen(command, stdout=subprocess.PIPE, text=True)] = (base, last)

        last, workers = given.first + given.cases, min(WORKERS, given.cases)
        for worker in range(workers):
            start(given.first + worker, last, workers)
        shown = bar(iter(lambda: bool(running), False), "fuzz (half-seconds)")
        for _ in shown:
            time.sleep(0.5)
            for process in [one for one in running if one.poll() is not None]:
                base, end = running.pop(process)
                said = process.communicate()[0]
                if process.returncode == 0:
                    found = json.loads(said.splitlines()[-1])
                    counts.update(found["counts"])
                    examples = {**found["examples"], **examples}
                    continue
                if process.returncode > 0 or not (base / "progress.current").exists():
                    raise RuntimeError(f"a worker ended with {process.returncode}")
                number, kind = (base / "progress.current").read_text().split(" ", 1)
                what = f"the process ended with {process.returncode}"
                counts[f"{kind}: {what}"] += 1
                examples.setdefault(what, f"--seed {given.seed} --first {number} --cases 1: {kind}")
                if (base / "progress").exists():
                    kept = json.loads((base / "progress").read_text().split(" ", 1)[1])
                    counts.update(kept[0])
                    examples = {**kept[1], **examples}
                start(int(number) + workers, end, workers)
    table: dict[str, dict[str, int]] = {}
    for key, count in counts.items():
        kind, outcome = key.split(": ", 1)
        table.setdefault(kind, {})[outcome] = count
    wrong = {key: count for key, count in counts.items() if key.split(": ", 1)[1] not in ("success", "refused")}
    figures = {
        "cases_run": sum(counts.values()),
        "kinds": table,
        "code_run": sum(count for key, count in counts.items() if key.endswith("CODE RAN")),
        "examples": examples,
        "run_seconds": round(time.monotonic() - begun, 1),
    }
    finish("fuzz", given, figures, [f"{key}: {count} times" for key, count in sorted(wrong.items())])


if __name__ == "__main__":
    main()
