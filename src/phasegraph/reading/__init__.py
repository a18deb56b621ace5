"""Read a user's files as passages: text, Markdown, HTML, CSV, JSONL and PDF files, also in folders and archives."""

from __future__ import annotations

from phasegraph.reading.files import KINDS, FilesRead, read_files

__all__ = [
    "KINDS",
    "FilesRead",
    "read_files",
]
