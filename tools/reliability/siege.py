"""Honest clients of ``phasegraph serve`` beside hostile clients: ``python tools/reliability/siege.py``.

    python tools/reliability/siege.py --hostile 40 --honest 10 --seconds 60    the short form

A folder of made-up passages is served to several tenants by a process of its own. Honest clients ask a question about
once a second. In every second window, hostile clients do what :data:`HOSTILE` names; half of them have tokens of
tenants of their own. Every honest request must get an answer (status 200), which must contain the same passages as
without hostile clients. The p99 of the times must be at most twice the p99 of the quiet windows. These lie between the
hostile windows, so that other load of the machine affects both. In a third kind of window, the same hostile clients
attack another process (:func:`sink`). These windows show how much the hostile clients slow down honest answers only
because they use the same processors. They change no verdict. The hostile clients send the longest question that the
server answers by default, and questions about as long as the longest request. They run with a lower priority, because
it is assumed that they come from other machines and do not use this processor. On a busy machine, they therefore send
fewer requests than on an idle machine; the figures count their requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from runs import arguments, finish, percentiles

from phasegraph.apps.server.view import LONGEST_QUERY

PASSAGES, TENANTS, HOSTILE_TENANTS, SIZE = 2_400, 8, 4, 32
MOST_RATIO, WINDOW, WARM, CONNECTIONS, SINK_SECONDS = 2.0, 10.0, 2.0, 20, 2.5
"""Most p99 beside hostile clients over that in quiet; seconds of a window and of its start that do not count;
connections that one client holds open; seconds for which the sink holds an incomplete request, about as the server."""
NAMES = [f"team{number}" for number in range(TENANTS)]
TOKENS = {name: f"token-of-{name}-{'x' * 16}" for name in NAMES}
LONG = {"query": ("Who met Person 7 of Page 12 in Town 3? " * 200)[:LONGEST_QUERY], "k": 100}
TOO_LONG = {"query": "Who met Person 7 of Page 12 in Town 3? " * 6_000, "k": 100}
"""The longest question that the server answers, and a question about as long as the longest request."""
QUESTIONS = 40
LOG: list[str] = []
"""The lines of the server's log after its address; they are read at once, so that no line holds up the server."""


def vector(text: str) -> np.ndarray:
    """Return a made-up embedding of a text, for the folder and for ``--embedder siege:vector``."""
    found = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(SIZE)
    return np.asarray(found / np.linalg.norm(found), dtype=np.float32)


def make_folder(path: Path) -> None:
    """Write an index of the made-up passages of all tenants to the folder `path`."""
    from phasegraph.graph import GraphIndex

    rows = [
        {
            "id": f"{NAMES[row % TENANTS]}-{row}",
            "title": f"Page {row}",
            "text": f"Page {row} is about Person {row % 400}, who met Person {(row * 7) % 400} in Town {row % 110}.",
            "metadata": {"team": NAMES[row % TENANTS]},
        }
        for row in range(PASSAGES)
    ]
    GraphIndex.build(rows, embeddings=np.stack([vector(str(row["text"])) for row in rows])).save(path)


def request(path: str, body: bytes, token: str = "", close: bool = False) -> bytes:
    """Return the bytes of a whole HTTP request."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    head += ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
    head += [f"Authorization: Bearer {token}"] * bool(token) + ["Connection: close"] * close
    return "\r\n".join([*head, "", ""]).encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read the next HTTP answer, and return its status and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return int(head.split(None, 2)[1]), await reader.readexactly(int(length[1]) if length else 0)


def asking(path: str, body: Any, tokens: str = "own") -> Callable[..., Awaitable[None]]:
    """Return a hostile client that sends its next request as soon as it has the answer to the last request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def flood(port: int, token: str, counts: Counter[str]) -> None:
        sent = request(path, data, {"own": token, "none": "", "wrong": "x" * 40}[tokens])
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                while True:
                    writer.write(sent)
                    counts[str((await answer(reader))[0])] += 1
            except (OSError, asyncio.IncompleteReadError):
                counts["closed"] += 1
            finally:
                writer.close()

    return flood


def holding(first: bytes, more: bytes) -> Callable[..., Awaitable[None]]:
    """Return a hostile client that holds connections open: its requests never end, or it does not read the answers."""

    async def hold(port: int, token: str, counts: Counter[str]) -> None:
        async def one() -> None:
            while True:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                with suppress(OSError):
                    writer.write(first.replace(b"TOKEN", token.encode()))
                    while not writer.is_closing():
                        await writer.drain()
                        await asyncio.sleep(1)
                        writer.write(more)
                counts["closed"] += 1
                writer.close()

        await asyncio.gather(*(one() for _ in range(CONNECTIONS)))

    return hold


_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "explain", "arguments": LONG}}
HOSTILE: dict[str, Callable[..., Awaitable[None]]] = {
    "explain of the longest question": asking("/explain", LONG),
    "search without a token": asking("/search", {"query": "Person 7"}, "none"),
    "search of the longest question": asking("/search", LONG),
    "half a head": holding(b"POST /search HTTP/1.1\r\nHost: localhost\r\n", b"X-Padding: x\r\n"),
    "explain by an agent": asking("/mcp", _CALL),
    "a wrong token": asking("/explain", LONG, "wrong"),
    "passages by the hundred": asking("/passages", {"ids": [f"team0-{row}" for row in range(100)]}),
    "half a body": holding(
        b"POST /search HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 9999\r\n\r\n{",
        b" ",
    ),
    "malformed messages of an agent": asking("/mcp", b"[" * 50_000),
    "a question that is too long": asking("/explain", TOO_LONG),
    "answers that nobody reads": holding(
        request("/explain", json.dumps({"query": "Person 7", "k": 100}).encode(), "TOKEN") * 20, b""
    ),
}
"""What hostile clients do, by name; client n does the n-th."""


async def hostile(port: int, count: int, seconds: float) -> dict[str, dict[str, int]]:
    """Run `count` hostile clients for some seconds; return, by kind of client, how often each status occurred."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in HOSTILE}
    kinds = list(HOSTILE.items())

    async def client(number: int) -> None:
        name, attack = kinds[number % len(kinds)]
        floods = not name.startswith("answers")  # whoever does not read holds the places of its own tenant
        token = TOKENS[NAMES[1 + number // len(kinds) % (HOSTILE_TENANTS - 1) if floods else 0]]
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await attack(port, token, counts[name])
            counts[name]["refused"] += 1
            await asyncio.sleep(0.05)

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(client(number) for number in range(count)))
    return {name: dict(sorted(found.items())) for name, found in counts.items()}


async def sink() -> None:
    """Serve hostile clients in place of the real server, with little work: refuse requests, and drop connections."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b'{"error": "busy"}'
        refused = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said)
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(SINK_SECONDS) as limit:
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = re.search(rb"content-length: (\d+)", head.lower())
                    await reader.readexactly(int(length[1]) if length else 0)
                    limit.reschedule(None)
                    await asyncio.sleep(1)
                    writer.write(refused)
                    limit.reschedule(asyncio.get_running_loop().time() + SINK_SECONDS)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**20, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Honest:
    """Honest clients: they record the times of their requests by kind of window, and count wrong answers."""

    def __init__(self, port: int, count: int) -> None:
        self.port, self.count = port, count
        self.seconds: dict[str, list[float]] = {"quiet": [], "elsewhere": [], "hostile": []}
        self.wrong: Counter[str] = Counter()
        self._known: dict[tuple[str, str], list[str]] = {}
        self._random = random.Random(1)

    async def window(self, kind: str, seconds: float) -> None:
        """Ask questions for some seconds, and record their times as `kind`; the first seconds are not counted."""
        begun = time.perf_counter()

        async def client(number: int) -> None:
            team = NAMES[HOSTILE_TENANTS + number % (TENANTS - HOSTILE_TENANTS)]
            await asyncio.sleep(self._random.random())
            while time.perf_counter() - begun < seconds:
                path = "/explain" if self._random.random() < 0.25 else "/search"
                question = f"Who met Person {self._random.randrange(QUESTIONS)}?"
                since = time.perf_counter()
                said = await self._ask(path, question, team)
                if since - begun >= WARM:
                    self.seconds[kind].append(time.perf_counter() - since)
                    if said:
                        self.wrong[f"{kind}: {said}"] += 1
                await asyncio.sleep(0.5 + self._random.random())

        await asyncio.gather(*(client(number) for number in range(self.count)))

    async def _ask(self, path: str, question: str, team: str) -> str:
        body = json.dumps({"query": question, "k": 5}).encode()
        try:
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(request(path, body, TOKENS[team], close=True))
                status, said = await answer(reader)
                writer.close()
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            return type(error).__name__
        if status != 200:
            return f"status {status}"
        found = json.loads(said)
        names = [one["id"] for one in found["passages"]]
        if any(not name.startswith(f"{team}-") for name in names):
            return "a passage of another tenant"
        if found["degraded"]:
            return "degraded"
        return "" if names and names == self._known.setdefault((team, question), names) else "another answer"


def processes(pid: int) -> list[int]:
    """Return the ids of a process and of the processes that it started."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())]


def resident_kb(pid: int) -> int:
    """Return the resident memory of a process and of the processes that it started, in kilobytes."""
    said = [Path(f"/proc/{one}/status").read_text(encoding="ascii") for one in processes(pid)]
    return sum(int(found[1]) for one in said if (found := re.search(r"VmRSS:\s+(\d+)", one)))


class Used:
    """The seconds that the server, its event loop and the clients ran and waited for a processor, by kind of window."""

    def __init__(self, server: int) -> None:
        self.server, self.seconds = server, dict[str, dict[str, float]]()

    @contextmanager
    def during(self, kind: str, clients: int | None = None) -> Iterator[None]:
        """Add the times of a ``with`` block to the sums of this kind of window."""
        before, begun = self._now(clients), time.perf_counter()
        yield
        found = self.seconds.setdefault(kind, {})
        after = self._now(clients) | {"the window": time.perf_counter() - begun}
        for name, seconds in after.items():
            found[name] = found.get(name, 0.0) + seconds - before.get(name, 0.0)

    def _now(self, clients: int | None) -> dict[str, float]:
        parts = [_schedule(f"/proc/{one}/task") for one in processes(self.server)]
        named = {
            "server": (sum(ran for ran, _ in parts), sum(waited for _, waited in parts)),
            "event loop of the server": _schedule(f"/proc/{self.server}/task", self.server),
            "honest clients": _schedule(f"/proc/{os.getpid()}/task"),
            "hostile clients": (0.0, 0.0) if clients is None else _schedule(f"/proc/{clients}/task"),
        }
        return {f"{name}, {what}": one[part] for name, one in named.items() for part, what in enumerate(_PARTS)}


_PARTS = ("ran", "waited")


def _schedule(tasks: str, only: int | None = None) -> tuple[float, float]:
    """Return the seconds that the threads of a process ran, and the seconds that they waited for a processor.

    `tasks` is its folder of threads in /proc; with `only`, a single thread counts.
    """
    ran = waited = 0
    for one in os.listdir(tasks):
        if only is None or one == str(only):
            with suppress(OSError):
                first, second, _ = Path(tasks, one, "schedstat").read_text(encoding="ascii").split()
                ran, waited = ran + int(first), waited + int(second)
    return ran / 1e9, waited / 1e9


async def run(port: int, pid: int, given: Any) -> dict[str, Any]:
    """Let honest clients ask in three kinds of windows: alone, beside attacks elsewhere, beside attacks on the server.

    Return the honest clients' times and problems, the outcomes of hostile requests, and the memory of the server.
    """
    honest, resident, used = Honest(port, given.honest), [resident_kb(pid)], Used(pid)
    counts: dict[tuple[str, str], Counter[str]] = {}
    await honest.window("quiet", WARM)
    rounds = max(1, round(given.seconds / WINDOW / 2))
    aside = subprocess.Popen(
        [sys.executable, __file__, "--sink"], stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(5)
    )
    elsewhere = int(aside.stdout.readline()) if aside.stdout else 0
    try:
        for number in range(rounds):
            with used.during("quiet"):
                await honest.window("quiet", WINDOW)
            for kind, attacked in (("elsewhere", elsewhere), ("hostile", port)):
                command = [sys.executable, __file__, "--child", str(attacked), str(given.hostile), str(WINDOW + 2)]
                child = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(5))
                if child.stdout:
                    await asyncio.to_thread(child.stdout.readline)  # the attack begins
                with used.during(kind, child.pid):
                    await honest.window(kind, WINDOW)
                said, _ = await asyncio.to_thread(child.communicate)
                for name, found in json.loads(said).items():
                    counts.setdefault((kind, name), Counter()).update(found)
            resident.append(resident_kb(pid))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    finally:
        aside.kill()
        aside.wait()
    times = {kind: percentiles(seconds) for kind, seconds in honest.seconds.items()}
    return {
        "answers": {kind: len(seconds) for kind, seconds in honest.seconds.items()},
        "ms": times,
        "ratio": round(times["hostile"]["p99"] / times["quiet"]["p99"], 2),
        "ratio_elsewhere": round(times["elsewhere"]["p99"] / times["quiet"]["p99"], 2),
        "wrong": dict(honest.wrong),
        "hostile": {name: dict(found) for (kind, name), found in counts.items() if kind == "hostile"},
        "closed_elsewhere": sum(found["closed"] for (kind, _), found in counts.items() if kind == "elsewhere"),
        "seconds": {kind: {name: round(one, 2) for name, one in found.items()} for kind, found in used.seconds.items()},
        "resident_mb": {"start": resident[0] // 1024, "most": max(resident) // 1024},
    }


@contextmanager
def serving(*options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Serve a folder of made-up passages to several tenants by a separate process; yield its port and the process."""
    with tempfile.TemporaryDirectory() as root:
        folder, tenants = Path(root) / "folder", Path(root) / "tenants.json"
        make_folder(folder)
        tenants.write_text(
            json.dumps({name: {"token": token, "filter": {"team": name}} for name, token in TOKENS.items()})
        )
        code = "import sys; from phasegraph.apps.cli import main; sys.exit(main())"
        given = [
            "--transport",
            "http",
            "--port",
            "0",
            "--tenants",
            str(tenants),
            "--embedder",
            "siege:vector",
        ]
        path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, "PYTHONPATH": path}
        server = subprocess.Popen(
            [sys.executable, "-c", code, "serve", str(folder), *given, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        try:
            told = ""
            while not (address := re.search(r"http://\S+:(\d+)", told)):
                line = server.stderr.readline() if server.stderr else ""
                if not line:
                    raise SystemExit(f"the server did not start: {told}")
                told += line
            threading.Thread(target=lambda: LOG.extend(server.stderr or ()), daemon=True).start()
            yield int(address[1]), server
        finally:
            server.kill()
            server.wait()


def stopped(server: subprocess.Popen[str]) -> list[str]:
    """Stop the server; return a sentence if it had already ended, and another if its log has a traceback."""
    ended = server.poll()
    server.terminate()
    server.wait(timeout=60)
    said = "".join(LOG)
    broken = [] if ended is None else [f"the server ended with {ended}"]
    if "Traceback" in said:
        broken.append(f"the server's log has a traceback that ends in {said.strip().splitlines()[-1]!r}")
    return broken


def main() -> None:
    """Serve a folder, run the windows, compare the figures with the promise, and report the result."""
    if len(sys.argv) == 5 and sys.argv[1] == "--child":
        print(flush=True)  # the attack begins
        print(json.dumps(asyncio.run(hostile(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))))
        return
    if sys.argv[1:] == ["--sink"]:
        asyncio.run(sink())
        return
    given = arguments(__doc__, hostile=200, honest=50, seconds=600)
    with serving() as (port, server):
        figures = asyncio.run(run(port, server.pid, given))
        faults = stopped(server)
    broken = [f"{count} honest requests: {what}" for what, count in figures["wrong"].items()]
    if figures["ratio"] > MOST_RATIO:
        broken.append(
            f"during the attack, the p99 of honest clients was {figures['ratio']} times the p99 in quiet periods; the "
            f"promise is at most {MOST_RATIO:g} times"
        )
    broken += faults
    load = round(os.getloadavg()[2], 1)
    finish("siege", given, {"most_ratio": MOST_RATIO, "load": load, **figures}, broken)


if __name__ == "__main__":
    main()
