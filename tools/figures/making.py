"""Making figures and checking them: commands are run, their results kept, pages written from these, runs noted."""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import pages
from digests import ROOT, Code, as_json, digest_of_data, steady
from registry import FIGURES, Figure

PHASEGRAPH = ("-c", "import sys; from phasegraph.apps.cli import main; sys.exit(main())")
NO_DATA = "none"
NOWHERE = Path("DATA")
"""The folder of the data sets where none is given: their digests are not compared, and their figures left out."""


class FailedError(Exception):
    """A figure could not be made; the others can."""


@dataclass
class Figures:
    """The figures of a repository.

    Parameters
    ----------
    root : Path
        The repository.
    data : Path
        The folder of the data sets that do not come with the repository.
    figures : mapping of str to Figure
    """

    root: Path = ROOT
    data: Path = NOWHERE
    figures: Mapping[str, Figure] = field(default_factory=lambda: FIGURES)

    def __post_init__(self) -> None:
        self.code = Code(self.root)
        self.kept = self.root / "docs" / "figures"
        self.ledger = self._noted()

    def _noted(self) -> dict[str, dict[str, Any]]:
        """The ledger as it is now."""
        file = self.kept / "ledger.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}

    # What a figure depends on.

    def folders(self, figure: Figure) -> list[Path]:
        """The folders that a figure reads."""
        return [(self.root if name.startswith("data/") else self.data) / name for name in figure.data]

    def digests(self, figure: Figure) -> tuple[str, str | None]:
        """The digests of its code and of its data; the second is None where the data is not there."""
        notebooks = [start for start in figure.starts if start.endswith(".ipynb")]
        text = "\n".join(pages.source_of(self.root / one) for one in notebooks)
        starts = [one for one in figure.starts if one not in notebooks]
        data = digest_of_data(self.folders(figure)) if figure.data else NO_DATA
        return self.code.digest(starts, text=text), data

    def named(self, only: Sequence[str]) -> list[str]:
        """The figures of these names; those of blocks and of pages will do."""
        if not only:
            return list(self.figures)
        found = []
        for wanted in only:
            of = [
                name
                for name, one in self.figures.items()
                if wanted in (name, *one.blocks, *one.writes, *(page for page, _ in one.blocks.values()))
            ]
            if not of:
                known = ", ".join(self.figures)
                raise SystemExit(f"figures: {wanted!r} is no figure, block or page; there are {known}")
            found += of
        return list(dict.fromkeys(found))

    # Making them.

    def run(self, figure: Figure) -> Any:
        """The result of a figure's commands: of one its own, of several by label; None if it writes pages alone."""
        found: dict[str, Any] = {}
        for label, command in figure.commands.items():
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "result.json"
                given = [part.format(json=file, data=self.data) for part in command]
                start = [*PHASEGRAPH, *given[1:]] if given[0] == "phasegraph" else given
                done = subprocess.run([sys.executable, *start], cwd=self.root, check=False, stdout=subprocess.DEVNULL)
                if done.returncode:
                    raise FailedError(f"{shown(command)} ended with {done.returncode}; no page was changed")
                if file.is_file():
                    found[label] = steady(figure.keep(json.loads(file.read_text(encoding="utf-8"))))
        return found.get("", found or None)

    def make(self, name: str) -> None:
        """Run a figure's commands, keep their result, write what quotes it, and note the run."""
        figure = self.figures[name]
        code, data = self.digests(figure)
        if data is None:
            gone = ", ".join(str(one) for one in self.folders(figure) if not one.is_dir())
            raise FailedError(f"{name} is left out: no {gone} (make figures DATA=FOLDER)")
        started = perf_counter()
        found = self.run(figure)
        seconds = round(perf_counter() - started)
        self.kept.mkdir(parents=True, exist_ok=True)
        if found is not None:
            (self.kept / f"{name}.json").write_text(as_json(found), encoding="utf-8")
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        self.ledger = self._noted()  # another run may have ended meanwhile
        self.ledger[name] = {
            "command": [shown(command) for command in figure.commands.values()],
            "ran": today,
            "seconds": seconds,
            "code": code,
            "data": data,
            "checked_by": "running it" if figure.quick else "its digest",
        }
        self._note()
        self.write(name)

    def _note(self) -> None:
        """Write the ledger."""
        text = json.dumps(self.ledger, indent=1, sort_keys=True) + "\n"
        (self.kept / "ledger.json").write_text(text, encoding="utf-8")

    def write(self, name: str) -> None:
        """Write what quotes a figure, from its kept result, with the digests of its last run."""
        if name not in self.ledger:
            raise FailedError(f"{name} was never run; {again(name)}")
        figure, note = self.figures[name], self.ledger[name]
        for block, page in {block: page for block, (page, _) in figure.blocks.items()}.items():
            path = self.root / page
            made = pages.made(block, again(block), note["code"], note["data"], self.text(name, block))
            path.write_text(pages.with_block(path.read_text(encoding="utf-8"), made), encoding="utf-8")
        for page in figure.writes:
            pages.stamp(self.root / page, name, again(name), note["code"], note["data"], self.dated(name))

    def text(self, name: str, block: str, found: Any = None) -> str:
        """What a block says: of the kept result, or of one that is handed over."""
        if found is None:
            found = json.loads((self.kept / f"{name}.json").read_text(encoding="utf-8"))
        return "\n\n".join(filter(None, [self.figures[name].blocks[block][1](found), self.dated(name)]))

    def dated(self, name: str) -> str:
        """The line of a figure that was not measured with the present code, and says so."""
        note = self.ledger[name]
        if not note.get("dated"):
            return ""
        return pages.DATED.format(ran=note["ran"], again=again(name))

    def date(self, name: str) -> None:
        """Have the pages of a figure say that they are stale, if they are."""
        note = self.ledger.get(name)
        if note is None or any(page.endswith(".ipynb") for page in self.figures[name].writes):
            raise FailedError(f"{name} cannot be dated: it was never run, or writes a notebook; {again(name)}")
        code, data = self.digests(self.figures[name])
        if note["code"] != code or data not in (None, note["data"]):
            note["dated"] = True
            self._note()
            self.write(name)

    # Checking them.

    def problems(self, *, run: bool = True) -> list[str]:
        """What is wrong with the pages, a sentence each; `run`: the quick commands are run again."""
        out = []
        for name, figure in self.figures.items():
            if name not in self.ledger:
                out.append(f"{name} was never run; {again(name)}")
                continue
            code, data = self.digests(figure)
            fresh = self.run(figure) if run and figure.quick else None
            for block, (page, _) in figure.blocks.items():
                text = (self.root / page).read_text(encoding="utf-8")
                here = next((one for one in pages.blocks(text) if one.name == block), None)
                if here is None:
                    out.append(f"{page} has no block {block!r}, between whose marks a table is written")
                    continue
                out += self._of(page, here, name, code, data)
                if here.edited:
                    continue
                if here.body.strip() != self.text(name, block).strip():
                    out.append(f"{page}: {block} is not what docs/figures/{name}.json says; {again(block)}")
                elif fresh is not None and here.body.strip() != self.text(name, block, fresh).strip():
                    said = " and ".join(self.ledger[name]["command"])
                    out.append(f"{page}: {block} is not what `{said}` says now; {again(block)}")
            for page in figure.writes:
                stamp = pages.read_stamp(self.root / page)
                writers = [one for one, other in self.figures.items() if page in other.writes]
                if stamp is None or stamp.name not in writers:
                    out.append(f"{page} was written by something else than make figures; {again(name)}")
                elif stamp.name == name:
                    out += self._of(page, stamp, name, code, data)
        return [*out, *self._strange(), *self._unmade()]

    def _of(self, page: str, block: pages.Block, name: str, code: str, data: str | None) -> list[str]:
        """What is wrong with one block, whatever it says."""
        if block.edited:
            return [f"{page}: {block.name} was edited by hand; {again(block.name)} writes it"]
        stale = [
            what
            for what, then, now in (("code", block.code, code), ("data", block.data, data))
            if now is not None and then != now
        ]
        if stale and not self.ledger[name].get("dated"):
            changed = " and ".join(stale)
            when = self.ledger[name]["ran"]
            return [f"{page}: {block.name} is of {when}, and its {changed} changed since; {again(block.name)}"]
        return []

    def _strange(self) -> list[str]:
        """Blocks that no figure writes."""
        known = {block for one in self.figures.values() for block in one.blocks} | set(self.figures)
        files = [*self.root.glob("*.md"), *self.root.glob("integrations/*/README.md"), *self.root.glob("docs/**/*.md")]
        return [
            f"{file.relative_to(self.root)}: no figure is called {one.name!r}"
            for file in sorted(files)
            for one in pages.blocks(file.read_text(encoding="utf-8"))
            if one.name not in known
        ]

    def _unmade(self) -> list[str]:
        """Pages of figures that no command makes, and that do not say of when they are."""
        written = {page for one in self.figures.values() for page in one.writes}
        out = []
        for file in sorted(
            path for room in ("research", "reproduction") for path in self.root.glob(f"docs/{room}/*.md")
        ):
            page, text = file.relative_to(self.root).as_posix(), file.read_text(encoding="utf-8")
            if page not in written and not pages.RECORD.search(text) and not list(pages.blocks(text)):
                out.append(
                    f"{page} is made by no figure of tools/figures/registry.py; if no command makes it any more, write "
                    "*Record of DATE, commit COMMIT: the figures of this page are those of that code.* below its title"
                )
        return out

    def runs(self) -> list[str]:
        """A line for each figure: when it was run, how long that took, and the digest of then."""
        lines = []
        for name, figure in self.figures.items():
            note = self.ledger.get(name)
            if note is None:
                lines.append(f"{name:18} never")
                continue
            old = "" if note["code"] == self.digests(figure)[0] else "  (the code has changed since)"
            lines.append(f"{name:18} {note['ran']}  {note['seconds']:>5} s  code {note['code']}{old}")
        return lines


def shown(command: Sequence[str]) -> str:
    """A command as a person types it."""
    words = [part.format(json="FILE", data="DATA") for part in command]
    return shlex.join(words if words[0] == "phasegraph" else ["python", *words])


def again(name: str) -> str:
    """What writes a figure or a block anew."""
    return f"make figures ONLY={name}"


def main(arguments: Sequence[str] | None = None, figures: Figures | None = None, about: str = "") -> int:
    """Make or check the figures; 0 for done, 1 where something is wrong, each on a line of standard error."""
    parser = argparse.ArgumentParser(prog="tools/figures", description=about.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="figures, blocks or pages; default: all")
    parser.add_argument("--data", type=Path, default=NOWHERE, help="folder of the data sets that are not shipped")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--check", action="store_true", help="write nothing: say which pages are old, wrong or edited")
    way.add_argument("--pages", action="store_true", help="run nothing: write the pages from the results that are kept")
    way.add_argument("--date", action="store_true", help="run nothing: have stale pages say of when they are")
    given = parser.parse_args(arguments)
    all_of_them = figures or Figures(data=given.data.resolve())
    names = all_of_them.named(given.only)
    wrong: list[str] = []
    if given.check:
        wrong = all_of_them.problems()
        print("\n".join(all_of_them.runs()))
    for name in () if given.check else names:
        try:
            if given.pages:
                all_of_them.write(name)
            elif given.date:
                all_of_them.date(name)
            else:
                print(f"{name} …", flush=True)
                all_of_them.make(name)
                print(f"{name}: {all_of_them.ledger[name]['seconds']} s", flush=True)
        except FailedError as error:
            wrong.append(str(error))
    for line in wrong:
        print(f"figures: {line}", file=sys.stderr)
    return int(bool(wrong))
