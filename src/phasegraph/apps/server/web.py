"""Serve HTTP requests and streamable MCP behind a gate that checks hosts, tokens, sizes and concurrent requests."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Any

from phasegraph._support.text import legible
from phasegraph.apps.server.agents import NEEDED, SoundMessages, busy_answer, streamable_app
from phasegraph.apps.server.connections import IDLE
from phasegraph.apps.server.json_answers import FIELDS, Answers, aside
from phasegraph.apps.server.turns import BusyError, Turns
from phasegraph.errors import InvalidInputError, StoreError, needed
from phasegraph.retrieval.plain_filters import Filter, check_filter

LARGEST_BODY = 256 * 1024
MOST_REQUESTS, SLOWEST_BODY = 2, 10.0
"""Maximum concurrent requests, and maximum seconds to receive a request.

Concurrent requests share one interpreter, so more of them make every request slower. With two, a
tenant with a long request does not hold up the other tenants.
"""
LINE, LINE_OF_SEVERAL = 64, 16
"""Maximum number of waiting requests if there is one tenant, and per tenant if there are several."""
REFUSAL = 1.0
"""Delay, in seconds, before a request with an invalid token or a full queue is refused; the delay limits retries."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ALL = "all"
"""The filter of a tenant who may see all passages."""
OPEN, AGENTS = "/health", "/mcp"
"""The only path that needs no token, which reveals nothing about the passages; the path of MCP."""
_log = logging.getLogger("phasegraph")

CALLER, STATUS = "phasegraph.caller", "phasegraph.status"
"""Keys of an ASGI scope: identity of the application that belongs to the request's token; status for the log."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def read_tenants(path: Path) -> dict[str, tuple[str, Filter | None]]:
    """Read the token and the filter of each tenant from a JSON file.

    Its form is ``{"red": {"token": "…", "filter": {"team": "red"}}, …}``. The filter ``"all"`` shows all passages.
    Raise InvalidInputError if the file has another form, a token is short or repeated, or a filter is empty.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=partial(_once, path))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{path}: the file cannot be read as JSON ({type(error).__name__})") from error
    if not isinstance(state, dict) or not state:
        raise InvalidInputError(
            f'{path}: the file must have the form {{"name": {{"token": "...", "filter": {{...}}}}, ...}}'
        )
    tenants: dict[str, tuple[str, Filter | None]] = {}
    for name, one in state.items():
        if not isinstance(one, dict) or set(one) != {"token", "filter"}:
            raise InvalidInputError(f"{path}: {name!r} must have a token and a filter, and nothing else")
        token = check_token(f"{path}: the token of {name!r}", one["token"])
        only, of = one["filter"], f"{path}: the filter of {name!r} (to show all passages, write {ALL!r})"
        tenants[name] = (token, None if only == ALL else check_filter(of, only))
    if len({token for token, _ in tenants.values()}) < len(tenants):
        raise InvalidInputError(
            f"{path}: the tenants "
            + " and ".join(next(two for two in combinations(tenants, 2) if tenants[two[0]][0] == tenants[two[1]][0]))
            + " have the same token; give every tenant its own token"
        )
    return tenants


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert key-value pairs to a mapping; raise InvalidInputError for a repeated key, which plain JSON accepts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key in found if sum(key == one for one, _ in pairs) > 1)
        raise InvalidInputError(f"{path}: the key {twice!r:.80} occurs twice in one object; remove one of the two")
    return found


def check_token(name: str, token: object) -> str:
    """Return `token`; raise InvalidInputError unless it has at least 16 visible ASCII characters.

    In the message, `name` stands for the token, which no message contains.
    """
    if not isinstance(token, str) or len(token) < 16 or not all("!" <= one <= "~" for one in token):
        raise InvalidInputError(
            f"{name} must be at least 16 visible ASCII characters; create a token with: python -c "
            "'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


class Gate:
    """ASGI middleware that passes a request on to the application that belongs to the request's token.

    Parameters
    ----------
    apps : mapping
        Applications by caller.
    tokens : mapping of str to str, optional
        The caller of each token. Default: the callers are tokens. A server without tokens has only the token "".
    hosts : collection of str or None
        Allowed names in the Host header, without the port; None allows any name. The check prevents DNS rebinding.
        ``/health`` answers under any name.
    most : int
        Maximum number of concurrent requests of normal priority; :class:`Turns` describes the others.
    each : int, optional
        Maximum number of concurrent requests per token. Default: a quarter of `most` if there are several tokens,
        otherwise `most`.
    queue : int, optional
        Maximum number of waiting requests per token; further requests are refused with status 429. Default: 64, or 16
        with several tokens, because the waiting requests of a few tenants must not use all connections.
    slowest : float
        Maximum seconds to receive a request. A request uses a slot only after it has arrived, so slow senders block no
        slot.
    refusal : float
        Delay, in seconds, before a request with an invalid token or a full queue is refused. Meanwhile, the connection
        counts as idle.
    """

    def __init__(
        self,
        apps: Mapping[str, Any],
        *,
        tokens: Mapping[str, str] | None = None,
        hosts: Collection[str] | None = None,
        most: int = MOST_REQUESTS,
        each: int | None = None,
        queue: int | None = None,
        slowest: float = SLOWEST_BODY,
        refusal: float = REFUSAL,
    ) -> None:
        tokens = {caller: caller for caller in apps} if tokens is None else tokens
        if "" in tokens and len(apps) > 1:
            raise InvalidInputError("either every tenant or no tenant must have a token; got a tenant without a token")
        self._every = dict(apps)
        self._open = apps[tokens[""]] if "" in tokens else None
        self.renew(tokens)
        self._hosts = None if hosts is None else frozenset(one.lower() for one in hosts)
        share = most if len(apps) == 1 else max(1, most // 4)
        line = LINE if len(apps) == 1 else LINE_OF_SEVERAL
        self._turns = Turns(most, each=share if each is None else each, queue=line if queue is None else queue)
        self._slowest, self._refusal = slowest, refusal

    def renew(self, tokens: Mapping[str, str]) -> None:
        """Replace the tokens by `tokens`, the caller of each token; old tokens are refused from the next request on."""
        self._apps = {sha256(token.encode()).digest(): self._every[caller] for token, caller in tokens.items()}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Check a request, then answer it or refuse it; a slash at the end of the path has no effect."""
        if scope["type"] != "http":
            return
        scope["path"] = scope["path"].rstrip("/") or "/"  # a redirect would lose a proxy's prefix and its https
        names = Counter(name.lower() for name, _ in scope["headers"])
        headers = {name.lower(): value for name, value in scope["headers"]}
        twice = next((name for name in _SINGLE if names[name.lower().encode()] > 1), "")
        refused = (400, f"a request must have one {twice} header") if twice else self._refused_early(headers, scope)
        if refused is None and scope["path"] == OPEN:
            await _say(send, 200, {"status": "ok"})
            return
        app = self._open or self._opened_by(headers.get(b"authorization", b""))
        if refused is None and app is None:
            refused = (401, "a token is needed: Authorization: Bearer TOKEN")
            await self._put_off(scope)
        if refused is not None:
            await _say(send, *refused)
            return
        scope[CALLER] = id(app)
        try:
            await self._answer(app, scope, receive, send)
        except asyncio.CancelledError:
            scope[STATUS] = 503
            with suppress(RuntimeError):  # the answer has begun
                await _say(send, 503, "the server is stopping; ask again", [(b"retry-after", b"1")])
            raise

    async def _answer(self, app: Any, scope: Any, receive: Receive, send: Send) -> None:
        """Read the body of a request, and let `app` answer the request when it is its turn."""
        try:
            async with asyncio.timeout(self._slowest):
                body = await _body(receive)
        except TimeoutError:
            await _say(send, 408, f"a request must arrive within {self._slowest:g} s")
            return
        if body is None:
            return
        if len(body) > LARGEST_BODY:
            await _say(send, 413, f"a request must have at most {LARGEST_BODY} bytes")
            return
        try:
            async with self._turns.place(id(app), len(body).bit_length()):
                await app(scope, _again(body, receive), send)
        except BusyError as error:
            await self._put_off(scope)
            after = str(error.retry_after)
            said = f"{error}; try again in {after} s"
            scope[STATUS] = 429
            status, told = (scope["path"] == AGENTS and busy_answer(body, said)) or (429, said)
            await _say(send, status, told, [(b"retry-after", after.encode())])

    async def _put_off(self, scope: Any) -> None:
        """Wait before a refusal; meanwhile, the server may close this connection to accept a new connection."""
        scope[IDLE] = True
        await asyncio.sleep(self._refusal)

    def _refused_early(self, headers: Mapping[bytes, bytes], scope: Any) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._hosts is not None and name not in self._hosts and scope["path"] != OPEN:  # probes name an address
            return 421, f"the host name {name[:100]!r} is not allowed: allow it with --allow-host NAME"
        if self._open is not None and b"origin" in headers:
            return 403, "requests from web pages need a server with tokens"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return 413, f"a request must have at most {LARGEST_BODY} bytes"
        return None

    def _opened_by(self, given: bytes) -> Any:
        scheme, _, token = given.partition(b" ")
        asked = sha256(token.strip()).digest()
        found = None
        for kept, app in self._apps.items():  # compare with all tokens, so that the time reveals nothing
            if hmac.compare_digest(kept, asked) and scheme.lower() == b"bearer":
                found = app
        return found


async def _body(receive: Receive) -> bytes | None:
    """Read the body of a request; stop as soon as it is longer than ``LARGEST_BODY``.

    Return None if the client disconnected.
    """
    body, more = b"", True
    while more and len(body) <= LARGEST_BODY:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI ``receive`` function that first returns the body already read, then the messages that follow."""
    given = False

    async def next_message() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


_SINGLE = ("Host", "Authorization", "Content-Length")
_MORE = {401: [(b"www-authenticate", b"Bearer"), (b"connection", b"close")]}


async def _say(
    send: Send, status: int, said: str | Mapping[str, Any] | None, more: Collection[tuple[bytes, bytes]] = ()
) -> None:
    body = b"" if said is None else json.dumps({"error": said} if isinstance(said, str) else said).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [*_MORE.get(status, ()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def web_app(
    views: Mapping[str, Answers],
    *,
    tokens: Mapping[str, str] | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    most: int = MOST_REQUESTS,
    each: int | None = None,
    about: str = "",
) -> Any:
    """Create the ASGI application of a server.

    `views` maps each caller to its view. If the logger ``phasegraph`` has the level INFO or lower now, the application
    logs each request. `about` says what the passages are about. :class:`Gate` describes the other parameters, and the
    method ``renew`` of the application.

    The application answers ``POST /search``, ``/explain`` (``{"query": …, "k": 5}``), ``/passages`` (``{"ids": […]}``),
    ``GET /health``, and MCP at ``/mcp``.
    """
    with needed(NEEDED):
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    agents = {caller: streamable_app(view, about) for caller, view in views.items()}

    @asynccontextmanager
    async def running(_: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in agents.values():
                await stack.enter_async_context(one.router.lifespan_context(one))
            yield

    async def not_here(_: object, error: Any) -> JSONResponse:
        said = {404: "this path does not exist: POST /search, /explain, /passages or /mcp", 405: "use the method POST"}
        return JSONResponse({"error": said.get(error.status_code, error.detail)}, error.status_code, error.headers)

    # Accept POST only: an agent's GET would stay open for messages that never come, and use up a slot.
    apps = {
        caller: Starlette(
            routes=[*_routes(views[caller]), Route(AGENTS, SoundMessages(agents[caller]), methods=["POST"])],
            exception_handlers={HTTPException: not_here},
        )
        for caller in views
    }
    door = Gate(apps, tokens=tokens, hosts=hosts, most=most, each=each)
    gate: Any = door
    if _log.isEnabledFor(logging.INFO):
        gate = _logged(gate, {id(app): "-" if tokens is None else caller for caller, app in apps.items()})

    class Site(Starlette):
        """An application that passes requests directly to the gate, so that refusing a request takes little time."""

        renew = door.renew

        async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
            await (gate if scope["type"] == "http" else super().__call__)(scope, receive, send)

    return Site(lifespan=running)


def _logged(app: Any, names: Mapping[int, str]) -> Any:
    """Return an ASGI application that logs each request to `app`: caller, path, status and milliseconds.

    `names` maps the value of ``CALLER`` to the name of the caller. The log never contains a question.
    """

    async def logged(scope: Any, receive: Receive, send: Send) -> None:
        began, status = perf_counter(), 0

        async def watched(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await app(scope, receive, watched)
        finally:
            caller, path = names.get(scope.get(CALLER, 0), "-"), legible(scope["path"])[:100]
            _log.info("%s %s %d %.0f ms", caller, path, scope.get(STATUS, status), 1000 * (perf_counter() - began))

    return logged


def _routes(view: Answers) -> list[Any]:
    from starlette.routing import Route

    return [Route(f"/{method}", _endpoint(view, method), methods=["POST"]) for method in FIELDS]


def _endpoint(view: Answers, method: str) -> Any:
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    async def answered(request: Request) -> Response:
        if request.query_params:
            names = ", ".join(map(repr, request.query_params))[:80]
            return JSONResponse({"error": f"{names}: not read from the address; put all fields into the body"}, 400)
        try:  # in a worker thread: the event loop has other requests
            return Response(
                await aside(partial(view.answer, method, await request.body())), media_type="application/json"
            )
        except InvalidInputError as error:
            return JSONResponse({"error": str(error)}, 400)
        except StoreError as error:
            return JSONResponse({"error": f"{error}; the server's log has the error"}, 502)

    return answered
