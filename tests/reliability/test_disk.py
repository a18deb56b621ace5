"""The run of failing disks, over single commands: it strikes their writes, and fails if it strikes none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools" / "reliability"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="a C library is built and preloaded on Linux"
)


def run(tmp_path: Path, commands: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run tools/reliability/disk.py with other commands."""
    script, figures = tmp_path / "run.py", tmp_path / "figures.json"
    lines = [
        "import sys, pathlib",
        f"sys.path.insert(0, {str(TOOLS)!r})",
        "import disk",
        f"disk.COMMANDS = {commands}",
        "disk.main()",
    ]
    script.write_text("\n".join(lines), encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    given = [sys.executable, str(script), "--step", "83", "--json", str(figures)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=110, check=False, env=env)
    return done, json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_write_of_a_command_that_replaces_a_file_is_struck(tmp_path: Path) -> None:
    done, figures = run(tmp_path, "{name: disk.COMMANDS[name] for name in ('fuse', 'a pipeline')}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for faults in figures["commands"].values():
        assert min(one["calls"] for name, one in faults.items() if name != "there are no locks") > 0


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_command_whose_writes_are_not_struck_fails_the_run(tmp_path: Path) -> None:
    linked = "lambda root, out, given: (out.unlink(missing_ok=True), out.symlink_to(given), 0)[-1]"
    done, figures = run(tmp_path, f"{{'a link': ({linked}, disk.file_of)}}")
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    unchecked = [one for one in figures["broken"] if one.endswith("so nothing was checked")]
    assert len(unchecked) == 4  # two faults of writes, two of renames


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["index --sync", "delete", "reembed", "index --engine local", "a change of a corpus"])
def test_a_command_that_changes_a_folder_works_on_a_sound_disk_and_without_locks(tmp_path: Path, name: str) -> None:
    only = "{'there are no locks': disk.FAULTS['there are no locks']}"
    done, figures = run(tmp_path, f"{{{name!r}: disk.COMMANDS[{name!r}]}}\ndisk.FAULTS = {only}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert figures["commands"][name]["there are no locks"]["done"] > 0
