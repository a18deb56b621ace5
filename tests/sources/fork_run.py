"""Forks while searches run, and says how many children answered: a script, since a forked pytest would run on."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import warnings

import numpy as np

from phasegraph.graph import GraphSource, build_graph
from phasegraph.sources import AsyncCallableSource, CallableSource, Gatherer, SourceSettings

CHILDREN, SECONDS = int(sys.argv[1]), 120.0


def source():
    """A walk of which everything is still to be worked out."""
    passages = [
        {"id": f"p{n}", "title": f"Title {n}", "text": f"Ada {n % 7} met Bo {n % 5} in Paris {n % 3}."}
        for n in range(200)
    ]
    vectors = np.random.default_rng(0).normal(size=(200, 8))
    graph = build_graph(passages, embeddings=vectors)
    return GraphSource(graph, embedder=lambda query: vectors[len(query) % 200])


async def fetched(query, limit):
    await asyncio.sleep(0.001)
    return [("p1", 1.0)]


def main():
    warnings.simplefilter("ignore")
    walks = [source() for _ in range(4)]
    gatherer = Gatherer(
        {"graph": SourceSettings(), "plain": SourceSettings(), "async": SourceSettings()}, timeout=SECONDS
    )
    plain = CallableSource("plain", lambda query, limit: [("p1", 1.0)])
    over = threading.Event()

    def ask(walk):
        sources = {"graph": walk, "plain": plain, "async": AsyncCallableSource("async", fetched)}
        return gatherer.gather(sources, "Whom did Ada 3 meet in Paris 1?")

    def search():
        while not over.is_set():
            ask(source())  # lazily made parts are being made when the fork comes
            ask(walks[0])

    for _ in range(6):
        threading.Thread(target=search, daemon=True).start()
    children = []
    for number in range(CHILDREN):
        time.sleep(0.005 + 0.003 * (number % 7))
        child = os.fork()
        if child == 0:
            try:
                found = ask(walks[number % 4])
                os._exit(0 if len(found.rankings) == 3 and not found.degraded else 1)
            except BaseException:  # noqa: BLE001 - the parent is told by the exit status
                os._exit(2)
        children.append(child)
    end, well = time.monotonic() + SECONDS + 15.0, 0
    over.set()
    for child in children:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                well += status == 0
                break
            if time.monotonic() > end:
                os.kill(child, 9)
                os.waitpid(child, 0)
                break
            time.sleep(0.01)
    print(f"{well} of {CHILDREN}")


main()
