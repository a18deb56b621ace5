"""A graph of chunks for corpora that name nothing: code, tables, manuals.

Edges follow the order of a document, likeness of meaning, shared references ("Table 3") and shared identifiers.
"""

from phasegraph.graph.chunk_graph.graph import ChunkGraph, ChunkSettings, build_chunk_graph
from phasegraph.graph.chunk_graph.source import ChunkGraphSource, ChunkTrail

__all__ = ["ChunkGraph", "ChunkGraphSource", "ChunkSettings", "ChunkTrail", "build_chunk_graph"]
