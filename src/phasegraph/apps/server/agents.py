"""Serve answers as tools of the Model Context Protocol (MCP)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from phasegraph._support.serialization import deeper
from phasegraph._support.text import legible
from phasegraph.apps.server.json_answers import FIELDS, Answers, aside, unknown_fields
from phasegraph.apps.server.view import UNLIKELY
from phasegraph.errors import InvalidInputError, StoreError, needed

INSTRUCTIONS = (
    "search finds the best passages of a collection for a question; explain also gives the reasons; passages returns "
    "passages by id. "
)
BY_VECTORS = (
    "The confidence, in [0, 1], estimates whether the collection contains an answer: "
    f"below {UNLIKELY}, say that the answer is unknown instead of guessing. But if degraded is true, a part of the "
    "search failed, and the confidence may be too low: read the passages, and say that some may be missing."
)
BY_WORDS = (
    "The confidence, in [0, 1], only ranks questions by the words that their passages contain. It can be near 0 for a "
    "right answer. Read the passages to decide whether they contain the answer; do not refuse because the confidence "
    "is low."
)
"""The further instructions for a search with and without vectors; also in the description of the tool search, because
many programs do not pass the instructions on to the model."""
_DEEPEST, _LONGEST_ID = 50, 100
_LONGEST_REFUSED = 32 * 1024
"""Bytes of a request whose id a refusal repeats; reading longer requests would cost a flooded server too much time."""
_BUSY = -32000
"""The code of JSON-RPC for an error of the server."""
NEEDED = "serving needs the MCP SDK; pip install 'phasegraph[serve]'"


def mcp_server(view: Answers, about: str = "") -> Any:
    """Create an MCP server of the official SDK (version 1 or 2) with the tools search, explain and passages.

    `view` answers the calls of the tools. `about` says what the passages are about; each description repeats it, so
    that an agent can choose between several servers.
    """
    from mcp import types
    from pydantic import ValidationError

    server, errors = _sdk()

    async def told(method: str, **fields: object) -> dict[str, Any]:
        def encoded() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(view.answer(method, json.dumps(fields).encode()))
            # the protocol is UTF-8, which cannot encode lone surrogates
            whole: dict[str, Any] = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
            return whole

        try:
            return await aside(encoded)
        except InvalidInputError as error:
            raise errors(str(error)) from None
        except StoreError as error:
            raise errors(f"{error}; try again") from None

    async def search(query: str, k: int = 5) -> dict[str, Any]:
        """Find the passages of the collection that best answer a question. k: number of passages, 1 to 100."""
        return await told("search", query=query, k=k)

    async def explain(query: str, k: int = 5) -> dict[str, Any]:
        """Search as the tool search does, and return for each passage its sources, their scores and the path to it."""
        return await told("explain", query=query, k=k)

    async def passages(ids: list[str]) -> dict[str, Any]:
        """Return passages by their ids (1 to 100 ids); ids without a passage are listed as missing."""
        return await told("passages", ids=ids)

    class Strict(server):  # type: ignore[misc, valid-type]
        """A server that refuses unknown arguments, such as a filter; the SDK's own server ignores them."""

        async def call_tool(self, name: str, arguments: Mapping[str, Any], *more: Any, **options: Any) -> Any:
            refused = unknown_fields(arguments, FIELDS.get(name, arguments))
            if refused:
                raise errors(refused)
            try:
                found = await super().call_tool(name, arguments, *more, **options)
            except errors as error:
                if isinstance(error.__cause__, ValidationError):
                    await told(name, **arguments)  # refuses the same arguments in fewer and plainer words
                if isinstance(error.__cause__, errors):
                    raise error.__cause__ from None  # without the words that the SDK puts in front
                raise
            if not isinstance(found, tuple):
                return found
            # Version 1 of the SDK would check each answer by a schema that allows every object, on the event loop.
            return types.CallToolResult(content=list(found[0]), structuredContent=found[1])

    about = legible(" ".join(about.split()))  # JSON cannot encode some characters of a command line
    subject = f" The collection: {about.removesuffix('.')}." if about else ""
    confidence = BY_VECTORS if view.has_vectors else BY_WORDS
    said = INSTRUCTIONS + confidence + subject
    made = Strict("phasegraph", instructions=said, log_level="WARNING")  # the SDK logs requests
    if hasattr(made, "_mcp_server"):  # without a version, version 1 of the SDK reads its own from a file, per request
        made._mcp_server.version = version("phasegraph")
    reads = types.ToolAnnotations(readOnlyHint=True, openWorldHint=False)  # or else programs may ask before each call
    for tool in (search, explain, passages):
        description = f"{tool.__doc__}{subject}" + f" {confidence}" * (tool is search)
        made.add_tool(tool, description=description, annotations=reads)
    return made


class SoundMessages:
    """ASGI middleware that passes only valid MCP messages on to `app`, the application of the SDK.

    It answers an invalid message with status 400, because the SDK would log the message together with the question.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer an invalid MCP message, or pass the request on; the first ASGI message must contain the whole body."""
        message = await receive()
        refused = await aside(lambda: _refused_message(message.get("body", b"")))
        if refused is not None:
            from starlette.responses import JSONResponse

            await JSONResponse(refused, 400)(scope, receive, send)
            return
        first = [message]

        async def again() -> Any:
            return first.pop() if first else await receive()

        await self._app(scope, again, send)


def _refused_message(body: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC error for the MCP message in `body`, or None if the message is valid.

    The error repeats only the id of the message.
    """
    from pydantic import ValidationError

    def error(code: int, said: str, of: object = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": of, "error": {"code": code, "message": said}}

    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return error(-32700, "the body must be JSON")
    if not isinstance(message, dict) or deeper(message, _DEEPEST):
        return error(-32600, f"the body must be a JSON object, with objects at most {_DEEPEST} levels deep")
    of = _id_of(message)
    try:
        for one in _shapes("id" in message, "method" in message):
            one.validate_python(message)
    except ValidationError:
        return error(-32602, "the body is not an MCP message, or its parameters are invalid", of)
    return None


def _id_of(message: Mapping[str, Any]) -> str | int | None:
    """Return the id of an MCP message; None if it has no id, or an unusual id."""
    name = message.get("id")
    return name if isinstance(name, str | int) and len(str(name)) <= _LONGEST_ID else None


def busy_answer(body: bytes, said: str) -> tuple[int, dict[str, Any] | None] | None:
    """Return the HTTP status and the answer `said` to the MCP message in `body`, for which the server is too busy.

    Clients of the SDK end the session, and lose the text, if the status is an error. But they pass an error of a tool
    on to the model, which can try again. The server needs no notifications, so it accepts them. Return None if `body`
    is no usual message.
    """
    try:
        message = json.loads(body) if len(body) <= _LONGEST_REFUSED else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    of, method = _id_of(message), message.get("method")
    if of is None:
        return (202, None) if "id" not in message and isinstance(method, str) else None
    if method == "tools/call":
        return 200, {
            "jsonrpc": "2.0",
            "id": of,
            "result": {"content": [{"type": "text", "text": said}], "isError": True},
        }
    return 200, {"jsonrpc": "2.0", "id": of, "error": {"code": _BUSY, "message": said}}


@lru_cache(maxsize=4)
def _shapes(asks: bool, calls: bool) -> tuple[Any, ...]:
    """Return the SDK's validators for a kind of MCP message.

    `asks` is True if the message has an id, and `calls` is True if it names a method.
    """
    from mcp import types
    from pydantic import TypeAdapter

    kinds = ["JSONRPCMessage", *(["ClientRequest" if asks else "ClientNotification"] if calls else [])]
    return tuple(TypeAdapter(getattr(types, kind)) for kind in kinds if hasattr(types, kind))


def _sdk() -> tuple[Any, Any]:
    try:
        from mcp.server.mcpserver import MCPServer  # type: ignore[import-not-found, unused-ignore]
        from mcp.server.mcpserver.exceptions import ToolError  # type: ignore[import-not-found, unused-ignore]

        return MCPServer, ToolError
    except ImportError:
        pass
    with needed(NEEDED):
        from mcp.server.fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]
        from mcp.server.fastmcp.exceptions import ToolError  # type: ignore[import-not-found, unused-ignore, no-redef]
    return FastMCP, ToolError


def streamable_app(view: Answers, about: str = "") -> Any:
    """Create the ASGI application that serves MCP over stateless streamable HTTP at ``/mcp``.

    The caller checks hosts and tokens. `about` is as in :func:`mcp_server`.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    server = mcp_server(view, about)
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=False
    )  # phasegraph.apps.server.web checks hosts
    if hasattr(server.settings, "stateless_http"):  # version 1 has these settings in the server
        server.settings.stateless_http = server.settings.json_response = True
        server.settings.transport_security = security
        return server.streamable_http_app()
    return server.streamable_http_app(stateless_http=True, json_response=True, transport_security=security)
