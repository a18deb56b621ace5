"""Connection limits that uvicorn lacks: the number of connections, and the time to receive a request's head."""

from __future__ import annotations

import asyncio
import gc
import re
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from phasegraph.errors import InvalidInputError, needed

LARGEST_HEAD, MOST_CONNECTIONS = 16 * 1024, 512
"""Maximum size of a request's head (request line and headers) in bytes, and maximum number of connections."""
SLOWEST_HEAD = 5.0
"""Maximum seconds to receive a request's head, and maximum seconds until a client reads part of its answer."""
IDLE = "phasegraph.idle"
"""The key in the ASGI scope of a request that is waiting to be refused."""
SWITCH = 0.00002
"""Seconds after which a computing thread yields the interpreter to a waiting thread.

The event loop waits for the interpreter after almost every system call, and several threads may compute. With Python's
default (.005 s), these waits would take more time than the work of the event loop.
"""
_ROUND, _QUEUE = 32, 2048
"""Maximum number of connections that one round of the event loop accepts; maximum number that wait for acceptance.

While data is unread, at most as many connections as one round accepts may exist above the connection limit.
"""
_SPARE = 128
"""Number of file descriptors reserved for files and other sockets."""
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_HEAD_ENDS = re.compile(rb"\n\r?\n")
_FRAMING = re.compile(rb"\n(content-length|transfer-encoding|expect)[^\n]*", re.IGNORECASE)
_LENGTH = re.compile(rb"\ncontent-length:[ \t]*([0-9]{1,5})[ \t]*\r?\n", re.IGNORECASE)
_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Door:
    """The connections of a server: at most `most` in total, and at most `each` from one address.

    For a new connection above a limit, one idle connection is closed. A connection is idle if the server waits for its
    next request, or for the rest of a request. The closed connection is from the address of the new connection if this
    address has `each` connections, and otherwise from the address with the most connections. Of these connections, the
    one that is idle for longest is closed. Connections whose client has not yet received the whole answer come last.
    Idle connections with unread data are not closed, because the data may be a complete request.

    If no connection can be closed, the new connection is refused. If unread data is the only reason, up to 32
    connections above the limit are admitted instead. As the data is read, idle connections are closed until the limit
    is met again.

    `slowest` is the maximum number of seconds to receive a request's head.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, each: int | None = None, slowest: float = SLOWEST_HEAD) -> None:
        self.most, self.each, self.slowest = most, most if each is None else each, slowest
        self._held: dict[str, dict[Any, None]] = {}  # by address, the connection that is idle for longest first
        self._address: dict[Any, str] = {}

    def __contains__(self, connection: object) -> bool:
        return connection in self._address

    def admit(self, connection: Any, address: str) -> bool:
        """Register a connection; return False if the connection must be refused.

        If a limit is reached, an idle connection is closed first.
        """
        crowded = self._crowded(address, 1)
        if crowded is not None and not self._close_one(crowded):
            unread = any(one.waits for one in self._held[crowded])
            if not unread or self._crowded(address, 1 - _ROUND) is not None:
                return False
        self._held.setdefault(address, {})[connection] = None
        self._address[connection] = address
        return True

    def read(self, connection: object) -> None:
        """Record that data of a connection was read; close an idle connection if there are too many connections."""
        address = self._address.get(connection)
        crowded = None if address is None else self._crowded(address, 0)
        if crowded is not None:
            self._close_one(crowded)

    def _crowded(self, address: str, more: int) -> str | None:
        """Return the address of the connection to close before `address` gets `more` connections.

        This is `address` itself if it would have more connections than the limit per address. Otherwise, if all
        addresses together would have more connections than the total limit, it is the address with the most
        connections. Return None if no connection must be closed.
        """
        if len(self._held.get(address, ())) + more > self.each:
            return address
        if len(self._address) + more > self.most:
            return max(self._held, key=lambda one: len(self._held[one]))
        return None

    def _close_one(self, crowded: str) -> bool:
        closed = self._idle(self._held[crowded])
        if closed is None:
            return False
        self.leave(closed)
        closed.transport.abort()  # at once, without its unwritten data
        return True

    def _idle(self, held: dict[Any, None]) -> Any:
        """Return the connection in `held` to close; None if there is no idle connection without unread data.

        A connection that is not idle, or has unread data or an unsent answer, moves to the end of `held`. Whether data
        is unread is asked last, because the answer is a system call, which lets all computing threads run first.
        """
        unsent, busy, found = [], [], None
        for one in held:
            if one.waits and one.transport.get_write_buffer_size():
                unsent.append(one)
            elif not one.waits or one.unread():
                busy.append(one)
            else:
                found = one
                break
        if found is None:
            found = next((one for one in unsent if not one.unread()), None)
        for one in [*unsent, *busy]:
            held[one] = held.pop(one)
        return found

    def replace(self, connection: object, other: object) -> None:
        """Register `other` in place of `connection`; both have the same client, so no limit is checked."""
        address = self._address[connection]
        self.leave(connection)
        self._held.setdefault(address, {})[other] = None
        self._address[other] = address

    def leave(self, connection: object) -> None:
        """Remove a lost connection."""
        address = self._address.pop(connection, None)
        if address is not None:
            del self._held[address][connection]
            if not self._held[address]:
                del self._held[address]


def protocol(door: Door) -> Any:
    """Return the protocol for ``uvicorn.Config(http=…)``: uvicorn's h11 protocol with the limits of `door`.

    Before, :class:`_Arriving` waits for the first request of each connection.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class LimitedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        @property
        def waits(self) -> bool:
            """True if the connection is idle: it waits for a request or for the rest of a request.

            A connection also counts as idle while the server delays the refusal of its request.
            """
            cycle = self.cycle
            return cycle is None or cycle.response_complete or cycle.more_body or IDLE in cycle.scope

        def unread(self) -> bool:
            """True if data has arrived that the event loop has not read yet."""
            return not self.flow.read_paused and _unread(self.transport)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            door.read(self)
            if self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused:
                self._end()
            elif self._timer is None:
                self._begin()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            door.leave(self)
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._begin()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._end()
            if self.waits and self.conn.trailing_data[0]:  # a part of the next head has already arrived
                self._begin()

        def shutdown(self) -> None:
            """Close the connection at shutdown if its request is incomplete, because the rest may never arrive."""
            if self.waits:
                self.transport.abort()
            else:
                super().shutdown()

        def _begin(self) -> None:
            self._end()
            self._timer = self.loop.call_later(door.slowest, self._late)

        def _end(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _late(self) -> None:
            if self.flow.write_paused or self.transport.is_closing():
                self.transport.abort()
            else:
                self.transport.write(_LATE)
                self.transport.close()
                self._begin()  # abort if the client does not read

    def arriving(server_state: Any, **given: Any) -> _Arriving:
        return _Arriving(door, server_state.connections, lambda: LimitedProtocol(server_state=server_state, **given))

    return arriving


class _Arriving(asyncio.Protocol):
    """A connection until its first request has arrived; uvicorn's protocol then takes its place.

    Hostile clients open very many connections whose requests never arrive. Each of them would cost several times as
    much processor time with uvicorn's protocol, and an incomplete body would also occupy a task. Requests that only
    uvicorn's protocol can judge are passed on at once.
    """

    waits = True

    def __init__(self, door: Door, connections: set[Any], following: Callable[[], Any]) -> None:
        self._door, self._connections, self._following = door, connections, following
        self._data = bytearray()
        self._size: int | None = None  # of the request, when its head has arrived
        self._timer: asyncio.TimerHandle | None = None

    def unread(self) -> bool:
        """True if data has arrived that the event loop has not read yet."""
        return _unread(self.transport)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        if self._door.admit(self, peer[0] if isinstance(peer, tuple) else ""):
            self._connections.add(self)
            self._wait(self._head_is_late)
        else:
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            return  # the connection was refused
        searched = max(0, len(self._data) - 2)
        self._data += data
        if self._has_arrived(searched):
            self._pass_on()
        else:
            self._door.read(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._door.leave(self)

    def shutdown(self) -> None:
        """Close the connection."""
        self._forget()
        self.transport.abort()

    def _has_arrived(self, searched: int) -> bool:
        """Return True if the request is complete, or if uvicorn's protocol must judge it.

        The first `searched` bytes do not contain the end of the head.
        """
        if self._size is None:
            end = _HEAD_ENDS.search(self._data, searched)
            if end is None:
                # h11 refuses a first byte below "!" at once; it is usual in TLS
                return len(self._data) > LARGEST_HEAD or self._data[0] < ord("!")
            head = bytes(self._data[: end.end()])
            length = _LENGTH.search(head)
            if length is None or len(_FRAMING.findall(head)) > 1:
                return True
            self._size = end.end() + int(length[1])
        return len(self._data) >= min(self._size, LARGEST_HEAD)

    def _wait(self, late: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._door.slowest, late)

    def _forget(self) -> None:
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_is_late(self) -> None:
        if self._size is None:
            self._close()
        else:
            self._wait(self._close)  # a body gets as much time again

    def _close(self) -> None:
        self.transport.write(_LATE)
        self.transport.close()

    def _pass_on(self) -> None:
        """Let uvicorn's protocol take the place of this one."""
        self._forget()
        following = self._following()
        self._door.replace(self, following)
        self.transport.set_protocol(following)
        following.connection_made(self.transport)
        following.data_received(bytes(self._data))


class _Listening(socket.socket):
    """A listening socket whose queue of waiting connections is longer than the queue that asyncio requests."""

    def listen(self, _: int = 0) -> None:
        super().listen(_QUEUE)


def _unread(transport: Any) -> bool:
    """Return True if a connection has unread data, or was closed by the client; False if its socket is closed."""
    made = transport.get_extra_info("socket")
    if made.fileno() < 0:
        return False
    if not hasattr(select, "poll"):
        return bool(select.select([made], [], [], 0)[0])
    poll = select.poll()
    poll.register(made, select.POLLIN)
    return bool(poll.poll(0))


def listening(host: str, port: int) -> tuple[socket.socket, str]:
    """Open a listening socket; return it with its address, such as ``http://127.0.0.1:8321``.

    With port 0, the system chooses a free port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as bound:
            made = _Listening(fileno=bound.detach())
    except OSError as error:
        raise InvalidInputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Choose another --host or --port"
        ) from error
    shown = f"[{host}]" if ":" in host else host
    return made, f"http://{shown}:{made.getsockname()[1]}"


def until_cancelled(app: Any) -> Any:
    """Return an ASGI application that ends without an error if it is canceled, as uvicorn does at shutdown."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        with suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    return served


def run_server(app: Any, made: socket.socket, door: Door) -> None:
    """Serve the ASGI application `app` on the listening socket `made` until a signal stops the process.

    `door` limits the connections.
    """
    with needed("a server needs uvicorn; pip install uvicorn"):
        import uvicorn
    allow_descriptors(door.most)
    sys.setswitchinterval(SWITCH)
    gc.freeze()  # or else each full garbage collection stops all threads until it has visited every loaded object
    config = uvicorn.Config(
        until_cancelled(app),
        http=protocol(door),  # h11 limits a request's head; httptools does not
        loop="asyncio",  # accepts `backlog` connections in a round of the event loop; uvloop accepts only one
        backlog=_ROUND,
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        log_level="error",  # malformed requests would fill the log with warnings
        log_config=None,  # records go to the log of the program
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing reads the client's address or scheme
        timeout_graceful_shutdown=5,
    )
    try:
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after Ctrl-C has stopped the server
            uvicorn.Server(config).run(sockets=[made])
    finally:
        gc.unfreeze()


def allow_descriptors(connections: int, others: int = 0) -> None:
    """Raise the process's limit of open files, if necessary, so that it allows these connections and other files.

    Raise InvalidInputError if the system allows no such limit.
    """
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + others + _SPARE
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise InvalidInputError(
            f"--max-connections {connections} needs {wanted} open files, but the limit is {hard}: raise the "
            "limit (ulimit -Hn), or give a smaller --max-connections"
        )
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
