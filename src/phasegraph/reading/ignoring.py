"""``.phasegraphignore`` files, in which a user lists files that must not be read, in the syntax of ``.gitignore``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from phasegraph.errors import needed

IGNORE = ".phasegraphignore"


class Ignored:
    """The patterns of all ``.phasegraphignore`` files below a folder; patterns of a deeper folder take precedence.

    Parameters
    ----------
    root : path
        The folder whose files are read.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._patterns: dict[Path, Any] = {}

    def enter(self, folder: Path, names: Collection[str]) -> None:
        """Read the patterns of a folder, if `names`, the files in the folder, include a ``.phasegraphignore``."""
        if IGNORE not in names:
            return
        with needed(f"{IGNORE} needs pathspec; pip install 'phasegraph[files]'"):
            from pathspec import GitIgnoreSpec
        lines = (folder / IGNORE).read_text(encoding="utf-8-sig", errors="replace").splitlines()
        self._patterns[folder] = GitIgnoreSpec.from_lines(lines)

    def leaves_out(self, place: Path, *, folder: bool = False) -> bool:
        """Return True if the patterns exclude the file `place`; set `folder` to True if `place` is a folder."""
        for above in place.parents if self._patterns else ():
            if above in self._patterns:
                found = self._patterns[above].check_file(place.relative_to(above).as_posix() + ("/" if folder else ""))
                if found.include is not None:
                    return bool(found.include)
            if above == self._root:
                break
        return False
