"""Measure the time of a selection, with 384-dimensional embeddings, on one core.

OMP_NUM_THREADS=1 python tools/benchmarks/selection_speed.py
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from phasegraph.selection import SelectionPolicy

BARS = {(200, 10): 3.0, (2000, 20): 60.0}
POLICIES = {
    "log_det, mu .1 (default)": SelectionPolicy(),
    "log_det, mu .5": SelectionPolicy(mu=0.5),
    "log_det, mu 2": SelectionPolicy(mu=2.0),
    "log_det, token budget": SelectionPolicy(budget=4000.0),
    "von_neumann": SelectionPolicy("von_neumann"),
    "mmr": SelectionPolicy("mmr"),
    "top": SelectionPolicy("top"),
}


def passages(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the relevance, the embeddings and the lengths in tokens of made-up passages.

    The embeddings have a common direction, like those of the candidates of a query.
    """
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(count, 384)).astype(np.float32) + 2 * rng.normal(size=384).astype(np.float32)
    return np.sort(rng.random(count))[::-1].copy(), embeddings, rng.integers(50, 400, size=count).astype(float)


def milliseconds(policy: SelectionPolicy, count: int, k: int, repeats: int = 21) -> tuple[float, float]:
    """Return the median and the lowest wall milliseconds of `repeats` selections of k from `count` passages."""
    relevance, embeddings, costs = passages(count)
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        policy.select(relevance, embeddings, k, costs=costs)
        taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken), min(taken)


def main() -> None:
    """Measure selections of several sizes, and print their milliseconds."""
    print(f"{'method':<30}{'from':>6}{'pick':>6}{'median ms':>11}{'least ms':>10}{'bar':>7}")
    for (count, k), bar in BARS.items():
        for name, policy in POLICIES.items():
            median, least = milliseconds(policy, count, k)
            print(f"{name:<30}{count:>6}{k:>6}{median:>11.2f}{least:>10.2f}{bar if 'log_det' in name else '':>7}")


if __name__ == "__main__":
    main()
