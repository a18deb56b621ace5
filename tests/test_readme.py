"""The README's programs run, its links lead somewhere, and the commands it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_every_program_of_the_readme_runs_and_prints(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_is_a_program_for_each_framework_of_twelve_lines_or_so() -> None:
    assert sum("langchain_phasegraph" in program for program in PROGRAMS) == 1
    assert sum("llama_index" in program for program in PROGRAMS) == 1
    assert all(program.count("\n") <= 14 for program in PROGRAMS)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", TEXT))))
def test_every_link_leads_to_a_file(link: str) -> None:
    assert link.startswith("http") or (ROOT / link).exists()


def test_the_commands_it_names_exist() -> None:
    named = set(re.findall(r"phasegraph (evaluate|tune|explain|fuse|index)\b", TEXT))
    program = "import sys; from phasegraph.cli import main; sys.exit(main(['--help']))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(command in shown.stdout for command in named)


def test_the_make_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"(?:`|^    )make (\w+)", TEXT, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_nothing_is_left_to_fill_in() -> None:
    assert "<!--" not in TEXT
