"""The main job on bundled real data: real retrievers of both frameworks, one table, one question explained."""

from phasegraph.demo.bundled import bundled_folder, load_bundled
from phasegraph.demo.run import Demonstration, ask, run_demo

__all__ = [
    "Demonstration",
    "ask",
    "bundled_folder",
    "load_bundled",
    "run_demo",
]
