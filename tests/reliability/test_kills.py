"""The short form of tools/reliability/kills.py: a folder is old or new after a kill at any write."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "reliability" / "kills.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("kills", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed in a fork")
@pytest.mark.parametrize("command", ["sync", "watch", "merge", "delete", "reembed"])
def test_a_process_that_is_killed_leaves_the_old_folder_or_the_new(command: str, tmp_path: Path) -> None:
    outcomes = list(load().kills(command, 6, tmp_path))
    assert len(outcomes) == 6
    assert set(outcomes) == ({"old"} if command == "merge" else {"old", "new"})
