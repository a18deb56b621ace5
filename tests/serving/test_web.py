"""Plain HTTP behind the gate: tokens, hosts, sizes, errors that say what to do; a real server, too."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest
from tests.serving.conftest import PLACES, TOKENS, command, corpus, embed, running, told_address
from tests.suites.manual_time import PATIENCE, until

from phasegraph.apps.cli import main
from phasegraph.apps.server import view
from phasegraph.apps.server.json_answers import aside
from phasegraph.apps.server.view import View
from phasegraph.apps.server.web import LARGEST_BODY, web_app


def bearer(team):
    return {"Authorization": f"Bearer {TOKENS[team]}"}


def asked(app, method, path, **given):
    async def once():
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **given)

    return asyncio.run(once())


@pytest.fixture(scope="module")
def open_app(index):
    return lambda: web_app({"": View(index, embed)})


def test_search_explain_and_passages_answer(open_app):
    found = asked(open_app(), "POST", "/search", json={"query": "Who met the keeper in Oslo?", "k": 2})
    assert found.status_code == 200
    assert len(found.json()["passages"]) == 2
    told = asked(open_app(), "POST", "/explain", json={"query": "Oslo"}).json()
    assert {one["source"] for one in told["sources"]} == {"graph", "bm25", "vector"}
    some = asked(open_app(), "POST", "/passages", json={"ids": ["red-1", "x"]}).json()
    assert ([one["id"] for one in some["passages"]], some["missing"]) == (["red-1"], ["x"])
    assert asked(open_app(), "GET", "/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("path", "given", "status", "said"),
    [
        ("/search", {"json": {}}, 400, "the field 'query' is missing"),
        ("/search", {"json": {"query": ""}}, 400, "query must not be empty"),
        ("/search", {"json": {"query": "x", "k": 1000}}, 400, "at most 100"),
        ("/search", {"json": {"query": "x", "k": "5"}}, 400, "k must be"),
        ("/search", {"json": {"query": "x", "filter": {"team": "red"}}}, 400, "decides which passages are visible"),
        ("/search", {"json": ["x"]}, 400, "JSON object"),
        ("/search", {"content": b"{"}, 400, "must be JSON"),
        ("/search", {"content": b"[" * 100_000}, 400, "must be JSON"),
        ("/search", {"content": b"\xff\xfe"}, 400, "must be JSON"),
        ("/search", {"content": b'{"query": "' + b"x" * LARGEST_BODY + b'"}'}, 413, "at most"),
        ("/passages", {"json": {"ids": "red-1"}}, 400, "ids"),
        ("/passages", {"json": {"ids": ["x"] * 101}}, 400, "1 to 100"),
        ("/nothing", {"json": {}}, 404, ""),
        ("/search?k=2", {"json": {"query": "x"}}, 400, "'k': not read from the address; put all fields into the body"),
    ],
)
def test_a_bad_request_says_what_to_do(open_app, path, given, status, said):
    answer = asked(open_app(), "POST", path, **given)
    assert answer.status_code == status
    assert said in answer.text


def test_a_body_without_a_length_is_cut_off(open_app):
    async def body():
        for _ in range(LARGEST_BODY // 1000 + 2):
            yield b"x" * 1000

    assert asked(open_app(), "POST", "/search", content=body()).status_code == 413


def test_passages_that_take_long_to_read_hold_up_nobody_else(index, monkeypatch):
    rounds, read_hits = [], view.read_hits

    def slowly(*given):
        before = len(rounds)
        until(lambda: len(rounds) > before + 5)
        return read_hits(*given)

    monkeypatch.setattr(view, "read_hits", slowly)
    made = View(index, embed, timeout=None)

    async def both():
        asking = asyncio.create_task(aside(lambda: made.search("Who met Ada?", 3)))
        while not asking.done():
            rounds.append(1)
            await asyncio.sleep(0)
        return await asking

    assert len(asyncio.run(both())["passages"]) == 3


def test_passages_that_take_too_long_to_read_cost_their_words_alone(index, monkeypatch, clock, hang):
    monkeypatch.setattr(view, "read_hits", hang.function(0.5))
    made = View(index, embed, timeout=0.5)
    made._gatherer.clock = clock
    told = made.search("Oslo")
    assert clock.now() == 0.5
    assert told["passages"]
    assert "not read in time" in told["warnings"][-1]


def test_a_page_of_another_site_is_not_answered(open_app):
    for headers in ({"Host": "evil.example"}, {"Host": "evil.example:8321"}, {"Host": ""}):
        assert asked(open_app(), "POST", "/search", json={"query": "Oslo"}, headers=headers).status_code == 421
    for headers in ({"Host": "localhost:8321"}, {"Host": "127.0.0.1"}, {"Host": "[::1]:80"}):
        assert asked(open_app(), "POST", "/search", json={"query": "Oslo"}, headers=headers).status_code == 200
    page = {"Origin": "http://evil.example"}
    assert asked(open_app(), "POST", "/search", json={"query": "Oslo"}, headers=page).status_code == 403
    refused = asked(open_app(), "POST", "/search", json={"query": "Oslo"}, headers={"Host": "Evil.example:80"})
    assert "the host name 'evil.example' is not allowed" in refused.json()["error"]


def test_a_probe_asks_for_the_health_under_the_address_of_the_machine(index):
    app = web_app({TOKENS["red"]: View(index, embed)}, hosts=["search.example.org"])
    assert asked(app, "GET", "/health", headers={"Host": "10.0.0.7:8321"}).json() == {"status": "ok"}


def test_a_slash_at_the_end_of_a_path_is_not_redirected(open_app):
    assert asked(open_app(), "GET", "/health/").json() == {"status": "ok"}
    assert asked(open_app(), "POST", "/search/", json={"query": "Oslo"}).status_code == 200
    asks = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accepts = {"Accept": "application/json, text/event-stream"}
    assert asked(open_app(), "POST", "/mcp/", json=asks, headers=accepts).json()["result"]["tools"]
    assert asked(open_app(), "POST", "/", json={}).status_code == 404


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", f"Basic {TOKENS['red']}", TOKENS["red"], f"Bearer {TOKENS['red'][:-1]}"]
)
def test_no_part_opens_without_its_token(index, header):
    view = View(index, embed, only={"team": "red"})
    for path in ("/search", "/mcp", "/passages"):
        app = web_app({TOKENS["red"]: view})
        answer = asked(app, "POST", path, json={"query": "Oslo"}, headers={"Authorization": header} if header else {})
        assert answer.status_code == 401
        assert "Oslo" not in answer.text
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_text_of_a_foreign_error_stays_in_the_server(index):
    class Broken(View):
        def _ask(self, query, k):
            raise RuntimeError("password=hunter2")

    answer = asked(web_app({"": Broken(index)}), "POST", "/search", json={"query": "x"})
    assert answer.status_code == 502
    assert "RuntimeError" in answer.text
    assert "hunter2" not in answer.text


def hostile(rng: random.Random, team: str) -> tuple[str, dict[str, object]]:
    """A request that asks for the other tenant's passages, in one way or another."""
    other = "blue" if team == "red" else "red"
    row = rng.randrange(len(PLACES))
    words = [f"{other}secret{row}", f"{other.title()} Keeper", f"{other.title()} {PLACES[row]}", PLACES[row], "met"]
    query = rng.choice(
        [" ".join(rng.sample(words, 3)), words[0], f"{words[2]}\u202e", f"team={other}", f'{{"team": "{other}"}}', "*"]
    )
    requests = [
        ("/search", {"query": query, "k": rng.choice([1, 16, 100])}),
        ("/explain", {"query": query, "k": 100}),
        ("/passages", {"ids": [f"{other}-{row}", f"{team}-{row}", f"../{other}-{row}", f"{other}-{row}\x00"]}),
        ("/search", {"query": query, "filter": {"team": other}}),
        ("/search?team=" + other, {"query": query}),
        ("/explain", {"query": query, "only": None}),
    ]
    return rng.choice(requests)


def test_a_thousand_hostile_calls_of_two_tenants_leak_nothing(served):
    rng = random.Random(7)
    calls = [(team, *hostile(rng, team)) for team in TOKENS for _ in range(500)]
    rng.shuffle(calls)
    marks = {
        team: {str(one["text"]) for one in corpus() if one["metadata"]["team"] == team}
        | {f"{team}secret", f"{team.title()} Keeper", f"{team.title()} "}
        for team in TOKENS
    }
    with httpx.Client(base_url=served, timeout=30) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda one: client.post(one[1], json=one[2], headers=bearer(one[0])), calls))
    assert {answer.status_code for answer in answers} == {200, 400}
    found, leaks = 0, []
    for (team, path, body), answer in zip(calls, answers, strict=True):
        other = "blue" if team == "red" else "red"
        told = answer.json()
        found += bool(told.get("passages"))
        told.pop("missing", None)  # what was asked for by its id, said back
        if answer.status_code == 200 and any(mark in str(told) for mark in marks[other]):
            leaks.append((team, path, body))
    assert found > 250
    assert leaks == []


def test_a_call_ends_when_its_time_is_over(folder):
    model = "--embedder=tests.serving.slow:embed"
    with running(str(folder), model, "--timeout", "2") as address:
        told = httpx.post(f"{address}/search", json={"query": "Oslo secret"}, timeout=30).json()
        assert told["degraded"]
        assert told["passages"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--transport", "http", "--host", "0.0.0.0"], "is not loopback"),
        (["--transport", "tcp"], "stdio or http"),
        (["--log-level", "loud"], "debug, info, warning or error; got 'loud'"),
        (["--filter", "team"], "KEY=VALUE"),
        (["--filter", "team=red", "--filter", "team=blue"], "given twice"),
        (["--filter", "team={}"], "must be a text"),
        (["--token-file", "TENANTS"], "--transport http"),
        (["--port", "8321"], "--port needs --transport http"),
        (["--host", "127.0.0.1", "--transport", "stdio"], "--host needs --transport http"),
        (["--transport", "http", "--allow-host", "https://x.example"], "without https:// and port"),
        (["--transport", "http", "--allow-host", "x.example:443"], "got 'x.example:443'"),
        (["--transport", "http", "--allow-host", "*"], "such as search.example.org; got '*'"),
        (["--max-requests", "2"], "--max-requests needs --transport http"),
        (["--transport", "http", "--tenants", "TENANTS", "--filter", "team=red"], "leave"),
        (["--transport", "http", "--token-file", "SHORT"], "16 visible"),
    ],
)
def test_a_bad_command_line_is_refused_before_anything_is_served(folder, tenants, tmp_path, arguments, said, capsys):
    short = tmp_path / "short"
    short.write_text("abc")
    given = [{"TENANTS": str(tenants), "SHORT": str(short)}.get(one, one) for one in arguments]
    assert main(["serve", str(folder), *given]) in (1, 2)
    told = capsys.readouterr().err
    assert said in " ".join(told.replace("│", " ").split())
    assert "Traceback" not in told


def logged_by(folder, tenants, *options):
    """What a server writes to its log for a search, a request without a token, and a request that is refused."""
    process = subprocess.Popen(
        command(str(folder), "--transport", "http", "--port", "0", "--tenants", str(tenants), *options),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = told_address(process)
        for path, headers in (("/search", bearer("red")), ("/search", {}), ("/no\nwhere?q=Oslo", bearer("blue"))):
            httpx.post(address + quote(path, safe="/?="), json={"query": "Who met Ada in Oslo?"}, headers=headers)
    finally:
        process.terminate()
        told = process.communicate(timeout=PATIENCE)[1]
    return told


def test_the_log_has_a_line_for_each_request_and_no_question(folder, tenants):
    log = logged_by(folder, tenants, "--log-level", "info")
    lines = [re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO (.*) \d+ ms", one) for one in log.splitlines()]
    assert [one and one[1] for one in lines] == ["red /search 200", "- /search 401", r"blue /no\nwhere 404"]
    assert "Oslo" not in log


def test_without_an_option_requests_are_not_logged(folder, tenants):
    assert logged_by(folder, tenants) == ""


def test_a_record_of_the_log_is_one_line_and_is_not_doubled(folder):
    program = (
        "import sys, warnings; from phasegraph.apps.cli import main, serve; from phasegraph.errors import warn\n"
        "serve.run_http = lambda *given: warn('the folder ' + 'changed ' * 40)\n"
        "sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "serve", str(folder), "--transport", "http"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    assert [one.count("changed") for one in told if "changed" in one] == [40]


def test_a_source_that_fails_is_named_in_the_warnings_of_a_search(index):
    def broken(query):
        raise ConnectionError("secret host")

    found = asked(web_app({"": View(index, broken)}), "POST", "/search", json={"query": "Oslo"}).json()
    assert found["degraded"]
    (said,) = [one for one in found["warnings"] if "'vector'" in one]
    assert "ConnectionError" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", ["own debug", "other warning", "other error"]), ("error", ["other error"])],
)
def test_records_of_other_libraries_are_written_from_the_level_warning_on(folder, level, written):
    program = (
        "import logging, sys; from phasegraph.apps.cli import main, serve\n"
        "def log(*given):\n"
        "    logging.getLogger('phasegraph.x').debug('own debug')\n"
        "    for level in ('info', 'warning', 'error'):\n"
        "        getattr(logging.getLogger('other'), level)('other ' + level)\n"
        "serve.run_http = log; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "serve", str(folder), "--transport", "http", "--log-level", level]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert re.findall("(?:own|other) (?:debug|info|warning|error)", told) == written


def test_a_server_without_the_model_of_its_vectors_says_so(folder):
    told = subprocess.run([*command(str(folder))], input="", capture_output=True, text=True, check=True).stderr
    assert "'index' has vectors; without --embedder, only words and the graph are searched" in told


def test_the_command_shows_metadata_and_names_a_key_that_no_passage_has(folder):
    options = ("--metadata", "team", "--metadata", "pgae")  # codespell:ignore pgae
    with running(str(folder), *options) as address:
        told = httpx.post(f"{address}/passages", json={"ids": ["red-1"]}).json()
    assert told["passages"][0]["metadata"] == {"team": "red"}
    said = subprocess.run(
        [*command(str(folder)), *options], input="", capture_output=True, text=True, check=True
    ).stderr
    assert "warning: --metadata pgae: no passage has this metadata" in said  # codespell:ignore pgae
    assert "--metadata team" not in said


def test_a_changed_file_of_tenants_changes_the_tokens_of_a_running_server(folder, tmp_path):
    path, new = tmp_path / "tenants.json", "new-" + "n" * 20

    def write(**tokens):
        whole = {one: {"token": token, "filter": {"team": one}} for one, token in tokens.items()}
        (tmp_path / "next").write_text(json.dumps(whole))
        (tmp_path / "next").replace(path)  # the server must not read half a file

    write(**TOKENS)
    process = subprocess.Popen(
        command(str(folder), "--transport", "http", "--port", "0", "--tenants", str(path)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = told_address(process)

        def status(token):
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.post(f"{address}/passages", json={"ids": ["red-1"]}, headers=headers).status_code

        assert [status(token) for token in (TOKENS["red"], new)] == [200, 401]
        write(red=new, green="green-" + "g" * 20)
        until(lambda: status(new) == 200)
        assert [status(token) for token in (TOKENS["red"], TOKENS["blue"], "green-" + "g" * 20)] == [401, 401, 401]
        path.write_text("{")
        until(lambda: status(new) == 401)
        assert "for the new tenants and filters; refused until then: green" in process.stderr.readline()
        assert "tenants.json cannot be read, so every token is refused: " in process.stderr.readline()
        write(red=new)
        until(lambda: status(new) == 200)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
