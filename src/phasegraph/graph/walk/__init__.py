"""A walk from a query: its seeds, its preferences, and the scores and paths of passages."""
