"""Measuring retrieval: data sets, runs, measures, significance, and experiments over many systems."""

from phasegraph.evaluation.retrievers import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
