"""An index of two tenants, whose texts hold words of their own, in a folder."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.suites.manual_time import PATIENCE, clock, hang  # noqa: F401 - fixtures

from phasegraph.graph import GraphIndex

TOKENS = {"red": "red-" + "r" * 20, "blue": "blue-" + "b" * 20}
PLACES = ["Leytonstone", "Oslo", "Rome", "Kyoto", "Lima", "Cairo", "Perth", "Quito"]


def embed(query: str) -> np.ndarray:
    """A vector by the letters of a text: enough to be near to itself."""
    vector = np.zeros(26, dtype=np.float32)
    for one in query.lower():
        if "a" <= one <= "z":
            vector[ord(one) - 97] += 1
    return vector / max(1.0, float(np.linalg.norm(vector)))


def corpus() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for team in ("red", "blue"):
        for row, place in enumerate(PLACES):
            rows.append(
                {
                    "id": f"{team}-{row}",
                    "title": f"{team.title()} {place}",
                    "text": f"{place} is where agent {team}secret{row} met {team.title()} Keeper in {1950 + row}.",
                    "metadata": {"team": team, "level": row % 3},
                }
            )
    return rows


@pytest.fixture(scope="session")
def index() -> GraphIndex:
    rows = corpus()
    return GraphIndex.build(rows, embeddings=np.stack([embed(f"{one['title']} {one['text']}") for one in rows]))


@pytest.fixture(scope="session")
def folder(index: GraphIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "index"
    index.save(path)
    return path


@pytest.fixture(scope="session")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tenants") / "tenants.json"
    path.write_text(json.dumps({one: {"token": token, "filter": {"team": one}} for one, token in TOKENS.items()}))
    return path


def command(*arguments: str) -> list[str]:
    return [
        sys.executable,
        "-c",
        "import sys; from phasegraph.apps.cli import main; sys.exit(main())",
        "serve",
        *arguments,
    ]


def failed(answer: Any) -> bool:
    """Whether a tool's answer is an error, in the words of version 1 or 2 of the SDK."""
    return bool(answer.isError if hasattr(answer, "isError") else answer.is_error)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def told_address(process: subprocess.Popen[str]) -> str:
    """The address of a server, which it prints last when it starts."""
    for line in process.stderr or ():
        if found := re.search(r"http://\S+:[0-9]+", line):
            return found[0]
    raise AssertionError("the server ended")


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[str]:
    """A server in a process of its own; its address."""
    port = free_port()
    process = subprocess.Popen(
        command(*arguments, "--transport", "http", "--port", str(port)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(process.stderr.read() if process.stderr else "")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="session")
def served(folder: Path, tenants: Path) -> Iterator[str]:
    with running(str(folder), "--tenants", str(tenants)) as address:
        yield address
