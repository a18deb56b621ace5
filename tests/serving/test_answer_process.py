"""The process of ``phasegraph serve`` that computes the answers: equal answers, and what happens when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.serving.conftest import command, embed, told_address
from tests.suites.manual_time import PATIENCE

from phasegraph.apps.server.answer_process import answer_process
from phasegraph.apps.server.following import Served
from phasegraph.errors import IntegrityError, InvalidInputError, PhasegraphError, StoreError
from phasegraph.sources.workers import SPENT

ASKED = json.dumps({"query": "Who met Ada in Oslo?", "k": 3}).encode()
FILTERS = {"all": None, "red": {"team": "red"}}


def killing(folder: Path) -> Served:
    """Return answers of which one ends the process."""

    def model(query):
        if "fatal" in query:
            os.kill(os.getpid(), signal.SIGKILL)
        return embed(query)

    return Served(folder, model, filters={"": None})


def test_the_answers_equal_those_of_this_process(folder):
    made = partial(Served, folder, embed, filters=FILTERS)
    here = made().views
    with answer_process(made, 2) as views:
        assert list(views) == list(here)
        for caller, view in views.items():
            assert view.has_vectors
            assert view.answer("search", ASKED) == here[caller].answer("search", ASKED)
            found = json.loads(view.answer("passages", b'{"ids": ["blue-1"]}'))
            assert bool(found["missing"]) == (caller == "red")
            with pytest.raises(InvalidInputError, match="field 'query' is missing"):
                view.answer("search", b"{}")


def test_the_processor_time_of_an_answer_is_counted(folder):
    spent: list[float] = []
    before = SPENT.set(spent)
    try:
        with answer_process(partial(Served, folder, filters=FILTERS), 1) as views:
            views["all"].answer("search", ASKED)
    finally:
        SPENT.reset(before)
    assert len(spent) == 1
    assert spent[0] > 0


def test_if_the_process_ends_its_requests_fail_and_a_new_process_answers(folder, caplog):
    fatal = json.dumps({"query": "a fatal question"}).encode()
    with answer_process(partial(killing, folder), 3) as views:
        outcomes: list[str] = []

        def ask(body):
            try:
                views[""].answer("search", body)
                outcomes.append("answered")
            except StoreError as error:
                outcomes.append(str(error))

        threads = [threading.Thread(target=ask, args=(body,)) for body in (fatal, *[ASKED] * 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(outcomes) == 21, "each request ends"
        assert outcomes.count("answered") >= 15, "at most the requests of three connections and their successors fail"
        assert json.loads(views[""].answer("search", ASKED))["passages"]
    assert [one.levelname for one in caplog.records if "exit code -9" in one.getMessage()] == ["ERROR"]


@pytest.mark.parametrize(("error", "text"), [(IntegrityError, "damaged"), (ValueError, "plain")])
def test_an_error_of_the_start_is_raised_in_this_process(error, text):
    with pytest.raises(error, match=text), answer_process(partial(_fails, error, text), 1):
        pass


def _fails(error, text):
    raise error(text)


def test_a_process_that_ends_at_its_start_is_an_error():
    with pytest.raises(PhasegraphError, match="exit code 7"), answer_process(partial(os._exit, 7), 1):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_both_processes_ends_both_after_the_request(folder, tmp_path, number):
    (tmp_path / "slow_model.py").write_text(
        "import time\ndef embed(query):\n    time.sleep(1)\n    return [1.0] * 26\n", encoding="utf-8"
    )
    server = subprocess.Popen(
        command(str(folder), "--transport", "http", "--port", "0", "--embedder", "slow_model:embed"),
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    try:
        address, answers = told_address(server), list[httpx.Response]()
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{address}/search", content=ASKED, timeout=PATIENCE))
        )
        asking.start()
        time.sleep(0.5)
        os.killpg(server.pid, number)
        asking.join(PATIENCE)
        log = server.communicate(timeout=PATIENCE)[1]
        assert [one.status_code for one in answers] == [200], log
        with pytest.raises(ProcessLookupError):
            _until_gone(server.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def test_the_process_ends_with_a_server_that_is_killed(folder):
    server = subprocess.Popen(
        command(str(folder), "--transport", "http", "--port", "0"),
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        told_address(server)
        server.kill()
        server.communicate(timeout=PATIENCE)
        with pytest.raises(ProcessLookupError):
            _until_gone(server.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def _until_gone(group: int) -> None:
    """Wait until no process of a group runs; then raise ProcessLookupError."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        os.killpg(group, 0)
        time.sleep(0.05)
