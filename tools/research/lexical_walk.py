"""A prototype: lexical walk, witness fusion, confidence (docs/research/lexical-walk.md). The push walk is the
product's.

P passages, t distinct query terms that the corpus knows. All arrays float64 unless said. Ties: lower row first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from scipy import sparse

# ---------------------------------------------------------------- 1. lexical evidence


@dataclass(frozen=True)
class LexicalIndex:
    """BM25 (Lucene idf, k1 1.5, b .75): `scores` (terms, P) csr of term-by-passage BM25 parts, row per term."""

    vocabulary: dict
    scores: sparse.csr_array
    idf: np.ndarray
    unseen: float  # idf of a word no passage has: log(1 + (P + .5) / .5)

    @classmethod
    def of(cls, token_lists, k1=1.5, b=0.75):
        vocabulary, rows, cols, counts = {}, [], [], []
        for column, tokens in enumerate(token_lists):
            found = {}
            for word in tokens:
                term = vocabulary.setdefault(word, len(vocabulary))
                found[term] = found.get(term, 0) + 1
            rows.extend(found)
            cols.extend([column] * len(found))
            counts.extend(found.values())
        size = len(token_lists)
        rows, cols, tf = np.array(rows, np.int64), np.array(cols, np.int64), np.array(counts, float)
        lengths = np.array([len(tokens) for tokens in token_lists], float)
        df = np.bincount(rows, minlength=len(vocabulary))
        idf = np.log1p((size - df + 0.5) / (df + 0.5))
        norm = k1 * (1 - b + b * lengths / lengths.mean())
        values = idf[rows] * tf / (tf + norm[cols])
        matrix = sparse.csr_array((values, (rows, cols)), shape=(len(vocabulary), size))
        return cls(vocabulary, matrix, idf, float(np.log1p((size + 0.5) / 0.5)))

    def look_up(self, tokens):
        """(t, P) dense parts of the known words, their idf, how often each is asked, idf mass of the unknown."""
        asked = {}
        for word in tokens:
            asked[word] = asked.get(word, 0) + 1
        known = [word for word in asked if word in self.vocabulary]
        terms = np.array([self.vocabulary[word] for word in known], np.int64)
        size = self.scores.shape[1]
        parts = self.scores[terms].toarray() if len(terms) else np.zeros((0, size))
        times = np.array([asked[word] for word in known], float)
        return parts, self.idf[terms], times, self.unseen * (len(asked) - len(known))


def first(values, count):
    """Rows of the `count` largest, ties by row."""
    if count < len(values):
        cut = np.partition(values, len(values) - count)[len(values) - count]
        rows = np.flatnonzero(values >= cut)
    else:
        rows = np.arange(len(values))
    return rows[np.argsort(-values[rows], kind="stable")][:count]


def greedy_cover(values, present, shares, weight, count):
    """Pick by value + weight * (idf share newly covered). Returns places in picking order and the value of each pick.

    The picks' values fall (the gain is submodular), and no one left out has more than the last pick.
    """
    left, open_shares = values.astype(float).copy(), shares.astype(float).copy()
    picked, worth = [], []
    for _ in range(min(count, len(values))):
        total = left + weight * (present @ open_shares)
        place = int(np.argmax(total))
        picked.append(place)
        worth.append(float(total[place]))
        left[place] = -np.inf
        open_shares[present[place]] = 0.0
    return np.array(picked, np.intp), np.array(worth)


def ramp(value, low, high):
    return np.clip((value - low) / (high - low), 0.0, 1.0)


def standardised(values):
    spread = values.std()
    return (values - values.mean()) / spread if spread > 0 else np.zeros(len(values))


def effective_number(logs, count=20):
    """exp(entropy) of the shares of exp(logs) over the first `count`."""
    top = np.sort(logs)[::-1][:count]
    shares = np.exp(top - top[0])
    shares /= shares.sum()
    return float(np.exp(-(shares * np.log(np.maximum(shares, 1e-300))).sum()))


# ---------------------------------------------------------------- 2. the walk around the push


@dataclass(frozen=True)
class WalkConstants:
    lexical: float = 0.2  # of L / max L in the relevance
    floor_gain: float = 0.05
    pool: int = 50  # candidates for seeds
    seeds: int = 10
    diversity: float = 0.3
    sharpness: float = 10.0
    floor: float = 0.002
    closeness: float = 0.5
    diffuse: tuple = (10.0, 13.0)  # effective number
    unanchored: float = 0.3
    dense_share: float = 0.7  # of z(cos); the rest z(L)
    cover: float = 3.0
    cover_pool: int = 30
    cover_picks: int = 10


def relevance_of(cosines, lexical, c=WalkConstants()):
    top = lexical.max(initial=0.0)
    return cosines + c.lexical * lexical / top if top > 0 else cosines.copy()


def diverse_seeds(relevance, parts, shares, c=WalkConstants()):
    """Rows and masses (sum 1) of the passage seeds; a seed's value includes what it newly covers."""
    pool = first(relevance, c.pool)
    places, worth = greedy_cover(relevance[pool], parts[:, pool].T > 0, shares, c.diversity, c.seeds)
    near = np.clip(worth, 0.0, None)
    if near.max(initial=0) <= 0:
        return pool[places], np.full(len(places), 1.0 / max(len(places), 1))
    masses = (near / near.max()) ** c.sharpness
    return pool[places], masses / masses.sum()


def best_home_weights(weights, edges, starts, targets, home, gains):
    """Weights of the walk with the home edges of an entity of several homes scaled: together they weigh the best one.

    edges : positions in `weights` of such edges, grouped by entity; starts: first of each group; targets: the
    passage each
    leads to; home: the home part of each weight (30 or 15).
    """
    value = gains[targets] * home
    sizes = np.diff(np.append(starts, len(edges)))
    best = np.repeat(np.maximum.reduceat(value, starts), sizes)
    total = np.repeat(np.add.reduceat(value, starts), sizes)
    out = weights.copy()
    out[edges] -= (home * (1 - best / total)).astype(out.dtype)
    return out


SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])|\n+")


def sentence_evidence(texts, mentions, entities, normalise, tokenize, vocabulary, indptr, indices):
    """(terms, edges) csr of 0 and 1: which words stand in the sentences that make an edge, in both directions.

    An edge joins a passage and an entity it mentions; its sentences are those of the passage's text that hold the
    entity's normalised name. texts: (P,); mentions: (P, E) csr; indptr, indices: the walk's edges, passages first.
    """
    size, words = len(texts), {}
    for row, text in enumerate(texts):
        parts = [part for part in SENTENCE_END.split(text) if part.strip()]
        named = [f" {normalise(part)} " for part in parts]
        terms = [{vocabulary[word] for word in tokenize(part) if word in vocabulary} for part in parts]
        for entity in mentions.indices[mentions.indptr[row] : mentions.indptr[row + 1]].tolist():
            name = f" {entities[entity]} "
            words[row, entity] = set().union(*(found for part, found in zip(named, terms, strict=True) if name in part))
    rows, edges = [], []
    for node in range(len(indptr) - 1):
        for edge in range(indptr[node], indptr[node + 1]):
            other = int(indices[edge])
            found = words.get((node, other - size) if node < size else (other, node - size), ())
            rows.extend(found)
            edges.extend([edge] * len(found))
    values = np.ones(len(rows), np.float32)
    return sparse.csr_array((values, (rows, edges)), shape=(len(vocabulary), len(indices)))


def sentence_weights(weights, evidence, terms, idf, anchored_mass, gain=3.0):
    """Weights of the walk's edges x (1 + gain x A x idf share of `terms` in the edge's sentences).

    terms: the query's distinct known words that are in none of its names; idf: theirs; A: min(1, anchored mass).
    """
    if not len(terms):
        return weights
    share = (idf / idf.sum()).astype(np.float32)
    return weights * (1 + gain * min(1.0, anchored_mass) * (share @ evidence[terms]))


def walk_scores(mass, gains, cosines, lexical, anchored_mass, c=WalkConstants()):
    """(P,) blended log scores, and the effective number. anchored_mass: today's name masses over anchored names."""
    logs = np.log(mass + c.floor) + c.closeness * np.log(gains)
    number = effective_number(logs)
    doubt = 1 - (1 - float(ramp(number, *c.diffuse))) * (1 - c.unanchored * (1 - min(1.0, anchored_mass)))
    flat = c.dense_share * standardised(cosines) + (1 - c.dense_share) * standardised(lexical)
    return (1 - doubt) * logs + doubt * logs.std() * flat, number


def covering_order(scores, parts, shares, limit, c=WalkConstants()):
    """Rows of the ranking and scores that fall along it."""
    rows = first(scores, max(limit, c.cover_pool))
    head = rows[: c.cover_pool]
    places, worth = greedy_cover(scores[head], parts[:, head].T > 0, shares, c.cover, c.cover_picks)
    rest = np.ones(len(rows), bool)
    rest[places] = False
    order = np.concatenate([head[places], rows[rest]])[:limit]
    return order, np.concatenate([worth, scores[rows[rest]]])[:limit]


def lexical_walk(push, cosines, lexical, parts, idf, names, name_masses, anchored, limit=50, c=WalkConstants()):
    """One query. push(nodes, masses, gains (P,)) -> (P,) mass. Returns rows, scores, (location, scale), effective
    number.

    idf: of the known query terms; names: entity nodes of the query with today's masses; anchored: which of them are.
    """
    shares = idf / idf.sum() if len(idf) else idf
    relevance = relevance_of(cosines, lexical, c)
    gains = np.maximum(relevance, c.floor_gain)
    rows, masses = diverse_seeds(relevance, parts, shares, c)
    mass = push(np.concatenate([rows, names]), np.concatenate([masses, name_masses]), gains)
    scores, number = walk_scores(mass, gains, cosines, lexical, float(name_masses[anchored].sum()), c)
    order, values = covering_order(scores, parts, shares, limit, c)
    return order, values, (float(scores.mean()), float(scores.std())), number


# ---------------------------------------------------------------- 3. the fusion default

DEPTH, PERSISTENCE = 20, 0.8
AGREE = (0.175, 0.425)
SHARE, CAP = 0.95, 12.0
_FALLING = PERSISTENCE ** np.arange(DEPTH)


def overlap(one, other):
    """Rank-biased overlap (p .8) of two lists of ids over the first 20 of the shorter."""
    deepest = min(len(one), len(other), DEPTH)
    if not deepest:
        return 0.0
    place = {identifier: at for at, identifier in enumerate(other[:deepest])}
    joins = np.zeros(deepest)
    for row, identifier in enumerate(one[:deepest]):
        at = place.get(identifier)
        if at is not None:
            joins[max(row, at)] += 1
    shared = np.cumsum(joins) / np.arange(1, deepest + 1)
    return float(_FALLING[:deepest] @ shared / _FALLING[:deepest].sum())


def witness(query_tokens, token_lists, k1=1.5, b=0.75):
    """Places of the texts (the first 20 hits of every list, each once, in id order) by BM25 among themselves.

    idf and lengths are those of these texts; only texts that share a word with the query; at most 20.
    """
    asked = {}
    for word in query_tokens:
        asked[word] = asked.get(word, 0) + 1
    place = {word: at for at, word in enumerate(asked)}
    tf = np.zeros((len(token_lists), len(asked)))
    for row, tokens in enumerate(token_lists):
        for word in tokens:
            at = place.get(word)
            if at is not None:
                tf[row, at] += 1
    size = len(token_lists)
    df = (tf > 0).sum(axis=0)
    idf = np.where(df > 0, np.log1p((size - df + 0.5) / (df + 0.5)), 0.0)
    lengths = np.array([len(tokens) for tokens in token_lists], float)
    norm = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9)) if size else lengths
    scores = (tf / (tf + norm[:, None])) @ (idf * np.array(list(asked.values()), float))
    order = np.argsort(-scores, kind="stable")
    return order[scores[order] > 0][:DEPTH]


def source_weights(lists, third=()):
    """Weights of {"vector", "graph"[, more]}: names -> ids best first. third: the witness's ids, () without texts.

    For a graph leg that carries lexical evidence; another keeps today's adaptive_weights.
    """
    seen = {**lists, "*": third}
    support = {}
    for a, first_list in lists.items():
        for b, second_list in seen.items():
            if a != b:
                support[a, b] = support[b, a] = float(ramp(overlap(first_list, second_list), *AGREE))
    others = [name for name in lists if name != "graph"]
    walk = SHARE * max(support["graph", b] for b in seen if b != "graph")
    trust = {}
    for a in others:
        own = max(support[a, b] for b in seen if b != a)
        against = max(support["graph", b] for b in seen if b not in (a, "graph"))
        trust[a] = 1 - (1 - own) * against
    total = sum(trust.values())
    if len(others) > 1:  # the others share what the walk leaves
        out = {a: (1 - walk) * (trust[a] / total if total > 0 else 1 / len(others)) for a in others}
    else:
        out = {a: (1 - walk) * trust[a] for a in others}
    out["graph"] = walk
    whole = sum(out.values())
    return {a: value / whole if whole > 0 else 1 / len(out) for a, value in out.items()}


def bounded(values, cap=CAP):
    """Strictly increasing, in (-cap, cap), slope 1 at 0; no ties in floats, as tanh would make at z = 38 with a
    small cap."""
    return values / (1 + np.abs(values) / cap)


# ---------------------------------------------------------------- 4. confidence

COSINE_BAR, COSINE_WIDTH = 0.48, 0.03


def covered(idf, unseen_count, unseen_idf, present):
    """idf^2 share of the query's distinct words found in the hits: present (hits, t) bool, idf (t,) of the known
    words."""
    total = float((idf**2).sum()) + unseen_count * unseen_idf**2
    return float((idf**2)[present.any(axis=0)].sum()) / total if total > 0 and len(present) else 0.0


def confidence(top_cosine, vector_cover, graph_cover, anchored_mass, bar=COSINE_BAR):
    """In [0, 1]. Covers over each source's first 5 hits; bar: after `calibrate` the 5th percentile of its top
    cosines."""
    evidence = (vector_cover + 2 * graph_cover + 0.3 * min(1.0, anchored_mass)) / 3.3
    return evidence / (1 + np.exp(-np.clip((top_cosine - bar) / COSINE_WIDTH, -500, 500)))
