"""The stages of a call beside asking sources and fusing: rewriting, routing, reranking and correction."""
