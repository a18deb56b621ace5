"""Helpers for all packages of phasegraph: files, validation, text, threads, clocks and array types."""
