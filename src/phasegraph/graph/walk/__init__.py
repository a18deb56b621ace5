"""The walk from a query: its seeds, the relevance of passages, and the scores and paths of passages."""
