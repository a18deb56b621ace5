"""The graph leg: an entity graph over passages, personalised PageRank on it, and a source made of both."""
