"""Summaries of passages that belong together, kept as a tree (RAPTOR)."""
