"""The programs of ``tools/reproduce`` by name, as ``python tools/reproduce`` finds them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "reproduce"))
