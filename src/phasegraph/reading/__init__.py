"""Read a user's files as passages: single files, folders and archives; ``kinds.py`` lists the kinds of files."""

from __future__ import annotations

from phasegraph.reading.files import FilesRead, read_files

__all__ = ["FilesRead", "read_files"]
