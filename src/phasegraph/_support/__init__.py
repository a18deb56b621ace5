"""Helpers of every room: they know nothing of retrieval."""
