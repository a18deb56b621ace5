"""Measure and check figures: run their commands, store the results, write the pages, and record the runs."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import pages
from digests import ROOT, Code, as_json, digest_of_data, digest_of_text, steady
from phasegraph._support.files import one_writer
from registry import FIGURES, Figure

PHASEGRAPH = ("-c", "import sys; from phasegraph.apps.cli import main; sys.exit(main())")
NO_DATA = "none"
NOWHERE = Path("DATA")
"""The folder of the data sets where none is given: their digests are not compared, and their figures left out."""


OUT = "docs/reproduction"
"""Where commands with ``{out}`` write their pages, one command at a time."""
PATIENCE = 60.0
"""Seconds that a figure waits for another to write its pages."""
PARTS = ("code", "data")
"""What a figure depends on."""
TYPED = ("learn", "guide", "understand", "reference")
"""The rooms of ``docs`` whose pages speak of the present: no figure of theirs is typed by hand."""


class FailedError(Exception):
    """Raised if a figure could not be measured; other figures are not affected."""


FAILURES = (FailedError, OSError, LookupError, RuntimeError, TypeError, ValueError)
"""What a command's result, or a page that takes it, may do wrong: the other figures are made all the same."""


@dataclass
class Figures:
    """The figures of a repository: they are measured, written into its pages, and checked.

    Parameters
    ----------
    root : Path
        The repository.
    data : Path
        The folder of the data sets that are not in the repository.
    figures : mapping of str to Figure
    """

    root: Path = ROOT
    data: Path = NOWHERE
    figures: Mapping[str, Figure] = field(default_factory=lambda: FIGURES)

    def __post_init__(self) -> None:
        self.code = Code(self.root)
        self.kept = self.root / "docs" / "figures"
        self.ledger = self._noted()
        self._digests: dict[str, tuple[str, str | None]] = {}

    def _noted(self) -> dict[str, dict[str, Any]]:
        """Return the ledger as it is on the disk; empty if there is none."""
        file = self.kept / "ledger.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}

    # What a figure depends on.

    def folders(self, figure: Figure) -> list[Path]:
        """Return the folders of data that a figure's commands read."""
        return [(self.root if name.startswith("data/") else self.data) / name for name in figure.data]

    def digests(self, name: str) -> tuple[str, str | None]:
        """Return the present digests of a figure's code and of its data; the second is None if the data is missing."""
        if name not in self._digests:
            figure = self.figures[name]
            notebooks = [start for start in figure.starts if start.endswith(".ipynb")]
            text = "\n".join(pages.source_of(self.root / one) for one in notebooks)
            starts = [one for one in figure.starts if one not in notebooks]
            data = digest_of_data(self.folders(figure)) if figure.data else NO_DATA
            self._digests[name] = self.code.digest(starts, text=text), data
        return self._digests[name]

    def stale(self, name: str) -> list[str]:
        """Return the parts of a figure (code, data) that have changed since it was measured; empty if none has."""
        note, now = self.ledger[name], self.digests(name)
        return [what for what, digest in zip(PARTS, now, strict=True) if digest not in (None, note[what])]

    def named(self, only: Sequence[str]) -> list[str]:
        """Return the names of the figures that `only` names, stale figures first; all figures if `only` is empty.

        `only` may also name blocks and pages.
        """
        found = []
        for wanted in only or self.figures:
            of = [
                name
                for name, one in self.figures.items()
                if wanted in (name, *one.blocks, *one.writes, *(page for page, _ in one.blocks.values()))
            ]
            if not of:
                known = ", ".join(self.figures)
                raise SystemExit(f"figures: {wanted!r} is no figure, block or page; there are {known}")
            found += of
        return sorted(dict.fromkeys(found), key=lambda name: name in self.ledger and not self.stale(name))

    # Making them.

    def run(self, name: str, out: Path | None = None) -> Any:
        """Run a figure's commands; return the result of one command, or the results of several commands by label.

        Return None if the figure only writes pages. Pages are written to `out`, or by default to their usual place.
        """
        figure, found = self.figures[name], dict[str, Any]()
        for label, command in figure.commands.items():
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "result.json"
                given = [part.format(json=file, data=self.data, out=out or OUT) for part in command]
                start = [*PHASEGRAPH, *given[1:]] if given[0] == "phasegraph" else given
                done = subprocess.run([sys.executable, *start], cwd=self.root, check=False, stdout=subprocess.DEVNULL)
                if done.returncode:
                    raise FailedError(f"{shown(command)} ended with {done.returncode}; no page was changed")
                if file.is_file():
                    found[label] = steady(figure.keep(json.loads(file.read_text(encoding="utf-8"))))
        return found.get("", found or None)

    def make(self, name: str) -> None:
        """Run a figure's commands, store their result, write the texts that quote it, and record the run.

        Raise FailedError if the data is missing or a command fails.
        """
        figure = self.figures[name]
        code, data = self.digests(name)
        if data is None:
            gone = ", ".join(str(one) for one in self.folders(figure) if not one.is_dir())
            raise FailedError(f"{name} is left out: no {gone} (make figures DATA=FOLDER)")
        started = perf_counter()
        found = self.run(name)
        seconds = round(perf_counter() - started)
        self.kept.mkdir(parents=True, exist_ok=True)
        (self.root / OUT).mkdir(parents=True, exist_ok=True)
        with one_writer(self.root / OUT, patience=PATIENCE):
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
                "result": digest_of_text(as_json(self.result(name))),
            }
            self.write(name)

    def result(self, name: str) -> Any:
        """Return the stored result of a figure's last run; None if the run only wrote pages."""
        path, keys = self.figures[name].results or (f"docs/figures/{name}.json", None)
        file = self.root / path
        kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        return kept if keys is None or kept is None else {key: kept[key] for key in keys if key in kept}

    def _note(self) -> None:
        """Write the ledger to the disk."""
        text = json.dumps(self.ledger, indent=1, sort_keys=True) + "\n"
        (self.kept / "ledger.json").write_text(text, encoding="utf-8")

    def write(self, name: str) -> None:
        """Write the texts that quote a figure, from its stored result, with the digests of its last run.

        A page with several figures has the stamp of the first figure, in whatever order the figures are measured.
        """
        if name not in self.ledger:
            raise FailedError(f"{name} was never run; {again(name)}")
        figure, note = self.figures[name], self.ledger[name]
        note["pages"] = {}
        for page in figure.writes:
            owner = next(one for one, other in self.figures.items() if page in other.writes and one in self.ledger)
            of = self.ledger[owner]
            made = pages.stamp(self.root / page, owner, again(owner), of["code"], of["data"], self.dated(owner))
            of["pages"][page] = made.text
        self._note()
        for block, page in {block: page for block, (page, _) in figure.blocks.items()}.items():
            path = self.root / page
            made = pages.made(block, again(block), note["code"], note["data"], self.text(name, block))
            path.write_text(pages.with_block(path.read_text(encoding="utf-8"), made), encoding="utf-8")

    def text(self, name: str, block: str, found: Any = None) -> str:
        """Return the text of a block, made from `found` or, if this is None, from the stored result."""
        if found is None:
            found = self.result(name)
        return "\n\n".join(filter(None, [self.figures[name].blocks[block][1](found), self.dated(name)]))

    def dated(self, name: str) -> str:
        """Return the line which says that a figure was not measured with the present code; "" if it is not needed."""
        note = self.ledger[name]
        return pages.DATED.format(ran=note["ran"], again=again(name)) if "dated" in note else ""

    def date(self, name: str) -> None:
        """Write on the pages of a stale figure that they are stale.

        The mark holds for the present code and data only.
        """
        if name not in self.ledger:
            raise FailedError(f"{name} cannot be dated: it was never run; {again(name)}")
        note, (code, data) = self.ledger[name], self.digests(name)
        before = note.pop("dated", None)
        if self.stale(name):
            note["dated"] = {"code": code, "data": note["data"] if data is None else data}
        if note.get("dated") != before:
            self.write(name)

    # Checking them.

    def problems(self, *, run: bool = True) -> list[str]:
        """Return a sentence for each problem of the pages.

        With `run`, also run the commands that take only seconds, and compare their results with the pages.
        """
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            out = Path(folder)
            quick = [name for name, one in self.figures.items() if run and one.quick and name in self.ledger]
            there = [name for name in quick if all(one.is_dir() for one in self.folders(self.figures[name]))]
            fresh = {name: pool.submit(self.run, name, out / name) for name in there}
            found = {name: self._problems_of(name) for name in self.figures}
            for name, job in fresh.items():
                found[name] = found[name] or self._otherwise(name, job, out / name)
        of_figures = [line for lines in found.values() for line in lines]
        of_pages = [self._results(), self._strange(), self._unmade(), self._typed(), self._records()]
        return [*of_figures, *(line for lines in of_pages for line in lines)]

    def _problems_of(self, name: str) -> list[str]:
        """Return a sentence for each problem of the texts that quote a figure.

        The texts are compared with the stored result and with the present digests.
        """
        if name not in self.ledger:
            return [f"{name} was never run; {again(name)}"]
        figure, note = self.figures[name], self.ledger[name]
        file = figure.results[0] if figure.results else f"docs/figures/{name}.json"
        edited = digest_of_text(as_json(self.result(name))) != note["result"]
        out = [f"{file}: the result of {name} was edited by hand; {again(name)} makes it"] if edited else []
        for block, (page, _) in figure.blocks.items():
            text = (self.root / page).read_text(encoding="utf-8")
            here = next((one for one in pages.blocks(text) if one.name == block), None)
            if here is None:
                out.append(f"{page} has no block {block!r}, between whose marks a table is written")
                continue
            wrong = self._of(page, here, name)
            if not wrong and not edited and here.body.strip() != self.text(name, block).strip():
                wrong = [f"{page}: {block} is not what {file} says; {again(block)}"]
            out += wrong
        for page in figure.writes:
            stamp = pages.read_stamp(self.root / page)
            writers = [one for one, other in self.figures.items() if page in other.writes]
            if stamp is None or stamp.name not in writers:
                out.append(f"{page} was written by something else than make figures; {again(name)}")
            elif stamp.name == name:
                out += self._of(page, stamp, name)
        return out

    def _of(self, page: str, block: pages.Block, name: str) -> list[str]:
        """Return a sentence if one block or page was edited by hand, is from another run, or is stale."""
        note = self.ledger[name]
        if block.edited or block.text != note["pages"].get(page, block.text):
            return [f"{page}: {block.name} was edited by hand; {again(block.name)} writes it"]
        if (block.code, block.data) != (note["code"], note["data"]):
            return [f"{page}: {block.name} is not of the run that docs/figures/ledger.json notes; {again(block.name)}"]
        now, accepted = dict(zip(PARTS, self.digests(name), strict=True)), note.get("dated", {})
        changed = " and ".join(what for what in self.stale(name) if now[what] != accepted.get(what))
        if changed:
            return [
                f"{page}: {block.name} is of {note['ran']}, and its {changed} changed since; {again(block.name)}, or "
                "make figures DATE=1, which has the page say so"
            ]
        return []

    def _otherwise(self, name: str, job: Future[Any], out: Path) -> list[str]:
        """Return a sentence for each block or page that differs from the result of `job`, a new run of the commands."""
        try:
            found = job.result()
        except FailedError as error:
            return [str(error)]
        said = " and ".join(shown(command) for command in self.figures[name].commands.values())
        differing = [
            page
            for page in self.figures[name].writes
            if (file := out / Path(page).name).is_file()
            and pages.bare(file.read_text(encoding="utf-8"))
            != pages.bare((self.root / page).read_text(encoding="utf-8"))
            and sum(page in one.writes for one in self.figures.values()) == 1
        ]
        return [
            *(
                f"{page}: {block} is not what `{said}` says now; {again(block)}"
                for block, (page, _) in self.figures[name].blocks.items()
                if self.text(name, block, found) != self.text(name, block)
            ),
            *(f"{page} is not what `{said}` writes now; {again(name)}" for page in differing),
        ]

    def _results(self) -> list[str]:
        """Return a sentence for each result in a common file that no figure makes."""
        known: dict[str, set[str]] = {}
        for one in self.figures.values():
            if one.results is not None:
                known.setdefault(one.results[0], set()).update(one.results[1])
        return [
            f"{path} holds {key!r}, which no figure of tools/figures/registry.py makes; take it out"
            for path, keys in known.items()
            for key in sorted(json.loads((self.root / path).read_text(encoding="utf-8")).keys() - keys)
        ]

    def _strange(self) -> list[str]:
        """Return a sentence for each block of a page that no figure writes."""
        known = {block for one in self.figures.values() for block in one.blocks} | set(self.figures)
        files = [*self.root.glob("*.md"), *self.root.glob("integrations/*/README.md"), *self.root.glob("docs/**/*.md")]
        return [
            f"{file.relative_to(self.root)}: no figure is called {one.name!r}"
            for file in sorted(files)
            for one in pages.blocks(file.read_text(encoding="utf-8"))
            if one.name not in known
        ]

    def _unmade(self) -> list[str]:
        """Return a sentence for each page of docs/research and docs/reproduction that no figure makes.

        Pages with a block or a record, and index pages, are left out.
        """
        written = {page for one in self.figures.values() for page in one.writes}
        out = []
        for file in sorted(
            path for room in ("research", "reproduction") for path in self.root.glob(f"docs/{room}/*.md")
        ):
            page, text = file.relative_to(self.root).as_posix(), file.read_text(encoding="utf-8")
            if (
                file.name != "index.md"
                and page not in written
                and not pages.RECORD.search(text)
                and not list(pages.blocks(text))
            ):
                out.append(
                    f"{page} is made by no figure of tools/figures/registry.py; if no command makes it any more, write "
                    "*Record of DATE, commit COMMIT: the figures of this page are those of that code.* below its title"
                )
        return out

    def _typed(self) -> list[str]:
        """Return a sentence for each figure that was typed by hand on a page about the present code."""
        files = [self.root / "README.md", self.root / "docs/research/results.md"]
        files += self.root.glob("integrations/*/README.md")
        files += (page for room in TYPED for page in self.root.glob(f"docs/{room}/*.md"))
        return [
            f"{file.relative_to(self.root)}:{number}: {figure.strip()!r:.60} is made by no command; have "
            "tools/figures/registry.py make it, move it to a record in docs/research, or quote its source (arXiv)"
            for file in sorted(filter(Path.is_file, files))
            for number, figure in pages.typed(file.read_text(encoding="utf-8"))
        ]

    def _records(self) -> list[str]:
        """Return a sentence for each record whose commit is not in the history or has another date.

        The list is empty if this clone does not have the complete history.
        """
        if self._git("rev-parse", "--is-shallow-repository") != "false":
            return []
        out = []
        for file in sorted(self.root.glob("docs/**/*.md")):
            for mark in pages.RECORD.finditer(file.read_text(encoding="utf-8")):
                page, day = file.relative_to(self.root), self._git("log", "-1", "--format=%cs", mark["commit"])
                if day is None or self._git("merge-base", "--is-ancestor", mark["commit"], "HEAD") is None:
                    out.append(f"{page}: commit {mark['commit']}, of which it is a record, is not in the history")
                elif day != mark["day"]:
                    out.append(f"{page} is a record of {mark['day']}, and commit {mark['commit']} is of {day}")
        return out

    def _git(self, *arguments: str) -> str | None:
        """Return the output of git, or None if git fails."""
        done = subprocess.run(["git", *arguments], cwd=self.root, check=False, capture_output=True, text=True)
        return None if done.returncode else done.stdout.strip()

    def runs(self) -> list[str]:
        """Return a line for each figure: when it was measured, how long this took, and its code's digest then."""
        lines = []
        for name in self.figures:
            note = self.ledger.get(name)
            if note is None:
                lines.append(f"{name:18} never")
                continue
            changed = " and ".join(self.stale(name))
            old = f"  (its {changed} changed since{', and its pages say so' if 'dated' in note else ''})"
            lines.append(
                f"{name:18} {note['ran']}  {note['seconds']:>5} s  code {note['code']}{old if changed else ''}"
            )
        return lines


def shown(command: Sequence[str]) -> str:
    """Return a command as a person types it."""
    words = [part.format(json="FILE", data="DATA", out=OUT) for part in command]
    return shlex.join(words if words[0] == "phasegraph" else ["python", *words])


def again(name: str) -> str:
    """Return the command that measures a figure again and writes its pages; `name` may also be a block."""
    return f"make figures ONLY={name}"


def make_all(figures: Figures, names: Sequence[str], jobs: int = 1) -> list[str]:
    """Measure figures, `jobs` at a time; a failure does not stop the others.

    Return a sentence for each problem, and then one with the figures that remain.
    """
    started, wrong, left = [], [], list(names)

    def make(name: str) -> None:
        started.append(name)
        print(f"{len(started)} of {len(names)}, {name} …", flush=True)
        figures.make(name)

    with ThreadPoolExecutor(jobs) as pool:
        runs = {name: pool.submit(make, name) for name in names}
        for name, run in runs.items():
            try:
                run.result()
            except FAILURES as error:
                wrong.append(
                    str(error) if isinstance(error, FailedError) else f"{name}: {type(error).__name__}: {error}"
                )
                print(f"{name} failed", flush=True)
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                wrong.append(f"stopped while {name} was made; its pages are as they were")
                left = [one for one in left if runs[one].cancelled() or runs[one].exception() is not None]
                break
            else:
                left.remove(name)
                print(f"{name}: {figures.ledger[name]['seconds']} s", flush=True)
    if left:
        folder = "" if figures.data == NOWHERE.resolve() else f" DATA={figures.data}"
        wrong.append(f'{len(left)} of {len(names)} left: make figures ONLY="{" ".join(left)}"{folder}')
    return wrong


def main(arguments: Sequence[str] | None = None, figures: Figures | None = None, about: str = "") -> int:
    """Measure or check the figures; return 0 for success, or 1 with a line on standard error for each problem."""
    parser = argparse.ArgumentParser(prog="tools/figures", description=about.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="figures, blocks or pages; default: all")
    parser.add_argument("--data", type=Path, default=NOWHERE, help="folder of the data sets that are not shipped")
    parser.add_argument("--jobs", type=int, default=1, metavar="COUNT", help="figures made at a time; default 1")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--check", action="store_true", help="write nothing: say which pages are old, wrong or edited")
    way.add_argument("--pages", action="store_true", help="run nothing: write the pages from the results that are kept")
    way.add_argument("--date", action="store_true", help="run nothing: have stale pages say of when they are")
    given = parser.parse_args(arguments)
    all_of_them = figures or Figures(data=given.data.resolve())
    wrong: list[str] = []
    if given.check:
        wrong = all_of_them.problems()
        print("\n".join(all_of_them.runs()))
    elif given.pages or given.date:
        for name in all_of_them.named(given.only):
            try:
                (all_of_them.write if given.pages else all_of_them.date)(name)
            except FailedError as error:
                wrong.append(str(error))
    else:
        wrong = make_all(all_of_them, all_of_them.named(given.only), given.jobs)
    for line in wrong:
        print(f"figures: {line}", file=sys.stderr)
    return int(bool(wrong))
