"""A graph that changes: records of passages, a log of changes, and the combination of both."""
