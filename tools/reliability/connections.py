"""Open ten thousand connections to ``phasegraph serve``: ``python tools/reliability/connections.py``.

A process opens connections from one address and holds them: half of them send nothing, the others half a head. If the
server closes a connection, the process opens another one at once. At the same time, honest clients of the same address
ask as in siege.py. The server runs once with room for all connections, and once with the default limit. Every honest
request must get a complete answer, the server must keep running, and its memory per connection must stay below a bound.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from runs import arguments, finish, percentiles
from siege import WARM, Honest, resident_kb, serving, stopped

SPARE = 500
"""Connections that the server admits beyond those of the flood."""
MOST_KB = 64
"""Most kilobytes of the server for each connection that is held at once."""
HALF = b"POST /search HTTP/1.1\r\nHost: localhost\r\n"


def flood(port: int, count: int, seconds: float) -> dict[str, Any]:
    """Hold `count` connections open for some seconds; return how many were opened, and how often each outcome occurred.

    The outcomes are the names of errors, and the HTTP statuses of connections that the server closed.
    """
    counts: Counter[str] = Counter()
    poll, held = select.epoll(), dict[int, tuple[socket.socket, list[bytes]]]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(min(50, count - len(held))):
            try:
                opened = socket.create_connection(("127.0.0.1", port), timeout=5)
                opened.send(HALF * (counts["opened"] % 2))
            except OSError as error:
                counts[type(error).__name__] += 1
                break
            counts["opened"] += 1
            held[opened.fileno()] = opened, []
            poll.register(opened, select.EPOLLIN)
        for descriptor, _ in poll.poll(0.05 if len(held) >= count else 0):
            opened, said = held[descriptor]
            data = b""
            with suppress(OSError):
                data = opened.recv(1000)
            said.append(data)
            if not data:
                counts[b"".join(said)[9:12].decode() or "closed"] += 1
                del held[descriptor]
                opened.close()
    return {"outcomes": dict(sorted(counts.items()))}


async def run(port: int, pid: int, given: Any) -> dict[str, Any]:
    """Let honest clients ask without and during the flood of connections.

    Return their times, the outcomes of the connections, and the server's memory.
    """
    honest, resident = Honest(port, given.honest), [resident_kb(pid)]
    await honest.window("quiet", WARM)
    await honest.window("quiet", given.seconds / 2)
    resident.append(resident_kb(pid))
    command = [sys.executable, __file__, "--child", str(port), str(given.connections), str(given.seconds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(5))
    asked, most = asyncio.create_task(honest.window("hostile", given.seconds)), 0
    while child.poll() is None:
        most = max(most, sum(_is_socket(pid, one) for one in os.listdir(f"/proc/{pid}/fd")))
        resident.append(resident_kb(pid))
        await asyncio.sleep(0.5)
    await asked
    return {
        "most": most,
        **json.loads(child.communicate()[0]),
        "answers": {kind: len(seconds) for kind, seconds in honest.seconds.items()},
        "ms": {kind: percentiles(seconds) for kind, seconds in honest.seconds.items()},
        "wrong": dict(honest.wrong),
        "resident_kb": {"before": resident[1], "most": max(resident)},
    }


def _is_socket(pid: int, descriptor: str) -> bool:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith("socket:")
    return False


def main() -> None:
    """Serve a folder, open the connections, compare the figures with the bounds, and report the result."""
    if len(sys.argv) == 5 and sys.argv[1] == "--child":
        print(json.dumps(flood(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
        return
    given = arguments(__doc__, connections=10_000, honest=5, seconds=30)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    broken: list[str] = []
    figures = {}
    for name, options in (
        ("room for all", ["--max-connections", str(given.connections + SPARE)]),
        ("the default limit", []),
    ):
        with serving(*options) as (port, server):
            found = figures[name] = asyncio.run(run(port, server.pid, given))
            faults = stopped(server)
        broken += [f"{name}: {count} honest requests: {what}" for what, count in found["wrong"].items()]
        grown = found["resident_kb"]["most"] - found["resident_kb"]["before"]
        if grown > MOST_KB * max(found["most"], 1):
            broken.append(f"{name}: the server grew by {grown} kB with {found['most']} connections")
        broken += [f"{name}: {fault}" for fault in faults]
    load = round(os.getloadavg()[0], 1)
    finish("connections", given, {"open_files": files, "load": load, "servers": figures}, broken)


if __name__ == "__main__":
    main()
