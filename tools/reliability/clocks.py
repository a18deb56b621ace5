"""Set the wall clock back and forth by up to ten years: ``python tools/reliability/clocks.py``.

A preloaded C library (clocks.c, built by ``cc``) makes every reading of the wall clock wrong. After each change of a
folder, the folder's files get times in the past or in the future. Three things must have the same result, to the bit,
as with the true clock: searches with a deadline and a circuit breaker, changes and merges of a folder, and a process
that follows the folder. Linux only.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from runs import arguments, finish, quiet

DEADLINE, PROBE = 0.5, 1.0
"""Seconds of a search, and until a source that failed is asked again."""


def searches(count: int, wrong: list[str]) -> dict[str, int]:
    """Ask a sound source and a source that hangs and later recovers; return how many searches were made and skipped.

    A skipped search leaves out the hanging source by its circuit breaker. Problems are added to `wrong`.
    """
    from phasegraph.sources import BreakerSettings, CallableSource, Gatherer, SourceSettings

    back = threading.Event()
    settings = {
        "sound": SourceSettings(),
        "late": SourceSettings(circuit_breaker=BreakerSettings(failures=2, probe_interval=PROBE)),
    }
    gatherer = Gatherer(settings, timeout=DEADLINE)

    def late(query: str, limit: int | None) -> list[tuple[str, float]]:
        back.wait(60)
        return [("late", 1.0)]

    sources = {
        "sound": CallableSource("sound", lambda query, limit: [("sound", 1.0)]),
        "late": CallableSource("late", late),
    }

    def ask() -> str:
        found = gatherer.gather(sources, "who?")
        if "sound" not in {one.source for one in found.rankings}:
            wrong.append("a sound source is lost beside a late source")
        (status,) = (one.status for one in found.reports if one.source == "late")
        return status

    told = [ask() for _ in range(count)]
    if "ok" in told or told[:2] != ["timeout", "timeout"]:
        wrong.append(f"a source that hangs is reported as {told[:3]}")
    back.set()
    began = time.monotonic()
    while ask() != "ok":
        if time.monotonic() - began > 20 * PROBE:
            wrong.append("a source that is back is not asked again")
            break
        time.sleep(0.05)
    return {"searches": count, "left out by the breaker": sum(one not in ("ok", "timeout") for one in told)}


def changes(count: int, root: Path, wrong: list[str]) -> dict[str, Any]:
    """Change a folder `count` times while another reader follows it; return a digest of the final content.

    Changes are merged in between. Problems are added to `wrong`.
    """
    from phasegraph.graph import GraphIndex
    from phasegraph.graph.corpus import merging
    from phasegraph.graph.corpus.corpus import Corpus
    from phasegraph.graph.corpus.folder import Folder
    from phasegraph.graph.corpus.opening import FollowedIndex

    merging.FEWEST_CHANGED, merging.MOST_CHANGED = 12, 0.0
    draw = random.Random(1)

    def passage(name: str) -> dict[str, Any]:
        text = f"Ada {draw.randrange(30)} met Bo {draw.randrange(30)} in Oslo."
        return {"id": name, "title": f"Ada {draw.randrange(30)}", "text": text, "metadata": {}}

    index = GraphIndex.build([passage(f"p{number}") for number in range(40)])
    corpus = Corpus(index, folder=Folder.create(root / "folder", index, {}))
    reader = FollowedIndex(root / "folder")
    missed = 0
    for number in range(count):
        name = draw.choice(list(corpus.index.records))
        corpus.replace([name], [passage(name), passage(f"q{number}")])
        corpus.settle()
        for file in (root / "folder").rglob("*.json"):
            moment = time.time() + draw.uniform(-1e9, 1e9) / 3
            os.utime(file, (moment, abs(moment)))
        missed += not reader.refresh()
        if [*map(str, reader.index.records.values())] != [*map(str, corpus.index.records.values())]:
            wrong.append(f"the reader has other passages after change {number}")
            break
    if missed:
        wrong.append(f"the reader missed {missed} changes")
    again = Folder(root / "folder").load()[0]
    graph = again.graph
    parts = [json.dumps([graph.passages, graph.entities]).encode(), *(getattr(graph.adjacency, name).tobytes()
             for name in ("data", "indices", "indptr"))]  # fmt: skip
    left = len(list((root / "folder" / "changes").glob("0*")))
    if left >= count:
        wrong.append("nothing was merged")
    return {"changes": count, "digest": hashlib.sha256(b"".join(parts)).hexdigest()}


def main() -> None:
    """Run one process with the true clock and another with the changing clock, and report whether they differ."""
    if len(sys.argv) == 3 and sys.argv[1] == "--child":
        wrong: list[str] = []
        with tempfile.TemporaryDirectory() as root, quiet():
            given = json.loads(sys.argv[2])
            years = {time.gmtime().tm_year for _ in range(50)}
            found = {"years": len(years), **searches(given["searches"], wrong)}
            found |= changes(given["changes"], Path(root), wrong)
        print(json.dumps({"found": found, "wrong": wrong}))
        return
    asked = arguments(__doc__, searches=30, changes=30)
    figures: dict[str, dict[str, Any]] = {}
    broken: list[str] = []
    with tempfile.TemporaryDirectory() as built:
        library = Path(built) / "clocks.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        sizes = json.dumps({"searches": asked.searches, "changes": asked.changes})
        for name, preload in (("true", ""), ("set back and forth", str(library))):
            command = [sys.executable, __file__, "--child", sizes]
            env = {**os.environ, "LD_PRELOAD": preload, "XDG_CACHE_HOME": str(Path(built) / "cache")}
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            said = json.loads(done.stdout)
            figures[name] = said["found"]
            broken += [f"{name}: {one}" for one in said["wrong"]]
    if figures["set back and forth"]["years"] < 5:
        broken.append("the clock was not moved")
    if len({one["digest"] for one in figures.values()}) > 1:
        broken.append("the folder has other contents")
    finish("clocks", asked, {"clocks": figures}, broken)


if __name__ == "__main__":
    main()
