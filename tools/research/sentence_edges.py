"""Edge weights from the sentences that create an edge: measured (docs/research/lexical-walk.md), but not used."""

from __future__ import annotations

import re

import numpy as np
from scipy import sparse

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])|\n+")


def sentence_evidence(texts, mentions, entities, normalise, tokenize, vocabulary, indptr, indices):
    """Return a (terms, edges) csr matrix of 0 and 1: which words occur in the sentences of an edge, in both directions.

    An edge links a passage to an entity that the passage mentions. Its sentences are the passage's sentences that
    contain the entity's normalized name. texts: (P,); mentions: (P, E) csr; indptr, indices: the walk's edges, passages
    first.
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
    """Return the walk's edge weights, raised if an edge's sentences (:func:`sentence_evidence`) contain query words.

    The factor is 1 + gain x A x (the share of the idf of `terms` in the edge's sentences). terms: the query's distinct
    known words that are in none of its names; idf: their idf; A: min(1, anchored mass).
    """
    if not len(terms):
        return weights
    share = (idf / idf.sum()).astype(np.float32)
    return weights * (1 + gain * min(1.0, anchored_mass) * (share @ evidence[terms]))
