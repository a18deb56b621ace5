"""Clients that hold on, send slowly or oddly: what they cost, and whom."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from tests.serving.conftest import TOKENS, command, embed, failed, running, told_address

from phasegraph.apps.server.view import View
from phasegraph.apps.server.web import LARGEST_BODY, Gate, web_app
from phasegraph.graph import GraphIndex

RED, BLUE = ({"Authorization": f"Bearer {TOKENS[team]}"} for team in ("red", "blue"))
AGENT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def narrow(folder, tenants):
    """A server that answers two at a time."""
    with running(str(folder), "--tenants", str(tenants), "--max-requests", "2") as address:
        yield address


def test_an_agent_that_listens_for_ever_is_told_to_post(narrow):
    for _ in range(3):
        answer = httpx.get(f"{narrow}/mcp", headers=RED | {"Accept": "text/event-stream"}, timeout=10)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.json() == {"error": "use the method POST"}
    assert httpx.post(f"{narrow}/search", json={"query": "Oslo"}, headers=BLUE).status_code == 200


def test_bodies_that_never_come_keep_nobody_else_out(narrow):
    port = int(narrow.rsplit(":", 1)[1])
    lines = ("POST /search HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKENS['red']}", "Content-Length: 9")
    head = "\r\n".join([*lines, "", "{"])
    with contextlib.ExitStack() as held:
        for _ in range(4):
            one = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            one.sendall(head.encode())
        for _ in range(3):
            answer = httpx.post(f"{narrow}/search", json={"query": "Oslo"}, headers=BLUE, timeout=30)
            assert answer.status_code == 200


def test_a_body_that_does_not_come_is_given_up():
    async def never(scope, receive, send):
        raise AssertionError

    async def run():
        async def slow():
            yield b"{"
            await asyncio.sleep(60)

        gate = Gate({"": never}, slowest=0.1)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url="http://x") as client:
            return await client.post("/search", content=slow())

    answer = asyncio.run(run())
    assert answer.status_code == 408
    assert "0.1 s" in answer.json()["error"]


def test_a_long_body_of_an_agent_is_refused_as_any_is(narrow):
    def body():
        for _ in range(LARGEST_BODY // 1000 + 2):
            yield b"x" * 1000

    answer = httpx.post(f"{narrow}/mcp", content=body(), headers=RED | AGENT)
    assert (answer.status_code, list(answer.json())) == (413, ["error"])


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/search", 405), ("POST", "/no", 404), ("GET", "/", 404)]
)
def test_what_is_not_there_is_said_in_json(narrow, method, path, status):
    answer = httpx.request(method, f"{narrow}{path}", headers=RED)
    assert answer.status_code == status
    assert "POST" in answer.json()["error"]


def started(folder, *arguments):
    return subprocess.Popen(
        command(str(folder), "--transport", "http", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def speaks_ipv6():
    with contextlib.suppress(OSError):
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    return False


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_it_says_where_it_listens_and_ends_when_it_is_told_to(folder):
    process = started(folder, "--port", "0", "--host", "[::1]" if speaks_ipv6() else "127.0.0.1")
    assert httpx.get(f"{told_address(process)}/health", timeout=30).status_code == 200
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_said_in_a_sentence(folder, narrow):
    process = started(folder, "--port", narrow.rsplit(":", 1)[1])
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cannot listen on" in " ".join(said.split())


def test_two_hosts_are_one_too_many(index):
    async def run():
        app = web_app({"": View(index, embed)})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.post(
                "/search", headers=[("Host", "evil.example"), ("Host", "localhost")], json={"query": "x"}
            )

    assert asyncio.run(run()).status_code == 400


async def called(address: str, name: str, arguments: dict) -> object:
    async with (
        httpx.AsyncClient(headers=RED) as client,
        streamable_http_client(f"{address}/mcp", http_client=client) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        await session.initialize()
        return await session.call_tool(name, arguments)


def test_an_agents_filter_is_refused_and_not_left_out(narrow):
    answer = asyncio.run(called(narrow, "search", {"query": "Oslo", "filter": {"team": "blue"}}))
    assert failed(answer)
    assert "'filter': unknown" in answer.content[0].text
    assert not failed(asyncio.run(called(narrow, "search", {"query": "Oslo"})))


def test_halves_of_characters_cost_no_answer(tmp_path):
    rows = [{"id": "half\ud800", "title": "Oslo \udc00", "text": "Ada met Bob in Oslo.", "metadata": {}}]
    GraphIndex.build(rows).save(tmp_path / "index")
    with running(str(tmp_path / "index")) as address:
        asked = json.dumps({"ids": ["half\ud800", "no\ud801"]})
        told = httpx.post(f"{address}/passages", content=asked).json()
        assert ([one["id"] for one in told["passages"]], told["missing"]) == (["half\ud800"], ["no\ud801"])
        assert httpx.post(f"{address}/search", json={"query": "Oslo"}).json()["passages"][0]["id"] == "half\ud800"
        answer = asyncio.run(called(address, "search", {"query": "Oslo"}))
        assert not failed(answer)
        assert json.loads(answer.content[0].text)["passages"][0]["id"] == "half?"
