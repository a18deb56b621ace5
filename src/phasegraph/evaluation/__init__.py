"""Measuring retrieval: data sets, runs, measures, significance, and experiments over many systems."""
