"""The server's jars, resolved once from Maven Central by Maven itself and kept.

They lie under ``$XDG_CACHE_HOME/phasegraph`` where that is set, else under ``.cache`` at the root of the
repository, in a folder named after the contents of the pom and the line of versions, so that a changed version
is a new folder and never a mixture. The line is 5.26, or what ``PHASEGRAPH_NEO4J_VERSION`` says.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
RESOLVE_SECONDS = 400.0


class ServerUnavailable(RuntimeError):
    """No server can be started here; the message says what is missing."""


@dataclass(frozen=True)
class Line:
    """A line of server versions; the exact ones stand in the pom's profile of its name."""

    name: str
    main: str
    java: int


LINES = {
    "5.26": Line("neo4j-5.26", "org.neo4j.server.CommunityEntryPoint", 17),
    "2026.01": Line("neo4j-2026.01", "org.neo4j.server.Neo4jCommunity", 21),
}


@dataclass(frozen=True)
class Java:
    """A runtime and its version, 0 where it does not say."""

    command: str
    version: int


@dataclass(frozen=True)
class Jars:
    """Where the server and its plugins lie, and what starts them."""

    lib: Path
    plugins: Path
    line: Line
    java: Java


def chosen_line() -> Line:
    """The line that ``PHASEGRAPH_NEO4J_VERSION`` names, 5.26 by default."""
    name = os.environ.get("PHASEGRAPH_NEO4J_VERSION") or "5.26"
    if name not in LINES:
        raise ServerUnavailable(f"PHASEGRAPH_NEO4J_VERSION must be one of {', '.join(LINES)}; it is {name!r}")
    return LINES[name]


def find_java(least: int) -> Java:
    """A runtime that is new enough: that of ``JAVA_HOME``, the one on the path, or another that is installed."""
    home = os.environ.get("JAVA_HOME")
    given = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    installed = [str(path) for path in sorted(Path("/usr/lib/jvm").glob("*/bin/java"))]
    for command in filter(None, (given, shutil.which("java"), *installed)):
        found = Java(command, _java_version(Path(command)))
        if found.version >= least or not found.version:
            return found
    raise ServerUnavailable(f"Neo4j needs a Java runtime of version {least} or later (JAVA_HOME); none was found")


def _java_version(command: Path) -> int:
    release = command.resolve().parents[1] / "release"
    said = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE) if release.is_file() else None
    return int(said[1]) if said else 0


def cache_folder(line: Line) -> Path:
    """The folder that holds the jars of this very pom and line."""
    root = os.environ.get("XDG_CACHE_HOME")
    base = Path(root) / "phasegraph" if root else Path(__file__).parents[2] / ".cache"
    return base / "neo4j-server" / f"{line.name}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def resolve() -> Jars:
    """The jars, from the cache or from Maven Central; several processes may ask at once."""
    line = chosen_line()
    runtime = find_java(line.java)
    folder = cache_folder(line)
    if not folder.is_dir():
        import fcntl  # Windows has none

        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Maven runs once, however many processes need the jars
            if not folder.is_dir():
                _fetch(folder, line)
    return Jars(folder / "lib", folder / "plugins", line, runtime)


def _fetch(folder: Path, line: Line) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerUnavailable(
            "Neo4j's jars are fetched by Maven (Debian: maven); no mvn was found and none are cached"
        )
    scratch = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    try:
        # Resolved as a whole before anything is renamed into place: a half-filled folder is never taken for a
        # cache.
        command = [maven, "-B", "-q", "-ntp", "-f", str(POM), f"-P{line.name}", f"-Doutput={scratch}", "package"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=False)
        if done.returncode != 0:
            raise ServerUnavailable(
                f"Maven must resolve Neo4j's jars; it said: {done.stdout[-1000:]}{done.stderr[-500:]}"
            )
        scratch.rename(folder)
    except subprocess.TimeoutExpired as error:
        raise ServerUnavailable(f"Maven must resolve Neo4j's jars within {RESOLVE_SECONDS:g} s; it did not") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
