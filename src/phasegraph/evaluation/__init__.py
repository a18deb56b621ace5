"""Evaluation of retrieval: data sets, runs, measures, significance tests, and experiments over many systems."""

from phasegraph.evaluation.retrievers import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
