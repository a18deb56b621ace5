"""The programs of ``tools/figures`` by name, as ``python tools/figures`` finds them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "figures"))
