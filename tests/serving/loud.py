"""A model for a server that prints to standard output while it is loaded."""

from tests.serving.conftest import embed as embed

print("a model was loaded", end="")
