"""Start a Neo4j of the tests in the foreground and print its address: ``python tests/neo4j_server/serve.py``.

Authentication is off unless ``--password`` is given; Ctrl-C or SIGTERM stops it and removes its data. With
``PHASEGRAPH_NEO4J_VERSION=2026.01`` it is a 2026.01, which needs Java 21 or later.
"""

from __future__ import annotations

import argparse
import signal
import sys

from neo4j_jars import ServerUnavailable
from neo4j_process import running


def main() -> int:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description="A throw-away Neo4j with APOC core and GDS, on loopback.")
    parser.add_argument("--port", type=int, help="Bolt port (default: a free one)")
    parser.add_argument("--password", default="", help="turn authentication on, with this password for user neo4j")
    parser.add_argument("--no-plugins", action="store_true", help="leave APOC and GDS out: starts faster")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running(options.password, plugins=not options.no_plugins, port=options.port) as server:
            print(f"NEO4J_URI={server.uri}", flush=True)
            print(f"up after {server.seconds_to_start:.1f} s; Ctrl-C stops it and removes its data", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except ServerUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
