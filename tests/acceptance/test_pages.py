"""The code on the pages of the documentation runs as it stands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["acceptance.md", "selection.md", "fusion-rules.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        script = tmp_path / f"block_{number}.py"
        script.write_text(block, encoding="utf-8")
        runpy.run_path(str(script))
        assert capsys.readouterr().out.strip()
