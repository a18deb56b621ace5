"""Check that all answers have one digest: ``python tools/reliability/determinism.py [--questions 250] [--seeds 20]``.

The same questions are asked in separate processes with different values of PYTHONHASHSEED. In both frameworks, they are
asked with the sources in each of their six orders, synchronously and asynchronously. Ids, texts, scores, fused values
and contributions of all answers must have the same SHA-256. In every second process, sources fail for a fifth of the
questions; these processes have their own common SHA-256. ``--json FILE`` writes the figures.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from itertools import permutations
from typing import Any

from fusers import NAMES, OURS, Answered, question
from runs import arguments, bar, finish, quiet

from phasegraph.testing import FAILING, HARMLESS, FaultPlan

KINDS = [kind for kind in (*FAILING, *HARMLESS, "empty") if kind not in ("text", "wrong name")]


def digest(answers: list[Answered | str]) -> str:
    """Return the SHA-256 of answers: ids, texts, failed sources, and all scores to the bit."""
    said = hashlib.sha256()
    for one in answers:
        text = one if isinstance(one, str) else repr((one.passages, one.degraded and sorted(one.degraded)))
        said.update(text.encode())
        said.update(b"" if isinstance(one, str) else one.bits)
    return said.hexdigest()


def asked(fuser: Any, queries: list[str]) -> list[Answered | str]:
    """Return the retriever's answers to the queries; if a call raises, the error's name."""
    out: list[Answered | str] = []
    for query in queries:
        try:
            out.append(fuser.ask(query))
        except Exception as error:  # noqa: BLE001 - it is part of what must be the same
            out.append(type(error).__name__)
    return out


async def awaited(fuser: Any, queries: list[str]) -> list[Answered | str]:
    """Return the retriever's answers to the queries by asynchronous calls; if a call raises, the error's name."""
    out: list[Answered | str] = []
    for query in queries:
        try:
            out.append(await fuser.aask(query))
        except Exception as error:  # noqa: BLE001 - it is part of what must be the same
            out.append(type(error).__name__)
    return out


def child(questions: int, faulty: bool) -> dict[str, list[str]]:
    """Return the different digests that occur in this process, by framework; there should be only one.

    All questions are asked with the sources in each of their six orders, synchronously and asynchronously.
    """
    plan = FaultPlan(0.2, KINDS, seed=2) if faulty else None
    queries = [question(number) for number in range(questions)]
    found: dict[str, set[str]] = {}
    with quiet():
        for name, fuser in OURS.items():
            for order in permutations(NAMES):
                made = fuser(order, plan=plan, timeout=60.0)
                found.setdefault(name, set()).add(digest(asked(made, queries)))
                found[name].add(digest(asyncio.run(awaited(made, queries))))
    return {name: sorted(said) for name, said in found.items()}


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        print(json.dumps(child(int(sys.argv[2]), sys.argv[3] == "1")))
        return
    given = arguments(__doc__, questions=250, seeds=20)
    found: dict[str, set[str]] = {}
    for seed in bar(range(given.seeds), "hash seeds", given.seeds):
        command = [sys.executable, __file__, "--child", str(given.questions), str(seed % 2)]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
        for digests in json.loads(said.splitlines()[-1]).values():
            found.setdefault("with faults" if seed % 2 else "without faults", set()).update(digests)
    broken = [f"{name}: {len(digests)} digests" for name, digests in sorted(found.items()) if len(digests) > 1]
    figures = {"orders": 6, "ways": 2, "digests": {name: sorted(digests) for name, digests in found.items()}}
    finish("determinism", given, figures, broken)


if __name__ == "__main__":
    main()
