"""Read the documents of a path, which is a file, a folder or an archive."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from stat import S_ISLNK, S_ISREG
from types import MappingProxyType
from typing import Any, TypeAlias

from phasegraph._support.text import counted
from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.reading.archives import LARGEST, NOT_A_FILE, TOO_LARGE, Member, is_archive, members_of
from phasegraph.reading.archives import SUFFIXES as ARCHIVES
from phasegraph.reading.chunks import passages_of
from phasegraph.reading.code import read_code
from phasegraph.reading.documents import Document, Section, decoded, title_of
from phasegraph.reading.html import read_html
from phasegraph.reading.ignoring import Ignored
from phasegraph.reading.kinds import BY_SUFFIX, SUFFIXES, listed
from phasegraph.reading.markdown import read_markdown
from phasegraph.reading.pdf import read_pdf
from phasegraph.reading.tables import read_csv, read_jsonl

Reader: TypeAlias = Callable[[str, bytes], "list[Passage]"]
Progress: TypeAlias = Callable[[Iterable[Any], str], Iterable[Any]]


def _by_text(read: Callable[[str, str], Document | list[Passage]]) -> Reader:
    """Turn a function that reads a file's text into a function that reads the file's bytes."""

    def reader(name: str, data: bytes) -> list[Passage]:
        found = read(name, decoded(data))
        return passages_of(found) if isinstance(found, Document) else found

    return reader


def _plain(name: str, text: str) -> Document:
    return Document(name, title_of(name), (Section("", text),))


KINDS: Mapping[str, tuple[tuple[str, ...], Reader]] = MappingProxyType(
    {
        kind: (SUFFIXES[kind], reader)
        for kind, reader in {
            "text": _by_text(_plain),
            "Markdown": _by_text(read_markdown),
            "HTML": _by_text(read_html),
            "CSV": _by_text(read_csv),
            "JSONL": read_jsonl,
            "PDF": lambda name, data: passages_of(read_pdf(name, data)),
            "code": _by_text(read_code),
            "configuration": _by_text(read_code),
        }.items()
    }
)
"""The file name suffixes and the reader of each kind of file."""
_NOT_ENTERED = frozenset(("node_modules", "__pycache__", "__MACOSX", "site-packages"))
CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
"""The file names of a data set: of its passages, and of its questions, which are not read as documents."""
_OTHER = "no reader for this kind of file"
_EMPTY, _LINK, _SPECIAL = "the file contains no text", "links are not followed", "it is not a regular file"
_WITHOUT_TEXT = frozenset((_OTHER, _EMPTY, _LINK, _SPECIAL, NOT_A_FILE))
"""The reasons that say that a path contains no text for phasegraph; the other reasons say that it cannot be read."""
_CONVERTED = {
    ".ipynb": "a notebook has no reader: convert it with jupyter nbconvert --to markdown",
    ".parquet": "a Parquet file is read alone: phasegraph index FILE --engine local",
}
"""For kinds of files without a reader: the reason, with the command that converts or reads the file."""
_NAMED = 5


class NothingReadError(InvalidInputError):
    """An error that says that a path contains no readable file."""


@dataclass(frozen=True)
class FilesRead:
    """Passages read from files.

    Parameters
    ----------
    passages : tuple of Passage
        The passages; each has ``source``, the path of its file, and ``metadata``.
    files : mapping of str to int
        Number of files read, by kind of file.
    skipped : mapping of str to str
        The reason for each file that was not read, by path. The path of a folder that cannot be read ends with ``/``.
    sources : tuple of str
        The path of the file of each passage.
    """

    passages: tuple[Passage, ...]
    files: Mapping[str, int]
    skipped: Mapping[str, str]
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.files.items())
        return f"{counted(sum(self.files.values()), 'file')} ({kinds}), {counted(len(self.passages), 'passage')}"

    @property
    def unread(self) -> tuple[str, ...]:
        """The skipped paths that may contain text, but cannot be read."""
        return tuple(name for name, reason in self.skipped.items() if reason not in _WITHOUT_TEXT)

    def notes(self) -> list[str]:
        """Return a line for each reason why files were skipped, with the names of some of these files."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.skipped.items():
            by_reason.setdefault(reason, []).append(name)
        return [
            f"skipped {counted(len(names), 'folder' if names[0].endswith('/') else 'file')}: {reason} ({_some(names)})"
            for reason, names in by_reason.items()
        ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f", … {len(names) - _NAMED} more" if len(names) > _NAMED else "")


@dataclass(frozen=True)
class _Part:
    """The passages that were read from a file or an archive, and the skipped files.

    `sources` contains the path of each passage's file, `files` the number of files by kind, and `skipped` the reason
    for each skipped file. `lacking` is the error about a missing package, if a file needs one.
    """

    passages: tuple[Passage, ...]
    sources: tuple[str, ...]
    files: Mapping[str, int]
    skipped: Mapping[str, str]
    lacking: MissingDependencyError | None
    state: tuple[int, ...]
    """The inode, size and times of the file, which change if the file changes; empty if it could not be opened."""


class FolderReader:
    """A reader that reads a path repeatedly, and parses only files that changed since the last time.

    Parameters
    ----------
    path : path
        A file, a folder or an archive, as for :func:`read_files`.
    without : collection of path
        Files and folders to leave out.
    """

    def __init__(self, path: str | Path, without: Collection[Path] = ()) -> None:
        self.root = Path(path)
        self._without = frozenset(one.resolve() for one in without)
        self._parts: dict[Path, _Part] = {}

    def read(self, progress: Progress | None = None, *, allow_empty: bool = False) -> FilesRead:
        """Read the current files of the path, and return all passages; errors are the same as in :func:`read_files`.

        With `allow_empty`, a path without a readable file is no error: the result then has no passages.
        """
        if not self.root.exists():
            raise InvalidInputError(f"{self.root}: there is no such file or folder")
        places, skipped = _files_of(self.root, self._without)
        alone = len(places) == 1 and not allow_empty
        parts: dict[Path, _Part] = {}
        for place, name in places if progress is None else progress(places, "reading"):
            state, known = _state_of(place), self._parts.get(place)
            same = known is not None and known.lacking is None and known.state == state != ()
            parts[place] = known if known is not None and same else _read_place(place, name, state, alone)
        self._parts = parts
        skipped |= {name: reason for part in parts.values() for name, reason in part.skipped.items()}
        passages = tuple(one for part in parts.values() for one in part.passages)
        if not passages and not allow_empty:
            raise _nothing_read(self.root, skipped, next((one.lacking for one in parts.values() if one.lacking), None))
        sources = tuple(one for part in parts.values() for one in part.sources)
        _check_ids(passages, sources)
        files: Counter[str] = Counter()
        for part in parts.values():
            files.update(part.files)
        return FilesRead(passages, MappingProxyType(dict(files)), MappingProxyType(skipped), sources)


def read_files(path: str | Path, *, progress: Progress | None = None, without: Collection[Path] = ()) -> FilesRead:
    """Read a file, all files below a folder, or the files of an archive as passages.

    Parameters
    ----------
    path : path
        A file of a kind in :data:`KINDS`, or a folder or a zip or tar archive of such files. A folder
        with ``corpus.jsonl`` and ``queries.jsonl`` is a data set: only the corpus is read.
    progress : callable, optional
        A function ``progress(iterable, label)`` that shows progress and returns an iterable with the same items.
    without : collection of path, optional
        Files and folders to leave out.

    Returns
    -------
    FilesRead
        The passages, and the reasons for skipped files.

    Raises
    ------
    InvalidInputError
        If the path does not exist, no file is readable, or two passages have the same id.
    MissingDependencyError
        If every readable file needs a package that is not installed.

    Notes
    -----
    Hidden files, links, and files that a ``.phasegraphignore`` excludes are left out, as are pipes, sockets, devices
    and the folders ``node_modules``, ``__pycache__``, ``__MACOSX`` and ``site-packages``. A ``.phasegraphignore`` has
    the syntax of ``.gitignore`` and applies to its folder and all folders below. Archives in a folder are read, but
    archives in archives are skipped. If the first line of a JSONL file has an ``id``, each line is a passage. All other
    files are cut into passages.
    """
    return FolderReader(path, without).read(progress)


def _state_of(place: Path) -> tuple[int, ...]:
    try:
        about = place.stat()
    except OSError:
        return ()
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _read_place(place: Path, name: str, state: tuple[int, ...], alone: bool) -> _Part:
    """Read a file, or the files of an archive, as passages.

    `name` is the file's path relative to the folder. `state` is stored in the result; it changes when the file changes.
    A file with an error is skipped; a damaged archive is skipped as a whole. A file that cannot be opened gets no
    state, so the next read opens it again. If `alone` is True, `place` is the only file of the input, and an error in
    its content is raised; a file in an archive is skipped.
    """
    try:
        return _read_members(place, name, state, alone)
    except (InvalidInputError, OSError) as error:
        if isinstance(error, OSError):
            return _Part((), (), {}, {name: _unopened(error)}, None, ())
        if alone:
            raise
        return _Part((), (), {}, {name: str(error)}, None, state)


def _read_members(place: Path, name: str, state: tuple[int, ...], alone: bool) -> _Part:
    """Read a place as :func:`_read_place` does, but raise the error of a damaged archive and an OSError."""
    passages: list[Passage] = []
    sources: list[str] = []
    files: Counter[str] = Counter()
    skipped: dict[str, str] = {}
    lacking: MissingDependencyError | None = None
    for member, data in _members(place, name):
        member = _encodable(member)
        kind = BY_SUFFIX.get(PurePosixPath(member).suffix.lower())
        if isinstance(data, str) or kind is None:
            skipped[member] = data if isinstance(data, str) else _unread(member)
            continue
        try:
            found = KINDS[kind][1](member, data)
        except MissingDependencyError as error:
            skipped[member], lacking = str(error), error
            continue
        except InvalidInputError as error:
            if alone and not is_archive(place.name):
                raise InvalidInputError(str(error) if member in str(error) else f"{place}: {error}") from error
            skipped[member] = str(error)
            continue
        if not found:
            skipped[member] = _EMPTY
            continue
        files[kind] += 1
        passages += found
        sources += [member] * len(found)
    return _Part(tuple(passages), tuple(sources), files, skipped, lacking, state)


def _files_of(root: Path, without: Collection[Path] = ()) -> tuple[list[tuple[Path, str]], dict[str, str]]:
    """Find the files below the path `root`: pairs (path, name for the ``source`` of the file's passages).

    The second value is the reason for each path that is skipped. Paths in `without` are left out.
    """
    if root.is_file():
        return [(root, _encodable(root.name))], {}
    if (root / CORPUS).is_file() and (root / QUERIES).is_file():
        return [(root / CORPUS, CORPUS)], {}
    if not root.is_dir():
        raise InvalidInputError(f"{root}: {_SPECIAL}")
    found: list[tuple[Path, str]] = []
    skipped: dict[str, str] = {}
    ignored = Ignored(root)

    def name_of(place: Path) -> str:
        return _encodable(place.relative_to(root).as_posix())

    def failed(error: OSError) -> None:
        folder, reason = Path(error.filename), f"the folder cannot be opened: {error.strerror}"
        if folder == root:
            raise InvalidInputError(f"{root}: {reason}") from error
        skipped[f"{name_of(folder)}/"] = reason

    for folder, below, names in os.walk(root, onerror=failed):
        here = Path(folder)
        ignored.enter(here, names)
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".")
            and name not in _NOT_ENTERED
            and not ignored.leaves_out(here / name, folder=True)
            and not (without and (here / name).resolve() in without)
        )
        skipped |= {name_of(here / name): _LINK for name in below if os.path.islink(here / name)}
        for place in (here / name for name in sorted(names) if not name.startswith(".")):
            if ignored.leaves_out(place):
                continue
            reason = _refusal(place)
            if reason:
                skipped[name_of(place)] = reason
            else:
                found.append((place, name_of(place)))
    return found, skipped


def _encodable(name: str) -> str:
    r"""Return a file name that can be stored as UTF-8; an escape, such as ``\udcff``, replaces an undecodable byte."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _refusal(place: Path) -> str:
    """Return the reason that a path in a folder is not opened; "" for a regular file."""
    try:
        mode = place.lstat().st_mode
    except OSError as error:
        return _unopened(error)
    return "" if S_ISREG(mode) else _LINK if S_ISLNK(mode) else _SPECIAL


def _members(place: Path, name: str) -> Iterator[Member]:
    """Yield the name and the content of a file, or of each file in an archive.

    Instead of the content, a text gives the reason why a file is not read.
    """
    if not is_archive(name):
        suffix = PurePosixPath(name).suffix.lower()
        if suffix not in BY_SUFFIX:
            yield name, _unread(name)
        elif place.stat().st_size > LARGEST and BY_SUFFIX.get(suffix) != "JSONL":
            yield name, TOO_LARGE
        else:
            yield name, place.read_bytes()
        return
    for member, data in members_of(place):
        hidden = any(part.startswith(".") or part in _NOT_ENTERED for part in PurePosixPath(member).parts)
        if hidden and not isinstance(data, str):
            continue
        yield (
            f"{name}/{member}",
            "the archive is inside another archive: unpack the outer archive" if is_archive(member) else data,
        )


def _unread(name: str) -> str:
    """Return the reason that a file of a kind without a reader is skipped."""
    return _CONVERTED.get(PurePosixPath(name).suffix.lower(), _OTHER)


def _unopened(error: OSError) -> str:
    """Return the reason that a file is skipped that cannot be opened."""
    return f"the file cannot be opened: {error.strerror}"


def _nothing_read(root: Path, skipped: Mapping[str, str], lacking: MissingDependencyError | None) -> Exception:
    readable = f"phasegraph reads {listed()}, and archives of them ({' '.join(ARCHIVES)})"
    if lacking is not None:
        return lacking
    if not skipped:
        return NothingReadError(f"{root}: the folder contains no files; {readable}")
    reasons = "; ".join(FilesRead((), {}, skipped).notes())
    return NothingReadError(f"{root}: there is no readable file: {reasons}; {readable}")


def _check_ids(passages: Iterable[Passage], sources: Iterable[str]) -> None:
    """Raise InvalidInputError if two passages have the same id; `sources` contains the file of each passage."""
    seen: dict[str, str] = {}
    for passage, source in zip(passages, sources, strict=True):
        if passage.id in seen:
            raise InvalidInputError(
                f"duplicate passage id {passage.id!r} in {seen[passage.id]} and {source}; give each passage its own id"
            )
        seen[passage.id] = source
