"""Measure whole calls over real stores, beside the frameworks' own fusion: processor, wall time, first call, memory.

    python tools/benchmarks/end_to_end.py [--stores faiss chroma memory simple llama-faiss]
        [--passages 4000 10000 100000] [--systems NAME ...] [--callers 1 8] [--questions 200]
        [--json FILE] [--page FILE]

The stores are LangChain's FAISS, Chroma and InMemoryVectorStore, and LlamaIndex's SimpleVectorStore (`simple`) and
FaissVectorStore (`llama-faiss`). Each system requests 10 passages per question. The bundled passages and their vectors
are repeated up to the number of passages, with changed names and with noise in the vectors. A question's embedding is
looked up.

Every system runs in a separate process. The reason: the BLAS threads of a library continue to run for a while after a
call, and their time would be added to the next call. Processor time is the time of the whole process with its threads,
over blocks of 20 questions with pauses of 100 ms between them; the table has the median block and the fastest block.
The table also states the load of the machine. On a busy machine, use only processor times and their ratios. Wall times,
and the throughput of eight asynchronous callers relative to one caller, need a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from index_speed import BUNDLED, corpus

warnings.filterwarnings("ignore")
K, BLOCK, NOISE = 10, 20, 0.35
LANGCHAIN, LLAMA_INDEX = ("faiss", "chroma", "memory"), ("simple", "llama-faiss")
SYSTEMS = {
    "ours": "vectors, words and walk",
    "ours-no-walk": "vectors and words",
    "peer": "EnsembleRetriever(vector, BM25Retriever); QueryFusionRetriever(vector, BM25Retriever)",
    "peer-bm25s": "EnsembleRetriever(vector, bm25s)",
}


class Data(NamedTuple):
    """Passages with their vectors, and questions with their vectors."""

    rows: list[dict[str, str]]
    vectors: Any
    asked: dict[str, list[float]]


class Asking(NamedTuple):
    """The functions that ask a system a question: a function, and a coroutine function."""

    ask: Callable[[str], object]
    aask: Callable[[str], Awaitable[object]]


def data(passages: int, questions: int) -> Data:
    """Return the bundled passages, repeated up to `passages`, and the bundled questions, repeated up to `questions`."""
    folder, draw = BUNDLED.parent, np.random.default_rng(0)
    own = np.load(folder / "passages.f16.npy").astype(np.float32)
    copies = -(-passages // len(own))
    rows = corpus(BUNDLED, copies)[:passages]
    vectors = np.concatenate([own, *(own + _noise(draw, own.shape) for _ in range(copies - 1))])[:passages]
    texts = [json.loads(line)["question"] for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    near = np.load(folder / "queries.f16.npy").astype(np.float32)
    known = {}
    for number in range(questions):  # a question asked again is another one: words are kept for the last ones
        row = number % len(texts)
        text = texts[row] if number < len(texts) else f"{texts[row]} ({number})"
        known[text] = _unit(near[row] + (0 if number < len(texts) else _noise(draw, near[row].shape) / 4)).tolist()
    return Data(rows, _unit(vectors), known)


def _noise(draw: np.random.Generator, shape: Any) -> Any:
    return (NOISE / np.sqrt(shape[-1]) * draw.standard_normal(shape)).astype(np.float32)


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def in_langchain(store: str, system: str, held: Data) -> Asking:
    """Build the system over the LangChain store with the given name, and return the functions that ask it."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    class Known(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return held.vectors[[place[text] for text in texts]].tolist()

        def embed_query(self, text: str) -> list[float]:
            return held.asked[text]

    place = {row["text"]: at for at, row in enumerate(held.rows)}
    documents = [Document(row["text"], id=row["id"], metadata={"title": row["title"]}) for row in held.rows]
    ids, texts = [row["id"] for row in held.rows], [row["text"] for row in held.rows]
    titles = [{"title": row["title"]} for row in held.rows]
    vectors: Any
    if store == "faiss":
        from langchain_community.vectorstores import FAISS

        vectors = FAISS.from_embeddings(zip(texts, held.vectors, strict=True), Known(), metadatas=titles, ids=ids)
    elif store == "memory":
        from langchain_core.vectorstores import InMemoryVectorStore

        vectors = InMemoryVectorStore(Known())
        vectors.add_documents(documents, ids=ids)
    else:
        import chromadb
        from langchain_chroma import Chroma

        vectors = Chroma("end-to-end", Known(), client=chromadb.EphemeralClient())
        for start in range(0, len(ids), 5000):
            part = slice(start, start + 5000)
            vectors._collection.add(
                ids=ids[part], embeddings=held.vectors[part], documents=texts[part], metadatas=titles[part]
            )
    found = _langchain_system(system, vectors, documents)
    return Asking(found.invoke, found.ainvoke)


def _langchain_system(system: str, vectors: Any, documents: Sequence[Any]) -> Any:
    if system.startswith("ours"):
        from langchain_phasegraph import PhaseGraphRetriever

        whole = PhaseGraphRetriever.from_vectorstore(vectors, k=K, progress=False)
        if system == "ours":
            return whole
        return PhaseGraphRetriever(vector=vectors, retrievers={"bm25": whole.retrievers["bm25"]}, k=K)
    from langchain_classic.retrievers import EnsembleRetriever

    asked = vectors.as_retriever(search_kwargs={"k": K})
    if system == "peer":
        from langchain_community.retrievers import BM25Retriever

        return EnsembleRetriever(retrievers=[asked, BM25Retriever.from_documents(documents, k=K)])
    return EnsembleRetriever(retrievers=[asked, _bm25s(documents)])


def _bm25s(documents: Sequence[Any]) -> Any:
    import bm25s
    from langchain_core.retrievers import BaseRetriever

    class Words(BaseRetriever):
        index: Any
        documents: Any

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            tokens = bm25s.tokenize([query], stopwords="en", show_progress=False)
            found, _ = self.index.retrieve(tokens, k=K, show_progress=False)
            return [self.documents[row] for row in found[0]]

    index = bm25s.BM25()
    texts = [f"{one.metadata['title']}\n{one.page_content}" for one in documents]
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    return Words(index=index, documents=documents)


def in_llama_index(store: str, system: str, held: Data) -> Asking:
    """Build the system over the LlamaIndex store with the given name, and return the functions that ask it."""
    from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
    from llama_index.core.schema import QueryBundle, TextNode

    rows = zip(held.rows, held.vectors.tolist(), strict=True)
    nodes = [
        TextNode(id_=row["id"], text=row["text"], metadata={"title": row["title"]}, embedding=vector)
        for row, vector in rows
    ]
    context = None
    if store == "llama-faiss":
        import faiss
        from llama_index.vector_stores.faiss import FaissVectorStore

        width = held.vectors.shape[1]
        context = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(width)))
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=held.vectors.shape[1]), storage_context=context)
    found = _llama_index_system(system, index, nodes)
    bundles = {text: QueryBundle(text, embedding=vector) for text, vector in held.asked.items()}
    return Asking(lambda text: found.retrieve(bundles[text]), lambda text: found.aretrieve(bundles[text]))


def _llama_index_system(system: str, index: Any, nodes: Sequence[Any]) -> Any:
    if system.startswith("ours"):
        from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

        whole = CalibratedFusionRetriever.from_index(index, similarity_top_k=K, progress=False)
        if system == "ours":
            return whole
        bm25 = whole._by_name["bm25"].retriever
        return CalibratedFusionRetriever(vector=index, retrievers={"bm25": bm25}, similarity_top_k=K)
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever

    words = BM25Retriever.from_defaults(nodes=list(nodes), similarity_top_k=K)
    return QueryFusionRetriever(
        [index.as_retriever(similarity_top_k=K), words], llm=MockLLM(), similarity_top_k=K, num_queries=1,
        mode="reciprocal_rerank", use_async=False,
    )  # fmt: skip


def measure(store: str, system: str, passages: int, questions: int, callers: Sequence[int]) -> dict[str, Any]:
    """Measure one system in this process; return its times in milliseconds, and its memory."""
    held = data(passages, questions)
    before = time.process_time()
    asking = (in_langchain if store in LANGCHAIN else in_llama_index)(store, system, held)
    built = time.process_time() - before
    texts = list(held.asked)
    time.sleep(0.5)
    wall, cpu = time.perf_counter(), time.process_time()
    asking.ask(texts[0])
    found: dict[str, Any] = {
        "store": store, "system": system, "passages": passages, "build_s": round(built, 1),
        "first_ms": _ms(time.process_time() - cpu), "first_wall_ms": _ms(time.perf_counter() - wall),
    }  # fmt: skip
    for text in texts[1:10]:
        asking.ask(text)
    for count in callers:
        for kind, run in (("sync", _threads), ("async", _coroutines)):
            found[f"{kind}_{count}"] = _blocks(lambda part, run=run, count=count: run(asking, part, count), texts)
    found["memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    found["load"] = round(os.getloadavg()[0], 1)
    return found


def _blocks(run: Callable[[Sequence[str]], None], texts: Sequence[str]) -> dict[str, float]:
    """Return milliseconds for each question: median and lowest processor time, and median wall time, over blocks."""
    cpus, walls = [], []
    for start in range(0, len(texts) - BLOCK + 1, BLOCK):
        time.sleep(0.1)
        wall, cpu = time.perf_counter(), time.process_time()
        run(texts[start : start + BLOCK])
        cpus.append((time.process_time() - cpu) / BLOCK)
        walls.append((time.perf_counter() - wall) / BLOCK)
    return {"cpu_ms": _ms(median(cpus)), "least_cpu_ms": _ms(min(cpus)), "wall_ms": _ms(median(walls))}


def _threads(asking: Asking, texts: Sequence[str], callers: int) -> None:
    if callers == 1:
        for text in texts:
            asking.ask(text)
        return
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(asking.ask, texts))


def _coroutines(asking: Asking, texts: Sequence[str], callers: int) -> None:
    async def caller(part: Sequence[str]) -> None:
        for text in part:
            await asking.aask(text)

    async def all_of_them() -> None:
        await asyncio.gather(*(caller(texts[first::callers]) for first in range(callers)))

    asyncio.run(all_of_them())


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def line(row: dict[str, Any], peer: dict[str, Any] | None, callers: Sequence[int]) -> str:
    """Return one line of the printed table, with ratios to the processor time of `peer`, the framework's own fusion."""
    texts = [
        f"{row['store']:<12}{row['passages']:>8,} {row['system']:<13}{row['build_s']:>7.1f} s{row['first_ms']:>9.1f}"
    ]
    for count in callers:
        for kind in ("sync", "async"):
            own = row[f"{kind}_{count}"]
            ratio = "" if peer is None else f" ({own['cpu_ms'] / peer[f'{kind}_{count}']['cpu_ms']:.2f})"
            texts.append(f"{own['cpu_ms']:>8.2f}{ratio:<8}{own['wall_ms']:>8.2f}")
    gain = throughput(row)
    more = "" if gain is None else f" eight async: x {gain:.2f} |"
    return " |".join([*texts, f"{more}{row['memory_mb']:>6} MB, load {row['load']}"])


def throughput(row: dict[str, Any]) -> float | None:
    """Return the questions per second of eight asynchronous callers, divided by those of one; None if not measured."""
    if not {"async_1", "async_8"} <= row.keys():
        return None
    return float(row["async_1"]["wall_ms"] / row["async_8"]["wall_ms"])


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the page's table: processor time, its ratio to the first peer over the same store and size, wall time."""
    asked = ("sync_1", "async_1", "sync_8", "async_8")
    heads = ["store", "passages", "system", "first call", *(one.replace("_", ", ") for one in asked)]
    heads += ["eight async callers over one", "MB", "load"]
    lines = [heads, ["---"] * len(heads)]
    peers: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        peer = peers.setdefault((row["store"], row["passages"]), row)
        cells = [
            f"{row[one]['cpu_ms']:.1f} (× {row[one]['cpu_ms'] / peer[one]['cpu_ms']:.2f}), {row[one]['wall_ms']:.1f}"
            for one in asked
        ]
        named = [row["store"], f"{row['passages']:,}", f"`{row['system']}`", f"{row['first_ms']:.0f}"]
        lines.append([*named, *cells, f"× {throughput(row):.2f}", f"{row['memory_mb']:,}", str(row["load"])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", nargs="+", default=[*LANGCHAIN, *LLAMA_INDEX], choices=[*LANGCHAIN, *LLAMA_INDEX])
    parser.add_argument("--passages", nargs="+", type=int, default=[4_000, 10_000, 100_000])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--callers", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="a file of --json: print its table in Markdown, measure nothing")
    parser.add_argument("--one", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.page:
        print(page(json.loads(options.page.read_text(encoding="utf-8"))))
        return
    if options.one:
        row = measure(options.stores[0], options.systems[0], options.passages[0], options.questions, options.callers)
        print(json.dumps(row))
        return
    heads = (f"{kind} {count}: cpu (ratio), wall ms" for count in options.callers for kind in ("sync", "async"))
    print("store, passages, system, build | first ms |", " | ".join(heads), flush=True)
    rows = []
    for store in options.stores:
        for passages in options.passages:
            peer = None
            wanted = [one for one in ("peer-bm25s", "peer", "ours-no-walk", "ours") if one in options.systems]
            for system in wanted:
                if system == "peer-bm25s" and store in LLAMA_INDEX:
                    continue  # its BM25Retriever is bm25s already
                command = [sys.executable, __file__, "--one", "--stores", store, "--systems", system]
                command += ["--passages", str(passages), "--questions", str(options.questions)]
                command += ["--callers", *map(str, options.callers)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{store} {passages} {system}: {done.stderr.strip().splitlines()[-1]}", flush=True)
                    continue
                rows.append(json.loads(done.stdout.splitlines()[-1]))
                print(line(rows[-1], peer, options.callers), flush=True)
                peer = peer or (rows[-1] if system.startswith("peer") else None)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
