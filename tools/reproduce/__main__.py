"""Every table of the documentation, regenerated from the data without a network.

python tools/reproduce DATA [--out docs/reproduction]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from phasegraph import PhasegraphError
from running import reproduce


def main() -> int:
    """Write the pages; 0 for done, 1 for failed with the reason on standard error."""
    parser = argparse.ArgumentParser(prog="tools/reproduce", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of data sets (musique, 2wiki, published), or one data set")
    parser.add_argument("--out", type=Path, default=Path("docs/reproduction"), help="folder for the pages")
    chosen = parser.parse_args()
    try:
        written = reproduce(chosen.data, chosen.out, say=lambda line: print(line, flush=True))
    except (PhasegraphError, OSError) as error:
        print(f"tools/reproduce: {error}", file=sys.stderr)
        return 1
    print(f"{len(written)} files written to {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
