"""The stages around deciding that do I/O: rewriting, routing, reranking and correction."""
