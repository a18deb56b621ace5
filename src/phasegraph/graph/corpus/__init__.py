"""A corpus that changes, in memory or in a folder: graph, words and vectors of the same passages."""
