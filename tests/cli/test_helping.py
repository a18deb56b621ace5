"""What the command line says where a name is misspelt, a terminal is narrow, or help is wanted."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import fields

import pytest
from rich.console import Console
from tiny import write_dataset
from typer.main import get_command

from phasegraph.apps.cli import evaluate as evaluating
from phasegraph.apps.cli import main
from phasegraph.apps.cli.app import COMMANDS, app
from phasegraph.apps.cli.commands.evaluate import PANELS
from phasegraph.apps.cli.output import show_table
from phasegraph.apps.server.connections import MOST_CONNECTIONS
from phasegraph.apps.server.view import LONGEST_QUERY
from phasegraph.apps.server.web import MOST_REQUESTS
from phasegraph.evaluation.ablation import STAGES
from phasegraph.evaluation.protocol import PROTOCOLS
from phasegraph.evaluation.source_runs import DEFAULT_LIMIT
from phasegraph.fusion.pipeline import PIPELINE_NAMES
from phasegraph.reading.kinds import named
from phasegraph.sources.settings import CALL_TIMEOUT


def said(capsys) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serach", "folder", "Who?"], "No such command 'serach'; did you mean 'search'?"),  # codespell:ignore serach
        (["evaluate", "tiny", "--systems", "vectr"], "--systems: the name 'vectr' is unknown; did you mean 'vector'?"),
        (
            ["evaluate", "tiny", "--systems", "usual,xyz"],
            "--systems: the name 'xyz' is unknown; it must be one of usual, all,",
        ),
        (["evaluate", "tiny", "--systems", ""], "--systems: the name '' is unknown; it must be one of usual, all,"),
        (["evaluate", "tiny", "--baseline", "grph"], "--baseline: the name 'grph' is unknown; did you mean 'graph'?"),
        (["evaluate", "tiny", "--systems", "tuned"], "--systems: 'tuned' needs --pipeline"),
        (["evaluate", "tiny", "--protocol", "x"], "--protocol: the name 'x' is unknown; it must be one of hetdocqa"),
        (["evaluate", "tiny", "--measures", "Recoll@5"], "--measures: measure must be one of"),
        (["evaluate", "tiny", "--measures", "F1"], "--measures: F1 measures predicted answers"),
        (["evaluate", "tiny", "--retriever", "my_rag"], "--retriever must have the form MODULE:OBJECT"),
        (
            ["evaluate", "tiny", "--embedder", "no_rag:x"],
            "--embedder: the module 'no_rag' is neither in the current folder nor installed",
        ),
        (["tune", "tiny", "--out", "t.json", "--measure", "Recoll@5"], "--measure: measure must be one of"),
        (["tune", "tiny", "--out", "t.json", "--sources", "x"], "--sources must be among"),
        (
            ["fuse", "a.run", "b.run", "--out", "c.run", "--rule", "bordo"],
            "--rule: the name 'bordo' is unknown; did you mean",
        ),
        (["try", "tiny", "--embedder", "miniln"], "got 'miniln'; did you mean 'minilm'?"),
    ],
)
def test_an_error_names_its_option_and_the_name_that_was_meant(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path / "tiny")
    for name in ("a.run", "b.run"):
        (tmp_path / name).write_text("q0 Q0 p00 1 1.0 x\n", encoding="utf-8")
    assert main(arguments) == 2
    assert message in said(capsys)


def test_the_options_of_evaluate_are_grouped(capsys) -> None:
    assert main(["evaluate", "--help"]) == 0
    help_text = said(capsys)
    headings = ["Systems", "Your own retrievers", "Measures", "Questions without an answer", "Output"]
    assert all(f"─ {heading} ─" in help_text for heading in headings)
    assert help_text.index("─ Output ─") < help_text.index("--rows")


def test_the_shell_can_complete_commands(capsys) -> None:
    assert main(["--help"]) == 0
    assert "--install-completion" in said(capsys)


@pytest.mark.parametrize(("width", "hidden"), [(200, ""), (80, ""), (60, "third column"), (100, "fourth")])
def test_a_narrow_terminal_shows_the_columns_that_fit(width, hidden) -> None:
    out = io.StringIO()
    to = Console(file=out, width=width, highlight=False)
    columns, cells = ["first", "second", "third column"], ["a" * 12, "b" * 20, "c" * 30]
    if hidden == "fourth":
        columns, cells = [*columns, hidden], [*cells, "d" * 40]
    show_table(to, "title", columns, [cells])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    note = [line for line in lines if line.startswith("not shown")]
    assert bool(note) is bool(hidden)
    assert ("c" * 30 in out.getvalue()) is (hidden != "third column")
    if hidden:
        assert note == [f"not shown in {width} characters: {hidden}"]
        assert "b" * 20 in out.getvalue()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], [], ["serch"], ["--serch"]])  # codespell:ignore serch
def test_help_and_mistyped_commands_do_not_import_numpy_scipy_or_the_graph(arguments) -> None:
    program = (
        "import sys; from phasegraph.apps.cli import main; main(sys.argv[1:]); "
        "print('imported:', [name for name in ('numpy', 'scipy', 'phasegraph.graph') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("imported: []\n"), done.stdout + done.stderr


def test_the_options_of_the_commands_are_read_without_numpy_scipy_or_the_graph() -> None:
    program = (
        "import sys; from typer.main import get_command; from phasegraph.apps.cli.app import COMMANDS, app; "
        "read = [get_command(app).get_command(None, name) for name in COMMANDS]; "
        "print(len(read), [name for name in ('numpy', 'scipy', 'phasegraph.graph') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == f"{len(COMMANDS)} []\n", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        *((name, "fetch_k", DEFAULT_LIMIT) for name in ("evaluate", "tune", "explain")),
        ("serve", "timeout", CALL_TIMEOUT),
        ("serve", "max_query_length", LONGEST_QUERY),
        ("serve", "max_requests", MOST_REQUESTS),
        ("serve", "max_connections", MOST_CONNECTIONS),
    ],
)
def test_a_default_is_the_default_of_the_library(name, option, value) -> None:
    (found,) = (one for one in get_command(app).get_command(None, name).params if one.name == option)
    assert found.default == value


@pytest.mark.parametrize(
    ("name", "option", "listed"),
    [
        ("evaluate", "protocol", ", ".join(PROTOCOLS)),
        ("evaluate", "stages", f"{', '.join(STAGES)} or all"),
        ("fuse", "rule", f"One of {', '.join(PIPELINE_NAMES)}."),
        ("index", "corpus", f"({named()})"),
    ],
)
def test_a_help_text_lists_the_names_of_the_library(name, option, listed) -> None:
    (found,) = (one for one in get_command(app).get_command(None, name).params if one.name == option)
    assert listed in found.help


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_paragraph_of_each_help(name) -> None:
    whole = get_command(app).get_command(None, name).help
    assert COMMANDS[name] == " ".join(whole.partition("\n\n")[0].split())


def test_the_help_of_evaluate_groups_the_options_as_its_code_does() -> None:
    """The help lists an option that is missing in a panel under the heading "Options"."""
    groups = [
        evaluating.SystemOptions, evaluating.RetrieverOptions, evaluating.MeasureOptions,
        evaluating.UnansweredOptions, evaluating.OutputOptions,
    ]  # fmt: skip
    assert list(PANELS.values()) == [tuple(one.name for one in fields(group)) for group in groups]
    command = get_command(app).get_command(None, "evaluate")
    listed = {name for names in PANELS.values() for name in names}
    assert {one.name for one in command.params} == listed | {"folder"}
