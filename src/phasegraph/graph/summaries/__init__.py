"""A tree of summaries of related passages, which is stored and searched beside the passages (RAPTOR)."""
