"""The picture of the inspector in the guide: the page on the bundled data, in Debian's Chromium.

Run: python tools/docs/inspector.py [PICTURE]
"""

from __future__ import annotations

import shutil
import socket
import sys
import threading
from io import BytesIO
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.inspector.server import make_app
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.graph import GraphIndex

ROOT = Path(__file__).resolve().parents[2]
DATA, PICTURE = ROOT / "data" / "musique-openie", ROOT / "docs" / "pictures" / "inspector.png"
ASKED, WIDTH, HEIGHT = 7, 1280, 1500


def inspector() -> tuple[Inspector, str]:
    dataset = load_dataset(DATA)
    vectors = {query.text: vector for query, vector in zip(dataset.queries, dataset.query_vectors, strict=True)}
    passages = [{"id": one.id, "title": one.title, "text": one.text} for one in dataset.passages]
    index = GraphIndex.build(passages, embeddings=dataset.passage_vectors)
    return Inspector(index, DATA.name, embedder=vectors.__getitem__, judged=dataset.queries), dataset.queries[
        ASKED
    ].text


def main(to: Path) -> None:
    shown, question = inspector()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(shown), log_level="warning"))
    threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        page.fill("#question", question)
        page.press("#question", "Enter")
        page.wait_for_selector("#answers li")
        page.fill("#k", "5")
        page.press("#k", "Enter")
        page.wait_for_selector("#answers li:nth-child(6)", state="detached")
        page.click("#answers li:nth-child(5) button.passage")
        page.fill("#needle", "mqt-00141")
        page.press("#needle", "Enter")
        page.wait_for_selector("#why h3")
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(500)
        picture = Image.open(BytesIO(page.screenshot()))
        browser.close()
    picture.convert("RGB").quantize(192, dither=Image.Dither.NONE).save(to, optimize=True)
    print(f"{to}: {to.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
