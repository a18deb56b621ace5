"""Summaries of related passages, stored as a tree (RAPTOR)."""
