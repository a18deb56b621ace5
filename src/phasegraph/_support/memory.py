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


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
