"""The command ``phasegraph serve``: serve the passages of a folder to agents (MCP) and other programs (HTTP)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from phasegraph.apps.cli.models import model_named
from phasegraph.apps.cli.output import Embedder, IndexFolder, file_option, only_with
from phasegraph.apps.server.agents import mcp_server
from phasegraph.apps.server.connections import MOST_CONNECTIONS, Door, listening, run_server
from phasegraph.apps.server.following import FollowingView, Served
from phasegraph.apps.server.view import LONGEST_QUERY
from phasegraph.apps.server.web import LOOPBACK, MOST_REQUESTS, check_token, read_tenants, web_app
from phasegraph.errors import PhasegraphWarning
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.retrieval import PIPELINE
from phasegraph.retrieval.plain_filters import Filter
from phasegraph.sources.settings import CALL_TIMEOUT

_LEVELS = ("debug", "info", "warning", "error")


def serve(
    folder: IndexFolder,
    transport: Annotated[
        str, typer.Option(help="stdio (MCP only), or http (MCP at /mcp, and HTTP requests).")
    ] = "stdio",
    embedder: Embedder = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Serve only passages with this metadata (repeatable)."),
    ] = None,
    tenants: Annotated[
        Path | None,
        file_option(
            'With http: JSON file {"name": {"token": …, "filter": {…}}}; the token of a request identifies its tenant.',
            metavar="FILE",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, file_option("With http: file with the token of all clients.", metavar="FILE")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; if other machines can reach the address, a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, envvar="PHASEGRAPH_PORT", help="With http: port of the server; 0 chooses a free port."
        ),
    ] = 8321,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name allowed in the Host header of requests (repeatable)."),
    ] = None,
    log_level: Annotated[
        str, typer.Option(help="Lowest level of the log on standard error: debug, info, warning or error.")
    ] = "warning",
    timeout: Annotated[float, typer.Option(min=0.01, help="Time limit per answer, in seconds.")] = CALL_TIMEOUT,
    max_query_length: Annotated[
        int, typer.Option(min=1, help="Maximum number of characters of a query; longer queries are refused.")
    ] = LONGEST_QUERY,
    max_requests: Annotated[int, typer.Option(min=1, help="Maximum number of concurrent requests.")] = MOST_REQUESTS,
    max_requests_per_tenant: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of concurrent requests per tenant; default: a quarter of --max-requests."
        ),
    ] = None,
    max_connections: Annotated[
        int, typer.Option(min=1, help="Maximum number of concurrent connections.")
    ] = MOST_CONNECTIONS,
    max_connections_per_address: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum number of concurrent connections per client address; leave this option out behind a proxy.",
        ),
    ] = None,
) -> None:
    """Serve the passages of a folder: search, explain, and read passages by id.

    Only --filter and --tenants decide which passages a client can access; a request cannot extend this access. Changes
    of the folder are served within seconds. With --log-level info, the log has a line for each HTTP request.
    """  # fmt: skip
    host = host.removeprefix("[").removesuffix("]")
    local = host in ("127.0.0.1", "localhost", "::1")
    _check_access(transport, host, local, tenants, token_file, only)
    _configure_log(log_level)
    saved = folder / PIPELINE
    names, filters = _clients(tenants, token_file, only)
    served = Served(
        folder,
        model_named(embedder),
        filters=filters,
        pipeline=FusionPipeline.load(saved) if saved.is_file() else None,
        timeout=timeout,
        max_query_length=max_query_length,
    )
    for token, view in served.views.items():
        _say_how_many(names[token], view, served)
    if unused := served.unused_vectors():
        typer.echo(f"warning: {unused}", err=True)
    served.follow()
    views = served.views
    if transport == "stdio":
        asyncio.run(mcp_server(next(iter(views.values()))).run_stdio_async())
        return
    hosts = None if not local and not allow_host else [*(LOOPBACK if local else ()), *(allow_host or ())]
    door = Door(max_connections, max_connections_per_address)
    app = web_app(views, names=names, hosts=hosts, most=max_requests, each=max_requests_per_tenant)
    run_http(app, host, port, door)


def _check_access(
    transport: str, host: str, local: bool, tenants: Path | None, token_file: Path | None, only: list[str] | None
) -> None:
    """Raise BadParameter if `transport` is unknown, options exclude each other, or other machines need no token.

    `local` is true if only this machine can reach `host`.
    """
    if transport not in ("stdio", "http"):
        raise typer.BadParameter(f"--transport must be stdio or http; got {transport!r}")
    given = {"--tenants": tenants, "--token-file": token_file}
    named = [name for name, value in given.items() if value is not None]
    if transport == "stdio" and named:
        raise typer.BadParameter(f"{named[0]} needs --transport http: stdio has a single client")
    if len(named) > 1 or (tenants is not None and only):
        raise typer.BadParameter(
            "--tenants sets the token and filter of each tenant: leave out --token-file and --filter"
        )
    if transport == "http" and not local and not named:
        raise typer.BadParameter(f"--host {host} is not loopback: give --token-file FILE or --tenants FILE")


def _configure_log(level: str) -> None:
    """Write log records to standard error, each once and on one line; raise BadParameter if `level` is unknown.

    At the levels debug and info, only phasegraph's own records are written, because records of other libraries may
    contain questions.
    """
    if level not in _LEVELS:
        raise typer.BadParameter(f"--log-level must be {', '.join(_LEVELS[:-1])} or {_LEVELS[-1]}; got {level!r}")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")  # the MCP SDK then adds no handler
    logging.getLogger("phasegraph").setLevel(level.upper())
    warnings.simplefilter("ignore", PhasegraphWarning)  # the log has the same text


def _clients(
    tenants: Path | None, token_file: Path | None, only: list[str] | None
) -> tuple[dict[str, str], dict[str, Filter | None]]:
    """Return the name and the filter of each client, by token; without tenants, there is a single client, ``all``."""
    if tenants is not None:
        read = read_tenants(tenants)
        return {token: name for name, (token, _) in read.items()}, {token: its for token, its in read.values()}
    token = "" if token_file is None else check_token(str(token_file), token_file.read_text("utf-8").strip())
    return {token: "all"}, {token: only_with(only, "--filter") if only else None}


def _say_how_many(name: str, view: FollowingView, served: Served) -> None:
    """Print the number of served passages to standard error, because standard output carries the MCP messages."""
    typer.echo(f"{name}: {len(view):,} of {len(served):,} passages are served", err=True)
    if not len(view):
        typer.echo(f"warning: {name}: no passage matches the filter; check its keys and values", err=True)


def run_http(app: Any, host: str, port: int, door: Door) -> None:
    """Serve the ASGI application `app` over HTTP until interrupted, and print its address to standard error.

    `door` limits the connections.
    """
    made, address = listening(host, port)
    typer.echo(f"{address}: POST /search, /explain, /passages; MCP at /mcp  (Ctrl-C stops it)", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        run_server(app, made, door)
