"""The entity graph: finding names in texts, building the graph, synonyms of names, and storage on disk."""
