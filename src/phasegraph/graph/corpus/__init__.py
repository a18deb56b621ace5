"""A corpus that accepts changes, in memory or in a folder: its entity graph, BM25 index and vectors."""
