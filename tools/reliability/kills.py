"""Kill a process, or fill the disk, at the writes of every command that changes a folder.

    python tools/reliability/kills.py [--most 1000] [--json FILE]

The commands are a sync, a sync that deletes everything, a watch, a merge, a deletion, embedding again, and a list of
documents, which stores a table. Each kill copies a folder, forks, and ends the child before its n-th call that changes
the disk, as `kill -9` would. The folder must then open in its old state or in its new state, and the same command must
complete the change. There is a kill for every call, or `--most` kills per command at even distances. Then the disk is
full from each call on: the command must make its change, or its error must name the disk. The folder must meet the same
conditions.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from runs import arguments, bar, finish, quiet

from phasegraph._support import serialization
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import StoreError
from phasegraph.graph.corpus.document_table import BESIDE
from phasegraph.graph.corpus.folder import INSIDE, Folder
from phasegraph.retrieval.passage_folder import PassageFolder

CALLS = ("replace", "rename", "unlink", "rmdir", "mkdir", "open", "chmod", "fsync")
"""Functions of ``os`` before which a process is killed."""
FILLING = ("mkdir", "fsync", "replace")
"""Functions of ``os`` that need room on the disk."""
KILLED, LEAST = 9, 200
"""The exit code of a process that is killed; kills that a run must make."""


def model(name: str) -> EmbeddingModel:
    """Return a made-up embedding model, whose vectors depend on its name."""
    turn = sum(name.encode())

    def vector(text: str) -> list[float]:
        return np.random.default_rng((turn, *text.encode())).standard_normal(8).tolist()

    return EmbeddingModel(
        SimpleNamespace(model_name=name), vector, lambda records: [vector(one.content) for one in records]
    )


def pages(*numbers: int, said: str = "met") -> list[dict[str, Any]]:
    """Return a passage for each number, each from a document of its own; `said` is a word of the texts."""
    return [
        {"id": f"p{n}", "title": f"Ada {n}", "text": f"Ada {said} Bo {n}.", "metadata": {"source": f"{n}.md"}}
        for n in numbers
    ]


def sync(place: Path) -> None:
    """Add, change and delete documents of the folder below `place` in one sync."""
    PassageFolder.open(place / "folder", model("one")).sync([*pages(1, 2), *pages(3, 9, said="saw")], full=True)


def empty(place: Path) -> None:
    """Delete all documents of the folder below `place` in one sync."""
    PassageFolder.open(place / "folder", model("one")).sync([], full=True, allow_empty=True)


def watch(place: Path) -> None:
    """Sync the folder below `place` with its files, as a watch does after a change of files."""
    from phasegraph.apps.cli.syncing import FileSync

    FileSync(place / "files", place / "folder", model("one"), None).sync()


def merge(place: Path) -> None:
    """Merge the logged changes of the folder below `place` into its index."""
    Folder(place / "folder").merge(1)


def delete(place: Path) -> None:
    """Delete a document of the folder below `place`."""
    PassageFolder.open(place / "folder").delete(where={"source": "2.md"})


def reembed(place: Path) -> None:
    """Embed all passages of the folder below `place` again, with another model."""
    PassageFolder.open(place / "folder").reembed(model("two"), progress=False)


def documents(place: Path) -> None:
    """List the documents of the folder below `place`; this stores a table of them."""
    PassageFolder.open(place / "folder").documents()


COMMANDS: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (sync, empty, watch, merge, delete, reembed, documents)
}
UNCHANGED = ("merge", "documents")
"""Commands after which the folder says what it said before."""


def prepare(place: Path) -> None:
    """Create, below `place`, a folder of passages with one logged change, and files that differ from its documents.

    The folder has no stored table of its documents.
    """
    PassageFolder.create(place / "folder", pages(*range(5)), model("one"), progress=False)
    PassageFolder.open(place / "folder", model("one")).sync(pages(5))
    shutil.rmtree(place / "folder" / INSIDE / BESIDE, ignore_errors=True)
    (place / "files").mkdir()
    for number in (1, 7):
        (place / "files" / f"{number}.md").write_text(f"# Ada {number}\n\nAda met Bo {number} again.")


def state_of(place: Path) -> tuple[Any, ...]:
    """Return the passages, the vectors and the model of the folder below `place`."""
    index, _ = Folder(place / "folder").load()
    folder = Folder(place / "folder")
    folder.load()
    texts = tuple((name, one.text) for name, one in index.records.items())
    return texts, np.asarray(index.graph.embeddings).tobytes(), str(folder.settings.get("model"))


def check(holds: bool, said: str) -> None:
    """Raise AssertionError with the text `said` if a condition does not hold."""
    if not holds:
        raise AssertionError(said)


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run `work` in a child process that is killed before its call number `step` (from 0) that changes the disk.

    Return True if it was killed, and False if it made fewer calls.
    """
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, KILLED):
            raise AssertionError(f"the child ended with {code}")
        return code == KILLED
    left = iter(range(step))

    def die() -> None:
        if next(left, None) is None:
            os._exit(KILLED)

    try:
        with watched(CALLS, die):
            work()
    except BaseException as error:  # noqa: BLE001 - the parent only sees the code
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)
    os._exit(0)


@contextmanager
def watched(calls: Sequence[str], watch: Callable[[], None]) -> Iterator[None]:
    """Call `watch` before each call of the named functions of ``os``, in the ``with`` block."""
    plain = {name: getattr(os, name) for name in calls}

    def told(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **more: Any) -> Any:
            watch()
            return call(*given, **more)

        return called

    for name, call in plain.items():
        setattr(os, name, told(call))
    try:
        yield
    finally:
        for name, call in plain.items():
            setattr(os, name, call)


class Trial:
    """A command to run on copies of a folder, with a fault at one of its calls; it knows the old and the new state."""

    def __init__(self, command: str, place: Path, calls: Sequence[str]) -> None:
        self.command, self.work, self.place, self.calls = command, COMMANDS[command], place, calls
        self.first = place / f"{command}-first"
        self.first.mkdir()
        prepare(self.first)
        self.old = state_of(self.first)
        whole, counted = self.copy("whole"), list[int]()
        with watched(calls, lambda: counted.append(1)):
            self.work(whole)
        self.new, self.count = state_of(whole), len(counted)
        check((self.new == self.old) == (command in UNCHANGED), f"{command} must change what a folder says, or not")

    def copy(self, name: str) -> Path:
        """Return a copy of the folder in its state before the command."""
        copied = self.place / f"{self.command}-{name}"
        shutil.copytree(self.first, copied)
        return copied

    def steps(self, most: int) -> list[int]:
        """Return the numbers of at most `most` calls of the command, at even distances."""
        return sorted({round(one) for one in np.linspace(0, self.count - 1, min(most, self.count))})

    def outcome(self, copied: Path, step: int) -> str:
        """Return "old" or "new": the state in which the folder `copied` opens after a fault at call `step`.

        Also check that the same command, run again, completes its change. Raise AssertionError for a mixed state.
        """
        found = state_of(copied)
        check(found in (self.old, self.new), f"{self.command}: struck at call {step}, the folder is mixed")
        with quiet():  # a deletion that was made finds nothing to delete
            self.work(copied)
        check(state_of(copied) == self.new, f"{self.command}: struck at call {step}, it cannot be completed")
        shutil.rmtree(copied)
        return "old" if found == self.old else "new"


def kills(command: str, most: int, place: Path) -> Iterator[str]:
    """Kill a command before `most` of its calls, at even distances; yield the folder's state ("old" or "new")."""
    trial = Trial(command, place, CALLS)
    for step in trial.steps(most):
        copied = trial.copy(f"{step:04d}")
        check(killed_at(step, lambda: trial.work(copied)), f"{command}: it was not killed at call {step}")  # noqa: B023
        yield trial.outcome(copied, step)


def full_disks(command: str, most: int, place: Path) -> Iterator[str]:
    """Let the disk be full from each of `most` calls of a command on; yield the folder's state ("old" or "new")."""
    trial = Trial(command, place, FILLING)
    for step in trial.steps(most):
        copied, left = trial.copy(f"full-{step:04d}"), iter(range(step))

        def fill() -> None:
            if next(left, None) is None:  # noqa: B023
                raise OSError(errno.ENOSPC, "No space left on device")

        said = ""
        with quiet(), watched(FILLING, fill):
            try:
                trial.work(copied)
            except (StoreError, OSError) as error:
                said = str(error)
        outcome = trial.outcome(copied, step)
        check(not said or "space" in said, f"{command}: full at call {step}, the error names no disk: {said}")
        check(not said or outcome == "old" or command in UNCHANGED, f"{command}: full at call {step}: {said}, but made")
        yield outcome


def main() -> None:
    """Run all kills and full disks, count how often each state followed, and report the result."""
    given = arguments(__doc__, most=1000)
    figures: dict[str, Any] = {"kills": {}, "full": {}}
    serialization.MAPPED_BYTES = 0  # small files are mapped like large ones, and the table of documents is kept
    with tempfile.TemporaryDirectory() as folder:
        places = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2 * len(COMMANDS)))
        for command in bar(list(COMMANDS), "commands"):
            figures["kills"][command] = Counter(kills(command, given.most, next(places)))
            figures["full"][command] = Counter(full_disks(command, given.most, next(places)))
    done = sum(sum(one.values()) for one in figures["kills"].values())
    finish("kills", given, {"kills_made": done, **figures}, [] if done >= LEAST else [f"only {done} kills"])


if __name__ == "__main__":
    main()
