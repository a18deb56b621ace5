"""Measure all quoted figures again, or check that no figure is older than the code: ``python tools/figures [--check]``.

The result of each command is stored in ``docs/figures/NAME.json``; the blocks of the pages are written from it. The
ledger, ``docs/figures/ledger.json``, records for each figure when it was measured, how long this took, and the digests
at that time.
"""

import sys

from making import main

if __name__ == "__main__":
    sys.exit(main(about=__doc__ or ""))
