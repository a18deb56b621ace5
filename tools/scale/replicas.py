"""Several servers of one folder behind a balancer: equal answers, and an update without a failed request.

    python tools/scale/replicas.py [FOLDER] [--replicas 3] [--questions 50] [--callers 4]

The program starts several processes of `phasegraph serve` on loopback over one folder (default: an index of the bundled
passages). It also starts a balancer that hands requests to the servers in turn. Then:

1. Every server and the balancer answer every question; the bytes of the answers are compared.
2. Callers ask the balancer without a pause. Meanwhile each server is taken out of the turn, stopped once its requests
   are answered, started anew, and put back when it answers `GET /health`. Requests that fail are counted.
3. The answers of the new servers are compared with the first.

The balancer keeps nothing between requests. It passes a request to the next server if it cannot connect to one, as any
proxy does: a search changes nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BUNDLED = ROOT / "data" / "musique-openie"
PATIENCE = 120.0
"""Seconds that a server may take to start or to stop."""
_SERVE = "import sys; from phasegraph.apps.cli import main; sys.exit(main())"


class Replica:
    """A server of a folder in a separate process, which counts the requests that it is answering."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.busy, self._turn = 0, threading.Condition()
        self.start()

    def start(self) -> None:
        """Start the server's process, and wait until it answers."""
        command = [sys.executable, "-c", _SERVE, "serve", str(self.folder), "--transport", "http", "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        stream, said = self.process.stderr, list[str]()
        for line in stream or ():
            said.append(line)
            if line.startswith("http://"):
                self.address = line.split(": ")[0].removeprefix("http://")
                break
        else:
            raise SystemExit(f"a server did not start: {''.join(said)}")
        if stream is not None:
            threading.Thread(target=stream.read, daemon=True).start()
        until = time.monotonic() + PATIENCE
        while not self._healthy():
            if time.monotonic() > until:
                raise SystemExit("a server does not answer GET /health")
            time.sleep(0.05)

    def _healthy(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self.address}/health", timeout=5) as found:
            return bool(found.status == 200)
        return False

    def stop(self) -> None:
        """Stop the server's process after it has answered its requests; the balancer must send no new requests."""
        with self._turn:
            if not self._turn.wait_for(lambda: not self.busy, PATIENCE):
                raise SystemExit("a server does not finish its requests")
        self.process.terminate()
        self.process.wait(PATIENCE)

    def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a POST request; return the answer's status and body, or raise ConnectionError if it cannot be sent."""
        with self._turn:
            self.busy += 1
        line = http.client.HTTPConnection(self.address, timeout=60)
        try:
            line.request("POST", path, body, {"Content-Type": "application/json"})
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()
            with self._turn:
                self.busy -= 1
                self._turn.notify_all()


class Balancer:
    """An HTTP server that hands requests to the servers in turn."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._turns, self._lock, self.out = itertools.cycle(replicas), threading.Lock(), set[Replica]()
        self._count = len(replicas)
        balancer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = balancer.ask(self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Write no log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_port}"

    def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and body of the next server that can be reached; status 503 if none can."""
        for _ in range(2 * self._count):
            with self._lock:
                replica = next(self._turns)
                if replica in self.out:
                    continue
            with contextlib.suppress(ConnectionError):
                return replica.ask(path, body)
        return 503, b"no server can be reached"


def answer_of(address: str, question: str, k: int = 10) -> bytes:
    """Return the bytes of the server's answer to a search; raise SystemExit if the search fails."""
    status, found = post(address, question, k)
    if status != 200:
        raise SystemExit(f"{address} answered {status}: {found[:200]!r}")
    return found


def post(address: str, question: str, k: int = 10) -> tuple[int, bytes]:
    """Ask the server at `address` for `k` passages; return status and body, or 0 and the error's text."""
    body = json.dumps({"query": question, "k": k}).encode()
    line = http.client.HTTPConnection(address, timeout=60)
    try:
        line.request("POST", "/search", body, {"Content-Type": "application/json"})
        answer = line.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error).encode()
    finally:
        line.close()


@contextlib.contextmanager
def served(folder: Path, count: int) -> Iterator[tuple[list[Replica], Balancer]]:
    """Run `count` servers of a folder, and a balancer, for the time of the ``with`` block; yield both."""
    replicas: list[Replica] = []
    try:
        replicas.extend(Replica(folder) for _ in range(count))
        balancer = Balancer(replicas)
        yield replicas, balancer
        balancer.server.shutdown()
        balancer.server.server_close()
    finally:
        for one in replicas:
            one.process.kill()
            one.process.wait()


def update_under_load(
    replicas: Sequence[Replica], balancer: Balancer, questions: Sequence[str], callers: int
) -> tuple[int, list[str]]:
    """Replace each server in turn while `callers` threads ask questions without a pause.

    Return the number of answered requests, and the errors of the other requests.
    """
    over, lock = threading.Event(), threading.Lock()
    answered, failed = [0], list[str]()

    def asking(first: int) -> None:
        for number in itertools.count(first):
            if over.is_set():
                return
            status, found = post(balancer.address, questions[number % len(questions)])
            with lock:
                if status == 200:
                    answered[0] += 1
                else:
                    failed.append(f"{status}: {found[:200]!r}")

    threads = [threading.Thread(target=asking, args=(7 * number,)) for number in range(callers)]
    for one in threads:
        one.start()
    try:
        for replica in replicas:
            balancer.out.add(replica)
            replica.stop()
            replica.start()
            balancer.out.discard(replica)
    finally:
        over.set()
        for one in threads:
            one.join()
    return answered[0], failed


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Serve a folder, compare the answers, replace the servers under load, compare again, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--callers", type=int, default=4)
    options = parser.parse_args(arguments)
    lines = (BUNDLED / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines[: options.questions]]
    with tempfile.TemporaryDirectory() as work:
        folder = options.folder
        if folder is None:
            from phasegraph.graph import GraphIndex

            folder = Path(work) / "index"
            with (BUNDLED / "corpus.jsonl").open(encoding="utf-8") as rows:
                GraphIndex.build([json.loads(line) for line in rows]).save(folder)
        with served(folder, options.replicas) as (replicas, balancer):
            first = [answer_of(replicas[0].address, one) for one in questions]

            def same() -> int:
                places = [*(one.address for one in replicas), balancer.address]
                return sum(
                    all(answer_of(place, one) == wanted for place in places)
                    for one, wanted in zip(questions, first, strict=True)
                )

            before = same()
            answered, failed = update_under_load(replicas, balancer, questions, options.callers)
            after = same()
    found = {
        "replicas": options.replicas, "questions": len(questions), "equal_before": before,
        "answered_during_update": answered, "failed_during_update": len(failed), "equal_after": after,
    }  # fmt: skip
    print(json.dumps(found))
    for line in failed[:3]:
        print(f"failed: {line}")
    return found


if __name__ == "__main__":
    result = main()
    whole = result["equal_before"] == result["equal_after"] == result["questions"]
    sys.exit(0 if whole and not result["failed_during_update"] else 1)
