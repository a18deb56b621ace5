"""A Bolt server in two hundred lines that answers every statement alike, or misbehaves in the ways that servers have.

The ways cover rows 62 to 73 of the catalogue of faults (`CATALOGUE`); what a fault is stands beside its name.
"""

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
SUCCESS, RECORD, FAILURE, IGNORED = 0x70, 0x71, 0x7F, 0x7E
CODES = {
    "auth_failure": (LOGON, "Neo.ClientError.Security.Unauthorized", ""),
    "token_expired": (LOGON, "Neo.ClientError.Security.TokenExpired", ""),
    "token_expired_later": (BEGIN, "Neo.ClientError.Security.TokenExpired", ""),
    "forbidden": (RUN, "Neo.ClientError.Security.Forbidden", ""),
    "timed_out": (RUN, "Neo.ClientError.Transaction.TransactionTimedOut", ""),
    "always_deadlock": (RUN, "Neo.TransientError.Transaction.DeadlockDetected", ""),
    "deadlock_then_ok": (RUN, "Neo.TransientError.Transaction.DeadlockDetected", ""),
    "leader_switch": (RUN, "Neo.ClientError.Cluster.NotALeader", ""),
    "schema_missing": (
        RUN,
        "Neo.ClientError.Procedure.ProcedureCallFailed",
        "Failed to invoke procedure `db.index.vector.queryNodes`: Caused by: "
        "java.lang.IllegalArgumentException: There is no such vector schema index: chunk_vectors",
    ),
    "wrong_dimensions": (
        RUN,
        "Neo.ClientError.Procedure.ProcedureCallFailed",
        "Failed to invoke procedure `db.index.vector.queryNodes`: Caused by: java.lang.IllegalArgumentException: "
        "Index query vector has 3 dimensions, but indexed vectors have 384.",
    ),
    "write_refused": (RUN, "Neo.ClientError.Statement.AccessMode", ""),
}
# Row of the catalogue: the faults that show it.
CATALOGUE = {
    62: ("refuse",),
    63: ("gone_mid_run",),  # answers once, then its port refuses and its connections are dead
    64: ("black_hole", "http", "accept_close", "garbage", "silent_hello"),
    65: ("drop_mid_stream", "silent_answer"),
    66: ("deadlock_then_ok", "always_deadlock", "leader_switch"),
    67: ("timed_out", "slow", "trickle"),  # each message after 0.2 s; a row every 0.1 s for ever
    68: ("auth_failure", "token_expired", "token_expired_later", "forbidden"),
    69: ("schema_missing",),
    70: ("wrong_dimensions",),
    71: ("flood",),  # as many rows as are pulled, and always more
    72: ("write_refused",),
    73: ("pool_exhausted",),  # healthy, but the driver's only connection is in use: the test's part
}
FAULTS = tuple(fault for faults in CATALOGUE.values() for fault in faults)
SLOW_SECONDS, TRICKLE_SECONDS, SILENT_SECONDS = 0.2, 0.1, 60.0


class FakeBolt:
    """Listens on loopback; `fault` may be changed while it runs, None is a healthy server."""

    def __init__(self, fault: str | None = None) -> None:
        self.fault = fault
        self.failed_once = False
        self.tokens: list[str] = []
        self.opened = self.statements = 0
        self._over = threading.Event()
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
        self._over.set()
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(client)
                self.opened += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            if self.fault == "black_hole":
                self._over.wait(SILENT_SECONDS)
            if self.fault == "accept_close":
                client.close()
            receive(client, 20)
            if self.fault in ("http", "garbage"):
                client.sendall(
                    b"HTTP/1.1 400 Bad Request\r\n\r\n" if self.fault == "http" else bytes(range(250, 60, -1))
                )
                client.close()
            client.sendall(b"\x00\x00\x04\x05")
            while self._answer(client, *message(client)):
                continue
        client.close()

    def _answer(self, client: socket.socket, tag: int, body: bytes) -> bool:
        fault = self.fault
        if tag == GOODBYE:
            return False
        if (fault, tag) in (("silent_hello", HELLO), ("silent_answer", PULL)):
            self._over.wait(SILENT_SECONDS)
        if fault == "slow":
            self._over.wait(SLOW_SECONDS)
        self.statements += tag == RUN
        if tag in (HELLO, LOGON):
            self.tokens.append(body.decode("latin-1"))
        if fault in CODES and CODES[fault][0] == tag and not (fault == "deadlock_then_ok" and self.failed_once):
            self.failed_once = True
            return self._fail(client, *CODES[fault][1:])
        more = tag == PULL and self._stream(client, body)
        if tag == PULL and fault == "drop_mid_stream":
            return False
        details: dict[str, Any] = {"server": "Neo4j/5.26.0", "connection_id": "bolt-1"} if tag == HELLO else {}
        if more:
            details["has_more"] = True
        send(client, SUCCESS, {"fields": ["id", "score"]} if tag == RUN else details)
        if tag == COMMIT and fault == "gone_mid_run":
            self.close()
        return True

    def _fail(self, client: socket.socket, code: str, words: str) -> bool:
        """Say so, and ignore everything until the driver resets the connection."""
        send(client, FAILURE, {"code": code, "message": words or "the server says so"})
        while (tag := message(client)[0]) != RESET:
            send(client, IGNORED)
            if tag == GOODBYE:
                return False
        send(client, SUCCESS, {})
        return True

    def _stream(self, client: socket.socket, body: bytes) -> bool:
        """Send rows; whether there are more."""
        if self.fault == "trickle":
            while not self._over.wait(TRICKLE_SECONDS):
                send(client, RECORD, ROWS[0])
        if self.fault == "flood" and pulled(body) > 0:
            client.sendall(framed(RECORD, ROWS[0]) * pulled(body))
            return True
        for row in ROWS[: 1 if self.fault == "drop_mid_stream" else None]:
            send(client, RECORD, row)
        return False


def receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def message(client: socket.socket) -> tuple[int, bytes]:
    """Read one message: what it is, and its bytes."""
    body = b""
    while True:
        (size,) = struct.unpack(">H", receive(client, 2))
        if size == 0 and body:
            return body[1], body
        body += receive(client, size)


def pulled(body: bytes) -> int:
    """How many rows a PULL asks for: the number behind the key ``n``, -1 for all."""
    at = body.index(b"\x81n") + 2
    sizes = {0xC9: ">h", 0xCA: ">i", 0xC8: ">b"}
    if body[at] in sizes:
        return int(struct.unpack_from(sizes[body[at]], body, at + 1)[0])
    return int(struct.unpack_from(">b", body, at)[0])


def send(client: socket.socket, tag: int, *fields: Any) -> None:
    client.sendall(framed(tag, *fields))


def framed(tag: int, *fields: Any) -> bytes:
    body = bytes([0xB0 + len(fields), tag]) + b"".join(packed(field) for field in fields)
    return struct.pack(">H", len(body)) + body + b"\x00\x00"


def packed(value: Any) -> bytes:
    """PackStream, as much of it as is needed here."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, float):
        return b"\xc1" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\xd1" + struct.pack(">H", len(text)) + text
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
