"""The same answers as tools of the Model Context Protocol."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError, needed
from phasegraph.serving.view import View

INSTRUCTIONS = (
    "Passages of a fixed collection. search finds the best for a question; explain says besides why; passages gives "
    "passages by id. The confidence, in [0, 1], says whether the collection holds an answer at all: below about .3, "
    "say that it is not known rather than guess."
)
FIELDS = MappingProxyType(
    {"search": frozenset({"query", "k"}), "explain": frozenset({"query", "k"}), "passages": frozenset({"ids"})}
)
"""What may be asked for, by tool."""
NEEDED = "serving needs the MCP SDK; pip install 'phasegraph[serve]'"


def mcp_server(view: View) -> Any:
    """A server of the official SDK, of version 1 or 2, with the tools search, explain and passages."""
    server, errors = _sdk()

    async def told(answer: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        try:
            # The protocol is UTF-8, in which there are no halves of characters.
            whole: dict[str, Any] = json.loads(
                json.dumps(await answer(), ensure_ascii=False).encode("utf-8", "replace")
            )
            return whole
        except (InvalidInputError, InvalidTypeError) as error:
            raise errors(str(error)) from None
        except Exception as error:  # noqa: BLE001 - its text may be another's
            raise errors(f"the collection could not be asked ({type(error).__name__}); try again") from None

    async def search(query: str, k: int = 5) -> dict[str, Any]:
        """Find the passages of the collection that best answer a question. k: how many, 1 to 100."""
        return await told(lambda: view.search(query, k))

    async def explain(query: str, k: int = 5) -> dict[str, Any]:
        """As search, and say for each passage which source found it, with what score, and by which path."""
        return await told(lambda: view.explain(query, k))

    async def passages(ids: list[str]) -> dict[str, Any]:
        """Give passages by their ids (1 to 100); those that there are not are listed as missing."""

        async def found() -> dict[str, Any]:
            return view.passages(ids)

        return await told(found)

    class Strict(server):  # type: ignore[misc, valid-type]
        """The SDK's server leaves out arguments that a tool does not have, a filter's, too; this one says so."""

        async def call_tool(self, name: str, arguments: Mapping[str, Any], *more: Any, **options: Any) -> Any:
            refused = unknown_fields(arguments, FIELDS.get(name, arguments))
            if refused:
                raise errors(refused)
            return await super().call_tool(name, arguments, *more, **options)

    made = Strict("phasegraph", instructions=INSTRUCTIONS, log_level="WARNING")  # it logs what is asked
    for tool in (search, explain, passages):
        made.add_tool(tool)
    return made


def unknown_fields(asked: Iterable[str], known: Collection[str]) -> str:
    """What to say of a request that has other fields than these, "" where it has none.

    >>> unknown_fields(["query", "filter"], {"query", "k"})
    "'filter': unknown; a request has k, query. What may be seen is set by the server"
    """
    other = sorted(set(asked) - set(known))
    if not other:
        return ""
    return (
        f"{', '.join(map(repr, other))[:80]}: unknown; a request has {', '.join(sorted(known))}. What may be seen "
        "is set by the server"
    )


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


def streamable_app(view: View) -> Any:
    """The server over streamable HTTP at ``/mcp``, each request on its own; hosts and tokens are the caller's task."""
    from mcp.server.transport_security import TransportSecuritySettings

    server = mcp_server(view)
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # see phasegraph.serving.web
    if hasattr(server.settings, "stateless_http"):  # version 1 keeps these in the server
        server.settings.stateless_http = server.settings.json_response = True
        server.settings.transport_security = security
        return server.streamable_http_app()
    return server.streamable_http_app(stateless_http=True, json_response=True, transport_security=security)
