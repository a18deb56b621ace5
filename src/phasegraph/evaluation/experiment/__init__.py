"""Systems × queries × measures in one table, with a baseline, intervals, wins and losses and corrected p."""

from phasegraph.evaluation.experiment.compare import compare
from phasegraph.evaluation.experiment.running import Answers, run_systems
from phasegraph.evaluation.experiment.table import Row, Table

__all__ = ["Answers", "Row", "Table", "compare", "run_systems"]
