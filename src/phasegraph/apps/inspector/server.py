"""The inspector's server: a Starlette application that serves the page in ``static``, and checks every request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from phasegraph._support.markup import escaped
from phasegraph._support.validation import check_keys
from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.server.connections import Door, listening, run_server
from phasegraph.errors import InvalidInputError, PhasegraphError, needed

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

STATIC = {
    "inspector.css": "text/css",
    "inspector.js": "text/javascript",
    "cytoscape.min.js": "text/javascript",
    "cytoscape.LICENSE": "text/plain",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of the served page, which allows only the page's own files."""
_ESCAPES = {ord(one): f"\\u{ord(one):04x}" for one in "<>&"}
"""The JSON escapes of characters that could end a script element."""


@lru_cache(maxsize=8)
def part(name: str) -> str:
    """Return the text of a static file of the inspector's page, such as its style sheet."""
    return (files("phasegraph.apps.inspector") / "static" / name).read_text(encoding="utf-8")


def embedded_json(data: object) -> str:
    r"""Encode data as JSON that can safely stand inside a script element of a page.

    >>> embedded_json({"text": "</script><!-- \u2028"})
    '{"text": "\\u003c/script\\u003e\\u003c!-- \\u2028"}'
    """
    return json.dumps(data, allow_nan=False).translate(_ESCAPES)


def served_page() -> str:
    """Return the HTML of the inspector's page, which loads its files and its data from the server."""
    head = (
        '<link rel="stylesheet" id="__________cytoscape_stylesheet" href="static/inspector.css">'
        '<link rel="icon" href="data:,">'
        '<script defer src="static/cytoscape.min.js"></script><script defer src="static/inspector.js"></script>'
    )
    return _filled("phasegraph inspect", head, "")


def offline_page(data: Mapping[str, Any]) -> str:
    """Return one HTML file that contains all its data; its content security policy forbids every request.

    `data` has the keys ``about`` (:meth:`Inspector.about`) and ``view`` (:meth:`Inspector.view`). To compare with other
    settings, it also has the key ``other``, the view under these settings.
    """
    style = part("inspector.css")
    scripts = [part("cytoscape.min.js"), part("inspector.js")]
    allowed = " ".join(map(_digest, scripts))
    policy = f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; img-src data:; base-uri 'none'"
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<style id="__________cytoscape_stylesheet">{style}</style>'
    )
    foot = f'<script type="application/json" id="data">{embedded_json(data)}</script>'
    foot += "".join(f"<script>{one}</script>" for one in scripts)
    return _filled(f"{data['view']['question']} – phasegraph", head, foot)


def _filled(title: str, head: str, foot: str) -> str:
    before, rest = part("page.html").split("<!--head-->")
    middle, after = rest.split("<!--foot-->")
    return f"{before}<title>{escaped(title)}</title>{head}{middle}{foot}{after}"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


NEEDED = "the page needs Starlette and uvicorn; pip install 'phasegraph[try]'"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
ANY = frozenset({"0.0.0.0", "::", ""})
MOST_BYTES = 64 * 1024
_logger = logging.getLogger("phasegraph")
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware that passes only allowed requests on to `app`, the application of the inspector.

    The Host header must be a loopback name or `host`, the address on which the server listens; this prevents DNS
    rebinding. If the server listens on every address, every name is allowed, and the token protects the data. Every
    data request must then have the header ``Authorization: Bearer`` with the token. Other origins receive no data:
    there is no CORS, a data request must be JSON (which a form cannot send), and a foreign ``Origin`` is refused.
    """

    def __init__(self, app: Any, host: str, token: str | None) -> None:
        self._app, self._token = app, token
        self._names = None if host in ANY else LOOPBACK | {host.lower()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse a request or pass it on; add the security headers to every response."""

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()), *((name.encode(), value.encode()) for name, value in _HEADERS.items())
                ]  # fmt: skip
            await send(message)

        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refused = self._refusal(scope)
            if refused is None:
                await self._app(scope, receive, guarded)
            else:
                from starlette.responses import JSONResponse

                status, said = refused
                await JSONResponse({"error": said}, status)(scope, receive, guarded)

    def _refusal(self, scope: Any) -> tuple[int, str] | None:
        listed = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        headers = dict(listed)
        if any(sum(name == one for name, _ in listed) > 1 for one in ("authorization", "origin")):
            return 400, "a request must have at most one Authorization and one Origin header"
        hosts = [value for name, value in listed if name == "host"]
        if len(hosts) != 1 or (self._names is not None and _name_of(hosts[0]) not in self._names):
            return 421, "the Host header does not name this server"
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != hosts[0].lower():
            return 403, "requests from other sites are refused"
        if not scope["path"].startswith("/api/"):
            return None  # other sites may link to the page, which contains no data
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "requests from other sites are refused"
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if self._token is not None and not hmac.compare_digest(given.encode(), self._token.encode()):
            return 401, "the token is missing or wrong: open the address that the server printed"
        if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0] != "application/json":
            return 415, "the request must have the content type application/json"
        return None


def _netloc(origin: str) -> str:
    """Return the host and port of an Origin header; empty if the header is not a valid address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name_of(host: str) -> str:
    """Return the host name of a Host header without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def make_app(inspector: Inspector, host: str = "127.0.0.1", token: str | None = None) -> Guard:
    """Create the inspector's ASGI application: its page at ``/``, files under ``/static``, and data under ``/api``.

    `host` is the address to listen on. Data requests need `token`, unless it is None. Raise InvalidInputError if `host`
    is not a loopback address and there is no token, or if the token is short or not ASCII.
    """
    if host not in LOOPBACK and not token:
        raise InvalidInputError(
            f"a token must be given to listen on {host!r}, because other machines can reach this address"
        )
    if token is not None and not re.fullmatch(r"[!-~]{8,}", token):
        raise InvalidInputError("the token must be at least 8 printable ASCII characters without spaces")
    return Guard(_app(inspector), host, token)


def check_installed() -> None:
    """Raise MissingDependencyError before any work if a package of the server is missing."""
    with needed(NEEDED):
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401


def _app(inspector: Inspector) -> Starlette:
    with needed(NEEDED):
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import HTMLResponse, JSONResponse, Response
        from starlette.routing import Route

    async def body_of(request: Request, *known: str) -> dict[str, Any]:
        data = b""
        async for piece in request.stream():
            data += piece
            if len(data) > MOST_BYTES:
                raise InvalidInputError(f"the body of the request must have at most {MOST_BYTES} bytes; got more")
        try:
            given = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"the body of the request must be JSON; {error}") from error
        return check_keys("the request", given, known, required=known)

    def api(known: tuple[str, ...], answer: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                given = await body_of(request, *known)
                found = await run_in_threadpool(answer, given)
            except PhasegraphError as error:
                return JSONResponse({"error": str(error)}, 400)
            except Exception as error:
                _logger.warning("inspect: a request failed: %s", type(error).__name__, exc_info=error)
                return JSONResponse({"error": f"the server failed: {type(error).__name__}"}, 500)
            if isinstance(found, Response):
                return found
            return Response(
                json.dumps(found, allow_nan=False), media_type="application/json"
            )  # ASCII escapes encode lone surrogates

        return endpoint

    async def page(_: Request) -> Response:
        return HTMLResponse(served_page())

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return JSONResponse({"error": f"the file {name!r:.80} does not exist"}, 404)
        return Response(part(name), media_type=STATIC[name])

    async def about(_: Request) -> Response:
        return JSONResponse(inspector.about())

    def pipeline(given: dict[str, Any]) -> Response:
        return Response(inspector.document(given["settings"]), media_type="application/json")

    def export(given: dict[str, Any]) -> Response:
        return HTMLResponse(exported(inspector, given["question"], given["settings"], given["other"]))

    posts: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Any]]] = {
        "ask": (("question", "settings"), lambda given: inspector.view(given["question"], given["settings"])),
        "find": (("needle",), lambda given: inspector.find(given["needle"])),
        "why-not": (
            ("question", "settings", "id"),
            lambda given: inspector.why_not(given["question"], given["settings"], given["id"]),
        ),
        "flips": (("settings", "before"), lambda given: inspector.flips(given["settings"], given["before"])),
        "pipeline": (("settings",), pipeline),
        "export": (("question", "settings", "other"), export),
    }
    routes = [Route(f"/api/{name}", api(*how), methods=["POST"]) for name, how in posts.items()]
    return Starlette(routes=[Route("/", page), Route("/static/{name}", static), Route("/api/about", about), *routes])


def exported(inspector: Inspector, question: object, settings: object, other: object = None) -> str:
    """Return the answer to one question as an offline page.

    If `other` is not None, the page also shows the answer under these other settings.
    """
    data = {
        "about": inspector.about() | {"command": "", "questions": []},
        "view": inspector.view(question, settings),
        "other": None if other is None else inspector.view(question, other),
    }
    return offline_page(data)


def serve(inspector: Inspector, host: str, port: int, token: str | None, say: Callable[[str], None]) -> None:
    """Serve the inspector's page until interrupted; first, call `say` with the address of the page.

    Data requests need `token`, unless it is None. :func:`make_app` lists the possible errors.
    """
    app = make_app(inspector, host, token)
    made, address = listening(host, port)
    # The token is in the fragment, which browsers do not send to servers; the page removes it from the history.
    say(f"{address}/" + (f"#token={quote(token)}" if token else ""))
    run_server(app, made, Door())
