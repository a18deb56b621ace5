"""The server's jars, resolved once from Maven Central by Maven itself and kept.

They lie under ``$XDG_CACHE_HOME/phasegraph`` where that is set, else under ``.cache`` at the root of the
repository, in a folder named after the contents of the pom, so that a changed version is a new folder and
never a mixture.
"""

from __future__ import annotations

import hashlib
import os
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
class Jars:
    """Where the server and its plugins lie."""

    lib: Path
    plugins: Path


def java() -> str:
    """The java command: that of ``JAVA_HOME``, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        raise ServerUnavailable("Neo4j needs a Java 17 runtime (Debian: openjdk-17-jre-headless); no java was found")
    return found


def cache_folder() -> Path:
    """The folder that holds the jars of this very pom."""
    root = os.environ.get("XDG_CACHE_HOME")
    base = Path(root) / "phasegraph" if root else Path(__file__).parents[2] / ".cache"
    return base / "neo4j-server" / hashlib.sha256(POM.read_bytes()).hexdigest()[:12]


def resolve() -> Jars:
    """The jars, from the cache or from Maven Central; several processes may ask at once."""
    folder = cache_folder()
    if not folder.is_dir():
        _fetch(folder)
    return Jars(lib=folder / "lib", plugins=folder / "plugins")


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerUnavailable(
            "Neo4j's jars are fetched by Maven (Debian: maven); no mvn was found and none are cached"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    try:
        # Resolved as a whole before anything is renamed into place: a half-filled folder is never taken for a
        # cache.
        command = [maven, "-B", "-q", "-ntp", "-f", str(POM), f"-Doutput={scratch}", "package"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=False)
        if done.returncode != 0:
            raise ServerUnavailable(
                f"Maven must resolve Neo4j's jars; it said: {done.stdout[-1000:]}{done.stderr[-500:]}"
            )
        if not folder.is_dir():
            scratch.rename(folder)
    except subprocess.TimeoutExpired as error:
        raise ServerUnavailable(f"Maven must resolve Neo4j's jars within {RESOLVE_SECONDS:g} s; it did not") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
