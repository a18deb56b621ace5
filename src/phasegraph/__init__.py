"""Calibrated fusion of unlike retrievers."""
