"""A figure that is wrong, old or edited is found, with its page and the command that writes it."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

import pages
from digests import Module, as_json, digest_of_text
from making import Figures, main
from registry import FIGURES, Figure

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, sys, time
from pathlib import Path

sys.path.insert(0, "src")
from phasegraph.fusing import fuse

rows = Path("data/small/numbers.txt").read_text().split()
found = {"sum": fuse([float(one) for one in rows]), "seconds": time.time()}
Path(sys.argv[1]).write_text(json.dumps(found))
"""
FUSING = '''
"""How numbers are fused."""

from phasegraph.adding import add


def fuse(numbers):
    """Fuse numbers."""
    return add(numbers) / 3


def unused():
    return 1
'''
WRITES = """
import sys
from pathlib import Path

sys.path.insert(0, "src")
from phasegraph.fusing import fuse

out = Path(sys.argv[1] if Path(sys.argv[1]).is_absolute() else "docs")
out.mkdir(exist_ok=True)
(out / "whole.md").write_text(f"# Whole\\n\\n{fuse([1.0, 2.0])}\\n")
"""


OR_DATE = ", or make figures DATE=1, which has the page say so"


def rendered(found):
    return f"| sum |\n| --- |\n| {found['sum']:.1f} |"


@pytest.fixture
def figures(tmp_path):
    """A repository with one package, one script that writes JSON, and one that writes a page."""
    files = {
        "src/phasegraph/__init__.py": "",
        "src/phasegraph/adding.py": "def add(numbers):\n    return sum(numbers)\n",
        "src/phasegraph/fusing.py": FUSING,
        "tools/count.py": SCRIPT,
        "tools/page.py": WRITES,
        "data/small/numbers.txt": "1 2 3",
        "README.md": "# Small\n\n<!-- figures total -->\n<!-- end of figures total -->\n\nAfter.\n",
        "docs/whole.md": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    known = {
        "count": Figure(
            {"": ("tools/count.py", "{json}")},
            ("tools/count.py",),
            ("data/small",),
            {"total": ("README.md", rendered)},
            quick=True,
        ),
        "whole": Figure({"": ("tools/page.py", "{out}")}, ("tools/page.py",), writes=("docs/whole.md",)),
    }
    made = Figures(tmp_path, tmp_path / "data", known)
    assert main([], made) == 0
    assert again(made).problems() == []
    return made


def again(figures):
    """The same repository as another process sees it."""
    return Figures(figures.root, figures.data, figures.figures)


def change(figures, page, old, new):
    path = figures.root / page
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def the_problem(figures, **how):
    (problem,) = again(figures).problems(**how)
    return problem


def test_a_block_has_its_text_its_command_and_its_digests(figures):
    text = (figures.root / "README.md").read_text(encoding="utf-8")
    (block,) = pages.blocks(text)
    assert block.body.strip() == "| sum |\n| --- |\n| 2.0 |"
    assert block.command == "make figures ONLY=total"
    assert (block.code, block.data) == figures.digests("count")
    assert text.endswith("After.\n")
    assert pages.without_marks(text).startswith("# Small\n\n| sum |")


def test_a_planted_wrong_figure_is_named_with_its_page_and_the_command_that_writes_it(figures):
    change(figures, "README.md", "| 2.0 |", "| 3.0 |")
    assert the_problem(figures) == "README.md: total was edited by hand; make figures ONLY=total writes it"
    assert main(["--only", "total"], again(figures)) == 0
    assert again(figures).problems() == []


def test_a_wrong_figure_with_a_right_digest_is_found_in_the_kept_result(figures):
    path = figures.root / "README.md"
    made = pages.made("total", "make figures ONLY=total", *figures.digests("count"), rendered({"sum": 3}))
    path.write_text(pages.with_block(path.read_text(encoding="utf-8"), made), encoding="utf-8")
    assert the_problem(figures) == "README.md: total is not what docs/figures/count.json says; make figures ONLY=total"


def test_a_wrong_figure_in_the_kept_result_too_is_found_by_running_what_is_quick(figures):
    change(figures, "docs/figures/count.json", "2.0", "3.0")
    assert the_problem(figures) == (
        "docs/figures/count.json: the result of count was edited by hand; make figures ONLY=count makes it"
    )
    edited = again(figures)
    edited.ledger["count"]["result"] = digest_of_text(as_json(edited.result("count")))  # as a run would have noted it
    edited.write("count")
    assert "| 3.0 |" in (figures.root / "README.md").read_text(encoding="utf-8")
    assert the_problem(figures) == (
        "README.md: total is not what `python tools/count.py FILE` says now; make figures ONLY=total"
    )
    assert again(figures).problems(run=False) == []


@pytest.mark.parametrize("file", ["src/phasegraph/adding.py", "src/phasegraph/fusing.py"])
def test_a_planted_stale_page_is_found(figures, file):
    change(figures, file, "return ", "return 1 * ")
    found = again(figures).problems(run=False)
    today = figures.ledger["count"]["ran"]
    assert found == [
        f"README.md: total is of {today}, and its code changed since; make figures ONLY=total{OR_DATE}",
        f"docs/whole.md: whole is of {today}, and its code changed since; make figures ONLY=whole{OR_DATE}",
    ]


def test_changed_data_makes_a_page_stale(figures):
    change(figures, "data/small/numbers.txt", "3", "6")
    found = again(figures).problems(run=False)
    today = figures.ledger["count"]["ran"]
    assert found == [f"README.md: total is of {today}, and its data changed since; make figures ONLY=total{OR_DATE}"]


def test_data_that_is_not_there_is_not_compared_and_the_figure_is_left_out(figures, capsys):
    shutil.rmtree(figures.root / "data")
    assert again(figures).problems(run=False) == []
    assert main(["--only", "count"], again(figures)) == 1
    assert "count is left out: no " in capsys.readouterr().err


def test_moves_comments_docstrings_types_and_the_words_of_errors_make_nothing_stale(figures):
    before = [figures.digests(name) for name in figures.figures]
    (figures.root / "src/phasegraph/adding.py").unlink()
    (figures.root / "src/phasegraph/inner").mkdir()
    (figures.root / "src/phasegraph/inner/sums.py").write_text(
        '"""Sums."""\n\n\ndef add(numbers: list[float]) -> float:  # so\n    """Add."""\n'
        "    return sum(\n        numbers\n    )\n",
        encoding="utf-8",
    )
    change(figures, "src/phasegraph/fusing.py", "phasegraph.adding", "phasegraph.inner.sums")
    change(figures, "src/phasegraph/fusing.py", "return 1", "return 2")  # nothing reaches it
    assert [again(figures).digests(name) for name in figures.figures] == before
    assert again(figures).problems() == []


def test_the_text_of_code_is_the_same_under_every_python():
    """``ast.unparse`` quotes f-strings otherwise from 3.12 on; this text is a constant."""
    lines = ["def f(a: int, *, b=None):", "    import json", "    'Say.'", "    return f'{a!r:>{b}}' 'x'"]
    (one,) = Module("\n".join(lines)).all
    assert digest_of_text(one.text) == "723a9f3aa1dc"
    assert one.binds == ("f",)
    assert (one.names, one.imports) == ({"a", "b"}, {"json": ("json", None)})


def test_the_words_of_an_error_are_no_figure(figures):
    change(
        figures,
        "src/phasegraph/adding.py",
        "    return",
        '    if not numbers:\n        raise ValueError("x")\n    return',
    )
    before = again(figures).digests("count")
    change(figures, "src/phasegraph/adding.py", '"x"', '"there must be a number"')
    assert again(figures).digests("count") == before


SHOWN = """
class Sum:
    def __call__(self, numbers):
        return sum(numbers)

    def _repr_html_(self):
        from phasegraph.markup import STYLE

        return STYLE


def add(numbers):
    return Sum()(numbers)
"""


def test_how_a_notebook_shows_an_object_is_no_figure(figures):
    adding, markup = (figures.root / "src/phasegraph" / name for name in ("adding.py", "markup.py"))
    adding.write_text(SHOWN, encoding="utf-8")
    markup.write_text("STYLE = 'red'\n", encoding="utf-8")
    before = again(figures).digests("count")
    change(figures, "src/phasegraph/markup.py", "red", "blue")
    change(figures, "src/phasegraph/adding.py", "return STYLE", "return STYLE * 2")
    assert again(figures).digests("count") == before
    change(figures, "src/phasegraph/adding.py", "_repr_html_", "_repr_markdown_")
    assert again(figures).digests("count") == before
    change(figures, "src/phasegraph/adding.py", "sum(numbers)", "sum(numbers[1:])")
    assert again(figures).digests("count") != before


def test_a_whole_page_that_was_edited_or_written_by_its_command_alone_is_found(figures):
    text = (figures.root / "docs/whole.md").read_text(encoding="utf-8")
    assert text.startswith("# Whole\n\n<!-- figures whole: ")
    assert pages.without_marks(text) == "# Whole\n\n1.0\n"
    change(figures, "docs/whole.md", "1.0", "2.0")
    assert the_problem(figures) == "docs/whole.md: whole was edited by hand; make figures ONLY=whole writes it"
    (figures.root / "docs/whole.md").write_text("# Whole\n\n1.0\n", encoding="utf-8")
    assert the_problem(figures) == (
        "docs/whole.md was written by something else than make figures; make figures ONLY=whole"
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_twice_gives_the_same_bytes_apart_from_times(figures, jobs):
    def bytes_of():
        found = {
            str(file.relative_to(figures.root)): file.read_bytes()
            for file in sorted(figures.root.rglob("*"))
            if file.suffix in (".md", ".json")
        }
        ledger = json.loads(found.pop("docs/figures/ledger.json"))
        return found, {name: {**note, "ran": "", "seconds": 0} for name, note in ledger.items()}

    before = bytes_of()
    assert set(before[0]) == {"README.md", "docs/whole.md", "docs/figures/count.json"}
    assert main(["--jobs", jobs], again(figures)) == 0
    assert bytes_of() == before


def test_a_page_of_several_figures_has_the_same_stamp_in_whatever_order_they_are_made(figures):
    figures.figures = {**figures.figures, "other": figures.figures["whole"]}
    for order in (["whole", "other"], ["other", "whole"]):
        for name in order:
            assert main(["--only", name], again(figures)) == 0
        assert pages.read_stamp(figures.root / "docs/whole.md").name == "whole"
        assert again(figures).problems() == []


def test_a_page_that_was_edited_with_its_digest_is_found_in_the_ledger(figures):
    path = figures.root / "docs/whole.md"
    change(figures, "docs/whole.md", "1.0", "2.0")
    pages.stamp(path, "whole", "make figures ONLY=whole", *figures.digests("whole"))
    assert the_problem(figures) == "docs/whole.md: whole was edited by hand; make figures ONLY=whole writes it"


def test_a_digest_that_was_edited_to_look_new_is_found_in_the_ledger(figures):
    change(figures, "src/phasegraph/adding.py", "return ", "return 2 * ")
    code, now = figures.ledger["count"]["code"], again(figures).digests("count")[0]
    change(figures, "README.md", code, now)
    found = again(figures).problems(run=False)
    assert found[0] == (
        "README.md: total is not of the run that docs/figures/ledger.json notes; make figures ONLY=total"
    )


def test_a_page_that_a_quick_command_writes_otherwise_now_is_found(figures):
    figures.figures = {**figures.figures, "whole": replace(figures.figures["whole"], quick=True)}
    assert again(figures).problems() == []
    path = figures.root / "docs/whole.md"
    change(figures, "docs/whole.md", "1.0", "2.0")
    other = again(figures)
    made = pages.stamp(path, "whole", "make figures ONLY=whole", *figures.digests("whole"))
    other.ledger["whole"]["pages"]["docs/whole.md"] = made.text
    assert other.problems() == [
        "docs/whole.md is not what `python tools/page.py docs/reproduction` writes now; make figures ONLY=whole"
    ]


def test_a_common_file_of_results_is_guarded_part_by_part(figures):
    path = figures.root / "docs/all.json"
    path.write_text(json.dumps({"whole": {"a": 1.0}, "other": 2}), encoding="utf-8")
    figures.figures = {
        **figures.figures,
        "whole": replace(figures.figures["whole"], results=("docs/all.json", ("whole",))),
    }
    assert main(["--only", "whole"], again(figures)) == 0
    left_over = "docs/all.json holds 'other', which no figure of tools/figures/registry.py makes; take it out"
    assert again(figures).problems(run=False) == [left_over]
    change(figures, "docs/all.json", "1.0", "1.1")
    assert again(figures).problems(run=False) == [
        "docs/all.json: the result of whole was edited by hand; make figures ONLY=whole makes it",
        left_over,
    ]


def test_a_stale_page_may_say_that_it_is(figures):
    change(figures, "src/phasegraph/adding.py", "return ", "return 2 * ")
    assert main(["--date", "--only", "whole"], again(figures)) == 0
    text = (figures.root / "docs/whole.md").read_text(encoding="utf-8")
    today = figures.ledger["whole"]["ran"]
    line = f"*Measured on {today}; the code has changed since. `make figures ONLY=whole` measures again.*"
    assert text.count(line) == 1
    assert [one.partition(":")[0] for one in again(figures).problems(run=False)] == ["README.md"]
    assert main(["--date", "--only", "whole"], again(figures)) == 0
    assert (figures.root / "docs/whole.md").read_text(encoding="utf-8") == text
    change(figures, "src/phasegraph/adding.py", "return 2 * ", "return 3 * ")
    assert [one.partition(":")[0] for one in again(figures).problems(run=False)] == ["README.md", "docs/whole.md"]
    assert main(["--date"], again(figures)) == 0
    assert (figures.root / "docs/whole.md").read_text(encoding="utf-8") == text
    assert again(figures).problems(run=False) == []
    assert main([], again(figures)) == 0
    assert line not in (figures.root / "docs/whole.md").read_text(encoding="utf-8")
    assert again(figures).problems() == []


def test_a_page_that_is_not_stale_is_not_dated(figures):
    before = (figures.root / "docs/whole.md").read_bytes()
    assert main(["--date"], again(figures)) == 0
    assert (figures.root / "docs/whole.md").read_bytes() == before
    change(figures, "src/phasegraph/adding.py", "return ", "return 2 * ")
    assert main(["--date"], again(figures)) == 0
    assert (figures.root / "docs/whole.md").read_bytes() != before
    change(figures, "src/phasegraph/adding.py", "return 2 * ", "return ")
    assert main(["--date"], again(figures)) == 0
    assert (figures.root / "docs/whole.md").read_bytes() == before


def test_a_missing_block_and_a_strange_one_are_named(figures):
    change(figures, "README.md", "figures total", "figures totals")
    assert sorted(again(figures).problems(run=False)) == [
        "README.md has no block 'total', between whose marks a table is written",
        "README.md: no figure is called 'totals'",
    ]


def test_a_page_that_no_command_makes_says_of_when_it_is(figures):
    page = figures.root / "docs/research/trial.md"
    page.parent.mkdir()
    page.write_text("# A trial\n\n| a |\n|---|\n| 1 |\n", encoding="utf-8")
    problem = the_problem(figures, run=False)
    assert problem.startswith("docs/research/trial.md is made by no figure of tools/figures/registry.py; if no command")
    change(figures, "docs/research/trial.md", "\n\n|", "\n\n*Record of 2026-11-22, commit 793c102: old.*\n\n|")
    assert again(figures).problems(run=False) == []


@pytest.mark.parametrize(
    "line",
    [
        "| `default` | 73.5 |",
        "It raises the Recall@5 of the walk from 79 to 80.",
        "Its nDCG@10 there is .657.",
        "Removing it costs 2.6 points.",
        "A call takes 38 ms.",
        "A folder opens in 1.6 s.",
    ],
)
@pytest.mark.parametrize("room", ["guide", "understand"])
def test_a_figure_of_the_present_that_was_typed_by_hand_is_found(figures, room, line):
    page = figures.root / f"docs/{room}/using.md"
    page.parent.mkdir()
    page.write_text(f"# Using\n\n{line}\n", encoding="utf-8")
    assert the_problem(figures, run=False).startswith(f"docs/{room}/using.md:3: '")
    for kept in (
        f"```text\n{line}\n```",
        f"## A trial\n\n*Record of 2026-11-22, commit 793c102: old.*\n\n{line}",
        f"{line} ([its paper](https://arxiv.org/abs/2502.14802))",
        "A graph weighs .35, the timeout is 10 s, and Recall@10 needs k=10; a cosine of .7 is | .7 | near.",
    ):
        page.write_text(f"# Using\n\n{kept}\n", encoding="utf-8")
        assert again(figures).problems(run=False) == []
    page.write_text(f"# Using\n\n*Record of 2026-11-22, commit 793c102.*\n\n## Now\n\n{line}\n", encoding="utf-8")
    assert the_problem(figures, run=False).startswith(f"docs/{room}/using.md:7: '")


def test_a_record_is_of_a_commit_of_the_history_and_of_its_day(figures):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *who, *arguments], cwd=figures.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    page = figures.root / "docs/research/trial.md"
    page.parent.mkdir()
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one", "--date", "2026-11-22T12:00:00Z")
    day, commit = git("log", "-1", "--format=%cs"), git("rev-parse", "--short", "HEAD")
    page.write_text(f"# A trial\n\n*Record of {day}, commit {commit}: old.*\n", encoding="utf-8")
    assert again(figures).problems(run=False) == []
    change(figures, "docs/research/trial.md", day, "2001-01-01")
    assert the_problem(figures, run=False) == (
        f"docs/research/trial.md is a record of 2001-01-01, and commit {commit} is of {day}"
    )
    change(figures, "docs/research/trial.md", commit, "abcdef1")
    assert the_problem(figures, run=False) == (
        "docs/research/trial.md: commit abcdef1, of which it is a record, is not in the history"
    )


def test_a_figure_that_was_never_run_is_a_problem_and_listed(figures, capsys):
    other = again(figures)
    other.figures = {**figures.figures, "new": Figure({"": ("tools/count.py", "{json}")}, ("tools/count.py",))}
    assert other.problems(run=False) == ["new was never run; make figures ONLY=new"]
    assert main(["--pages", "--only", "new"], other) == 1
    assert capsys.readouterr().err == "figures: new was never run; make figures ONLY=new\n"
    assert main(["--check"], other) == 1
    shown = capsys.readouterr()
    assert [line.split()[:2] for line in shown.out.splitlines()] == [
        *([name, figures.ledger[name]["ran"]] for name in ("count", "whole")),
        ["new", "never"],
    ]
    assert shown.err == "figures: new was never run; make figures ONLY=new\n"


def test_a_command_that_fails_changes_no_page_and_costs_no_other_figure(figures, capsys):
    before = (figures.root / "README.md").read_bytes()
    change(figures, "tools/count.py", "rows =", "sys.exit(3)\nrows =")
    change(figures, "docs/whole.md", "1.0", "2.0")
    assert main([], again(figures)) == 1
    assert capsys.readouterr().err == (
        "figures: python tools/count.py FILE ended with 3; no page was changed\n"
        f'figures: 1 of 2 left: make figures ONLY="count" DATA={figures.data}\n'
    )
    assert (figures.root / "README.md").read_bytes() == before
    assert "1.0" in (figures.root / "docs/whole.md").read_text(encoding="utf-8")


def test_whatever_goes_wrong_with_a_figure_the_others_are_made(figures, capsys):
    change(figures, "tools/count.py", "json.dumps(found)", '"{"')
    change(figures, "src/phasegraph/adding.py", "return ", "return 2 * ")
    assert main([], again(figures)) == 1
    error = capsys.readouterr().err
    assert error.startswith("figures: count: JSONDecodeError: ")
    assert error.endswith(f'1 of 2 left: make figures ONLY="count" DATA={figures.data}\n')
    assert [one.partition(":")[0] for one in again(figures).problems(run=False)] == ["README.md"]


def test_what_is_left_is_said_with_its_data_when_the_run_is_stopped(figures, monkeypatch, capsys):
    def stop(self, name, out=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(Figures, "run", stop)
    assert main(["--data", "elsewhere"], again(figures)) == 1
    assert capsys.readouterr().err == (
        "figures: stopped while count was made; its pages are as they were\n"
        f'figures: 2 of 2 left: make figures ONLY="count whole" DATA={figures.data}\n'
    )


def test_two_figures_are_made_at_a_time_where_two_jobs_are_asked_for(figures, monkeypatch):
    both, run = Barrier(2, timeout=30), Figures.run

    def meet(self, name, out=None):
        both.wait()
        return run(self, name, out)

    monkeypatch.setattr(Figures, "run", meet)
    assert main(["--jobs", "2"], again(figures)) == 0
    assert again(figures).problems(run=False) == []


def test_what_is_stale_is_made_first(figures):
    assert again(figures).named([]) == ["count", "whole"]
    figures.figures = {**figures.figures, "new": Figure({"": ("tools/page.py",)}, ("tools/page.py",))}
    assert again(figures).named([]) == ["new", "count", "whole"]
    change(figures, "tools/page.py", "# Whole", "# The whole")
    assert again(figures).named([]) == ["whole", "new", "count"]
    assert again(figures).named(["count", "whole"]) == ["whole", "count"]


@pytest.mark.parametrize("name", ["count", "total", "README.md"])
def test_a_figure_is_run_alone_by_its_name_its_block_or_its_page(figures, name):
    assert figures.named([name]) == ["count"]


def test_an_unknown_name_is_refused_with_those_there_are(figures):
    with pytest.raises(SystemExit, match=r"'readme' is no figure, block or page; there are count, whole"):
        figures.named(["readme"])


def test_a_start_that_is_gone_is_an_error_not_a_digest_of_nothing(figures):
    with pytest.raises(FileNotFoundError, match=r"tools/gone.py: a figure is said to start there"):
        figures.code.digest(["tools/gone.py"])
    with pytest.raises(KeyError, match="defines no 'gone'"):
        figures.code.digest(["src/phasegraph/fusing.py:gone"])


# The repository itself.


def test_what_every_figure_starts_from_and_writes_is_there():
    for name, figure in FIGURES.items():
        for start in figure.starts:
            path, _, definition = start.partition(":")
            assert (ROOT / path).is_file(), (name, start)
            assert not definition or f" {definition}" in (ROOT / path).read_text(encoding="utf-8"), (name, start)
        for page in (*figure.writes, *(page for page, _ in figure.blocks.values())):
            assert (ROOT / page).is_file(), (name, page)
        for block, (page, _) in figure.blocks.items():
            assert block in {one.name for one in pages.blocks((ROOT / page).read_text(encoding="utf-8"))}, block


def test_a_wrong_figure_of_the_readme_is_found():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    kept = json.loads((ROOT / "docs/figures/bundled.json").read_text(encoding="utf-8"))
    block = next(one for one in pages.blocks(text) if one.name == "readme")
    assert not block.edited
    assert block.body.strip().startswith(FIGURES["bundled"].blocks["readme"][1](kept).strip())  # a date may follow
    figure = f"| {kept['multi-hop']['systems']['rrf-words']['LastHop@10']:.1f} ["
    assert figure in block.body
    wrong = next(one for one in pages.blocks(text.replace(figure, "| 12.3 [")) if one.name == "readme")
    assert wrong.edited


def test_the_sentences_turn_with_the_figures():
    kept = json.loads((ROOT / "docs/figures/demo.json").read_text(encoding="utf-8"))
    say = FIGURES["demo"].blocks["results-demo"][1]
    share = {"vector": 55.0, "graph": 84.0, "default": 84.0, "default-three": 86.5}
    for name, one in kept["systems"].items():
        one["LastHop@10"] = share.get(name, 60.0)
    assert "the default is 29.0 points above the vectors and 24.0 points above the best" in say(kept)
    assert "The default is level with the walk; with BM25 as a third source it is 2.5 points above" in say(kept)
    kept["systems"]["default"]["LastHop@10"] = 44.0
    assert "the default is 11.0 points below the vectors" in say(kept)
    assert "The default is 40.0 points below the walk" in say(kept)


def test_what_a_figure_depends_on_is_found_through_the_imports():
    figures = Figures()
    reached = {name for names in figures.code.reached(FIGURES["demo"].starts).values() for name in names}
    assert reached >= {"personalized_pagerank", "GraphSource", "ensemble", "PhaseGraphRetriever", "recall"}
    assert "write_graph" not in reached
    paper = {name for names in figures.code.reached(["tools/reproduce/paper.py"]).values() for name in names}
    assert paper >= {"boltzmann", "mcnemar_exact"}
    assert not paper & reached & {"GraphSource", "load_dataset"}
