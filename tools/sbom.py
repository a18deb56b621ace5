"""An SBOM (CycloneDX) of each distribution: ``python tools/sbom.py dist`` writes ``dist/sbom/NAME.cdx.json``.

Each wheel goes into an empty environment, with the versions of constraints.txt; what pip installs for it is what the
SBOM names. Needs cyclonedx-bom and pip, which tools/release-tools.txt pins.
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
    """The SBOM of one distribution, whose wheel lies in ``dist/NAME``."""
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
    """Write the SBOM of all three, and say what each names."""
    for name, project in zip(versions(), PROJECTS, strict=True):
        parts = json.loads(write(name, project, Path(dist).resolve()).read_text(encoding="utf-8"))["components"]
        print(f"{name}: {len(parts)} distributions")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
