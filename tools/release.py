"""Check that a tag is the version of all three distributions; with ``--notes``, print the changes in this version.

Run: python tools/release.py v0.1.0 [--notes]
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (
    ROOT / "pyproject.toml",
    ROOT / "integrations/langchain-phasegraph/pyproject.toml",
    ROOT / "integrations/llama-index-retrievers-phasegraph/pyproject.toml",
)


def versions() -> dict[str, str]:
    """Return the version of each distribution, by name."""
    projects = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in PROJECTS]
    return {one["name"]: one["version"] for one in projects}


def notes(version: str) -> str:
    """Return the part of CHANGELOG.md about a version; exit with an error if there is none, or it is unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for part in re.split(r"(?m)^## ", text)[1:]:
        title, _, body = part.partition("\n")
        if title.split()[0] == version:
            if "unreleased" in title:
                raise SystemExit(f"CHANGELOG.md says that {version} is unreleased: write the date in its title")
            return body.strip() + "\n"
    raise SystemExit(f"CHANGELOG.md has no part {version!r}")


def pending() -> list[str]:
    """Return the names of the changelog's fragments that are not yet in CHANGELOG.md."""
    return sorted(path.name for path in (ROOT / "changes").glob("*"))


def main(tag: str, *options: str) -> None:
    """Check that a tag is the version of all distributions; with ``--notes``, print the changes in this version."""
    version = tag.removeprefix("v")
    if others := {name: one for name, one in versions().items() if one != version}:
        raise SystemExit(f"the tag is {tag}, but these have another version: {others}")
    if waiting := pending():
        raise SystemExit(f"changes/ still holds {waiting}: run python tools/changes.py collect TITLE [FILE ...]")
    changes = notes(version)
    if options == ("--notes",):
        print(changes, end="")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
