"""Several servers of one folder behind a balancer, by the tool that shows it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.modules import module_at

pytest.importorskip("uvicorn")
pytest.importorskip("typer")

TOOL = Path(__file__).parents[2] / "tools" / "scale" / "replicas.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return module_at(TOOL)


def test_servers_answer_alike_and_are_replaced_without_a_failed_request(tool: ModuleType, folder: Path) -> None:
    found = tool.main([str(folder), "--replicas", "2", "--questions", "3", "--callers", "2"])
    assert found.pop("answered_during_update") > 0
    assert found == {"replicas": 2, "questions": 3, "equal_before": 3, "failed_during_update": 0, "equal_after": 3}


def test_a_single_server_cannot_be_replaced_without_failed_requests(tool: ModuleType, folder: Path) -> None:
    """So the count of the failed requests can be other than 0."""
    with tool.served(folder, 1) as (replicas, balancer):
        answered, failed = tool.update_under_load(replicas, balancer, ["Who met Red Keeper?"], 2)
        assert failed
        assert "503" in failed[0]
        assert tool.post(balancer.address, "Who met Red Keeper?")[0] == 200
    assert answered >= 0
