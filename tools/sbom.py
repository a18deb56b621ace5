"""Write an SBOM (CycloneDX) of each distribution: ``python tools/sbom.py dist`` writes ``dist/sbom/NAME.cdx.json``.

Each wheel is installed into an empty environment, with the versions of constraints.txt; the SBOM lists everything that
pip installs for it. The program needs cyclonedx-bom and pip, in the versions of tools/release-tools.txt.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from release import PROJECTS, ROOT, versions


def write(name: str, project: Path, dist: Path) -> Path:
    """Write the SBOM of one distribution, whose wheel is in ``dist/NAME``, and return its path."""
    target = dist / "sbom" / f"{name}.cdx.json"
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder)
        wheels = [str(wheel) for wheel in (dist / name).glob("*.whl")]
        # The core is not on PyPI before its release: the other two take it from here.
        found = [f"--find-links={dist / 'phasegraph'}", f"--constraint={ROOT / 'constraints.txt'}"]
        pip = [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--only-binary=:all:"]
        subprocess.run([*pip, *found, *wheels], check=True)
        bom = [sys.executable, "-m", "cyclonedx_py", "environment", folder, "--pyproject", str(project)]
        bom += ["--mc-type", "library", "--output-reproducible", "--output-file", str(target)]
        subprocess.run(bom, check=True)
    return target


def main(dist: str) -> None:
    """Write the SBOMs of all three distributions, and print what each contains."""
    for name, project in zip(versions(), PROJECTS, strict=True):
        parts = json.loads(write(name, project, Path(dist).resolve()).read_text(encoding="utf-8"))["components"]
        print(f"{name}: {len(parts)} distributions")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
