"""Hostile connections, tenants and messages against a real server: who is refused, and who is still answered."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from tests.serving.conftest import TOKENS, command, embed, running, told_address
from tests.suites.manual_time import PATIENCE, until

from phasegraph.apps.server.connections import IDLE, Door, listening, protocol, run_server, until_cancelled
from phasegraph.apps.server.json_answers import aside
from phasegraph.apps.server.turns import LOW_PRIORITY, BusyError, Turns
from phasegraph.apps.server.view import View
from phasegraph.apps.server.web import Gate, check_token, web_app
from phasegraph.errors import InvalidInputError
from phasegraph.sources.workers import SPENT

RED = {"Authorization": f"Bearer {TOKENS['red']}"}
AGENT = RED | {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HALF = b"POST /search HTTP/1.1\r\nHost: localhost\r\n"


def few_files(arguments: list[str]) -> list[str]:
    """The same command with at most 200 open files."""
    return arguments if os.name == "nt" else ["sh", "-c", 'ulimit -n 200 && exec "$@"', "sh", *arguments]


@pytest.fixture(scope="module")
def server(folder: Path, tenants: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, int]]:
    """A server that keeps 40 connections open: its address, its log, its process."""
    log = tmp_path_factory.mktemp("log") / "stderr"
    arguments = ["--transport", "http", "--port", "0", "--tenants", str(tenants), "--max-connections", "40"]
    with log.open("wb") as to:
        process = subprocess.Popen(
            few_files(command(str(folder), *arguments)), stdout=subprocess.DEVNULL, stderr=to
        )  # fmt: skip
    try:
        until(lambda: re.search(r"http://\S+:[0-9]+", log.read_text()) or process.poll() is not None)
        found = re.search(r"http://\S+:[0-9]+", log.read_text())
        assert found, log.read_text()
        yield found[0], log, process.pid
    finally:
        process.terminate()
        process.wait(PATIENCE)


def ask(address: str, **options: object) -> httpx.Response:
    return httpx.post(f"{address}/search", json={"query": "Oslo"}, headers=RED, timeout=20, **options)


def connected(address: str, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), 10, (source, 0))


def closed(one: socket.socket, within: float) -> bool:
    one.settimeout(within)
    try:
        while one.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def resident_kb(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_headers_without_end_and_without_a_token_cost_no_memory(server):
    address, _, pid = server
    before = resident_kb(pid)
    with contextlib.ExitStack() as held:
        for _ in range(8):
            one = held.enter_context(connected(address))
            with contextlib.suppress(OSError):
                one.sendall(HALF)
                for _ in range(100):
                    one.sendall(b"X-Padding: " + b"x" * 100_000 + b"\r\n")
            assert closed(one, PATIENCE)
        assert resident_kb(pid) - before < 8_000
    assert ask(address).status_code == 200


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_half_heads_lock_nobody_out(server, source):
    address, _, _ = server
    with contextlib.ExitStack() as held:
        for _ in range(300):
            try:
                one = held.enter_context(connected(address, source))
            except OSError:
                pytest.skip(f"this system has no address {source}")
            one.sendall(HALF)
        for _ in range(3):
            assert ask(address).status_code == 200
            assert not closed(one, 0.001), "the half heads are still there"


def test_a_head_that_does_not_come_is_given_up(server):
    address, _, _ = server
    with connected(address) as one, connected(address) as silent, connected(address) as again:
        one.sendall(HALF)
        again.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        again.settimeout(PATIENCE)
        assert b"200" in again.recv(4096)
        again.sendall(HALF)  # the second request of a connection
        while not closed(one, 0.5):
            with contextlib.suppress(OSError):
                one.sendall(b"X: y\r\n")  # keeps sending, and never ends
        assert [closed(each, PATIENCE) for each in (silent, again)] == [True] * 2


def test_an_address_has_its_own_limit(folder, tenants):
    with (
        running(
            str(folder), "--tenants", str(tenants), "--max-connections-per-address", "3", "--max-connections", "40"
        ) as address,
        contextlib.ExitStack() as held,
    ):
        own = [held.enter_context(connected(address)) for _ in range(5)]
        for one in own:
            one.sendall(HALF)
        assert [closed(one, PATIENCE) for one in own[:2]] == [True, True]
        assert [closed(one, 0.1) for one in own[2:]] == [False, False, False]
        try:
            other = held.enter_context(connected(address, "127.0.0.2"))
        except OSError:
            pytest.skip("this system has no address 127.0.0.2")
        other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        other.settimeout(PATIENCE)
        assert b"200" in other.recv(4096)


@pytest.mark.parametrize("token", [False, True])
def test_a_websocket_is_refused_without_a_word_in_the_log(server, token):
    address, log, _ = server
    before = log.read_bytes()
    with connected(address) as one:
        lines = ["GET /mcp HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket"]
        lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        lines += [f"{name}: {value}" for name, value in RED.items()] if token else []
        one.sendall("\r\n".join([*lines, "", ""]).encode())
        one.settimeout(PATIENCE)
        status = int(one.recv(4096).split()[1])
    assert status == (405 if token else 401)
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"question": "a private question"}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5, "arguments": "a private one"}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "private/question", "params": {}}',
        b'{"jsonrpc": "2.0", "method": "private/question"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b'["a private question"]',
        b'"a private question"',
        b"a private question",
        b"\xff private question",
        b"[" * 120_000,
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001,
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + b'{"a":' * 300 + b"1" + b"}" * 301,
    ],
)
def test_a_malformed_message_of_an_agent_is_refused_and_not_logged(server, body):
    address, log, _ = server
    before = log.read_bytes()
    answer = httpx.post(f"{address}/mcp", content=body, headers=AGENT, timeout=20)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in (-32700, -32600, -32602)
    assert b"private" not in answer.content
    assert log.read_bytes() == before


def test_a_sound_message_of_an_agent_is_answered(server):
    address, _, _ = server
    body = {"jsonrpc": "2.0", "id": "one", "method": "tools/call"}
    body["params"] = {"name": "search", "arguments": {"query": "Oslo"}}
    answer = httpx.post(f"{address}/mcp", json=body, headers=AGENT, timeout=20)
    assert (answer.status_code, answer.json()["id"]) == (200, "one")
    told = httpx.post(f"{address}/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "ping"}, headers=AGENT, timeout=20)
    assert told.json()["result"] == {}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert httpx.post(f"{address}/mcp", json=note, headers=AGENT, timeout=20).status_code == 202


@pytest.mark.parametrize("order", [("red", "blue"), ("blue", "red"), ("red", "red")])
def test_two_tokens_are_one_too_many(server, order):
    address, _, _ = server
    both = [("Authorization", f"Bearer {TOKENS[team]}") for team in order]
    answer = httpx.post(f"{address}/search", json={"query": "Oslo"}, headers=both, timeout=20)
    assert (answer.status_code, "Authorization" in answer.json()["error"]) == (400, True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM for another process")
def test_it_ends_at_once_with_requests_that_never_come_whole(folder, tenants):
    process = subprocess.Popen(
        command(str(folder), "--transport", "http", "--port", "0", "--tenants", str(tenants)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    address = told_address(process)
    assert ask(address).status_code == 200
    with connected(address) as body, connected(address) as head:
        body.sendall(HALF + f"Authorization: {RED['Authorization']}\r\nContent-Length: 9\r\n\r\n{{".encode())
        head.sendall(HALF)
        assert ask(address).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=9)  # a body may take 10 seconds
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "text",
    [
        '{"red": {"token": "%s", "filter": {"team": "red", "team": "blue"}}}',
        '{"red": {"token": "%s", "filter": {"team": "red"}}, "red": {"token": "x", "filter": {"team": "red"}}}',
        '{"red": {"token": "x", "token": "%s", "filter": {"team": "red"}}}',
    ],
)
def test_a_key_that_stands_twice_in_the_tenants_file_is_refused(folder, tmp_path, text, capsys):
    from phasegraph.apps.cli import main

    file = tmp_path / "tenants.json"
    file.write_text(text % TOKENS["red"])
    assert main(["serve", str(folder), "--transport", "http", "--tenants", str(file)]) in (1, 2)
    assert "occurs twice" in " ".join(capsys.readouterr().err.split())


# Fair shares


def test_a_tenant_with_many_requests_waits_behind_one_with_few():
    async def run():
        turns, served = Turns(4, each=4), []

        async def request(tenant):
            async with turns.place(tenant):
                await asyncio.sleep(0)
                served.append(tenant)

        many = [asyncio.create_task(request("many")) for _ in range(40)]
        await asyncio.sleep(0)
        few = [asyncio.create_task(request("few")) for _ in range(4)]
        await asyncio.gather(*many, *few)
        return served

    served = asyncio.run(run())
    assert max(place for place, tenant in enumerate(served) if tenant == "few") < 16


def test_a_tenant_never_has_more_places_than_its_share():
    async def run():
        turns, now, most = Turns(6, each=2), {"a": 0, "b": 0}, {"a": 0, "b": 0}

        async def request(tenant):
            async with turns.place(tenant):
                now[tenant] += 1
                most[tenant] = max(most[tenant], now[tenant])
                await asyncio.sleep(0)
                now[tenant] -= 1

        await asyncio.gather(*(request(tenant) for tenant in "ab" * 20))
        return most

    assert asyncio.run(run()) == {"a": 2, "b": 2}


def test_a_full_queue_and_a_long_wait_are_refused_and_places_are_never_lost():
    async def run():
        turns = Turns(1, each=1, queue=2, patience=0.05)
        told, leave = [], asyncio.Event()

        async def request():
            try:
                async with turns.place("a"):
                    await leave.wait()
                    told.append("served")
            except BusyError:
                told.append("busy")

        first = asyncio.create_task(request())
        await asyncio.sleep(0)
        gone = asyncio.create_task(request())
        rest = [asyncio.create_task(request()) for _ in range(4)]  # one waits too long, three find the queue full
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(*rest)
        leave.set()
        await first
        leave.clear()
        last = asyncio.create_task(request())
        await asyncio.sleep(0)
        cancelled = asyncio.create_task(request())
        await asyncio.sleep(0)
        cancelled.cancel()
        leave.set()
        await asyncio.gather(last, cancelled, return_exceptions=True)
        await request()
        return told

    assert asyncio.run(run()) == ["busy", "busy", "busy", "busy", "served", "served", "served"]


def test_places_are_limited_over_all_tenants():
    async def run():
        turns, now, most = Turns(2, each=2), Counter(), Counter()

        async def request(tenant):
            async with turns.place(tenant):
                low = LOW_PRIORITY.get()
                now[low] += 1
                most[low] = max(most[low], now[low])
                await asyncio.sleep(0)
                now[low] -= 1

        await asyncio.gather(*(request(tenant) for tenant in "aabbccddeeffffffffff"))
        return most

    assert asyncio.run(run()) == {False: 2, True: 1}


@pytest.mark.parametrize("waiting", [1, 2])
def test_a_request_that_leaves_the_queue_is_in_nobodys_way(waiting):
    async def run():
        turns, served = Turns(1, each=1, patience=PATIENCE), []

        async def request(name):
            async with turns.place("a"):
                await asyncio.sleep(0)
                served.append(name)

        tasks = [asyncio.create_task(request(name)) for name in range(1 + waiting)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await request("last")
        return served

    assert asyncio.run(run()) == [0, *range(2, 1 + waiting), "last"]


def test_a_place_that_comes_in_the_moment_of_leaving_goes_to_the_next():
    async def run():
        turns, served, leave = Turns(1, each=1, patience=PATIENCE), [], asyncio.Event()

        async def request(name):
            async with turns.place("a"):
                await leave.wait()
                served.append(name)

        first, second, third = (asyncio.create_task(request(name)) for name in range(3))
        await asyncio.sleep(0)
        leave.set()
        await asyncio.sleep(0)  # the first gives its place to the second, which has not run yet
        assert first.done()
        second.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(second, third, return_exceptions=True)
            await request("last")
        return served

    assert asyncio.run(run()) == [0, 2, "last"]


@pytest.mark.parametrize(
    ("path", "asked", "status", "where"),
    [
        ("/search", {"query": "x"}, 429, "error"),
        ("/mcp", {"id": 7, "method": "tools/call", "params": {}}, 200, "result"),
        ("/mcp", {"id": 7, "method": "initialize"}, 200, "error"),
        ("/mcp", {"method": "notifications/initialized"}, 202, ""),
        ("/mcp", {"id": 7, "method": "tools/call", "params": "x" * 40_000}, 429, "error"),
    ],
)
def test_too_many_requests_are_told_when_to_come_again(path, asked, status, where):
    """A client of the SDK ends its session if the status is an error, and an agent never reads the text."""

    async def run():
        leave = asyncio.Event()

        async def slow(scope, receive, send):
            await leave.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        gate = Gate({"": slow}, most=1, queue=1, refusal=0)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url="http://x") as client:
            tasks = [asyncio.create_task(client.post(path, json=asked)) for _ in range(3)]
            (refused,), served = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            leave.set()
            return await refused, await asyncio.gather(*served)

    refused, served = asyncio.run(run())
    assert (refused.status_code, refused.headers["retry-after"]) == (status, "1")
    told = refused.json() if where else {}
    assert ("try again in 1 s" in json.dumps(told.get(where))) == bool(where)
    assert told.get("id") == (7 if status == 200 else None)
    assert bool(refused.content) == bool(where)
    assert [one.status_code for one in served] == [200, 200]


@pytest.mark.parametrize("before", [0, 1])
def test_a_request_that_the_end_of_the_server_cuts_off_is_answered(before):
    """With another request before it, the request is just about to be refused."""

    async def run():
        started, sent = asyncio.Event(), []

        async def slow(scope, receive, send):
            started.set()
            await asyncio.Event().wait()

        async def receive():
            return {"type": "http.request", "body": b"{}"}

        async def send(message):
            sent.append(message)

        gate = until_cancelled(Gate({"": slow}, most=1, queue=0, refusal=PATIENCE))
        scopes = [{"type": "http", "path": "/search", "headers": []} for _ in range(1 + before)]
        *others, task = [asyncio.create_task(gate(scope, receive, send)) for scope in scopes]
        await started.wait()
        while before and IDLE not in scopes[-1]:
            await asyncio.sleep(0)
        task.cancel()
        await task
        for one in others:
            one.cancel()
        return sent[:2]

    start, body = asyncio.run(run())
    assert start["status"] == 503
    assert "the server is stopping; ask again" in json.loads(body["body"])["error"]


def test_evidence_is_worked_out_beside_the_event_loop(index, monkeypatch):
    from phasegraph.result import Result

    plain = Result.evidence

    def slow(self, name):
        before = len(rounds)
        until(lambda: len(rounds) > before + 5)
        return plain(self, name)

    monkeypatch.setattr(Result, "evidence", slow)
    rounds, made = [], View(index, embed, timeout=None)

    async def both():
        asking = asyncio.create_task(aside(lambda: made.explain("Who met the keeper in Oslo?", 5)))
        while not asking.done():
            rounds.append(1)
            await asyncio.sleep(0)
        return await asking

    assert asyncio.run(both())["passages"]


def test_answers_are_written_beside_the_event_loop(index, monkeypatch):
    from phasegraph.apps.server import web

    plain, where = json.dumps, []

    def dumps(*given, **options):
        try:
            asyncio.get_running_loop()
            where.append("loop")
        except RuntimeError:
            where.append("worker")
        return plain(*given, **options)

    monkeypatch.setattr(web.json, "dumps", dumps)
    app = web_app({"": View(index, embed)})

    async def once():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [
                (await client.post(path, content=body)).status_code
                for path, body in (("/explain", b'{"query": "Oslo"}'), ("/passages", b'{"ids": ["red-1"]}'))
            ]

    assert asyncio.run(once()) == [200, 200]
    assert where == ["worker", "worker"]


def test_an_honest_tenant_is_answered_beside_one_that_floods(served):
    over = threading.Event()
    long = {"query": "Who met the keeper in Oslo? " * 60, "k": 16}

    def flood(number):
        statuses = set()
        with httpx.Client(base_url=served, timeout=60, headers=RED) as client:
            while not over.is_set():
                statuses.add(client.post("/explain", json=long).status_code)
                answered.append(number)
        return statuses

    answered, passed = [], []
    with ThreadPoolExecutor(24) as pool:
        floods = [pool.submit(flood, number) for number in range(24)]
        try:
            until(lambda: len(answered) >= 24)
            with httpx.Client(base_url=served, timeout=PATIENCE) as client:
                for _ in range(5):
                    before = len(answered)
                    answer = client.post(
                        "/search", json={"query": "Oslo"}, headers={"Authorization": f"Bearer {TOKENS['blue']}"}
                    )
                    passed.append(len(answered) - before)
                    assert answer.status_code == 200
        finally:
            over.set()
        assert set().union(*(one.result() for one in floods)) <= {200, 429}
    assert min(passed) < 20, "behind all floods it would be passed by 24"


def used(turns: Turns, clock: list[float], **seconds: float) -> None:
    """Have each tenant hold a slot, and compute, for so many seconds."""

    async def run():
        for tenant, each in seconds.items():
            async with turns.place(tenant):
                clock[0] += each
                SPENT.get().append(each)

    asyncio.run(run())


async def placed(turns, *tenants):
    """Return which of the tenants get a place at once when all ask, and how many get a place in the end."""
    leave, now = asyncio.Event(), []

    async def request(tenant):
        async with turns.place(tenant):
            now.append(tenant)
            await leave.wait()

    tasks = [asyncio.create_task(request(tenant)) for tenant in tenants]
    for _ in range(20):
        await asyncio.sleep(0)
    at_once = list(now)
    leave.set()
    await asyncio.gather(*tasks)
    return at_once, len(now)


def test_tenants_that_use_most_share_a_quarter_of_the_places_however_many_they_are():
    clock = [0.0]
    turns = Turns(4, each=2, now=lambda: clock[0])
    used(turns, clock, a=1.5, b=1.5, c=1.5, d=1.5, few=0.01, other=0.01)

    assert asyncio.run(placed(turns, *"abcdabcd", "few", "other")) == (["a", "few", "other"], 10)


def test_a_tenant_whose_requests_only_wait_is_not_heavy():
    clock = [0.0]
    turns = Turns(4, each=2, now=lambda: clock[0])
    used(turns, clock, computes=2.0, few=0.01, other=0.01)

    async def run():
        for _ in range(5):
            async with turns.place("waits"):
                clock[0] += 1.0

    asyncio.run(run())
    assert turns._heavy() == {"computes"}


def test_tenants_that_are_gone_do_not_make_steady_tenants_heavy():
    clock = [0.0]
    turns = Turns(4, each=1, now=lambda: clock[0])
    for _ in range(20):
        used(turns, clock, a=0.1, b=0.1, c=0.1, d=0.1, gone=0.1, left=0.1)
    for _ in range(60):
        used(turns, clock, a=0.1, b=0.1, c=0.1, d=0.1)

    assert asyncio.run(placed(turns, *"abcd")) == (["a", "b", "c", "d"], 4)


def test_one_flood_hides_no_other():
    turns = Turns(4, each=2, now=lambda: 0.0)
    turns._asked.update(flood=(1e4, 0.0), other=(15.0, 0.0), few=(0.1, 0.0), more=(0.1, 0.0))
    assert turns._heavy() == {"flood", "other"}
    turns._asked = {name: (seconds, 0.0) for name, seconds in {"flood": 6.5, **dict.fromkeys("abc", 2.5)}.items()}
    turns._asked.update(dict.fromkeys("wxyz", (1.0, 0.0)))
    assert turns._heavy() == {"flood", *"abc"}
    shared = 10.0 / math.log(2)  # what one busy processor amounts to
    for equal in range(4, 9):
        turns._asked = {name: (shared / equal, 0.0) for name in "abcdefgh"[:equal]} | {"light": (0.1, 0.0)}
        assert turns._heavy() == set(), "tenants that share a processor equally"
    turns._asked = {
        name: (share * shared, 0.0) for name, share in zip("abcdef", (0.2, 0.2, 0.2, 0.2, 0.13, 0.05), strict=True)
    }
    assert turns._heavy() == set()
    turns._asked = {"flood": (1e4, 0.0)}
    assert turns._heavy() == set(), "without other tenants, there is nobody to protect"


def test_the_work_of_all_threads_counts_for_a_request(index):
    spent, made = [], View(index, embed, timeout=None)
    before = SPENT.set(spent)
    try:
        begun = time.process_time()
        asyncio.run(aside(lambda: made.search("Who met the keeper in Oslo?")))
        whole = time.process_time() - begun
    finally:
        SPENT.reset(before)
    assert len(spent) == 5, "the request, three sources, and the words of the passages"
    assert 0 < sum(spent) <= whole


def test_a_request_goes_to_a_worker_thread_once(index, monkeypatch):
    from phasegraph.apps.server import web

    jobs = []

    async def counted(job):
        jobs.append(job)
        return await aside(job)

    monkeypatch.setattr(web, "aside", counted)
    app = web_app({"": View(index, embed)})

    async def once():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return (await client.post("/explain", content=b'{"query": "Oslo"}')).status_code

    assert asyncio.run(once()) == 200
    assert len(jobs) == 1


def test_a_tenant_that_is_limited_does_not_look_modest():
    clock = [0.0]
    turns = Turns(4, each=1, queue=1, now=lambda: clock[0])
    used(turns, clock, floods=0.5, few=1.5, other=1.5)

    async def run():
        leave, now = asyncio.Event(), []

        async def request(tenant):
            with contextlib.suppress(BusyError):
                async with turns.place(tenant):
                    now.append(tenant)
                    await leave.wait()

        tasks = [asyncio.create_task(request(tenant)) for tenant in [*["floods"] * 10, "few", "other"]]
        for _ in range(20):
            await asyncio.sleep(0)
        before = list(now)
        leave.set()
        await asyncio.gather(*tasks)
        return before

    assert asyncio.run(run()) == ["floods", "few", "other"]


def test_a_flood_of_a_new_tenant_waits_behind_a_known_tenant_with_few_requests():
    clock = [0.0]
    turns = Turns(1, each=1, now=lambda: clock[0])
    used(turns, clock, few=2.0)

    async def run():
        served = []

        async def request(tenant):
            async with turns.place(tenant):
                await asyncio.sleep(0)
                served.append(tenant)

        await asyncio.gather(*(request(tenant) for tenant in ["few", *["new"] * 9, "few"]))
        return served

    assert asyncio.run(run()) == ["few"] * 2 + ["new"] * 9


def test_a_request_that_is_cancelled_at_shutdown_is_no_error():
    async def app(scope, receive, send):
        raise asyncio.CancelledError

    assert asyncio.run(until_cancelled(app)({}, None, None)) is None


def test_while_others_have_requests_heavy_tenants_get_a_quarter_of_the_time(monkeypatch):
    clock = [0.0]
    turns = Turns(4, each=4, now=lambda: clock[0])
    used(turns, clock, heavy=10.0, few=0.1)

    async def run():
        loop, later, now = asyncio.get_running_loop(), [], []
        monkeypatch.setattr(
            loop, "call_later", lambda delay, call: later.append((delay, call)) or SimpleNamespace(cancel=lambda: None)
        )

        async def request(tenant, leave):
            async with turns.place(tenant):
                now.append(tenant)
                await leave.wait()

        async def step(seconds=0.0):
            clock[0] += seconds
            for _ in range(9):
                await asyncio.sleep(0)
            return len(now)

        leaves = [asyncio.Event() for _ in range(4)]
        asking = zip(("few", "heavy", "heavy", "heavy"), leaves, strict=True)
        tasks = [asyncio.create_task(request(*one)) for one in asking]
        seen = [await step()]  # few and the first of heavy
        clock[0] += 2.0
        leaves[1].set()
        seen.append(await step())
        assert round(later[-1][0], 6) == 5
        clock[0] += 5.0
        later[-1][1]()
        seen.append(await step())
        clock[0] += 1.0
        leaves[2].set()
        seen.append(await step())
        leaves[0].set()  # few has no more requests
        seen.append(await step())
        leaves[3].set()
        await asyncio.gather(*tasks)
        return seen

    assert asyncio.run(run()) == [2, 2, 3, 3, 4]


def test_heavy_tenants_and_long_requests_get_low_priority():
    clock = [0.0]
    turns = Turns(4, each=4, now=lambda: clock[0])
    used(turns, clock, heavy=10.0, few=0.1, third=0.1, fourth=0.1)

    async def priority(tenant, size=0):
        async with turns.place(tenant, size):
            return tenant, LOW_PRIORITY.get()

    async def run():
        async with turns.place("few"):
            waited = asyncio.create_task(priority("heavy"))
            also = asyncio.create_task(priority("heavy"))
            await asyncio.sleep(0)
            found = [await waited, await also, await priority("few")]
            turns._usual_of_size[12] = {"few": 1.0}
            return [*found, await priority("few", 12)]

    assert asyncio.run(run()) == [("heavy", True), ("heavy", True), ("few", False), ("few", True)]
    assert LOW_PRIORITY.get() is False


def test_a_slot_that_becomes_free_after_a_request_has_left_goes_to_the_next():
    async def run():
        turns, served, leave = Turns(1, each=1, patience=PATIENCE), [], asyncio.Event()

        async def request(name):
            async with turns.place("a"):
                await leave.wait()
                served.append(name)

        tasks = [asyncio.create_task(request(name)) for name in range(3)]
        await asyncio.sleep(0)
        leave.set()
        tasks[1].cancel()  # the first request ends before this one learns that it is cancelled
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return served, [type(one) for one in outcomes]

    assert asyncio.run(run()) == ([0, 2], [type(None), asyncio.CancelledError, type(None)])


def test_among_waiting_tenants_the_one_that_used_least_goes_first_and_old_use_is_forgotten():
    clock = [1000.0]
    turns = Turns(1, each=1, now=lambda: clock[0])

    async def run():
        served = []

        async def request(tenant):
            async with turns.place(tenant):
                await asyncio.sleep(0)
                served.append(tenant)

        await asyncio.gather(*(request(tenant) for tenant in ("first", "much", "little", "least")))
        return served

    for _ in range(10):
        used(turns, clock, first=0.09, much=0.12, little=0.11, least=0.1)
    assert asyncio.run(run()) == ["first", "least", "little", "much"]
    clock[0] += 1000.0
    for _ in range(30):
        used(turns, clock, first=0.1, much=0.1, little=0.1, least=0.11)
    assert asyncio.run(run())[-1] == "least"


@pytest.mark.parametrize(("seconds", "wanted"), [([0.2], 1), ([2.0], 3), ([500.0], 60), ([10.0, 1.0], 13)])
def test_a_refusal_says_when_the_queue_is_likely_to_be_empty(seconds, wanted):
    clock = [0.0]
    turns = Turns(2, each=2, queue=2, now=lambda: clock[0])
    for each in seconds:
        used(turns, clock, a=each)

    async def run():
        leave = asyncio.Event()

        async def request():
            async with turns.place("a"):
                await leave.wait()

        tasks = [asyncio.create_task(request()) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as refused:
            await request()
        leave.set()
        await asyncio.gather(*tasks)
        return refused.value.retry_after

    assert asyncio.run(run()) == wanted


def test_of_several_tenants_each_has_a_quarter_of_the_places_and_a_short_queue():
    async def run(tenants, requests, refused):
        now, most, leave = 0, 0, asyncio.Event()

        async def slow(scope, receive, send):
            nonlocal now, most
            now += 1
            most = max(most, now)
            await leave.wait()
            now -= 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        gate = Gate({name: partial(slow) for name in tenants}, most=8, refusal=0)
        headers = {"Authorization": f"Bearer {tenants[0]}"} if tenants[0] else {}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url="http://x") as client:
            tasks = [asyncio.create_task(client.post("/search", headers=headers)) for _ in range(requests)]
            async with asyncio.timeout(PATIENCE):
                while sum(one.done() for one in tasks) < refused or now < most:
                    await asyncio.sleep(0)
                for _ in range(100):
                    await asyncio.sleep(0)
            leave.set()
            answers = [one.status_code for one in await asyncio.gather(*tasks)]
        return most, answers.count(429)

    assert asyncio.run(run(["red", "blue"], 20, 2)) == (2, 2)
    assert asyncio.run(run([""], 74, 2)) == (8, 2)


def test_by_default_two_tenants_are_answered_at_once_and_none_alone_has_both_slots():
    async def run(tokens):
        inside, most = 0, 0

        async def slow(scope, receive, send):
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            for _ in range(100):
                await asyncio.sleep(0)
            inside -= 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        gate = Gate({name: partial(slow) for name in ("red", "blue", "green")})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url="http://x") as client:
            asked = (client.post("/search", headers={"Authorization": f"Bearer {token}"}) for token in tokens)
            assert {one.status_code for one in await asyncio.gather(*asked)} == {200}
        return most

    assert asyncio.run(run(["red", "blue", "green"])) == 2
    assert asyncio.run(run(["red", "red", "red"])) == 1


def test_a_refusal_waits_and_its_connection_makes_room(server):
    address, _, _ = server
    whole = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    with contextlib.ExitStack() as held:
        for _ in range(60):
            held.enter_context(connected(address)).sendall(whole)
        assert ask(address).status_code == 200
    with connected(address) as one:
        one.sendall(whole)
        assert not closed(one, 0.2), "without a token nobody hears at once"
        one.settimeout(PATIENCE)


def test_messages_of_agents_are_checked_beside_the_event_loop(index, monkeypatch):
    from phasegraph.apps.server import agents

    plain, where = agents._refused_message, []

    def refused(body):
        try:
            asyncio.get_running_loop()
            where.append("loop")
        except RuntimeError:
            where.append("worker")
        return plain(body)

    monkeypatch.setattr(agents, "_refused_message", refused)
    app = web_app({"": View(index, embed)})

    async def once():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return (await client.post("/mcp", content=b"[" * 1000)).status_code

    assert asyncio.run(once()) == 400
    assert where == ["worker"]


def test_the_sdk_does_no_needless_work_for_a_message_on_the_event_loop(index, monkeypatch):
    app, needless = web_app({"": View(index, embed)}), []
    monkeypatch.setattr("importlib.metadata.version", needless.append)
    monkeypatch.setattr("jsonschema.validate", lambda *given, **named: needless.append(given))
    asked = {"name": "search", "arguments": {"query": "Oslo", "k": 1}}

    async def once():
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=AGENT) as client,
        ):
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
            return (await client.post("/mcp", json=message)).json()["result"]

    told = asyncio.run(once())
    assert json.loads(told["content"][0]["text"]) == told["structuredContent"]
    assert told["structuredContent"]["passages"]
    assert not needless


def while_serving(monkeypatch, look):
    """Start a server that only calls ``look()``, and return what this returns."""
    import uvicorn

    before, seen = sys.getswitchinterval(), []
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: seen.append(look()))
    made, _ = listening("127.0.0.1", 0)
    try:
        with made:
            run_server(None, made, Door())
    finally:
        sys.setswitchinterval(before)
    return seen[0]


def test_a_computing_thread_soon_makes_way(monkeypatch):
    assert while_serving(monkeypatch, sys.getswitchinterval) <= 0.0001


def test_garbage_collections_do_not_visit_what_was_loaded_at_the_start(monkeypatch):
    assert while_serving(monkeypatch, gc.get_freeze_count) > 10_000
    assert gc.get_freeze_count() < 10_000


@pytest.mark.parametrize(("token", "taken"), [("x" * 15, False), ("x" * 16, True), ("x" * 15 + " ", False)])
def test_a_token_has_at_least_sixteen_visible_characters(token, taken):
    with contextlib.nullcontext() if taken else pytest.raises(InvalidInputError, match="at least 16"):
        assert check_token("the token", token) == token


class Idle:
    """A connection that waits for a request."""

    waits, dropped = True, False

    def __init__(self, unsent: int = 0, unread: bool = False) -> None:
        self.transport = SimpleNamespace(get_write_buffer_size=lambda: unsent, abort=self.drop)
        self.unread = lambda: unread

    def drop(self) -> None:
        self.dropped = True


def test_a_connection_whose_answer_is_not_yet_sent_is_closed_last() -> None:
    door = Door(2)
    slow, quick, slow_too, last = Idle(unsent=7), Idle(), Idle(unsent=1), Idle()
    for one in (slow, quick, slow_too):
        assert door.admit(one, "one address")
    assert [one.dropped for one in (slow, quick, slow_too)] == [False, True, False]
    assert door.admit(last, "one address")
    assert [one.dropped for one in (slow, slow_too)] == [True, False], "the older of two"


def test_a_connection_with_unread_data_is_never_closed() -> None:
    door = Door(2)
    unread, idle, again = Idle(unread=True), Idle(), Idle(unread=True)
    for one in (unread, idle, again):
        assert door.admit(one, "one address")
    assert [one.dropped for one in (unread, idle, again)] == [False, True, False]
    more = [Idle(unread=True) for _ in range(40)]
    admitted = [door.admit(one, "one address") for one in more]
    assert admitted == [True] * 32 + [False] * 8, "one round of the event loop above the limit"
    for one in (unread, again, *more):
        one.unread = lambda: False
        door.read(one)
    assert [one.dropped for one in (unread, again, *more)] == [True] * 32 + [False] * 2 + [False] * 8


def test_a_busy_connection_moves_behind_idle_connections() -> None:
    door = Door(3)
    busy, idle, other = Idle(), Idle(), Idle()
    busy.waits = False
    for one in (busy, idle, other, Idle()):
        assert door.admit(one, "one address")
    busy.waits = True
    assert door.admit(Idle(), "one address")
    assert [one.dropped for one in (busy, idle, other)] == [False, True, True], "busy was idle for the shortest time"


def test_of_connections_that_come_at_once_those_that_have_sent_a_request_are_answered() -> None:
    from uvicorn import Config
    from uvicorn.server import ServerState

    async def run() -> list[bytes]:
        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

        door, state = Door(4), ServerState()
        config = Config(app, log_level="error", access_log=False)
        config.load()
        made, _ = listening("127.0.0.1", 0)
        kind = protocol(door)
        with contextlib.ExitStack() as held:
            clients = [held.enter_context(connected(f"x:{made.getsockname()[1]}")) for _ in range(6)]
            for one in clients:  # all connect and send before the event loop accepts the first
                one.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: kind(config=config, server_state=state, app_state={}), sock=made)
            async with server:
                return [await asyncio.to_thread(one.recv, 4096) for one in clients]

    said = [int(one.split()[1]) if one else 0 for one in asyncio.run(run())]
    assert said == [200] * 6


def test_a_round_of_the_event_loop_accepts_few_connections_and_many_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    seen, asked = [], []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, **_: seen.append(self.config))
    monkeypatch.setattr(socket.socket, "listen", lambda self, backlog=0: asked.append(backlog))
    before = sys.getswitchinterval()
    try:
        made, _ = listening("127.0.0.1", 0)
        with made:
            run_server(None, made, Door())
            made.listen(seen[0].backlog)  # as asyncio does
    finally:
        sys.setswitchinterval(before)
    assert (seen[0].loop, seen[0].backlog, asked[-1]) == ("asyncio", 32, 2048)


@contextlib.asynccontextmanager
async def h11_server(app, door):
    """A server of an ASGI application with the limits of a door: its port."""
    from uvicorn import Config
    from uvicorn.server import ServerState

    config, state = Config(app, log_level="error", access_log=False), ServerState()
    config.load()
    made, _ = listening("127.0.0.1", 0)
    kind = protocol(door)
    server = await asyncio.get_running_loop().create_server(
        lambda: kind(config=config, server_state=state, app_state={}), sock=made
    )
    async with server:
        yield made.getsockname()[1]
        for one in list(state.connections):
            one.shutdown()


async def bodies(scope, receive, send):
    """Answer with the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})


PARTS = [HALF, b"Content-Length: 4\r\nConnection: close\r\n", b"\r\n", b"bo", b"dy"]


@pytest.mark.parametrize("parts", [PARTS, [b"".join(PARTS).replace(b"\r\n", b"\n")]])
def test_a_request_costs_uvicorn_nothing_until_it_has_arrived(monkeypatch, parts):
    from uvicorn.protocols.http.h11_impl import H11Protocol

    made, plain = [], H11Protocol.__init__
    monkeypatch.setattr(H11Protocol, "__init__", lambda self, **given: made.append(self) or plain(self, **given))

    async def run():
        door = Door()
        async with h11_server(bodies, door) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for part in parts[:-1]:
                writer.write(part)
                await asyncio.sleep(0.02)
                assert not made
            writer.write(parts[-1])
            async with asyncio.timeout(PATIENCE):
                said = await reader.read()
            writer.close()
        return said, len(made)

    said, count = asyncio.run(run())
    assert (said.split()[1], said.split(b"\r\n\r\n")[1][:6], count) == (b"200", b"4\r\nbod", 1)


def test_an_incomplete_body_gets_as_much_time_as_a_head_again(monkeypatch):
    from uvicorn.protocols.http.h11_impl import H11Protocol

    made, waits, plain = [], [], H11Protocol.__init__
    monkeypatch.setattr(H11Protocol, "__init__", lambda self, **given: made.append(self) or plain(self, **given))

    async def run():
        loop = asyncio.get_running_loop()
        later = loop.call_later
        monkeypatch.setattr(loop, "call_later", lambda seconds, *rest: waits.append(seconds) or later(0.01, *rest))
        async with h11_server(bodies, Door(slowest=5.0)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"".join(PARTS[:-1]))
            async with asyncio.timeout(PATIENCE):
                said = await reader.read()
            writer.close()
        return int(said.split()[1])

    assert asyncio.run(run()) == 408
    assert (made, waits.count(5.0)) == ([], 2)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01",  # TLS
        HALF + b"X: " + b"x" * 20_000,
        HALF + b"Content-Length: 1000000000\r\n\r\n",
        HALF + b"Content-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        HALF + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody",
        HALF + b"Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n",
        HALF + b"Content-Length: 50\r\nContent-Length: 4\r\n\r\n",
    ],
)
def test_what_only_uvicorn_can_judge_is_passed_on_at_once(monkeypatch, data):
    from uvicorn.protocols.http.h11_impl import H11Protocol

    made, plain = [], H11Protocol.__init__
    monkeypatch.setattr(H11Protocol, "__init__", lambda self, **given: made.append(self) or plain(self, **given))

    async def run():
        async with h11_server(bodies, Door()) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                while not made:
                    await asyncio.sleep(0)
            writer.close()

    asyncio.run(run())


def test_long_requests_never_hold_all_slots():
    turns = Turns(4, each=1)

    async def run():
        for tenant, size, seconds in (("short", 6, 0.01), ("other", 6, 0.01), ("long", 12, 0.3)):
            async with turns.place(tenant, size):
                SPENT.get().append(seconds)
        leave, now = asyncio.Event(), []

        async def request(tenant, size):
            async with turns.place(tenant, size):
                now.append((tenant, size))
                await leave.wait()

        asked = [("long", 12), ("a", 12), ("b", 13), ("short", 6), ("other", 6)]
        tasks = [asyncio.create_task(request(*one)) for one in asked]
        for _ in range(20):
            await asyncio.sleep(0)
        before = list(now)
        leave.set()
        await asyncio.gather(*tasks)
        return before, sorted(now) == sorted(asked), turns._in_use.total()

    at_once, all_in_the_end, left = asyncio.run(run())
    assert {("short", 6), ("other", 6)} < set(at_once)
    assert (len(at_once), all_in_the_end, left) == (4, True, 0), "a long request, and a request of a heavy tenant"


def test_without_other_tenants_no_request_is_long():
    turns = Turns(4, each=4)

    async def run():
        async with turns.place("only", 6):
            SPENT.get().append(0.01)
        leave, now = asyncio.Event(), []

        async def request():
            async with turns.place("only", 12):
                now.append(1)
                await leave.wait()

        tasks = [asyncio.create_task(request()) for _ in range(4)]
        for _ in range(20):
            await asyncio.sleep(0)
        leave.set()
        before = len(now)
        await asyncio.gather(*tasks)
        return before

    assert asyncio.run(run()) == 4


def test_a_heavy_tenant_goes_on_when_its_pause_ends_although_no_other_request_does():
    turns = Turns(4, each=4, patience=2.0)

    async def run():
        for tenant, seconds in (("other", 0.01), ("heavy", 5.0)):
            async with turns.place(tenant):
                SPENT.get().append(seconds)
                await asyncio.sleep(0.01)
        leave = asyncio.Event()

        async def hold():
            async with turns.place("other"):
                await leave.wait()

        holds = asyncio.create_task(hold())
        await asyncio.sleep(0)
        assert turns._rested > turns._now()
        async with turns.place("heavy"):
            still = not holds.done()
        leave.set()
        await holds
        return still

    assert asyncio.run(run())


def test_only_further_requests_of_a_tenant_are_long_from_a_short_time_on():
    turns = Turns(4, each=2)
    turns._usual = {"short": 0.005, "other": 0.005, "slow": 0.05}
    turns._asked = {name: (0.5, turns._now()) for name in turns._usual}

    async def run():
        async with turns.place("slow"):
            alone = LOW_PRIORITY.get()
            async with turns.place("slow"):
                return alone, LOW_PRIORITY.get()

    assert asyncio.run(run()) == (False, True)


def test_a_request_that_searches_nothing_makes_no_search_long():
    turns = Turns(4, each=2)

    async def run():
        for tenant in ("a", "b"):
            for seconds in (*[0.0005] * 30, 0.15, 0.15):  # the handshakes of an agent, and its searches
                async with turns.place(tenant, 8 if seconds > 0.1 else 6):
                    SPENT.get().append(seconds)
        async with turns.place("a", 8):
            return LOW_PRIORITY.get()

    assert asyncio.run(run()) is False


def test_a_client_that_reads_nothing_and_asks_again_loses_its_connection():
    async def large(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 30_000_000})

    async def run():
        door = Door(slowest=0.2)
        async with h11_server(large, door) as port:
            with socket.create_connection(("127.0.0.1", port)) as client:
                async with asyncio.timeout(PATIENCE):
                    for count in range(3):
                        client.sendall(b"".join(PARTS[:1]) + b"\r\n")
                        await asyncio.sleep(0.05)
                        assert count or len(door._address) == 1
                    while door._address:
                        await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_pause_ends_although_others_have_asked_for_as_much_meanwhile():
    turns = Turns(4, each=1, patience=2.0)
    now = turns._now()
    turns._asked = {"heavy": (5.0, now), "other": (3.0, now), "third": (3.0, now)}
    turns._usual = {"heavy": 0.0, "other": 0.7}
    turns._rested = now + 0.1

    async def run():
        leave, got = asyncio.Event(), []

        async def request(tenant):
            async with turns.place(tenant):
                got.append(tenant)
                await leave.wait()

        tasks = [asyncio.create_task(request("other"))]
        await asyncio.sleep(0)
        assert "heavy" in turns._heavy()
        for tenant in ("heavy", "other"):
            tasks.append(asyncio.create_task(request(tenant)))
            await asyncio.sleep(0)
        assert (got, turns._heavy()) == (["other"], set())
        async with asyncio.timeout(1.0):
            while "heavy" not in got:
                await asyncio.sleep(0.01)
        leave.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_a_size_that_is_new_counts_with_the_usual_time_of_its_tenant():
    turns = Turns(4, each=1)
    turns._usual, turns._usual_of_size = {"few": 0.01, "flood": 3.0}, {12: {"flood": 3.0}}
    turns._asked = {"flood": (1.0, turns._now())}

    async def run(size):
        async with turns.place("few", size):
            return turns._in_use["normal"], turns._recently("few", turns._now())

    assert asyncio.run(run(5))[1] < 0.02
    assert asyncio.run(run(12)) == (0, pytest.approx(3.0, rel=0.01))


def half_of_a_second_head_while_the_answer_is_unread():
    """See what becomes of the connection: return the end of what the client reads."""

    async def large(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9000000")]})
        await send({"type": "http.response.body", "body": b"x" * 9_000_000})

    async def run():
        async with h11_server(large, Door(slowest=0.3)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALF + b"\r\n")
            await asyncio.sleep(0.1)
            writer.write(HALF)
            await asyncio.sleep(0.1)
            async with asyncio.timeout(2.0):
                said = await reader.read()
            writer.close()
            return said

    return asyncio.run(run())


def test_half_of_a_head_that_arrives_while_an_answer_is_unread_is_late_too():
    assert (
        half_of_a_second_head_while_the_answer_is_unread()[-200:].partition(b"x" * 20)[2].lstrip(b"x")[:12]
        == b"HTTP/1.1 408"
    )


def test_connections_with_unsent_answers_are_not_asked_for_unread_data_first() -> None:
    asked = []
    door = Door(3)
    for _ in range(2):
        slow = Idle(unsent=7)
        slow.unread = lambda: asked.append(1) or False
        assert door.admit(slow, "one address")
    for _ in range(20):
        assert door.admit(Idle(), "one address")
    assert not asked
