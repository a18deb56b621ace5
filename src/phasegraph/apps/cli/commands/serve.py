"""The options of ``phasegraph serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import Embedder, IndexFolder, file_option

_OF_HTTP = (
    "host", "port", "allow_host", "max_requests", "max_requests_per_tenant", "max_connections",
    "max_connections_per_address",
)  # fmt: skip


def serve(
    context: typer.Context,
    folder: IndexFolder,
    transport: Annotated[
        str, typer.Option(help="stdio (MCP only), or http (MCP at /mcp, and HTTP requests).")
    ] = "stdio",
    embedder: Embedder = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Serve only passages with this metadata (repeatable)."),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Return this metadata of each passage, such as source, for citations (repeatable).",
        ),
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
            min=0,
            max=65535,
            envvar="PHASEGRAPH_LISTEN_PORT",
            help="With http: port of the server; 0 chooses a free port.",
        ),
    ] = 8321,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name allowed in the Host header of requests (repeatable)."),
    ] = None,
    log_level: Annotated[
        str, typer.Option(help="Lowest level of the log on standard error: debug, info, warning or error.")
    ] = "warning",
    about: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="What the passages are about; agents read it in the descriptions of the tools, and so choose between "
            "several servers.",
        ),
    ] = "",
    timeout: Annotated[float, typer.Option(min=0.01, help="Time limit per answer, in seconds.")] = 10.0,
    max_query_length: Annotated[
        int, typer.Option(min=1, help="Maximum number of characters of a query; longer queries are refused.")
    ] = 4_000,
    max_requests: Annotated[int, typer.Option(min=1, help="Maximum number of concurrent requests.")] = 2,
    max_requests_per_tenant: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum number of concurrent requests per tenant; default: a quarter of --max-requests, at least 1 "
            "(with one tenant: all).",
        ),
    ] = None,
    max_connections: Annotated[int, typer.Option(min=1, help="Maximum number of concurrent connections.")] = 512,
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
    from phasegraph.apps.cli.output import given_options
    from phasegraph.apps.cli.serve import run

    if transport == "stdio":
        for name, option in given_options(context):
            if name in _OF_HTTP:
                raise typer.BadParameter(f"{option} needs --transport http: stdio listens on no port")
        typer.echo("stdio: MCP on standard input and output; --transport http listens on a port", err=True)
    run(
        folder, transport, embedder, only, metadata, tenants, token_file, host, port, allow_host, log_level, about,
        timeout, max_query_length, max_requests, max_requests_per_tenant, max_connections, max_connections_per_address,
    )  # fmt: skip
