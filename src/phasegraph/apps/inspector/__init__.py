"""The inspector: a page that explains the answers of a saved index and recomputes them with other settings."""
