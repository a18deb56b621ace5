"""Check the fragments of the changelog (``check``), or move them under a heading of CHANGELOG.md (``collect``).

Each file ``changes/<short-name>.md`` contains sentences about one change, for users; each line is a bullet.
Run: python tools/changes.py check
     python tools/changes.py collect "Living documents" [changes/sync.md ...]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NEXT_SENTENCE = re.compile(r"[.!?][)\"']* +(?=[A-Z\"'(`])")


def fragments(root: Path = ROOT) -> list[Path]:
    """Return every file in the folder ``changes``, sorted by name."""
    return sorted((root / "changes").glob("*"))


def faults(file: Path) -> list[str]:
    """Return a sentence for a wrong name of a fragment, and for each line that is not a bullet with one sentence.

    The list is empty for a right fragment.
    """
    wrong = [] if re.fullmatch(r"[a-z0-9-]+\.md", file.name) else [f"{file.name}: name it like sync-of-folders.md"]
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        sentence = line[2:]
        if not line.startswith(("* ", "- ")) or not sentence.strip():
            reason = "begin the line with '* '"
        elif not sentence.endswith("."):
            reason = "end the sentence with a full stop"
        elif _NEXT_SENTENCE.search(re.sub(r"`[^`]*`", "`", sentence)):
            reason = "write one sentence a bullet"
        else:
            continue
        wrong.append(f"changes/{file.name}:{number}: {reason}: {line!r:.90}")
    return wrong if lines else [*wrong, f"changes/{file.name}: the file is empty"]


def collected(changelog: str, title: str, bullets: Sequence[str]) -> str:
    """Return the changelog with bullets added at the end of a section of its newest version.

    If the newest version has no such section, the section is added as its first.
    """
    top, newest, *older = re.split(r"(?m)^(?=## )", changelog)
    start, *sections = re.split(r"(?m)^(?=### )", newest)
    heading = f"### {title}\n"
    old = next((text for text in sections if text.startswith(heading)), "")
    new = (f"{old.rstrip()}\n" if old else f"{heading}\n") + "".join(f"* {bullet}\n" for bullet in bullets) + "\n"
    sections = [new if text == old else text for text in sections] if old else [new, *sections]
    return "".join([top, start, *sections, *older]).rstrip() + "\n"


def main(task: str = "", title: str = "", *names: str) -> None:
    """Check all fragments (or those in `names`); with the task ``collect``, then move them into the changelog."""
    files = [Path(name).resolve() for name in names] or fragments()
    if wrong := [fault for file in files for fault in faults(file)]:
        raise SystemExit("\n".join(wrong))
    if task == "collect" and title:
        changelog = ROOT / "CHANGELOG.md"
        bullets = [line[2:] for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        changelog.write_text(collected(changelog.read_text(encoding="utf-8"), title, bullets), encoding="utf-8")
        for file in files:
            file.unlink()
        print(f"{len(files)} fragments are in CHANGELOG.md")
    elif task == "check" and not title:
        print(f"{len(files)} fragments checked")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
