"""A corpus whose passages can be added, replaced and deleted, in memory or in a folder on disk."""
