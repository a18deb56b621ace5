"""The process of ``phasegraph serve`` that computes the answers: equal answers, and what happens when it ends."""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.serving.conftest import TOKENS, command, embed, told_address
from tests.suites.manual_time import PATIENCE, until

from phasegraph.apps.server.answer_process import answer_processes
from phasegraph.apps.server.following import Served
from phasegraph.apps.server.turns import LOW_PRIORITY
from phasegraph.apps.server.view import View
from phasegraph.errors import IntegrityError, InvalidInputError, PhasegraphError, StoreError
from phasegraph.graph.corpus.corpus import LOOKING
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


def foreign(folder: Path) -> Served:
    """Return answers whose embedding model raises an error of its own, and starts processes."""

    class ModelError(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    def model(query):
        ended = subprocess.Popen(["sleep", "60"])
        ended.terminate()
        assert ended.wait(PATIENCE) == -signal.SIGTERM
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            assert pool.submit(abs, -1).result(PATIENCE) == 1
        raise ModelError("a secret", "another")

    served = Served(folder, model, filters={"": None})
    served.views[""].now._gatherer.gather = lambda sources, query: model(query)  # type: ignore[method-assign, misc]
    return served


def exhausted(folder: Path) -> Served:
    """Return answers that raise an error without a text."""
    served = Served(folder, filters={"": None})

    def answer(method, body):
        raise MemoryError

    served.views[""].answer = answer  # type: ignore[method-assign]
    return served


def test_an_error_without_a_text_is_no_answer(folder):
    with (
        answer_processes(partial(exhausted, folder), 1) as views,
        pytest.raises(StoreError, match=r"^the search failed \(MemoryError\)$"),
    ):
        views[""].answer("search", ASKED)


def test_the_answers_equal_those_of_this_process(folder):
    made = partial(Served, folder, embed, filters=FILTERS)
    here = made().views
    with answer_processes(made, 2) as views:
        assert list(views) == list(here)
        for caller, view in views.items():
            assert view.has_vectors
            assert view.answer("search", ASKED) == here[caller].answer("search", ASKED)
            found = json.loads(view.answer("passages", b'{"ids": ["blue-1"]}'))
            assert bool(found["missing"]) == (caller == "red")
            with pytest.raises(InvalidInputError, match="field 'query' is missing"):
                view.answer("search", b"{}")


def test_another_process_answers_requests_of_low_priority(folder):
    made = partial(Served, folder, embed, filters=FILTERS)
    with answer_processes(made, 1, partial(niced, folder), 1) as views:
        expected = views["red"].answer("search", ASKED)
        before = LOW_PRIORITY.set(True)
        try:
            assert views["red"].answer("search", ASKED) == expected
            assert views["all"].answer("passages", b'{"ids": ["niceness"]}') == str(min(19, os.nice(0) + 10))
        finally:
            LOW_PRIORITY.reset(before)
        assert json.loads(views["all"].answer("passages", b'{"ids": ["niceness"]}'))["missing"] == ["niceness"]


def niced(folder: Path) -> Served:
    """Return answers to two callers; the answer to the request for passages is the niceness of the process."""
    served = Served(folder, embed, filters=FILTERS)
    plain = served.views["all"].answer
    served.views["all"].answer = (  # type: ignore[method-assign]
        lambda method, body: str(os.nice(0)) if method == "passages" else plain(method, body)
    )
    return served


def test_all_threads_of_the_low_process_have_low_priority(folder):
    with answer_processes(partial(niced, folder), 1, partial(niced, folder)):
        own = os.getpriority(os.PRIO_PROCESS, 0)
        found = [
            {os.getpriority(os.PRIO_PROCESS, int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()}
            for pid, said in running_children(os.getpid())
            if "multiprocessing-fork" in said
        ]
    assert sorted(found, key=min) == [{own}, {min(19, own + 10)}]


def test_if_the_low_process_ends_while_the_other_loads_the_server_does_not_start():
    begun = time.monotonic()
    low = partial(os._exit, 7)
    with pytest.raises(StoreError, match=r"low priority ended \(exit code 7\)"), answer_processes(sleeping, 1, low):
        pass
    assert time.monotonic() - begun < PATIENCE
    until(lambda: not multiprocessing.active_children())


def sleeping() -> Served:
    """Take longer than a test to load."""
    time.sleep(600)
    raise AssertionError


def test_if_the_process_ends_while_that_of_low_priority_loads_the_server_does_not_start(folder, tmp_path):
    with (
        pytest.raises(StoreError, match=r"answers ended \(exit code 9\)"),
        answer_processes(partial(soon_ending, folder, tmp_path), 1, partial(after_the_other, tmp_path)),
    ):
        pass
    until(lambda: not multiprocessing.active_children())


def soon_ending(folder: Path, where: Path) -> Served:
    """Return answers of a process that ends when the other process says that it has waited long enough."""
    (where / "loaded").touch()
    threading.Thread(target=lambda: (until((where / "waited").exists), os._exit(9)), daemon=True).start()
    return Served(folder, embed, filters=FILTERS)


def after_the_other(where: Path) -> Served:
    """Wait until the other process has long loaded, let it end, and take longer than a test to load."""
    until((where / "loaded").exists)
    time.sleep(1.0)
    (where / "waited").touch()
    return sleeping()


@pytest.mark.parametrize("low", [False, True])
def test_each_process_has_time_to_clean_up(folder, tmp_path, low):
    made = [partial(cleaning, folder, tmp_path / name) for name in ("normal", "low")]
    with answer_processes(made[0], 1, made[1] if low else None):
        pass
    assert {one.name for one in tmp_path.iterdir()} == ({"normal", "low"} if low else {"normal"})


def cleaning(folder: Path, file: Path) -> Served:
    """Return answers of a process that needs some time to clean up at its end."""
    atexit.register(lambda: (time.sleep(0.3), file.touch()))
    return Served(folder, embed, filters=FILTERS)


def test_if_the_low_process_cannot_start_the_other_process_ends(folder):
    served = partial(Served, folder, embed, filters=FILTERS)
    with pytest.raises(ValueError, match="low"), answer_processes(served, 1, partial(_fails, ValueError, "low")):
        pass
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("tenants", "processes"), [(["red"], 1), (["red", "blue"], 2)])
def test_only_a_server_of_several_tenants_has_a_process_of_low_priority_and_it_ends_with_it(
    folder, tmp_path, tenants, processes
):
    file = tmp_path / "tenants.json"
    told = {name: {"token": f"token-of-{name}-0123456789", "filter": {"team": name}} for name in tenants}
    file.write_text(json.dumps(told), encoding="utf-8")
    server = subprocess.Popen(
        command(str(folder), "--transport", "http", "--port", "0", "--tenants", str(file)),
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        told_address(server)
        found = [pid for pid, said in running_children(server.pid) if "multiprocessing-fork" in said]
        assert len(found) == processes
        os.kill(max(found, key=lambda pid: os.getpriority(os.PRIO_PROCESS, pid)), signal.SIGKILL)
        log = server.communicate(timeout=PATIENCE)[1]
        assert server.returncode == 1
        assert ("low priority ended" in log) == (processes == 2)
        until(lambda: not running_in(server.pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.communicate(timeout=PATIENCE)


def test_the_processor_time_of_an_answer_is_counted(folder):
    spent: list[float] = []
    before = SPENT.set(spent)
    try:
        with answer_processes(partial(Served, folder, filters=FILTERS), 1) as views:
            views["all"].answer("search", ASKED)
    finally:
        SPENT.reset(before)
    assert len(spent) == 1
    assert spent[0] > 0


def test_if_the_process_ends_each_request_fails_and_the_server_is_stopped(folder):
    fatal, interrupts, outcomes = json.dumps({"query": "a fatal question"}).encode(), list[int](), list[str]()

    def ask(view, body):
        try:
            view.answer("search", body)
        except StoreError as error:
            outcomes.append(str(error))

    def serve():
        with answer_processes(partial(killing, folder), 3) as views:
            ask(views[""], fatal)
            threads = [threading.Thread(target=ask, args=(views[""], ASKED)) for _ in range(9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            until(lambda: bool(interrupts))

    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        with pytest.raises(StoreError, match="exit code -9"):
            serve()
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcomes == ["the process that computes the answers ended"] * 10
    assert interrupts == [signal.SIGINT]


def test_the_text_of_a_foreign_error_stays_in_the_process(folder):
    with (
        answer_processes(partial(foreign, folder), 1) as views,
        pytest.raises(StoreError, match=r"^the search failed \(ModelError\)$"),
    ):
        views[""].answer("search", ASKED)


def test_only_one_of_two_processes_says_what_concerns_the_folder(folder, tenants, tmp_path):
    own = tmp_path / "index"
    shutil.copytree(folder, own)
    server = subprocess.Popen(
        command(str(own), "--transport", "http", "--port", "0", "--tenants", str(tenants)),
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(server.stderr), daemon=True)
    try:
        reading.start()
        until(lambda: any("http://" in one for one in lines))
        (own / "manifest.json").write_text("{}", encoding="utf-8")
        until(lambda: any("cannot be read" in one for one in lines))
        time.sleep(3 * LOOKING)  # the other process has looked at the folder, too
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        reading.join(PATIENCE)
    for said in ("cannot be read", "only words and the graph are searched", *(f"{one}: " for one in TOKENS)):
        assert len([one for one in lines if said in one]) == 1, "".join(lines)


@pytest.mark.parametrize(("error", "text"), [(IntegrityError, "damaged"), (ValueError, "plain")])
def test_an_error_of_the_start_is_raised_in_this_process(error, text):
    with pytest.raises(error, match=text), answer_processes(partial(_fails, error, text), 1):
        pass


def _fails(error, text):
    raise error(text)


def test_a_process_that_ends_at_its_start_is_an_error():
    with pytest.raises(PhasegraphError, match="exit code 7"), answer_processes(partial(os._exit, 7), 1):
        pass


SLOW = """
import atexit, pathlib, threading, time
here = pathlib.Path(__file__).parent
atexit.register((here / "ended").touch)
threading.Thread(target=time.sleep, args=(600,), daemon=STUBBORN is None).start()

def embed(query):
    (here / "asked").touch()
    time.sleep(1)
    return [1.0] * 26
"""


@contextlib.contextmanager
def group_of_a_server(folder: Path, where: Path, model: str) -> Iterator[subprocess.Popen[str]]:
    """Start a server whose embedding model is the module text `model`, in a process group of its own."""
    (where / "slow_model.py").write_text(model, encoding="utf-8")
    path = os.pathsep.join([str(where), os.environ.get("PYTHONPATH", "")])
    server = subprocess.Popen(
        command(str(folder), "--transport", "http", "--port", "0", "--embedder", "slow_model:embed"),
        stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, "PYTHONPATH": path},
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # `nohup` lets all its processes ignore it
    )  # fmt: skip
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.communicate(timeout=PATIENCE)


def running_in(group: int) -> list[str]:
    """Return the states of the processes of a group that have not ended."""
    states = []
    for one in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, found = one.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
            if int(found) == group and state not in "ZX":
                states.append(state)
    return states


@pytest.mark.parametrize(("number", "stubborn"), [(signal.SIGTERM, None), (signal.SIGINT, None), (signal.SIGTERM, 1)])
def test_a_signal_to_both_processes_ends_both_after_the_request(folder, tmp_path, number, stubborn):
    with group_of_a_server(folder, tmp_path, SLOW.replace("STUBBORN", str(stubborn))) as server:
        address, answers = told_address(server), list[httpx.Response]()
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{address}/search", content=ASKED, timeout=PATIENCE))
        )
        asking.start()
        until((tmp_path / "asked").exists)
        os.killpg(server.pid, number)
        asking.join(PATIENCE)
        until(lambda: not running_in(server.pid))
        assert [one.status_code for one in answers] == [200]
    assert (tmp_path / "ended").exists() == (number == signal.SIGINT), "Ctrl-C lets the model clean up"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_process_ends_with_its_server_while_a_model_is_loaded(folder, tmp_path, number):
    model = "import pathlib, time\n(pathlib.Path(__file__).parent / 'loads').touch()\ntime.sleep(600)\n"
    with group_of_a_server(folder, tmp_path, model) as server:
        until((tmp_path / "loads").exists)
        server.send_signal(number)
        until(lambda: not running_in(server.pid))


def test_a_server_ends_with_the_process_that_computes_its_answers(folder, tmp_path):
    model = "import os\ndef embed(query):\n    os._exit(3)\n"
    with group_of_a_server(folder, tmp_path, model) as server:
        address = told_address(server)
        assert httpx.post(f"{address}/search", content=ASKED, timeout=PATIENCE).status_code == 502
        log = server.communicate(timeout=PATIENCE)[1]
        assert server.returncode == 1
        assert "the process that computes the answers ended (exit code 3)" in log
        until(lambda: not running_in(server.pid))


def test_an_error_of_the_model_at_the_start_names_its_line_and_leaves_no_process(folder, tmp_path):
    model = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nraise KeyError('boom')\n"
    with group_of_a_server(folder, tmp_path, model) as server:
        log = server.communicate(timeout=PATIENCE)[1]
        assert server.returncode == 1
        assert log == f"phasegraph: KeyError: 'boom' ({tmp_path / 'slow_model.py'}, line 3)\n"
        until(lambda: not running_in(server.pid))


def test_a_second_interrupt_ends_a_process_that_does_not_end_by_itself(folder, tmp_path):
    with group_of_a_server(folder, tmp_path, SLOW.replace("STUBBORN", "1")) as server:
        told_address(server)
        os.killpg(server.pid, signal.SIGINT)
        time.sleep(1)  # the server now waits for the process
        os.killpg(server.pid, signal.SIGINT)
        until(lambda: not running_in(server.pid))


def test_a_background_job_of_a_shell_ends_with_the_process_that_computes_its_answers(folder, tmp_path):
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "from phasegraph.apps.cli import main; sys.exit(main())"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program, "serve", str(folder), "--transport", "http", "--port", "0"],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        told_address(server)
        (child,) = (one for one in running_children(server.pid) if "multiprocessing-fork" in one[1])
        os.kill(child[0], signal.SIGKILL)
        log = server.communicate(timeout=PATIENCE)[1]
        assert (server.returncode, "exit code -9" in log) == (1, True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def running_children(pid: int) -> list[tuple[int, str]]:
    """Return the number and the command of each child process."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split())
    return [(one, Path(f"/proc/{one}/cmdline").read_text(encoding="utf-8")) for one in children]


def test_a_model_that_calls_exit_is_an_error_without_its_text(index, caplog):
    def exits(query):
        raise SystemExit("a secret")

    view = View(index, embed)
    view._gatherer.gather = lambda sources, query: exits(query)  # type: ignore[method-assign, misc]
    with pytest.raises(StoreError, match=r"^the search failed \(SystemExit\)$"):
        view.answer("search", ASKED)
    assert "a request failed: SystemExit" in caplog.text
