"""Files that the user leaves out: ``.phasegraphignore``, in the syntax of ``.gitignore``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from phasegraph.errors import needed

IGNORE = ".phasegraphignore"


class Ignored:
    """What the files ``.phasegraphignore`` below a folder leave out; the patterns of a deeper one count before others.

    Parameters
    ----------
    root : path
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._patterns: dict[Path, Any] = {}

    def enter(self, folder: Path, names: Collection[str]) -> None:
        """Read the patterns in a folder that holds files of these names."""
        if IGNORE not in names:
            return
        with needed(f"{IGNORE} needs pathspec; pip install 'phasegraph[files]'"):
            from pathspec import GitIgnoreSpec
        lines = (folder / IGNORE).read_text(encoding="utf-8-sig", errors="replace").splitlines()
        self._patterns[folder] = GitIgnoreSpec.from_lines(lines)

    def leaves_out(self, place: Path, *, folder: bool = False) -> bool:
        """Whether a file, or a folder, is left out."""
        for above in place.parents if self._patterns else ():
            if above in self._patterns:
                found = self._patterns[above].check_file(place.relative_to(above).as_posix() + ("/" if folder else ""))
                if found.include is not None:
                    return bool(found.include)
            if above == self._root:
                break
        return False
