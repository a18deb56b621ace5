"""The kinds of files that phasegraph reads, with their suffixes; other modules name the kinds from this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SUFFIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "text": (".txt", ".text", ".rst"),
        "Markdown": (".md", ".markdown"),
        "HTML": (".html", ".htm", ".xhtml"),
        "CSV": (".csv", ".tsv"),
        "JSONL": (".jsonl", ".ndjson"),
        "PDF": (".pdf",),
        "code": (
            ".py", ".js", ".ts", ".tsx", ".jsx", ".java", ".go", ".rs", ".c", ".h", ".cpp", ".hpp", ".cs", ".rb",
            ".php", ".sh", ".sql",
        ),
        "configuration": (".toml", ".yaml", ".yml", ".ini", ".cfg"),
    }
)  # fmt: skip
"""The file name suffixes of each kind of file."""
BY_SUFFIX: Mapping[str, str] = MappingProxyType({end: kind for kind, ends in SUFFIXES.items() for end in ends})
"""The kind of file by suffix."""


def named() -> str:
    """Return the names of all kinds as a phrase: ``text, Markdown, … or configuration``."""
    *others, last = SUFFIXES
    return f"{', '.join(others)} or {last}"


def listed() -> str:
    """Return the names of all kinds with their suffixes, for messages."""
    return ", ".join(f"{kind} ({' '.join(ends)})" for kind, ends in SUFFIXES.items())
