"""Helpers for all of phasegraph's packages: files, validation of arguments, text, threads, clocks and array types."""
