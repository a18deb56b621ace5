"""Synthetic graphs of entities and passages for the speed scripts: power-law hubs, clusters, 9.5 edges per node."""

from __future__ import annotations

import numpy as np
from scipy import sparse

PASSAGE_SHARE = 0.12
MENTIONS_PER_PASSAGE = 16
FACTS_PER_PASSAGE = 25


def entity_passage_graph(nodes, seed=0):
    """Return a synthetic graph of `nodes` nodes: links (E, E) of entities, and mentions (P, E) of entities by passages.

    Both are float32 CSR matrices. Links have integer weights, and mentions have unit weights.
    """
    rng = np.random.default_rng(seed)
    passages = int(PASSAGE_SHARE * nodes)
    entities = nodes - passages
    rank = np.cumsum(np.arange(1, entities + 1) ** -0.8)
    names = rng.permutation(entities)
    count = passages * MENTIONS_PER_PASSAGE
    hubs = names[np.searchsorted(rank, rng.random(count) * rank[-1])]
    home = np.repeat(rng.permutation(passages), MENTIONS_PER_PASSAGE) * (entities / passages)
    local = (home + rng.geometric(1 / 12, count)).astype(np.int64) % entities
    mentioned = np.where(rng.random(count) < 0.4, hubs, local).reshape(passages, MENTIONS_PER_PASSAGE)
    rows = np.repeat(np.arange(passages), MENTIONS_PER_PASSAGE)
    mentions = _counts(rows, mentioned.ravel(), (passages, entities))
    mentions.data[:] = 1.0
    pick = rng.integers(0, MENTIONS_PER_PASSAGE, (2, passages, FACTS_PER_PASSAGE))
    at = np.arange(passages)[:, None]
    one, two = mentioned[at, pick[0]].ravel(), mentioned[at, pick[1]].ravel()
    kept = one != two
    half = _counts(one[kept], two[kept], (entities, entities))
    return (half + half.T).tocsr(), mentions


def adjacency(links, mentions):
    """Return the undirected adjacency matrix of all E + P nodes: first the entities, then the passages."""
    return sparse.block_array([[links, mentions.T], [mentions, None]], format="csr", dtype=np.float32)


def entity_seeds(rng, entities, mentions, count=20):
    """Draw `count` distinct entities as seeds, and their weights.

    They are drawn from `entities` or, if this is None, from the entities that a passage mentions.
    """
    used = np.flatnonzero(np.diff(mentions.tocsc().indptr)) if entities is None else entities
    return rng.choice(used, count, replace=False), rng.random(count) + 0.1


def _counts(rows, columns, shape):
    data = np.ones(len(rows), dtype=np.float32)
    return sparse.coo_array((data, (rows, columns)), shape=shape).tocsr()
