"""The lowest version that the three distributions admit of each package, as constraints: ``python tools/bounds.py``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import chain

from release import PROJECTS


def requirements() -> Iterator[str]:
    """Every requirement of a distribution and its extras, except those for each other."""
    for path in PROJECTS:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for text in chain(project["dependencies"], *project["optional-dependencies"].values()):
            if "phasegraph" not in text:
                yield text


def lowest() -> dict[str, str]:
    """The lowest version of each package; the highest of them where several requirements name it."""
    found: dict[str, str] = {}
    for text in requirements():
        match = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)(?:,<[\d.]+)?", text)
        if match is None:
            raise SystemExit(f"the requirement {text!r} names no lowest version: write NAME>=VERSION")
        name, version = match.groups()
        found[name] = max(version, found.get(name, "0"), key=lambda one: [int(part) for part in one.split(".")])
    return found


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in sorted(lowest().items())))
