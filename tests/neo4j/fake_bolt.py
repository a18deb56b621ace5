"""A Bolt server of a hundred lines that answers every statement alike, or misbehaves in one of thirteen ways."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

ROWS = (["a", 0.9], ["b", 0.5])
HELLO, LOGON, BEGIN, RUN, PULL, COMMIT = 0x01, 0x6A, 0x11, 0x10, 0x3F, 0x12
GOODBYE, RESET = 0x02, 0x0F
SUCCESS, RECORD, FAILURE = 0x70, 0x71, 0x7F
CODES = {
    "auth_failure": (LOGON, "Neo.ClientError.Security.Unauthorized"),
    "token_expired": (LOGON, "Neo.ClientError.Security.TokenExpired"),
    "forbidden": (RUN, "Neo.ClientError.Security.Forbidden"),
    "timed_out": (RUN, "Neo.ClientError.Transaction.TransactionTimedOut"),
    "always_deadlock": (RUN, "Neo.TransientError.Transaction.DeadlockDetected"),
    "deadlock_then_ok": (RUN, "Neo.TransientError.Transaction.DeadlockDetected"),
}
FAULTS = (
    "refuse", "black_hole", "http", "accept_close", "garbage", "silent_hello", "silent_answer", "drop_mid_stream",
    *CODES,
)  # fmt: skip


class FakeBolt:
    """Listens on loopback; `fault` may be changed while it runs, None is a healthy server."""

    def __init__(self, fault: str | None = None) -> None:
        self.fault = fault
        self.failed_once = False
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._server.getsockname()[1]
        if fault == "refuse":
            self._server.close()
        else:
            threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.close()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            if self.fault == "black_hole":
                threading.Event().wait(60)
            if self.fault == "accept_close":
                client.close()
            receive(client, 20)
            if self.fault in ("http", "garbage"):
                client.sendall(
                    b"HTTP/1.1 400 Bad Request\r\n\r\n" if self.fault == "http" else bytes(range(250, 60, -1))
                )
                client.close()
            client.sendall(b"\x00\x00\x04\x05")
            while self._answer(client, message(client)):
                continue
            client.close()

    def _answer(self, client: socket.socket, tag: int) -> bool:
        fault = self.fault
        if tag == GOODBYE:
            return False
        if (fault, tag) in (("silent_hello", HELLO), ("silent_answer", PULL)):
            threading.Event().wait(60)
        if fault in CODES and CODES[fault][0] == tag and not (fault == "deadlock_then_ok" and self.failed_once):
            self.failed_once = True
            send(client, FAILURE, {"code": CODES[fault][1], "message": "the server says so"})
            while (tag := message(client)) != RESET:
                send(client, 0x7E)
                if tag == GOODBYE:
                    return False
            send(client, SUCCESS, {})
            return True
        if tag == PULL:
            for row in ROWS:
                send(client, RECORD, row)
                if fault == "drop_mid_stream":
                    return False
        details: dict[str, Any] = {"server": "Neo4j/5.26.0", "connection_id": "bolt-1"} if tag == HELLO else {}
        send(client, SUCCESS, {"fields": ["id", "score"]} if tag == RUN else details)
        return True


def receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def message(client: socket.socket) -> int:
    """Read one message; only what it is matters here."""
    body = b""
    while True:
        (size,) = struct.unpack(">H", receive(client, 2))
        if size == 0 and body:
            return body[1]
        body += receive(client, size)


def send(client: socket.socket, tag: int, *fields: Any) -> None:
    body = bytes([0xB0 + len(fields), tag]) + b"".join(packed(field) for field in fields)
    client.sendall(struct.pack(">H", len(body)) + body + b"\x00\x00")


def packed(value: Any) -> bytes:
    """PackStream, as much of it as is needed here."""
    if isinstance(value, float):
        return b"\xc1" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\xd0" + bytes([len(text)]) + text
    if isinstance(value, list):
        return b"\xd4" + bytes([len(value)]) + b"".join(map(packed, value))
    if isinstance(value, dict):
        return b"\xd8" + bytes([len(value)]) + b"".join(packed(key) + packed(each) for key, each in value.items())
    raise TypeError(type(value))


@contextlib.contextmanager
def fake_bolt(fault: str | None) -> Iterator[FakeBolt]:
    server = FakeBolt(fault)
    try:
        yield server
    finally:
        server.close()
