"""Write docs/guide/stores.md; every store of the matrix must be there."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from matrix_knowledge import KNOWLEDGE
from matrix_langchain import LANGCHAIN
from matrix_llamaindex import LLAMAINDEX
from matrix_rows import GraphRow, Row
from matrix_servers import Servers
from matrix_slice import Slice, real_slice
from matrix_table import PAGE, graph_line, line, page, tenant_line
from real_servers import RealServers


def main() -> None:
    warnings.simplefilter("ignore")
    data = real_slice()
    with RealServers() as real, Servers(real) as servers:
        stores = [measured(line, row, data, servers) for row in (*LANGCHAIN, *LLAMAINDEX)]
        graphs = [measured(graph_line, row, data, servers) for row in KNOWLEDGE]
    filters = sorted([(name, kept) for name, _, kept in (*stores, *graphs)], key=lambda one: one[0] == "LlamaIndex")
    PAGE.write_text(page([one[:2] for one in stores], [one[:2] for one in graphs], filters), encoding="utf-8")


def measured(write: Callable[..., str], row: Row | GraphRow, data: Slice, servers: Servers) -> tuple[str, str, str]:
    """Framework and both lines of one row, whose store is closed again."""
    opened = row.open(data, servers)
    try:
        return row.framework, write(row, opened, data), tenant_line(row, opened, data)
    finally:
        opened.close()


if __name__ == "__main__":
    sys.exit(main())
