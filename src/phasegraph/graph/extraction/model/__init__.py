"""Entities and triples by any text model: a function from prompt to text.

Two questions a passage (names first, then what is said of them), tolerant reading of the answers, retries, a
bounded number of calls at once, and a cache on disk from which an interrupted run goes on.
"""

from phasegraph.graph.extraction.model.asking import ModelSettings, TextModel
from phasegraph.graph.extraction.model.run import ModelReport, ModelRun, extract_with_model

__all__ = ["ModelReport", "ModelRun", "ModelSettings", "TextModel", "extract_with_model"]
