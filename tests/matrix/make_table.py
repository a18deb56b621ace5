"""Write docs/adapters.md; every store of the matrix must be there."""

from __future__ import annotations

import sys
import warnings

from matrix_langchain import LANGCHAIN
from matrix_llamaindex import LLAMAINDEX
from matrix_rows import Row
from matrix_servers import Servers
from matrix_slice import real_slice
from matrix_table import PAGE, line, page


def main() -> None:
    warnings.simplefilter("ignore")
    data, lines = real_slice(), []
    with Servers() as servers:
        for row in (*LANGCHAIN, *LLAMAINDEX):
            lines.append((row.framework, measured(row, data, servers)))
    PAGE.write_text(page(lines), encoding="utf-8")


def measured(row: Row, data: object, servers: Servers) -> str:
    opened = row.open(data, servers)
    try:
        return line(row, opened, data)
    finally:
        opened.close()


if __name__ == "__main__":
    sys.exit(main())
