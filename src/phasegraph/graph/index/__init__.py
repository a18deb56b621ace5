"""A graph that changes: records of passages, a log of changes, and both merged."""
