"""Compare the exact search for synonym pairs with a blocked product of all rows, and abstractness with a plain loop.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python tools/benchmarks/synonym_speed.py [--rows 60000] [--vectors E.npy]

Both sides take turns in one process. Times are processor seconds of the calling thread.
"""

from __future__ import annotations

import argparse
import resource

import numpy as np
from interleaved import timed
from scipy import sparse

from phasegraph.graph.experimental.semflow import abstractness
from phasegraph.graph.model.synonyms import _bounds, _unit, synonym_pairs


def made_up(rows, dimensions=384, seed=0):
    """Return made-up unit vectors, about a fifth of which are near-duplicates of others.

    The first 96 directions have about three quarters of the squared length.
    """
    rng = np.random.default_rng(seed)
    spread = (np.arange(1, dimensions + 1) ** -0.45).astype(np.float32)
    vectors = rng.standard_normal((rows, dimensions), dtype=np.float32) * spread
    copies, originals = rng.integers(0, rows, rows // 5), rng.integers(0, rows, rows // 5)
    noise = rng.standard_normal((len(copies), dimensions), dtype=np.float32) * spread
    vectors[copies] = vectors[originals] + 0.5 * noise
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def blocked_product(unit, threshold, tile):
    """Count the pairs of rows whose dot product reaches the threshold, by full products of `tile` x `tile` rows."""
    count = 0
    for top in range(0, len(unit), tile):
        for first in range(top, len(unit), tile):
            hits = np.flatnonzero(unit[top : top + tile] @ unit[first : first + tile].T >= threshold)
            if first == top:
                left, right = np.divmod(hits, min(tile, len(unit) - first))
                count += int((left < right).sum())
            else:
                count += len(hits)
    return count


def compare_synonyms(vectors, threshold, rounds):
    unit = _unit(vectors, np.linalg.norm(vectors.astype(np.float64), axis=1))
    head = _bounds(unit, threshold).head.shape[1]
    print(f"{len(unit)} rows of {unit.shape[1]}, cosine >= {threshold}; products over {head} numbers")
    ours, theirs = [], []
    for _ in range(rounds):
        seconds, found = timed(lambda: synonym_pairs(vectors, threshold=threshold))
        ours.append(seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        tries = [timed(lambda tile=tile: blocked_product(unit, threshold, tile)) for tile in (512, 1024, 2048)]
        theirs.append(min(seconds for seconds, _ in tries))
        print(
            f"  ours {ours[-1]:.2f} s, product {theirs[-1]:.2f} s, ratio {theirs[-1] / ours[-1]:.2f};"
            f" pairs {len(found)} and {tries[0][1]}; peak memory so far {peak:.2f} GiB"
        )
    print(f"synonyms: {np.median(theirs) / np.median(ours):.2f} times as fast as the blocked product (bar 2)")


def compare_abstractness(entities=90_000, links=189_000, passages=12_000, dimensions=384):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((passages, dimensions), dtype=np.float32)
    coordinates = rng.integers(0, passages, links), rng.integers(0, entities, links)
    mentions = sparse.coo_array((np.ones(links), coordinates), shape=(passages, entities)).tocsr()
    members = mentions.T.tocsr()
    some = range(0, entities, 10)

    def loop():
        rows = [members.indices[members.indptr[e] : members.indptr[e + 1]] for e in some]
        return [float(vectors[r].var(axis=0).sum()) if len(r) > 1 else 0.0 for r in rows]

    abstractness(mentions, vectors)
    ours = min(timed(lambda: abstractness(mentions, vectors))[0] for _ in range(3))
    runs = [timed(loop) for _ in range(3)]
    theirs = 10 * min(seconds for seconds, _ in runs)
    error = np.abs(abstractness(mentions, vectors)[list(some)] - runs[0][1]).max()
    print(f"abstractness: ours {ours:.3f} s, loop {theirs:.2f} s (a tenth, times 10), difference {error:.1e}")
    print(f"abstractness: {theirs / ours:.1f} times as fast as a loop (bar 10)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--vectors", help="an .npy file of embeddings instead of made-up ones")
    parser.add_argument("--threshold", type=float, default=0.8)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    compare_abstractness()
    vectors = made_up(options.rows) if options.vectors is None else np.load(options.vectors).astype(np.float32)
    compare_synonyms(vectors, options.threshold, options.rounds)


if __name__ == "__main__":
    main()
