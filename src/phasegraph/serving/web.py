"""Plain HTTP and streamable MCP behind one gate: hosts, tokens, sizes, numbers of calls."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError, needed
from phasegraph.serving.agents import FIELDS, NEEDED, streamable_app, unknown_fields
from phasegraph.serving.view import Filter, View, check_filter

LARGEST_BODY = 256 * 1024
SLOWEST_BODY = 10.0
"""Seconds in which a request must have come."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
OPEN = "/health"
"""The one path that needs no token; it says that the server runs, and nothing of what it holds."""
_log = logging.getLogger("phasegraph")

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def read_tenants(path: Path) -> dict[str, tuple[str, Filter]]:
    """The tenants of a file: by name the token that shows who asks, and what he may see.

    The file is JSON: ``{"red": {"token": "…", "filter": {"team": "red"}}, …}``. An error if it is not, a token is
    short or not the only one of its kind, or a filter is empty.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: it cannot be read as JSON: {type(error).__name__}") from error
    if not isinstance(state, dict) or not state:
        raise InvalidInputError(f'{path}: it must hold {{"name": {{"token": "...", "filter": {{...}}}}, ...}}')
    tenants: dict[str, tuple[str, Filter]] = {}
    for name, one in state.items():
        if not isinstance(one, dict) or set(one) != {"token", "filter"}:
            raise InvalidInputError(f"{path}: {name!r} must have a token and a filter, and nothing else")
        tenants[name] = (check_token(f"{path}: the token of {name!r}", one["token"]), check_filter(name, one["filter"]))
    if len({token for token, _ in tenants.values()}) < len(tenants):
        raise InvalidInputError(f"{path}: every tenant must have a token of its own")
    return tenants


def check_token(name: str, token: object) -> str:
    """A token: at least 16 visible ASCII characters. It is never repeated in a message."""
    if not isinstance(token, str) or len(token) < 16 or not all("!" <= one <= "~" for one in token):
        raise InvalidInputError(
            f"{name} must be at least 16 visible ASCII characters; python -c "
            "'import secrets; print(secrets.token_urlsafe())' makes one"
        )
    return token


class Gate:
    """An ASGI application that lets a request through to the part of the server that its token opens.

    `apps` are by token; under "" the one that needs none, which is then the only one. `hosts` are names that a
    request's Host may have, without the port, None any: it keeps web pages of others, whose names lead to this
    machine, from asking. `most` requests are answered at the same time; a further one is turned away with 503. One
    that has not come yet, within `slowest` seconds, does not count: whoever sends slowly waits alone.
    """

    def __init__(
        self,
        apps: Mapping[str, Any],
        *,
        hosts: Collection[str] | None = None,
        most: int = 64,
        slowest: float = SLOWEST_BODY,
    ) -> None:
        if "" in apps and len(apps) > 1:
            raise InvalidInputError("a server either asks everybody for a token or nobody")
        self._apps = {sha256(token.encode()).digest(): app for token, app in apps.items()}
        self._open = apps.get("")
        self._hosts = None if hosts is None else frozenset(one.lower() for one in hosts)
        self._most, self._now, self._slowest = most, 0, slowest

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        twice = sum(name.lower() == b"host" for name, _ in scope["headers"]) > 1
        refused = (400, "a request has one Host") if twice else self._refused_at_the_door(headers)
        if refused is None and scope["path"] == OPEN:
            await _say(send, 200, {"status": "ok"})
            return
        app = self._open or self._opened_by(headers.get(b"authorization", b""))
        if refused is None and app is None:
            refused = (401, "a token is needed: Authorization: Bearer TOKEN")
        if refused is not None:
            await _say(send, *refused)
            return
        try:
            async with asyncio.timeout(self._slowest):
                body = await _body(receive)
        except TimeoutError:
            await _say(send, 408, f"a request must have come within {self._slowest:g} s")
            return
        if body is None:
            return
        if len(body) > LARGEST_BODY:
            await _say(send, 413, f"a request must have at most {LARGEST_BODY} bytes")
            return
        if self._now >= self._most:
            await _say(send, 503, f"{self._most} requests are being answered; try again")
            return
        self._now += 1
        try:
            await app(scope, _again(body, receive), send)
        finally:
            self._now -= 1

    def _refused_at_the_door(self, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._hosts is not None and name not in self._hosts:
            return 421, "this server is not known under that name: --allow-host NAME admits it"
        if self._open is not None and b"origin" in headers:
            return 403, "web pages are not answered without a token"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return 413, f"a request must have at most {LARGEST_BODY} bytes"
        return None

    def _opened_by(self, given: bytes) -> Any:
        scheme, _, token = given.partition(b" ")
        asked = sha256(token.strip()).digest()
        found = None
        for kept, app in self._apps.items():  # all of them: the time says nothing
            if hmac.compare_digest(kept, asked) and scheme.lower() == b"bearer":
                found = app
        return found


async def _body(receive: Receive) -> bytes | None:
    """The whole body, no more of it than shows that it is too long; None where the client went away."""
    body, more = b"", True
    while more and len(body) <= LARGEST_BODY:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """What an application receives of a body that was read: it as a whole, then what comes after it."""
    given = False

    async def next_message() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def _say(send: Send, status: int, said: str | Mapping[str, Any]) -> None:
    body = json.dumps({"error": said} if isinstance(said, str) else said).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def listening(host: str, port: int) -> tuple[socket.socket, str]:
    """A socket that listens there, and its address, such as ``http://127.0.0.1:8321``; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InvalidInputError(f"{host} port {port} cannot be listened on: {error.strerror or error}") from error
    shown = f"[{host}]" if ":" in host else host
    return made, f"http://{shown}:{made.getsockname()[1]}"


def web_app(views: Mapping[str, View], *, hosts: Collection[str] | None = LOOPBACK, most: int = 64) -> Any:
    """The ASGI application of a server: `views` by token, under "" what everybody may see; the rest as of `Gate`.

    ``POST /search``, ``/explain`` (``{"query": …, "k": 5}``), ``/passages`` (``{"ids": […]}``), ``GET /health``, and
    MCP at ``/mcp``.
    """
    with needed(NEEDED):
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.responses import JSONResponse
        from starlette.routing import Mount, Route
    agents = {token: streamable_app(view) for token, view in views.items()}

    @asynccontextmanager
    async def running(_: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in agents.values():
                await stack.enter_async_context(one.router.lifespan_context(one))
            yield

    async def not_here(_: object, error: Any) -> JSONResponse:
        said = {404: "there is no such path: POST /search, /explain, /passages or /mcp", 405: "ask by POST"}
        return JSONResponse({"error": said.get(error.status_code, error.detail)}, error.status_code, error.headers)

    # An agent's GET would be held open for messages that never come, and keep its place among those that are answered.
    apps = {
        token: Starlette(
            routes=[*_routes(views[token]), Route("/mcp", agents[token], methods=["POST"])],
            exception_handlers={HTTPException: not_here},
        )
        for token in views
    }
    return Starlette(routes=[Mount("/", Gate(apps, hosts=hosts, most=most))], lifespan=running)


def _routes(view: View) -> list[Any]:
    from starlette.routing import Route

    async def search(asked: Mapping[str, Any]) -> dict[str, Any]:
        return await view.search(**_fields(asked, FIELDS["search"], "query"))

    async def explain(asked: Mapping[str, Any]) -> dict[str, Any]:
        return await view.explain(**_fields(asked, FIELDS["explain"], "query"))

    async def passages(asked: Mapping[str, Any]) -> dict[str, Any]:
        return view.passages(**_fields(asked, FIELDS["passages"], "ids"))

    return [Route(f"/{one.__name__}", _endpoint(one), methods=["POST"]) for one in (search, explain, passages)]


def _endpoint(answer: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]) -> Any:
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    async def answered(request: Request) -> Response:
        try:
            told = json.dumps(await answer(await _asked(request)), allow_nan=False)  # ASCII: halves of characters pass
            return Response(told, media_type="application/json")
        except (InvalidInputError, InvalidTypeError) as error:
            return JSONResponse({"error": str(error)}, 400)
        except Exception as error:  # noqa: BLE001 - its text may be another's
            _log.warning("a request failed: %s", type(error).__name__)
            _log.debug("", exc_info=True)
            return JSONResponse({"error": f"the collection could not be asked ({type(error).__name__})"}, 502)

    return answered


async def _asked(request: Any) -> Mapping[str, Any]:
    try:
        asked = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("the body must be JSON") from error
    if not isinstance(asked, dict):
        raise InvalidTypeError(f"the body must be a JSON object; got {type(asked).__name__}")
    return asked


def _fields(asked: Mapping[str, Any], known: Collection[str], needed: str) -> dict[str, Any]:
    if needed not in asked:
        raise InvalidInputError(f"{needed} is needed")
    refused = unknown_fields(asked, known)
    if refused:
        raise InvalidInputError(refused)
    return dict(asked)
