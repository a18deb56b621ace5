"""Make every quoted figure anew, or check that none is older than the code: ``python tools/figures [--check]``.

Each command's result is kept in ``docs/figures/NAME.json``; the blocks of the pages are written from it. The ledger,
``docs/figures/ledger.json``, says of each figure when it was run, how long that took, and the digests of then.
"""

import sys

from making import main

if __name__ == "__main__":
    sys.exit(main(about=__doc__ or ""))
