"""Edges weighed by the sentences that make them: measured, not built (docs/research/lexical-walk.md)."""

from __future__ import annotations

import re

import numpy as np
from scipy import sparse

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
