"""The optional stages of a call, besides asking and fusing: rewriting, routing, reranking and correction."""
