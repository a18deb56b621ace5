"""The entity graph: its names, the rules that find names, building, and storage."""
