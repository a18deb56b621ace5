"""Which failures of a transaction are tried again, and until when: by a clock that the test steps."""

from __future__ import annotations

from typing import Any

import neo4j
import pytest

from phasegraph.neo4j import transactions
from phasegraph.neo4j.transactions import Transactions


class Server:
    """A driver whose server takes `taking` seconds for each failure in turn, and then answers at once.

    It stands for the clock as well: only its own attempts and the pauses between them take time.
    """

    def __init__(self, *failures: tuple[float, Exception]) -> None:
        self.failures = list(failures)
        self.now = 0.0
        self.attempts = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def session(self, **settings: Any) -> Server:
        return self

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def execute_read(self, work: Any) -> Any:
        self.attempts += 1
        if self.failures:
            taking, error = self.failures.pop(0)
            self.now += taking
            raise error
        return work(None)


def deadlock() -> Exception:
    return neo4j.exceptions.TransientError("the server says so")


@pytest.fixture
def attempts(monkeypatch):
    """How many attempts a read of ten seconds makes, and its error, if any."""

    def run(*failures: tuple[float, Exception]) -> tuple[int, Exception | None]:
        server = Server(*failures)
        monkeypatch.setattr(transactions, "monotonic", server.monotonic)
        monkeypatch.setattr(transactions, "sleep", server.sleep)
        try:
            assert Transactions(server, None)._tried("execute_read", lambda _: "answer", 10.0, set()) == "answer"
        except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError) as error:
            return server.attempts, error
        return server.attempts, None

    return run


@pytest.mark.parametrize("seconds", [0.0, 4.0, 6.0, 9.0])
def test_the_first_deadlock_is_tried_again_as_long_as_there_is_time(attempts, seconds):
    assert attempts((seconds, deadlock())) == (2, None)


def test_a_deadlock_that_leaves_no_time_for_another_attempt_is_told(attempts):
    error = deadlock()
    assert attempts((9.5, error)) == (1, error)


def test_further_deadlocks_are_tried_again_for_half_of_the_time(attempts):
    error = deadlock()
    assert attempts((1.0, deadlock()), (1.0, deadlock())) == (3, None)
    assert attempts((1.0, deadlock()), (4.0, error)) == (2, error)


def test_a_server_that_cannot_be_reached_is_tried_again_for_half_of_the_time(attempts):
    error = neo4j.exceptions.ServiceUnavailable("nobody listens")
    assert attempts((4.0, neo4j.exceptions.ServiceUnavailable("nobody listens"))) == (2, None)
    assert attempts((5.0, error)) == (1, error)


def test_an_error_that_will_not_pass_is_told_at_once(attempts):
    error = neo4j.exceptions.ClientError("the server says so")
    assert attempts((0.0, error)) == (1, error)
