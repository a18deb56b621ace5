"""Write every table of the documentation again from the data, without a network.

python tools/reproduce DATA [--out docs/reproduction] [--only PAGE …]
                            [--model MODULE:FUNCTION [--answers FILE] [--offline]]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from answers import page_with_model
from phasegraph import PhasegraphError
from running import reproduce


def main() -> int:
    """Write the pages of the reproduction; return 0, or 1 for a failure, whose reason is written to standard error."""
    parser = argparse.ArgumentParser(prog="tools/reproduce", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of data sets (musique, 2wiki, published), or one data set")
    parser.add_argument("--out", type=Path, default=Path("docs/reproduction"), help="folder for the pages")
    parser.add_argument("--only", nargs="+", default=(), metavar="PAGE", help="pages to write; default: all of them")
    parser.add_argument("--model", help="MODULE:FUNCTION, from prompt to text: reads and judges in hard-slice-answers")
    parser.add_argument("--answers", type=Path, default=Path("answers.jsonl"), help="file that keeps what it says")
    parser.add_argument("--offline", action="store_true", help="ask no model: all answers are in the file")
    chosen = parser.parse_args()
    try:
        by_model = {}
        if chosen.model is not None:
            by_model["hard-slice-answers"] = page_with_model(chosen.model, chosen.answers, offline=chosen.offline)
        written = reproduce(
            chosen.data,
            chosen.out,
            only=chosen.only,
            experiments=by_model,
            say=lambda line: print(line, flush=True),
        )
    except (PhasegraphError, OSError) as error:
        print(f"tools/reproduce: {error}", file=sys.stderr)
        return 1
    print(f"{len(written)} files written to {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
