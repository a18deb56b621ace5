"""A real Neo4j as a child process: loopback only, a free port, a home of its own, gone without a trace.

The flags are those of Neo4j's own launcher. The HTTP server and usage reports are off, the heap is small, and
the serial collector is used, which starts faster and needs a quarter less memory on a small machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import neo4j
from neo4j.exceptions import AuthError, DriverError, Neo4jError
from neo4j_jars import Jars, ServerUnavailable, resolve

START_SECONDS = 120.0
STOP_SECONDS = 20.0
OPENED = ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
CONFIGURATION = """\
server.directories.data={home}/data
server.directories.logs={home}/logs
server.directories.run={home}/run
server.directories.import={home}/import
server.directories.plugins={plugins}
server.directories.transaction.logs.root={home}/data/transactions
server.default_listen_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:{port}
server.bolt.advertised_address=127.0.0.1:{port}
server.http.enabled=false
server.https.enabled=false
dbms.security.auth_enabled={auth}
dbms.security.procedures.unrestricted=apoc.*,gds.*
dbms.usage_report.enabled=false
server.memory.pagecache.size=64m
# Every test changes the counts that plans are made from; planning again took a quarter of the server's time.
dbms.cypher.min_replan_interval=1h
# The default of ten seconds waits for connections that a stopped test run has already dropped.
server.config.strict_validation.enabled=false
internal.server.bolt.thread_pool_shutdown_wait_time=1s
server.bolt.thread_pool_shutdown_wait_time=1s
"""


@dataclass
class Neo4jProcess:
    """A server that can be stopped, killed and started again on the same port with the same data."""

    jars: Jars
    home: Path
    port: int
    password: str = ""
    plugins: bool = True
    seconds_to_start: float = field(default=0.0, init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def uri(self) -> str:
        """Its Bolt address."""
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def auth(self) -> tuple[str, str] | None:
        """What the driver needs, None where authentication is off."""
        return ("neo4j", self.password) if self.password else None

    def start(self) -> None:
        """Start, and return once Bolt answers a statement."""
        began = time.monotonic()
        self._write_configuration()
        with (self.home / "console.log").open("ab") as log:
            self._child = subprocess.Popen(
                self._command(),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        try:
            self._wait_for_bolt(began + START_SECONDS)
        except BaseException:
            self.kill()
            raise
        self.seconds_to_start = time.monotonic() - began

    def stop(self) -> bool:
        """Ask it to stop; True if it did so by itself, False if it had to be killed."""
        if self._child is None:
            return True
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._child = None
        return True

    def kill(self) -> None:
        """Kill it where it stands, as a crash would."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def resident_megabytes(self) -> float:
        """Its resident memory."""
        if self._child is None:
            return 0.0
        status = Path(f"/proc/{self._child.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def _write_configuration(self) -> None:
        for name in ("conf", "data", "logs", "run", "import", "plugins"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        plugins = self.jars.plugins if self.plugins else self.home / "plugins"
        text = CONFIGURATION.format(
            home=self.home, plugins=plugins, port=self.port, auth="true" if self.password else "false"
        )
        (self.home / "conf" / "neo4j.conf").write_text(text)

    def _command(self) -> list[str]:
        plugins = [f"{self.jars.plugins}/*"] if self.plugins else []
        classpath = os.pathsep.join([*plugins, f"{self.home}/conf", f"{self.jars.lib}/*"])
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
        flags = ["-Djol.skipHotspotSAAttach=true", "-Dlog4j2.disable.jmx=true", "-Djava.awt.headless=true"]
        memory = ["-Xms128m", "-Xmx640m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # The 48 MB of that level are full within a minute, and what is thrown out is compiled again and again.
        memory += [
            "-XX:ReservedCodeCacheSize=240m",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:-BytecodeVerificationRemote",
        ]
        folders = [f"--home-dir={self.home}", f"--config-dir={self.home}/conf", "--console-mode"]
        runtime = self.jars.java
        # What Java from 24 on warns of at every start otherwise.
        quiet = ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
        told = [*flags, "-Dfile.encoding=UTF-8", *(quiet if runtime.version >= 24 else [])]
        return [runtime.command, *memory, *opened, *told, "-cp", classpath, self.jars.line.main, *folders]

    def _wait_for_bolt(self, end: float) -> None:
        while True:
            if self._child is None or self._child.poll() is not None:
                log = (self.home / "console.log").read_text(errors="replace")
                raise ServerUnavailable(f"Neo4j must start; it ended with: {log[-2000:]}")
            try:
                self._answer()
                return
            except (DriverError, Neo4jError, OSError) as error:
                if time.monotonic() > end:
                    raise ServerUnavailable(f"Neo4j must start within {START_SECONDS:g} s; it did not") from error
                time.sleep(0.1)

    def _answer(self) -> None:
        """One statement; a new server's password is changed on the way."""
        try:
            opened = neo4j.GraphDatabase.driver(self.uri, auth=self.auth, connection_timeout=2)
            with opened as driver, driver.session() as session:
                session.run("RETURN 1").consume()
        except AuthError:
            with (
                neo4j.GraphDatabase.driver(self.uri, auth=("neo4j", "neo4j")) as driver,
                driver.session(database="system") as session,
            ):
                session.run("ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $new", new=self.password).consume()
            raise


def _end_with_parent() -> None:
    """Linux: a test run that is killed takes its server with it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(password: str = "", *, plugins: bool = True, port: int | None = None) -> Iterator[Neo4jProcess]:
    """A started server in a temporary home, stopped and removed at the end."""
    logging.getLogger("neo4j").setLevel(logging.ERROR)
    home = Path(tempfile.mkdtemp(prefix="phasegraph-neo4j-"))
    try:
        server = Neo4jProcess(resolve(), home, port or free_port(), password, plugins)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
