"""The benchmark of stores of vectors: the stores that need no further package find the exact nearest vectors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "benchmarks" / "vector_stores.py"


def test_stores_without_a_package_find_the_exact_nearest_vectors(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    given = ["--vectors", "2100", "--questions", "3", "--data", "random", "--stores", "flat,int8", "--json", figures]
    done = subprocess.run([sys.executable, SCRIPT, *given], capture_output=True, text=True, check=True, env=os.environ)
    stores = json.loads(figures.read_text())["stores"]
    assert set(stores) == {"flat", "int8"}, done.stdout
    assert [stores["flat"][name] for name in ("recall", "recall within")] == [1.0, 1.0]
    assert stores["int8"]["recall"] > 0.98
    assert all(one["delete"] is not None for one in stores.values())
