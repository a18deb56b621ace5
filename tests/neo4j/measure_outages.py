"""Measure how soon a server is asked again once it is back: ``python tests/neo4j/measure_outages.py 30 4 1``.

The numbers are probe intervals in seconds; each is measured over two kills and two freezes, by ``bolt://`` and by
``neo4j://``. "Back" is when a killed server has answered ``RETURN 1`` on Bolt, or a frozen one was let go on.
Beside them stands how long a killed server then takes for the first walk, asked for by nobody in a hurry.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from outages import Client, SpareServer, fill, spare_server, walk

from phasegraph.neo4j import Neo4jConnection

DEADLINE, AWAY_SECONDS = 2.0, 3.0


def outage(server: SpareServer, scheme: str, probe: float, *, kill: bool) -> float:
    """Take the server away while it is asked without a pause, bring it back, return the seconds until it answers."""
    with Neo4jConnection.connect(server.address(scheme), timeout=DEADLINE) as connection:
        client = Client(connection, probe_interval=probe)
        client.wait(60.0)
        (server.kill if kill else server.freeze)()
        began = time.monotonic()
        while time.monotonic() - began < AWAY_SECONDS:
            client.ask()
            time.sleep(0.01)
        (server.start if kill else server.thaw)()
        return client.wait(4 * probe + 10.0)


def main() -> None:
    """Print one line per way, scheme and interval."""
    logging.getLogger("neo4j").setLevel(logging.CRITICAL)
    with spare_server() as server:
        fill(server)
        for probe in map(float, sys.argv[1:] or ("30", "4", "1")):
            for scheme in ("bolt", "neo4j"):
                for kill in (False, True):
                    took = [outage(server, scheme, probe, kill=kill) for _ in range(2)]
                    way = "killed" if kill else "frozen"
                    listed = ", ".join(f"{each:.2f} s" for each in took)
                    print(f"{way} {scheme} interval {probe:g} s: {listed}", flush=True)
        server.kill()
        server.start()
        print(f"first walk of a server that has just started: {walk(server):.2f} s")


if __name__ == "__main__":
    main()
