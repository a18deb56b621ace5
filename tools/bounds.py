"""Print the lowest version of each package that the three distributions accept: ``python tools/bounds.py``.

The output has the form of pip's constraints.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import chain

from release import PROJECTS


def requirements() -> Iterator[str]:
    """Yield every requirement of the three distributions and their extras, except their requirements of each other."""
    for path in PROJECTS:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for text in chain(project["dependencies"], *project["optional-dependencies"].values()):
            if "phasegraph" not in text:
                yield text


def lowest() -> dict[str, str]:
    """Return the lowest version that the distributions accept of each package.

    If several requirements name the package, this is the highest of their versions.
    """
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
