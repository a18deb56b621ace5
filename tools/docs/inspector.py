"""Make the guide's picture of the inspector: the page that ``phasegraph demo`` opens, in Debian's Chromium.

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

from phasegraph.apps.cli.demo import DemoInspector, demo_data
from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.inspector.server import make_app
from phasegraph.graph import GraphIndex

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "pictures" / "inspector.png"
CHOSEN, WIDTH, HEIGHT = 2, 1280, 940


def inspector() -> tuple[Inspector, str]:
    data = demo_data()
    shown = DemoInspector(GraphIndex.build(data.passages, embeddings=data.passage_vectors), data)
    return shown, data.queries[0].text


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
        page.click(f"#answers li:nth-child({CHOSEN}) button.passage")
        page.wait_for_selector("#answers li.on table")
        page.evaluate("document.activeElement.blur()")
        page.mouse.move(0, 0)
        page.wait_for_timeout(500)
        picture = Image.open(BytesIO(page.screenshot()))
        browser.close()
    picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(to, optimize=True)
    print(f"{to}: {to.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
