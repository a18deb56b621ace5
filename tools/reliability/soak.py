"""Measure what remains after many calls: ``python tools/reliability/soak.py [--queries 100000] [--lists 300]``.

Each framework runs in a separate process, over vectors, an entity graph and words of 120 passages (``from_documents``
and ``from_nodes``). All questions differ. Every fourth question is asked by a coroutine on one event loop, and every
twentieth with a filter (one of 30 filters, more than the cache holds). The resident memory after the last question is
compared with the memory after a tenth of the questions. The numbers of threads, file descriptors and tasks must not
grow, and there may be at most 16 workers. Then a function as a source returns long lists of many lengths; memory is
compared in the same way. ``--json FILE`` writes the figures.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from fusers import document, node
from runs import arguments, bar, finish, held, quiet

PASSAGES, GROUPS, SIZE = 120, 30, 32
MOST_GROWTH, MOST_WORKERS = 1.02, 16
FRAMEWORKS = ("langchain", "llamaindex")
LONGEST, STEP = 50_000, 97


def vector(text: str) -> list[float]:
    """Return a made-up embedding of a text."""
    found = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(SIZE)
    return [float(value) for value in found / np.linalg.norm(found)]


def texts() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return, by id, the text and the metadata of each made-up passage."""
    return {
        f"p{row:03}": (
            f"Page {row} is about Person {row % 40}, who met Person {(row * 7) % 40} in Town {row % 11}.",
            {"title": f"Page {row}", "group": row % GROUPS},
        )
        for row in range(PASSAGES)
    }


def langchain() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return two functions that call phasegraph's LangChain retriever (the second asynchronously), and a third.

    The third makes, from a function that returns a long list of hits, a function that calls a retriever over it.
    """
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec

    class Made(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vector(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return vector(text)

        async def aembed_query(self, text: str) -> list[float]:
            return vector(text)

    passages = [Document(text, id=name, metadata=fields) for name, (text, fields) in texts().items()]
    retriever = PhaseGraphRetriever.from_documents(passages, Made(), progress=False)

    def within(group: int | None) -> dict[str, Any]:
        return {} if group is None else {"filter": {"group": group}}

    def long(fn: Callable[[str], Any]) -> Callable[[str], Any]:
        fields = HitFields(higher_is_better=True)
        return PhaseGraphRetriever(vector=SourceSpec(retriever=fn, fields=fields), fetch_k=None, timeout=60.0).invoke

    return (
        lambda query, group: retriever.invoke(query, **within(group)),
        lambda query, group: retriever.ainvoke(query, **within(group)),
        long,
    )


def llamaindex() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return two functions that call phasegraph's LlamaIndex retriever (the second asynchronously), and a third.

    The third makes, from a function that returns a long list of hits, a function that calls a retriever over it.
    """
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

    from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, HitFields, SourceSpec

    class Made(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return vector(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return vector(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return vector(query)

    passages = [TextNode(id_=name, text=text, metadata=fields) for name, (text, fields) in texts().items()]
    retriever = CalibratedFusionRetriever.from_nodes(passages, Made(), progress=False)

    def narrowed(group: int | None) -> Any:
        if group is None:
            return retriever
        return retriever.within(MetadataFilters(filters=[MetadataFilter(key="group", value=group)]))

    def long(fn: Callable[[str], Any]) -> Callable[[str], Any]:
        fields = HitFields(higher_is_better=True)
        spec = SourceSpec(retriever=fn, fields=fields)
        return CalibratedFusionRetriever(vector=spec, fetch_k=None, timeout=60.0).retrieve

    return (
        lambda query, group: narrowed(group).retrieve(query),
        lambda query, group: narrowed(group).aretrieve(query),
        long,
    )


async def questions(framework: str, count: int, ask: Callable[..., Any], aask: Callable[..., Any]) -> dict[str, Any]:
    """Ask all questions; return the resources of the process after a tenth of the questions and at the end."""
    begun, early, empty = time.perf_counter(), held(), 0
    for number in bar(range(count), f"{framework}, questions", count):
        if number == count // 10:
            early = held()
        query = f"Who met Person {number % 40} of Page {number % PASSAGES}, asked for the {number}th time?"
        group = number // 20 % GROUPS if number % 20 == 0 else None
        found = await aask(query, group) if number % 4 == 1 else ask(query, group)
        empty += not found
    seconds = time.perf_counter() - begun
    return {"queries": count, "empty": empty, "early": early, "late": held(), "seconds": round(seconds, 1)}


def lists(framework: str, count: int, made: Callable[[str], Any], long: Callable[..., Any]) -> dict[str, Any]:
    """Ask a source that returns long lists; return the resources after a tenth of the lists and at the end."""
    hits = [(made(f"p{row}"), 1.0 - row / LONGEST) for row in range(LONGEST)]
    ask = long(lambda query: hits[: LONGEST - STEP * int(query.split()[-1])])
    early = held()
    for number in bar(range(count), f"{framework}, long lists", count):
        if number == count // 10:
            early = held()
        if not ask(f"list {number}"):
            raise AssertionError(f"list {number} gave no answer")
    return {"lists": count, "longest": LONGEST, "early": early, "late": held()}


def measured(framework: str, queries: int, count: int) -> dict[str, Any]:
    """Ask all questions and long lists in one framework; return the resources of this process."""
    with quiet():
        ask, aask, long = {"langchain": langchain, "llamaindex": llamaindex}[framework]()
        made = {"langchain": document, "llamaindex": node}[framework]
        asked = asyncio.run(questions(framework, queries, ask, aask))
        return {**asked, "long_lists": lists(framework, count, made, long)}


def growth(row: dict[str, Any]) -> float:
    """Return the resident memory after all calls, divided by the resident memory after a tenth of the calls."""
    return round(row["late"]["resident_kb"] / row["early"]["resident_kb"], 4)


def main() -> None:
    if len(sys.argv) == 5 and sys.argv[1] == "--child":
        print(json.dumps(measured(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
        return
    given = arguments(__doc__, queries=100_000, lists=300)
    command = [sys.executable, __file__, "--child"]
    children = {
        name: subprocess.Popen(
            [*command, name, str(given.queries), str(given.lists)], stdout=subprocess.PIPE, text=True
        )
        for name in FRAMEWORKS
    }
    rows, broken = {}, []
    for name, child in children.items():
        said, _ = child.communicate()
        if child.returncode:
            broken.append(f"{name}: the run ended with {child.returncode}")
            continue
        row = rows[name] = json.loads(said.splitlines()[-1])
        for what, part in ((f"{name}, questions", row), (f"{name}, long lists", row["long_lists"])):
            part["growth"] = growth(part)
            if part["growth"] > MOST_GROWTH:
                broken.append(
                    f"{what}: the resident memory grew to {part['growth']} times its early value; the promise is at "
                    f"most {MOST_GROWTH} times"
                )
            for kind in ("threads", "descriptors", "tasks"):
                if part["early"][kind] != part["late"][kind]:
                    broken.append(f"{what}: {kind} were {part['early'][kind]} and are {part['late'][kind]}")
            if part["late"]["workers"] > MOST_WORKERS:
                broken.append(
                    f"{what}: {part['late']['workers']} workers are left; the promise is at most {MOST_WORKERS}"
                )
        if row["empty"]:
            broken.append(f"{name}: {row['empty']} answers were empty")
    finish("soak", given, {"most_growth": MOST_GROWTH, "frameworks": rows}, broken)


if __name__ == "__main__":
    main()
