"""The entity graph: names, the rules that find them, building and storage."""
