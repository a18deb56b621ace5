"""A graph that accepts changes: records of passages, a change log, and the combination of both."""
