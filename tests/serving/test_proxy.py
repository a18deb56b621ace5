"""The server behind nginx, with the configuration of the examples; nginx is Debian's package of that name."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.serving.conftest import TOKENS, free_port, running

CONFIG = Path(__file__).resolve().parents[2] / "examples" / "nginx.conf"
NGINX = os.environ.get("PHASEGRAPH_NGINX") or shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
NAME = "search.example.org"

pytestmark = pytest.mark.skipif(
    NGINX is None or shutil.which("openssl") is None,
    reason="no nginx on the PATH (Debian's package of that name has it), or no openssl for a certificate",
)


@pytest.fixture(scope="module")
def proxy(folder: Path, tenants: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an nginx before a server."""
    home, port = tmp_path_factory.mktemp("nginx"), free_port()
    (home / "logs").mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={NAME}",
         "-keyout", home / "key", "-out", home / "pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    with running(str(folder), "--tenants", str(tenants), "--allow-host", NAME, "--host", "127.0.0.1") as address:
        config = CONFIG.read_text()
        places = {
            "listen 443": f"listen 127.0.0.1:{port}",
            "127.0.0.1:8321": address.removeprefix("http://"),
            f"/etc/nginx/{NAME}.pem": str(home / "pem"),
            f"/etc/nginx/{NAME}.key": str(home / "key"),
            "access_log off;": "access_log off; " + " ".join(
                f"{kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
        }  # fmt: skip
        for old, new in places.items():
            assert old in config
            config = config.replace(old, new)
        (home / "nginx.conf").write_text(f"daemon off; pid {home}/pid; error_log {home}/logs/error.log;\n{config}")
        process = subprocess.Popen(
            [str(NGINX), "-p", str(home), "-c", str(home / "nginx.conf")], stderr=subprocess.PIPE, text=True
        )
        try:
            until = time.monotonic() + 20
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, process.stderr.read() if process.stderr else ""
                    assert time.monotonic() < until
                    time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.communicate(timeout=20)


def spoken(port: int, request: bytes, name: str = NAME) -> bytes:
    """The first bytes of the answer to a request over TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), 20) as plain,
        context.wrap_socket(plain, server_hostname=name) as one,
    ):
        one.sendall(request)
        one.settimeout(20)
        return one.recv(65536)


def posted(port: int, *headers: str, path: str = "/search", body: bytes = b'{"query": "Oslo"}') -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {NAME}", *headers, f"Content-Length: {len(body)}", "Connection: close"]
    return spoken(port, "\r\n".join([*lines, "", ""]).encode() + body)


RED = f"Authorization: Bearer {TOKENS['red']}"
BLUE = f"Authorization: Bearer {TOKENS['blue']}"


def test_a_tenant_is_answered_over_tls(proxy: int) -> None:
    with httpx.Client(verify=False) as client:
        answer = client.post(
            f"https://127.0.0.1:{proxy}/search", json={"query": "Oslo", "k": 3}, timeout=30,
            headers={"Host": NAME, "Authorization": f"Bearer {TOKENS['red']}"}, extensions={"sni_hostname": NAME},
        )  # fmt: skip
    assert answer.status_code == 200
    assert all(one["id"].startswith("red-") for one in answer.json()["passages"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((RED,), 200),
        ((), 401),
        ((RED, BLUE), 400),
        ((RED, "Content-Length: 5"), 400),
        ((RED, "Transfer-Encoding: chunked"), 400),
        ((RED, "X-Padding: " + "x" * 40_000), 400),
        ((RED, "Host: localhost"), 400),
    ],
)
def test_only_what_the_server_would_answer_comes_through(proxy: int, headers: tuple[str, ...], status: int) -> None:
    assert posted(proxy, *headers).split()[1] == str(status).encode()


def test_a_long_body_ends_at_the_proxy(proxy: int) -> None:
    assert posted(proxy, RED, body=b"x" * 300_000).split()[1] == b"413"


def test_another_name_gets_no_connection(proxy: int) -> None:
    with pytest.raises(ssl.SSLError):
        spoken(proxy, b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", name="evil.example")


def test_an_address_that_asks_too_often_is_told_so(proxy: int) -> None:
    with httpx.Client(verify=False) as client:
        answers = [
            client.get(f"https://127.0.0.1:{proxy}/health", headers={"Host": NAME}, extensions={"sni_hostname": NAME})
            for _ in range(400)
        ]
    assert {one.status_code for one in answers} == {200, 429}
    assert answers[0].status_code == 200
