"""The page as a person sees it: in a real headless Chromium, with a screenshot kept."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from phasegraph.evaluation.report_page import write_report
from report.test_report import COLUMNS, ROWS, _pictures

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARTEFACTS = Path(__file__).resolve().parents[2] / "artifacts"


def test_a_browser_shows_the_page(tmp_path: Path) -> None:
    if CHROMIUM is None:
        if os.environ.get("PHASEGRAPH_REQUIRE_CHROMIUM"):
            pytest.fail("PHASEGRAPH_REQUIRE_CHROMIUM is set and no chromium is on the PATH")
        pytest.skip("no chromium on the PATH; Debian's package of that name has it")
    page = write_report(
        tmp_path / "report", title="toy evaluation", lead="Twelve queries.", columns=COLUMNS, rows=ROWS,
        marked=["vector"], pictures=_pictures(), notes=["A note."],
    )  # fmt: skip
    ARTEFACTS.mkdir(exist_ok=True)
    shot = ARTEFACTS / "report.png"
    shot.unlink(missing_ok=True)
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1100,2600",
    ]  # fmt: skip
    subprocess.run(
        [CHROMIUM, *flags, f"--screenshot={shot}", page.as_uri()], check=True, capture_output=True, timeout=90
    )
    dumped = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", page.as_uri()], check=True, capture_output=True, text=True, timeout=90
    ).stdout
    data = shot.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1100, 2600)
    assert len(data) > 50_000, "a blank page compresses to far less"
    assert dumped.count("<svg") == 5
    assert "Scores before and after calibration" in dumped
