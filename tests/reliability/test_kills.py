"""The short form of tools/reliability/kills.py: a folder is old or new after a kill, or a full disk, at any write."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.modules import module_at

TOOL = Path(__file__).parents[2] / "tools" / "reliability" / "kills.py"
COMMANDS = ["sync", "empty", "watch", "merge", "delete", "reembed", "documents"]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    module = module_at(TOOL)
    monkeypatch.setattr(module.serialization, "MAPPED_BYTES", 0)
    assert list(module.COMMANDS) == COMMANDS
    return module


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed in a fork")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_process_that_is_killed_leaves_the_old_folder_or_the_new(command: str, tool: Any, tmp_path: Path) -> None:
    outcomes = list(tool.kills(command, 8, tmp_path))
    assert len(outcomes) == 8
    assert set(outcomes) == ({"old"} if command in tool.UNCHANGED else {"old", "new"})


@pytest.mark.skipif(sys.platform == "win32", reason="the calls of POSIX are watched")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_is_full_at_a_write_leaves_the_old_folder_or_the_new(
    command: str, tool: Any, tmp_path: Path
) -> None:
    outcomes = list(tool.full_disks(command, 12, tmp_path))
    assert len(outcomes) > 2
    assert set(outcomes) <= {"old", "new"}
    assert "old" in outcomes
