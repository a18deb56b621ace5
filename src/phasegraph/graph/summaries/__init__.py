"""Summaries of related passages, which are stored and searched as a tree (RAPTOR)."""
