"""One small index, hostile passages in it, and its page in a real Chromium."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import uvicorn
from tiny import PASSAGES, QUERIES

from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.inspector.server import make_app
from phasegraph.evaluation.judged_questions import read_judged
from phasegraph.graph.index.graph_index import GraphIndex

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUESTION = QUERIES[0][1]
EVIL = "</script><script>alert('x')</script><img src=https://evil.example/x onerror=alert('y')>"
HOSTILE = [
    (
        f"id\"'{EVIL}",
        f"Lord Byron {EVIL}",
        f"Lord Byron \u2028 knew Ada Lovelace. {EVIL} javascript:alert(1)",
    ),
    ("gnp\u202eexe", "Ada Lovelace \u2066reversed", "Ada Lovelace was the father of nobody.\u0007 She did not die."),
    ("long" * 60, "Byron" * 60, "Byron " + "x" * 3000),
]
WORDS = sorted({word for _, title, text in PASSAGES for word in f"{title} {text}".lower().split()})


def embed(text: str) -> np.ndarray:
    """Counts of the words of the tiny corpus."""
    held = text.lower().split()
    return np.array([held.count(word) for word in WORDS], dtype=float) + 1e-3


def indexed(more=()) -> GraphIndex:
    passages = [{"id": name, "title": title, "text": text} for name, title, text in (*PASSAGES, *more)]
    return GraphIndex.build(passages, embeddings=np.array([embed(f"{one['title']} {one['text']}") for one in passages]))


def judged():
    return read_judged([{"id": name, "question": asks, "relevant": gold} for name, asks, gold, _ in QUERIES])[0]


@pytest.fixture(scope="session")
def inspector() -> Inspector:
    return Inspector(indexed(HOSTILE), "tiny <b>", embedder=embed, judged=judged())


class Server:
    """The application of some arguments behind a port, in a thread of its own."""

    def __init__(self, *arguments, port: int = 0, **more) -> None:
        listening = socket.create_server(("127.0.0.1", port))
        self.port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/"
        config = uvicorn.Config(make_app(*arguments, **more), log_level="warning", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[..., str]]:
    """A function from the arguments of the application to its address, on a free port."""
    running = []

    def serve(*arguments, **more) -> str:
        running.append(Server(*arguments, **more))
        return running[-1].address

    yield serve
    for server in running:
        server.stop()


@pytest.fixture(scope="module")  # it holds an event loop: no longer than the module that uses it
def browser():
    if CHROMIUM is None:
        if os.environ.get("PHASEGRAPH_REQUIRE_CHROMIUM"):
            pytest.fail("PHASEGRAPH_REQUIRE_CHROMIUM is set and no chromium is on the PATH")
        pytest.skip("no chromium on the PATH; Debian's package of that name has it")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20000)

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


class Watched:
    """A page with what it did that it must not: dialogs, requests to others, errors."""

    def __init__(self, browser, width: int, **more) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **more)
        self.page = self.context.new_page()
        self.page.set_default_timeout(15000)
        self.home, self.asked, self.wrong = "", [], []
        self.page.on("dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.context.route("**/*", self._route)

    def _route(self, route) -> None:
        self.asked.append(route.request.url)
        if self.home and route.request.url.startswith(self.home):
            route.continue_()
        else:
            self.wrong.append(f"request {route.request.url}")
            route.abort()

    def open(self, address: str, home: str | None = None):
        self.home = address if home is None else home
        self.page.goto(address)
        return self.page


@pytest.fixture
def watch(browser):
    """A watched page of a width; at the end it has done nothing that it must not."""
    made = []

    def new(width: int = 1280, **more) -> Watched:
        made.append(Watched(browser, width, **more))
        return made[-1]

    yield new
    wrong = [line for one in made for line in one.wrong]
    for one in made:
        one.context.close()
    assert wrong == []
