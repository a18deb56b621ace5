"""Let the disk be full, or NFS fail, at every call of every command: ``python tools/reliability/disk.py``.

A preloaded C library (disk.c, built by ``cc``) makes the n-th write, sync, rename or lock below a folder fail, for n =
0, 1, 2, … until the command makes fewer calls. Or every write from the n-th on writes only half of its bytes. After
each fault, the command must have ended with 0 or 1 and without a traceback. Its target must then be complete, in the
old state or in the new state. The command, run again without a fault, must have the same result as on a sound disk. The
run also fails if a fault of writes or renames hits no call of a command, because such a fault checks nothing, and if a
command makes more calls than the run lets fail. The worker processes of ``--engine local`` are forked here, so that the
faults also hit their calls. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from runs import arguments, finish

from phasegraph.apps.cli import main as run_command
from phasegraph.distributed import local
from phasegraph.errors import PhasegraphError
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph import GraphIndex, load_graph
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import Folder

WRITE, SYNC, RENAME, LOCK = 1, 2, 4, 8
FAULTS = {
    "the disk is full from the n-th write or sync": (WRITE | SYNC, errno.ENOSPC, True, False),
    "the n-th sync fails": (SYNC, errno.EIO, False, False),
    "the n-th rename fails": (RENAME, errno.ESTALE, False, False),
    "the n-th rename is made and fails": (RENAME, errno.ENOENT, False, True),
    "there are no locks": (LOCK, errno.ENOLCK, True, False),
    "half of each write from the n-th": (WRITE, 0, True, False),
}
"""By name: kinds of calls, the code of the error, whether it lasts, and whether the call is made all the same.

With the code 0 a call returns less than it was asked for, which is no error: the command must be done."""
MOST = 1_000
"""The most calls of a command that fail, one in each run of the command."""
OFTEN = 2
"""The greatest step of a command that changes a folder, because such a command makes few calls."""
MADE = WRITE | RENAME
"""Kinds of calls that every command makes; not every command syncs or locks a file."""


def corpus(path: Path, count: int, word: str) -> Path:
    """Write a corpus file of `count` passages that contain `word`, and return its path."""
    rows = [
        {"id": f"p{row}", "title": f"Page {row}", "text": f"Page {row} is about {word} {row % 7} in Town {row % 5}."}
        for row in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def vector(text: str) -> list[float]:
    """Return a made-up embedding of a text, for ``--embedder disk:vector``."""
    return [byte / 255 + 0.1 for byte in hashlib.sha256(text.encode()).digest()[:8]]


def other(text: str) -> list[float]:
    """Return another made-up embedding of a text, with another length, for ``--embedder disk:other``."""
    return [*vector(text)[::-1], 1.0]


def command(*given: object) -> int:
    """Run a phasegraph command in this process without its output, and return its exit code.

    Raise AssertionError if the command prints a traceback.
    """
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = run_command([str(one) for one in given])
    if "Traceback" in said.getvalue():
        raise AssertionError(said.getvalue())
    return code


def records(folder: Path) -> str:
    """Return a digest of the passage ids of an index or a folder; "" if there is neither."""
    if (folder / "folder.json").is_file():
        names = list(Folder(folder).load()[0].records)
    elif (folder / "manifest.json").is_file():
        names = list(load_graph(folder).passages)
    else:
        return ""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def vectors(folder: Path) -> str:
    """Return a digest of the passage ids and vectors of a folder; "" if there is no folder."""
    if not (folder / "folder.json").is_file():
        return ""
    graph = Folder(folder).load()[0].graph
    return hashlib.sha256("\n".join(graph.passages).encode() + np.asarray(graph.embeddings).tobytes()).hexdigest()


def file_of(path: Path) -> str:
    """Return a digest of the content of a file; "" if the file does not exist."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def embedded(root: Path, folder: Path, given: Path) -> int:
    """Run the command `index` with an embedder, and return its exit code."""
    return command("index", given, "--out", folder, "--force", "--embedder", "disk:vector")


def fused(root: Path, out: Path, given: Path) -> int:
    """Run the command `fuse` on two run files of as many documents as the corpus has passages; return the exit code."""
    runs = [given.with_suffix(f".{name}.run") for name in ("one", "two")]
    count = len(given.read_text(encoding="utf-8").splitlines())
    for number, run in enumerate(runs):
        if not run.is_file():
            lines = [f"q{at % 3} Q0 d{at} {at // 3 + 1} {count - at // 3 + number} x\n" for at in range(count)]
            run.write_text("".join(lines), encoding="utf-8")
    return command("fuse", *runs, "--out", out)


def synced(root: Path, folder: Path, given: Path) -> int:
    """Run the command `index --sync` with an embedder over a copy of the file `given`, and return its exit code.

    The copy always has the same path, because a folder refuses to sync with the files of another path.
    """
    shutil.copy(given, root / "synced.jsonl")
    return command("index", root / "synced.jsonl", "--out", folder, "--sync", "--embedder", "disk:vector")


def after_sync(*words: str) -> Callable[[Path, Path, Path], int]:
    """Return a function that runs the command `words` on a folder, or fills the folder by `index --sync`.

    It fills the folder if it is given the old corpus, and runs the command otherwise. It returns the exit code.
    """
    name, *rest = words

    def run(root: Path, folder: Path, given: Path) -> int:
        return synced(root, folder, given) if given.stem == "old" else command(name, folder, *rest)

    return run


def created(root: Path, folder: Path, given: Path) -> int:
    """Write the passages in the file `given` to a new corpus in `folder`, by functions of the library.

    Return 0 for success, or 1 for an error.
    """
    rows = [json.loads(line) | {"metadata": {}} for line in given.read_text(encoding="utf-8").splitlines()]
    if folder.exists():
        shutil.rmtree(folder)
    return done_by(lambda: Folder.create(folder, GraphIndex.build(rows), {}))


def changed(root: Path, folder: Path, given: Path) -> int:
    """Create a corpus, or delete a passage of it by functions of the library; return 0 for success, 1 for an error.

    The corpus is created if `given` is the old file.
    """
    if given.stem == "old":
        return created(root, folder, given)

    def delete() -> None:
        held = Folder(folder)
        index, _ = held.load()
        if "p0" in index.records:
            Corpus(index, folder=held).replace(["p0"])

    return done_by(delete)


def done_by(act: Callable[[], object]) -> int:
    """Call a function; return 0, or 1 if it raises an error of phasegraph or of the file system."""
    try:
        act()
    except (PhasegraphError, OSError):
        return 1
    return 0


def tuned(root: Path, out: Path, given: Path) -> int:
    """Save a pipeline, as `tune` does; it differs for the old and the new corpus. Return 0, or 1 for an error."""
    return done_by(lambda: FusionPipeline.named({"old": "reciprocal_rank", "new": "comb_mnz"}[given.stem]).save(out))


COMMANDS: dict[str, tuple[Callable[..., int], Callable[[Path], str]]] = {
    "index": (lambda root, folder, given: command("index", given, "--out", folder, "--force"), records),
    "index --embedder": (embedded, records),
    "index --update": (lambda root, folder, given: command("index", given, "--out", folder, "--update"), records),
    "index --engine local": (
        lambda root, folder, given: command(
            *("index", given, "--out", folder, "--force", "--engine", "local", "--shards", 2, "--workers", 1)
        ),
        records,
    ),
    "index --sync": (synced, vectors),
    "delete": (after_sync("delete", "--where", "title=Page 3", "--yes"), vectors),
    "reembed": (after_sync("reembed", "--embedder", "disk:other"), vectors),
    "retrieve": (
        lambda root, out, given: command(
            "retrieve", root / "index", given.parent / "queries.jsonl", "--out", out, "--k", 3, "--workers", 1
        ),
        file_of,
    ),
    "fuse": (fused, file_of),
    "a new corpus in a folder": (created, records),
    "a change of a corpus": (changed, records),
    "a pipeline": (tuned, file_of),
}
"""By name: what runs it over (root, target, corpus), and what reads its target."""


def forked(function: Callable[[], object]) -> tuple[int, str]:
    """Run a function in a forked process; return its exit status, and its return value or its error as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            os.write(writing, str(function()).encode()[-2000:])
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - the parent reports it
            os.write(writing, f"{type(error).__name__}: {error}".encode()[-2000:])
            os._exit(70)
    os.close(writing)
    with os.fdopen(reading, "rb") as handle:
        said = handle.read().decode("utf-8", "replace")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def attacked(root: Path, name: str, fault: str, step: int, broken: list[str]) -> dict[str, int]:
    """Run one command with one fault at every `step`-th call; return how many calls failed, and how the command ended.

    Problems are added to `broken`.
    """
    run, read = COMMANDS[name]
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    kinds, code, lasting, done = FAULTS[fault]
    struck = Path(os.environ["DISK_ROOT"])
    target, work, kept = struck / "target", struck / "target.work", root / "kept"
    counts = {"calls": 0, "told": 0, "done": 0, "old": 0}

    def remove(*paths: Path) -> None:
        for one in paths:
            if one.is_dir():
                shutil.rmtree(one)
            one.unlink(missing_ok=True)

    def start() -> None:
        remove(target, work)
        if kept.is_dir():
            shutil.copytree(kept, target)
        elif kept.is_file():
            shutil.copy(kept, target)

    remove(kept)
    start()
    if run is not created:  # its target does not exist before
        forked(lambda: run(root, kept, root / "old.jsonl"))
        remove(root / "kept.work")
    start()
    before = forked(lambda: read(target))[1]
    status, _ = forked(lambda: run(root, target, root / "new.jsonl"))
    after = forked(lambda: read(target))[1]
    if status or not after or before == after:
        broken.append(f"{name}: it fails on a sound disk")
        return counts
    for number in range(0, MOST, step):
        start()
        library.disk_fault(kinds, number, code, lasting, done)
        status, said = forked(lambda: run(root, target, root / "new.jsonl"))
        reached = library.disk_count() > number
        library.disk_fault(0, 0, 0, 0, 0)
        where = f"{name}, {fault}, n = {number}"
        if status or said not in (("0", "1") if code else ("0",)):
            broken.append(f"{where}: {status} {said[-300:]}")
        counts["calls"] += reached
        counts["told" if said == "1" else "done"] += reached
        status, found = forked(lambda: read(target))
        if status and said != "1":
            broken.append(f"{where}: it said that it was done, and the target cannot be read: {found[-300:]}")
        elif not status and found not in (before, after, ""):
            broken.append(f"{where}: the target is neither the old nor the new")
        elif said == "0" and found != after:
            broken.append(f"{where}: it said that it was done, and the target is the old")
        elif before and (status or not found):
            broken.append(f"{where}: the old target is lost: {found[-300:]}")
        counts["old"] += reached and found == before
        status, said = forked(lambda: run(root, target, root / "new.jsonl"))
        if (status, said) != (0, "0") or forked(lambda: read(target))[1] != after:
            broken.append(f"{where}: run again on a sound disk, it gives {status} {said[-300:]}")
        if not reached:
            break
    else:
        broken.append(f"{name}, {fault}: the command makes more than {MOST} such calls")
    if kinds & MADE and not counts["calls"]:
        broken.append(f"{name}, {fault}: the command made no such call below the folder, so nothing was checked")
    return counts


def main() -> None:
    """Build the C library, start this program again with the library, run all commands with all faults, and report."""
    given = arguments(__doc__, step=1)
    if "LD_PRELOAD" not in os.environ:
        with tempfile.TemporaryDirectory() as built:
            library = Path(built) / "disk.so"
            source = Path(__file__).with_suffix(".c")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
            struck = Path(built) / "root" / "struck"  # the target's folder: temporary files stand beside the target
            struck.mkdir(parents=True)
            env = {**os.environ, "LD_PRELOAD": str(library), "DISK_ROOT": str(struck)}
            paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
            env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
            env["XDG_CACHE_HOME"] = str(Path(built) / "cache")
            sys.exit(subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode)
    local.get_context = lambda method: multiprocessing.get_context("fork")
    root = Path(os.environ["DISK_ROOT"]).parent
    corpus(root / "old.jsonl", 20, "Ada")
    corpus(root / "new.jsonl", 30, "Bo")
    rows = [{"id": f"q{row}", "question": f"Who met Bo {row}?"} for row in range(4)]
    (root / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command("index", root / "new.jsonl", "--out", root / "index")
    broken: list[str] = []
    table: dict[str, dict[str, Any]] = {}
    for name in COMMANDS:
        for fault in FAULTS:
            step = min(given.step, OFTEN) if COMMANDS[name][1] is vectors else given.step
            table.setdefault(name, {})[fault] = attacked(root, name, fault, step, broken)
            print(name, "|", fault, table[name][fault], file=sys.stderr, flush=True)
    finish("disk", given, {"commands": table}, broken)


if __name__ == "__main__":
    main()
