"""Determine how much memory this process can still use on its machine, or within the limit of its container."""

from __future__ import annotations

from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
BYTES_OF_TEXT, SHARE = 13, 0.8
"""Bytes of memory that building needs per byte of text, and maximum share of the free memory for building.

The first number is measured; see docs/research/scale.md. Building means the computation of an index.
"""


def free_memory() -> int | None:
    """Return the number of bytes of available memory; None if unknown.

    File caches that the system can drop count as available. In a container with less available memory, the result is
    the container's memory limit minus its used memory. In this case, cached file pages count as used.
    """
    lines = dict(line.split(":", 1) for line in _text(_MACHINE).splitlines() if ":" in line)
    found = [int(lines["MemAvailable"].split()[0]) * 1024] if "MemAvailable" in lines else []
    for limit, used in _LIMITS:
        most, now = _text(_GROUPS / limit).strip(), _text(_GROUPS / used).strip()
        if most.isdigit() and now.isdigit():  # "max" is no limit
            found.append(max(int(most) - int(now), 0))
    return min(found, default=None)


def too_large(text: int, more: int = 0) -> str:
    """Return a message if an index is too large to build in memory; otherwise, return "".

    The message contains the needed and the available memory. `text` is the size of the passages' texts in bytes, and
    `more` is the number of further bytes that the index needs.
    """
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
