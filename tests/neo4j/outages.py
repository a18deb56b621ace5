"""A server to take away and bring back, with TLS beside plain Bolt, and a client that keeps asking it."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "neo4j_server"))

from neo4j_jars import ServerUnavailable, resolve
from neo4j_process import Neo4jProcess, free_port

from phasegraph.neo4j import Neo4jConnection, Neo4jGraphSource, PassageRecord, write_graph
from phasegraph.ranking import Ranking
from phasegraph.sources import BreakerSettings, CallableSource, Gatherer, SourceSettings

TLS = """\
dbms.ssl.policy.bolt.enabled=true
dbms.ssl.policy.bolt.base_directory={home}/certificates
dbms.ssl.policy.bolt.private_key=server.key
dbms.ssl.policy.bolt.public_certificate=server.crt
dbms.ssl.policy.bolt.client_auth=NONE
server.bolt.tls_level=OPTIONAL
"""
RECORDS = (
    PassageRecord("v", "Ada", "Ada met Bo.", (("ada", 1), ("bo", 1)), homes=(("ada", 2),)),
    PassageRecord("w", "Bo", "Bo sang.", (("bo", 1),), homes=(("bo", 2),)),
)


class SpareServer(Neo4jProcess):
    """A server with a certificate that only its own authority vouches for; it can be frozen."""

    @property
    def authority(self) -> Path:
        return self.home / "certificates" / "ca.crt"

    def address(self, scheme: str) -> str:
        return f"{scheme}://127.0.0.1:{self.port}"

    def freeze(self) -> None:
        """Stop it as a machine that swaps or a virtual one that is moved stops: nothing is closed."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)

    def _write_configuration(self) -> None:
        super()._write_configuration()
        if not self.authority.exists():
            make_certificates(self.authority.parent)
        with (self.home / "conf" / "neo4j.conf").open("a") as file:
            file.write(TLS.format(home=self.home))


def make_certificates(folder: Path) -> None:
    """An authority, and a certificate of its own for 127.0.0.1."""
    if shutil.which("openssl") is None:
        raise ServerUnavailable("openssl is needed to make a certificate; it is not installed")
    folder.mkdir(parents=True)
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    key = ["-newkey", "rsa:2048", "-nodes", "-batch"]
    for command in (
        ["req", "-x509", *key, "-days", "2", "-subj", "/CN=phasegraph tests", "-keyout", "ca.key", "-out", "ca.crt"],
        ["req", *key, "-subj", "/CN=127.0.0.1", "-keyout", "server.key", "-out", "server.csr"],
        ["x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
         "-extfile", "names", "-out", "server.crt"],
    ):  # fmt: skip
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)


@contextlib.contextmanager
def spare_server() -> Iterator[SpareServer]:
    """A started one, gone with its data at the end."""
    home = Path(tempfile.mkdtemp(prefix="phasegraph-neo4j-"))
    try:
        server = SpareServer(resolve(), home, free_port(), "", plugins=False)
        server.start()
        try:
            yield server
        finally:
            server.thaw()
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Client:
    """Asks a graph on the server and a vector source beside it, and counts what became of the answers."""

    def __init__(self, connection: Neo4jConnection, *, probe_interval: float) -> None:
        circuit_breaker = BreakerSettings(failures=3, probe_interval=probe_interval)
        settings = {
            "graph": SourceSettings(depends_on=("vector",), circuit_breaker=circuit_breaker),
            "vector": SourceSettings(),
        }
        self._gatherer = Gatherer(settings, timeout=connection.timeout)
        self._sources = {
            "graph": Neo4jGraphSource(connection, "c"),
            "vector": CallableSource("vector", lambda query, limit: [("v", 1.0)]),
        }
        self.asked = self.answered = self.lost = self.silent = 0
        self.reasons: list[str] = []

    def ask(self) -> bool:
        """Whether the graph answered."""
        found = self._gatherer.gather(self._sources, "Who met Bo?")
        ids = {ranking.source: ranking.ids for ranking in found.rankings}
        self.asked += 1
        self.reasons += [f"{one.status}: {one.reason}" for one in found.reports if one.source == "graph"]
        self.lost += ids.get("vector") != ("v",)
        self.answered += "graph" in ids
        self.silent += "graph" not in ids and not found.degraded
        return "graph" in ids

    def wait(self, seconds: float) -> float:
        """Ask until the graph answers; return after how many seconds it did."""
        began = time.monotonic()
        while not self.ask() and time.monotonic() - began < seconds:
            time.sleep(0.01)
        return time.monotonic() - began


def fill(server: SpareServer) -> None:
    """Write a small corpus and walk over it once."""
    with Neo4jConnection.connect(server.uri, timeout=60.0) as connection:
        write_graph(connection, RECORDS, corpus="c")
    walk(server)


def walk(server: SpareServer) -> float:
    """Walk once, in no hurry; return the seconds. A server plans a statement when it first sees it."""
    with Neo4jConnection.connect(server.uri, timeout=60.0) as connection:
        began = time.monotonic()
        given = {"vector": Ranking("vector", ("v",), (1.0,))}
        Neo4jGraphSource(connection, "c").search("Who met Bo?", 50, given)
        return time.monotonic() - began
