"""The fixtures of a clock that a test moves by hand."""

from tests.suites.manual_time import clock, hang  # noqa: F401 - fixtures
