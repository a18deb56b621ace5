"""The inspector: a page on which the answers of a saved index are looked at, and decided again."""
