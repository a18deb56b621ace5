"""One file for each published method that no other room needs: its formulas, its settings, its citation."""
