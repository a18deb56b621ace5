"""Who may ask the inspector's server, what it answers, and what it refuses."""

from __future__ import annotations

import json
import logging
import sys
import threading
import urllib.request

import pytest
from starlette.testclient import TestClient
from tiny import PASSAGES

from inspecting.conftest import EVIL, HOSTILE, QUESTION, embed
from phasegraph import FusionPipeline, InvalidInputError, MissingDependencyError
from phasegraph._support.serialization import decode_document
from phasegraph.apps.inspector import server
from phasegraph.apps.inspector.collection import Collection
from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.inspector.server import embedded_json, exported, make_app, offline_page
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.graph import GraphIndex, build_chunk_graph

JSON = {"content-type": "application/json"}
ASK = {"question": QUESTION, "settings": {}}


@pytest.fixture
def client(inspector):
    return TestClient(make_app(inspector), base_url="http://127.0.0.1:8765")


def test_the_page_and_its_parts_come_with_a_policy_that_forbids_everything_else(client) -> None:
    for path in ("/", "/static/inspector.js", "/static/inspector.css", "/static/cytoscape.min.js", "/api/about", "/no"):
        got = client.get(path)
        policy = got.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert got.headers["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control") for name in got.headers)
    page = client.get("/").text
    assert "https:" not in page
    assert "<script>" not in page
    assert "Cytoscape Consortium" in client.get("/static/cytoscape.LICENSE").text
    for path in ("/static/../server.py", "/static/%2e%2e%2fserver.py", "/static/page.html"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "[::1", "a@b:1"])
def test_a_name_that_was_pointed_here_is_refused(client, host) -> None:
    got = client.post("/api/ask", json=ASK, headers={"host": host})
    assert got.status_code == 421
    assert "rows" not in got.text


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8765", "LOCALHOST"])
def test_loopback_has_its_names(client, host) -> None:
    assert client.get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://[x"},
        {"origin": "//[::1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_site_is_refused(client, headers) -> None:
    assert client.post("/api/ask", json=ASK, headers=headers).status_code == 403
    assert client.get("/api/about", headers=headers).status_code == 403


@pytest.mark.parametrize("name", ["authorization", "origin"])
def test_a_header_that_decides_comes_once(client, name) -> None:
    answer = client.get("/api/about", headers=[(name, "Bearer x"), (name, "http://testserver")])
    assert answer.status_code == 400
    assert answer.headers["x-frame-options"] == "DENY"


def test_a_link_elsewhere_leads_to_the_page_and_to_nothing_in_it(client) -> None:
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=followed).status_code == 200
    assert client.get("/api/about", headers=followed).status_code == 403
    assert client.get("/", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421


def test_a_form_of_another_site_cannot_be_sent(client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert client.post("/api/ask", content=json.dumps(ASK), headers={"content-type": kind}).status_code == 415
    assert client.get("/api/ask").status_code == 405
    assert client.options("/api/ask", headers={"origin": "https://evil.example"}).status_code == 403


def test_beyond_loopback_there_is_a_token(inspector) -> None:
    for host in ("0.0.0.0", "192.168.1.5", "example.org", "::", ""):
        with pytest.raises(InvalidInputError, match="token must be given"):
            make_app(inspector, host)
    for token in ("short", "with space in it", "schlüssel-der-tür", ""):
        with pytest.raises(InvalidInputError, match="token"):
            make_app(inspector, "0.0.0.0", token)
    client = TestClient(make_app(inspector, "0.0.0.0", "right-token"), base_url="http://box.example:8765")
    assert client.get("/").status_code == 200  # the frame holds nothing
    for value in (
        "",
        "Bearer ",
        "Bearer wrong-token",
        "Bearer right-tokeN",
        "Bearer right-token2",
        "Bearer ✓".encode(),
    ):
        for got in (client.get("/api/about", headers={"authorization": value}),
                    client.post("/api/ask", json=ASK, headers={"authorization": value})):  # fmt: skip
            assert got.status_code == 401
            assert "right-token" not in got.text
    assert client.get("/api/about?token=right-token").status_code == 401
    assert client.get("/api/about", headers={"authorization": "Bearer right-token"}).status_code == 200
    named = TestClient(make_app(inspector, "box.example", "right-token"), base_url="http://other.example")
    assert named.get("/").status_code == 421


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "must be JSON"),
        (b"[" * 40000, "must be JSON"),
        (b'{"question": "' + b"x" * 70000 + b'"}', "at most 65536 bytes"),
        (b"[]", "read from a JSON object"),
        (b"{}", "needs the field 'question'"),
        (json.dumps(ASK | {"more": 1}).encode(), "no field 'more'"),
        (json.dumps(ASK | {"question": "  "}).encode(), "query must not be empty"),
        (json.dumps(ASK | {"question": 3}).encode(), "query must be text"),
        (json.dumps(ASK | {"question": "x" * 5000}).encode(), "at most 4000 characters"),
        (json.dumps(ASK | {"settings": {"pipeline": "../x"}}).encode(), "settings.pipeline must be one of"),
        (json.dumps(ASK | {"settings": {"pipeline": ["own"]}}).encode(), "settings.pipeline must be one of"),
        (json.dumps(ASK | {"settings": {"weights": {"graph": 0}}}).encode(), "weights must not all be 0"),
        (json.dumps(ASK | {"settings": {"weights": {"graph": -1}}}).encode(), "weights"),
        (json.dumps(ASK | {"settings": {"weights": {"x": 1}}}).encode(), "must name sources among"),
        (b'{"question": "a", "settings": {"weights": {"graph": NaN}}}', "weights"),
        (json.dumps(ASK | {"settings": {"k": -1}}).encode(), "k must"),
        (json.dumps(ASK | {"settings": {"final": 7}}).encode(), "final must be in [0, 1]"),
        (json.dumps(ASK | {"settings": {"confidence": "x"}}).encode(), "Confidence.min"),
        (json.dumps(ASK | {"settings": {"priors": []}}).encode(), "no field 'priors'"),
    ],
)
def test_what_cannot_be_used_is_said_and_costs_nothing(client, body, said) -> None:
    got = client.post("/api/ask", content=body, headers=JSON)
    assert got.status_code == 400
    assert said in got.json()["error"]
    assert client.post("/api/ask", json=ASK).status_code == 200


def test_an_answer_is_that_of_the_pipeline(client, inspector) -> None:
    got = client.post("/api/ask", json=ASK | {"settings": {"k": 3, "weights": {"graph": 1, "bm25": 2, "vector": 1}}})
    view = got.json()
    asked = inspector.ask(QUESTION)
    wanted = FusionPipeline(weights={"graph": 1, "bm25": 2, "vector": 1}, k=3).decide(asked.rankings, asked.context)
    assert [row["id"] for row in view["rows"] if row["position"]] == list(wanted.ids)
    first = wanted.evidence(wanted.ids[0])
    assert view["rows"][0]["fused"] == first.fused
    assert {one["name"]: one["weight"] for one in view["sources"]} == {"graph": 0.25, "bm25": 0.5, "vector": 0.25}


def test_a_passage_is_found_and_ranked_among_all(client, inspector) -> None:
    found = client.post("/api/find", json={"needle": "geneva"}).json()
    assert {one["id"] for one in found} == {"p10", "p11"}
    assert [one["id"] for one in client.post("/api/find", json={"needle": HOSTILE[0][0]}).json()] == [HOSTILE[0][0]]
    assert client.post("/api/find", json={"needle": " "}).status_code == 400
    got = client.post("/api/why-not", json=ASK | {"settings": {"k": 2}, "id": "p11"}).json()
    assert got["sources"]["bm25"]["said"] == "the passage contains no word of the question"
    assert got["sources"]["vector"]["of"] == len(inspector.collection.records)
    place = 1 + inspector.sources["vector"].search(QUESTION, None, {}).positions["p11"]
    assert got["sources"]["vector"]["rank"] == place
    assert "ada" in got["lacking"]
    assert got["said"][0].startswith("The passage has rank")
    assert (
        client.post("/api/why-not", json=ASK | {"id": "nowhere"}).json()["error"]
        == "the passage 'nowhere' does not exist: check the id"
    )


def test_a_judged_question_has_its_gold_and_the_place_of_what_was_missed(inspector) -> None:
    query = inspector.judged[0]
    whole = inspector.view(query.text, {})
    assert [hop["passages"] for hop in whole["gold"]] == [list(hop) for hop in query.judgement.hops]
    assert all(hop["found"] for hop in whole["gold"])
    assert whole["missed"] == []
    less = inspector.view(query.text, {"k": 2})
    (missed,) = less["missed"]
    lost = next(hop["passages"] for hop in less["gold"] if not hop["found"])
    assert missed["id"] in lost
    place = next(number for number, row in enumerate(less["rows"], 1) if row["id"] == missed["id"])
    assert missed["why"].startswith(f"Rank {place} of 15 candidates: ")
    assert inspector.view("Who is Ada?", {})["gold"] == []


def test_an_answer_is_unlikely_below_a_confidence(inspector) -> None:
    for question, unlikely in ((QUESTION, False), ("Who cooks ramen in Osaka?", True)):
        view = inspector.view(question, {})
        assert view["unlikely"] is unlikely
        assert (view["confidence"] < 0.2) is unlikely


def test_each_step_of_a_walk_names_its_relation() -> None:
    rows = [
        {"id": "a", "title": "Ada", "text": "Ada met Bo."},
        {"id": "b", "title": "Bo", "text": "Bo and Cy."},
        {"id": "c", "title": "", "text": "Cyrus sang with Cy."},
    ]
    index = GraphIndex.build(rows, triples={"a": [("Ada", "met", "Bo")]})
    found = Collection.of(index)
    steps = [
        ("entity", "ada"),
        ("entity", "bo"),
        ("entity", "ada"),
        ("passage", "a"),
        ("entity", "bo"),
        ("passage", "b"),
    ]
    assert found.relations(steps) == [
        "met", "is the object of “met”", "is the topic of", "mentions", "is the topic of"
    ]  # fmt: skip
    assert found.relations([("passage", "b"), ("entity", "bo")]) == ["is about"]
    assert found.relations([("entity", "cy"), ("passage", "b")]) == ["is mentioned in"]
    assert found.relations([("entity", "cy"), ("entity", "cyrus")]) == ["is written like"]


def test_a_graph_of_chunks_is_shown_with_and_without_its_texts() -> None:
    rows = [Passage(name, title, text) for name, title, text in PASSAGES]
    chunks = build_chunk_graph(rows, documents=["a"] * 6 + ["b"] * 6, embeddings=[embed(one.text) for one in rows])
    plain = Inspector(chunks, "chunks", embedder=embed)
    assert set(plain.sources) == {"graph", "vector"}
    view = plain.view(QUESTION, {})
    assert view["confidence"] is None
    assert not view["unlikely"]
    assert view["rows"][0]["label"] == view["rows"][0]["id"]
    assert plain.why_not(QUESTION, {}, "p11")["words"] == []
    told = Inspector(chunks, "chunks", passages=rows)
    assert set(told.sources) == {"graph", "bm25"}
    view = told.view(QUESTION, {})
    assert view["rows"][0]["label"] == "Ada Lovelace"
    walked = next(row["walk"] for row in view["rows"] if row["walk"] and len(row["walk"]["path"]) > 1)
    assert "stands next to" in walked["relations"][0]
    with pytest.raises(InvalidInputError, match="needs --embedder or --corpus"):
        Inspector(chunks, "chunks")
    with pytest.raises(InvalidInputError, match="must contain every chunk of the graph; 'p11' is missing"):
        Inspector(chunks, "chunks", passages=rows[:-1])


def test_an_exported_page_does_not_tell_the_command_or_other_questions(inspector) -> None:
    inspector.command, kept = "phasegraph inspect /home/ada/secret", inspector.command
    try:
        page = exported(inspector, "Who is Ada?", {})
    finally:
        inspector.command = kept
    assert "secret" not in page
    assert inspector.judged[1].text not in page


def test_flips_are_those_of_the_two_answers(client, inspector) -> None:
    found = client.post("/api/flips", json={"settings": {"k": 1}, "before": {"k": 5}}).json()
    lost = set()
    for query in inspector.judged:
        asked = inspector.ask(query.text)
        ids = [set(FusionPipeline(k=k).decide(asked.rankings, asked.context).ids) for k in (1, 5)]
        lost |= {(query.id, one) for one in query.judgement.passages & (ids[1] - ids[0])}
    assert {(row["id"], one["id"]) for row in found["lost"] for one in row["passages"]} == lost
    assert lost
    assert found["gained"] == []
    assert found["found_before"] - found["found"] == len(lost)


def test_the_pipeline_is_given_as_it_is_saved(client, tmp_path) -> None:
    got = client.post("/api/pipeline", json={"settings": {"k": 4, "final": 0.5}})
    assert decode_document(got.content, "pipeline", 1)["k"] == 4
    (tmp_path / "p.json").write_bytes(got.content)
    assert FusionPipeline.load(tmp_path / "p.json").accept.final.value == 0.5


def test_data_in_an_offline_page_cannot_leave_its_element(inspector) -> None:
    wild = "</script><!--<script>\u2028\u2029&lt;]]>"
    assert json.loads(embedded_json({"a": wild})) == {"a": wild}
    assert not set(embedded_json(wild)) & set("<>&\u2028\u2029")
    page = exported(inspector, f"{QUESTION} {wild} {EVIL}", {})
    assert page.count("<script") == 3  # data, Cytoscape, ours
    assert page.count("</script>") == 3
    assert "default-src 'none'; script-src 'sha256-" in page
    assert "</title><" in page
    title = page[page.index("<title>") : page.index("</title>")]
    assert "<script" not in title
    assert offline_page({"view": {"question": "\ud800"}}).encode()


def test_half_a_character_costs_no_answer(client) -> None:
    asked = ASK | {"question": "Who is \ud800 Ada?"}
    got = client.post("/api/ask", content=json.dumps(asked), headers=JSON)
    assert got.json()["question"] == asked["question"]
    assert client.post("/api/export", content=json.dumps(asked | {"other": None}), headers=JSON).status_code == 200


def test_a_failure_is_named_and_no_more(client, inspector, monkeypatch, caplog) -> None:
    def broken(*_):
        raise RuntimeError("password=1234")

    monkeypatch.setattr(inspector, "view", broken)
    with caplog.at_level(logging.WARNING, "phasegraph"):
        got = client.post("/api/ask", json=ASK)
    assert (got.status_code, got.json()) == (500, {"error": "the server failed: RuntimeError"})


def test_it_serves_on_a_free_port_and_says_where(inspector, monkeypatch) -> None:
    import uvicorn

    servers, said, ready = [], [], threading.Event()
    monkeypatch.setattr(uvicorn.Server, "install_signal_handlers", lambda self: None, raising=False)
    made = uvicorn.Server.__init__
    monkeypatch.setattr(uvicorn.Server, "__init__", lambda self, config: (made(self, config), servers.append(self))[0])

    def say(address):
        said.append(address)
        ready.set()

    thread = threading.Thread(target=server.serve, args=(inspector, "127.0.0.1", 0, "right-token", say), daemon=True)
    thread.start()
    assert ready.wait(20)
    address, token = said[0].split("#token=")
    assert token == "right-token"
    with urllib.request.urlopen(address, timeout=20) as got:
        assert b"phasegraph" in got.read()
    servers[0].should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def test_a_port_that_is_taken_is_said(inspector, served) -> None:
    port = int(served(inspector).rstrip("/").rsplit(":", 1)[1])
    with pytest.raises(InvalidInputError, match=f"cannot listen on .* port {port}"):
        server.serve(inspector, "127.0.0.1", port, None, print)


def test_without_starlette_the_command_says_what_to_install(inspector, monkeypatch) -> None:
    for name in [one for one in tuple(sys.modules) if one.split(".")[0] == "starlette"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'phasegraph\[try\]'"):
        make_app(inspector)


def test_a_title_that_the_text_begins_with_counts_once_for_the_words_of_a_question() -> None:
    rows = [{"id": "a", "title": "Ada", "text": "Sang in Rome."}, {"id": "b", "title": "Bo", "text": "Ada, Ada sang."}]
    plain, titled = (
        Inspector(GraphIndex.build([one | {"text": before.format(**one) + one["text"]} for one in rows]), "index")
        for before in ("", "{title}\n")
    )
    assert plain.ask("Ada?").context.words.order == ("b", "a")
    assert titled.ask("Ada?").context.words == plain.ask("Ada?").context.words
