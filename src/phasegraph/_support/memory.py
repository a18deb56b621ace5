"""How much memory this process can still take: of the machine, and within the limit of its container."""

from __future__ import annotations

from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


def free_memory() -> int | None:
    """Bytes of memory that are free, pages that the system can drop included; None where the system does not tell.

    A container's limit counts where it is lower: of the pages of files that count as used, none are counted as free.
    """
    lines = dict(line.split(":", 1) for line in _text(_MACHINE).splitlines() if ":" in line)
    found = [int(lines["MemAvailable"].split()[0]) * 1024] if "MemAvailable" in lines else []
    for limit, used in _LIMITS:
        most, now = _text(_GROUPS / limit).strip(), _text(_GROUPS / used).strip()
        if most.isdigit() and now.isdigit():  # "max" is no limit
            found.append(max(int(most) - int(now), 0))
    return min(found, default=None)


BYTES_OF_TEXT, SHARE = 13, 0.8
"""Memory that building an index takes for each byte of text (measured: docs/research/scale.md), and the share of the
free memory that it may take."""


def too_large(text: int, more: int = 0) -> str:
    """Say how far an index of `text` bytes, with `more` bytes beside it, exceeds the free memory; "" if it fits."""
    free = free_memory()
    needed = BYTES_OF_TEXT * text + more
    if free is None or needed <= SHARE * free:
        return ""
    return f"building takes about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
