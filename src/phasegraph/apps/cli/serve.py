"""The command ``phasegraph serve``: serve the passages of a folder to agents (MCP) and other programs (HTTP)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from io import UnsupportedOperation
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any, TextIO

import typer

from phasegraph._support.text import legible
from phasegraph.apps.cli.models import model_named
from phasegraph.apps.cli.output import only_with
from phasegraph.apps.server.agents import mcp_server
from phasegraph.apps.server.answer_process import answer_processes
from phasegraph.apps.server.connections import Door, allow_descriptors, listening, run_server
from phasegraph.apps.server.following import FollowingView, Served
from phasegraph.apps.server.turns import most_of_each_kind
from phasegraph.apps.server.web import LOOPBACK, check_token, read_tenants, web_app
from phasegraph.errors import InvalidInputError, PhasegraphWarning
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph.corpus.corpus import LOOKING
from phasegraph.retrieval import PIPELINE
from phasegraph.retrieval.plain_filters import Filter
from phasegraph.sources.workers import outcome_of

_log = logging.getLogger("phasegraph")
_HOST = re.compile(r"[\w.-]+|\[[\da-fA-F:.]+\]", re.ASCII)
_LEVELS = ("debug", "info", "warning", "error")


def run(
    folder: Path,
    transport: str,
    embedder: str | None,
    only: list[str] | None,
    metadata: list[str] | None,
    tenants: Path | None,
    token_file: Path | None,
    host: str,
    port: int,
    allow_host: list[str] | None,
    log_level: str,
    about: str,
    timeout: float,
    max_query_length: int,
    max_requests: int,
    max_requests_per_tenant: int | None,
    max_connections: int,
    max_connections_per_address: int | None,
) -> None:
    """Run ``phasegraph serve``; the parameters are the options of the command."""
    host = host.removeprefix("[").removesuffix("]")
    local = host in ("127.0.0.1", "localhost", "::1")
    _check_access(transport, host, local, tenants, token_file, only)
    for name in allow_host or ():
        if not _HOST.fullmatch(name):  # it would match no request
            raise typer.BadParameter(
                f"--allow-host must be a host name without https:// and port, such as search.example.org; got {name!r}"
            )
    _check_level(log_level)
    clients = partial(_clients, tenants, token_file, only)
    tokens, filters = clients()
    made = partial(_served, folder, embedder, filters, metadata or (), timeout, max_query_length, log_level)
    if transport == "stdio":
        messages: Any = _Messages(sys.stdout, sys.stderr)
        with redirect_stdout(messages):
            asyncio.run(mcp_server(next(iter(made().views.values())), about).run_stdio_async())
        return
    _configure_log(log_level)
    hosts = None if not local and not allow_host else [*(LOOPBACK if local else ()), *(allow_host or ())]
    kinds = most_of_each_kind(max_requests)
    allow_descriptors(max_connections, 2 * sum(kinds.values()))  # each concurrent request has a pipe to another process
    low = partial(made, announces=False) if len(filters) > 1 else None  # requests of one client have equal priority
    with answer_processes(made, max_requests, low, kinds["long"] + kinds["heavy"]) as views:
        app = web_app(views, tokens=tokens, hosts=hosts, most=max_requests, each=max_requests_per_tenant, about=about)
        if path := tenants or token_file:
            TokenFile(path, clients, (tokens, filters), app.renew).follow()
        run_http(app, host, port, Door(max_connections, max_connections_per_address))


class _Messages:
    """Standard output that only MCP messages reach: the SDK writes them to ``buffer``.

    Other texts go to `errors`, because they would damage the messages: printed texts, and texts that a library in C or
    another program writes to the descriptor of `output`.
    """

    def __init__(self, output: TextIO, errors: TextIO) -> None:
        output.flush()
        self.buffer, self._errors = output.buffer, errors
        with suppress(UnsupportedOperation):  # an output in memory has no descriptor
            descriptor = output.fileno()
            self.buffer = os.fdopen(os.dup(descriptor), "wb")
            os.dup2(errors.fileno(), descriptor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._errors, name)


def _served(
    folder: Path,
    embedder: str | None,
    filters: Mapping[str, Filter | None],
    metadata: Sequence[str],
    timeout: float,
    max_query_length: int,
    log_level: str,
    announces: bool = True,
) -> Served:
    """Open the folder, print the number of passages of each client, and follow the changes of the folder.

    `filters` are the filters of the clients by name. If `announces` is false, another process
    prints the numbers and logs the warnings about the folder. The other parameters are options of the command.
    """
    _configure_log(log_level if announces else "error")
    saved = folder / PIPELINE
    served = Served(
        folder,
        model_named(embedder),
        filters=filters,
        pipeline=FusionPipeline.load(saved) if saved.is_file() else None,
        timeout=timeout,
        max_query_length=max_query_length,
        metadata=metadata,
    )
    _configure_log(log_level)
    if announces:
        for name, view in served.views.items():
            _say_how_many(name, view, served)
        for key in served.unknown_metadata():
            typer.echo(f"warning: --metadata {key}: no passage has this metadata", err=True)
        if unused := served.unused_vectors():
            typer.echo(f"warning: {unused}", err=True)
    served.follow(warns=announces)
    return served


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


def _check_level(level: str) -> None:
    if level not in _LEVELS:
        raise typer.BadParameter(f"--log-level must be {', '.join(_LEVELS[:-1])} or {_LEVELS[-1]}; got {level!r}")


def _configure_log(level: str) -> None:
    """Write each log record once to standard error.

    A record is one line, except for a traceback at the level debug.

    Below the level warning, only phasegraph's own records are written, because records of other libraries may contain
    questions. If a library sets the level of its own logger, its records are still written.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")  # the MCP SDK then adds no handler
    logging.getLogger("phasegraph").setLevel(level.upper())
    logging.getLogger().setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    warnings.simplefilter("ignore", PhasegraphWarning)  # the log has the same text


def _clients(
    tenants: Path | None, token_file: Path | None, only: list[str] | None
) -> tuple[dict[str, str], dict[str, Filter | None]]:
    """Return the client of each token, and the filter of each client; without tenants, the only client is ``all``."""
    if tenants is not None:
        read = read_tenants(tenants)
        return {token: name for name, (token, _) in read.items()}, {name: its for name, (_, its) in read.items()}
    try:
        token = "" if token_file is None else check_token(str(token_file), token_file.read_text("utf-8-sig").strip())
    except (OSError, UnicodeDecodeError) as error:  # the text of the error may contain a part of the token
        raise InvalidInputError(f"{token_file}: the file cannot be read as text ({type(error).__name__})") from None
    return {token: "all"}, {"all": only_with(only, "--filter") if only else None}


_Clients = tuple[Mapping[str, str], Mapping[str, Filter | None]]
"""The client of each token, and the filter of each client."""


class TokenFile:
    """The file of the tokens, read again after each change; a token is refused if its client is in doubt.

    `read` reads the clients from the file `path`; `started` are the clients at the start of the server. `renew` is
    called with the client of each new token. A new client, or a client with another filter, is refused until a restart,
    because each client has its own part of the index. If the file is missing or wrong, every token is refused until the
    file is right again.
    """

    def __init__(
        self, path: Path, read: Callable[[], _Clients], started: _Clients, renew: Callable[[Mapping[str, str]], None]
    ) -> None:
        self._path, self._read, self._renew = path, read, renew
        self._served = _keys(started[1])
        self._known: object = (started[0], self._served)
        self._seen: tuple[int, ...] | None = None
        self._read_at: tuple[int, ...] | None = None
        self._said = ""

    def follow(self, seconds: float = LOOKING) -> None:
        """Call :meth:`look` every `seconds` seconds in a background thread, except for a pipe, whose text is gone."""

        def looking() -> None:
            while True:
                sleep(seconds)
                self.look()

        if self._path.is_file() or not self._path.exists():
            Thread(target=looking, name="phasegraph-tokens", daemon=True).start()

    def look(self) -> None:
        """Read the file if it has changed, but not since the last look, because a program may still be writing it."""
        before, self._seen = self._seen, _state(self._path)
        if self._seen == self._read_at or self._seen != before:
            return
        found, error = outcome_of(self._read)
        if found is None:
            if self._said != (said := str(error) or type(error).__name__):
                self._renew({})
                _log.error(legible(f"{self._path.name} cannot be read, so every token is refused: {said}"))
            self._said = said
            self._known = self._read_at = None  # so that each look reads the file again
            return
        self._read_at, self._said = self._seen, ""
        tokens, keys = found[0], _keys(found[1])
        if (tokens, keys) == self._known:
            return
        self._known = tokens, keys
        others = [client for client, key in keys.items() if key != self._served.get(client)]
        self._renew({token: client for token, client in tokens.items() if client not in others})
        _log.info(legible(f"{self._path.name} changed: its tokens are in force"))
        if others:
            asked = "restart the server for the new tenants and filters; refused until then"
            _log.warning(legible(f"{self._path.name}: {asked}: {', '.join(others)}"))


def _keys(filters: Mapping[str, Filter | None]) -> dict[str, str]:
    """Return the filter of each client as text, because 1 equals True in Python, but not in a filter."""
    return {client: json.dumps(its, sort_keys=True) for client, its in filters.items()}


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers that change whenever the file or its permissions change; none if there is no file."""
    with suppress(OSError):
        found = path.stat()
        return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino
    return ()


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
    run_server(app, made, door)
