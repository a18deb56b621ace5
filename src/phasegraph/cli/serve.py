"""``phasegraph serve``: a folder's passages for agents (MCP) and other programs (HTTP)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from phasegraph.cli.output import Embedder, IndexFolder, file_option, load_embedder
from phasegraph.errors import InvalidInputError, needed
from phasegraph.graph.corpus import opened
from phasegraph.graph.index import GraphIndex
from phasegraph.pipeline import FusionPipeline
from phasegraph.retrieval import PIPELINE
from phasegraph.serving.agents import NEEDED, mcp_server
from phasegraph.serving.view import View, check_filter
from phasegraph.serving.web import LOOPBACK, check_token, listening, read_tenants, web_app


def serve(
    folder: IndexFolder,
    transport: Annotated[str, typer.Option(help="stdio (MCP alone), or http (MCP at /mcp, and plain).")] = "stdio",
    embedder: Embedder = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Serve passages with this metadata alone (repeatable)."),
    ] = None,
    tenants: Annotated[
        Path | None,
        file_option('With http: JSON {"name": {"token": …, "filter": {…}}}; a token shows who asks.', metavar="FILE"),
    ] = None,
    token_file: Annotated[Path | None, file_option("With http: the token that all must show.", metavar="FILE")] = None,
    host: Annotated[str, typer.Option(help="Beyond loopback only with a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8321,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name by which the server is asked (repeatable).")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds an answer may take.")] = 10.0,
    max_requests: Annotated[int, typer.Option(min=1, help="Requests answered at the same time.")] = 64,
) -> None:
    """Serve a folder's passages: search, explain, and passages by id.

    What may be seen is set here, by --filter or --tenants, and never by who asks. A folder that changes is served as it
    was at the start.
    """  # fmt: skip
    if transport not in ("stdio", "http"):
        raise typer.BadParameter(f"--transport must be stdio or http; got {transport!r}")
    given = {"--tenants": tenants, "--token-file": token_file}
    named = [name for name, value in given.items() if value is not None]
    if transport == "stdio" and named:
        raise typer.BadParameter(f"{named[0]} needs --transport http: over stdio there is a single client")
    if len(named) > 1 or (tenants is not None and only):
        raise typer.BadParameter("--tenants gives each its token and its filter: leave --token-file and --filter out")
    host = host.removeprefix("[").removesuffix("]")
    local = host in ("127.0.0.1", "localhost", "::1")
    if transport == "http" and not local and not named:
        raise typer.BadParameter(f"--host {host} is not loopback: give --token-file FILE or --tenants FILE")
    index = opened(folder)
    if not isinstance(index, GraphIndex):
        raise InvalidInputError(f"{folder}: it holds a graph of chunks, which keeps no texts; serve an entity graph")
    embed = load_embedder(embedder)
    saved = folder / PIPELINE
    shared: dict[str, Any] = {
        "pipeline": FusionPipeline.load(saved) if saved.is_file() else None,
        "timeout": timeout,
    }
    views: dict[str, View] = {}
    if tenants is not None:
        for name, (token, its) in read_tenants(tenants).items():
            views[token] = View(index, embed, only=its, **shared)
            _say_how_many(name, views[token], index)
    else:
        token = "" if token_file is None else check_token(str(token_file), token_file.read_text("utf-8").strip())
        views[token] = View(index, embed, only=_filter(only), **shared)
        _say_how_many("all", views[token], index)
    if transport == "stdio":
        asyncio.run(mcp_server(next(iter(views.values()))).run_stdio_async())
        return
    hosts = None if not local and not allow_host else [*(LOOPBACK if local else ()), *(allow_host or ())]
    run_http(web_app(views, hosts=hosts, most=max_requests), host, port)


def _filter(given: list[str] | None) -> dict[str, Any] | None:
    if not given:
        return None
    wanted: dict[str, Any] = {}
    for one in given:
        key, sign, text = one.partition("=")
        if not key or not sign:
            raise typer.BadParameter(f"--filter must be KEY=VALUE; got {one!r}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        if key in wanted:
            raise typer.BadParameter(f'--filter {key} is given twice: --filter \'{key}=["a", "b"]\' lets both through')
        wanted[key] = value
    check_filter("--filter", wanted)
    return wanted


def _say_how_many(name: str, view: View, index: GraphIndex) -> None:
    """On standard error: standard output belongs to the protocol."""
    typer.echo(f"{name}: {len(view):,} of {len(index.records):,} passages", err=True)
    if not len(view):
        typer.echo(f"warning: {name}: the filter lets no passage through", err=True)


def run_http(app: Any, host: str, port: int) -> None:
    """Serve until interrupted; the address is said on standard error."""
    with needed(NEEDED):
        import uvicorn
    made, address = listening(host, port)
    typer.echo(f"{address}: POST /search, /explain, /passages; MCP at /mcp  (Ctrl-C ends it)", err=True)
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=5)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[made])
