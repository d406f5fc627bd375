"""The serving process: socket, event loop, signals, first lines, orderly end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from uvicorn.config import Config
from uvicorn.server import Server

from deerflow import __version__
from deerflow.cli import output
from deerflow.cli.log import log_to_file
from deerflow.config.load import LoadedConfig
from deerflow.errors import StorageError, UsageError
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.ending import on_signals
from deerflow.gateway.front import Front
from deerflow.gateway.reload import on_hang_up
from deerflow.gateway.workers import Workers
from deerflow.runtime.heap import one_arena

if TYPE_CHECKING:
    from fastapi import FastAPI

    from deerflow.gateway.deps import Gateway

LAST_ANSWERS_SECONDS = 1
"""What requests in flight get to end when the process ends."""
_BACKLOG = 2048


def serve(config: GatewayConfig, loaded: LoadedConfig, environ: Mapping[str, str]) -> int:
    """Serve until a signal comes; the exit code.

    Args:
        config: of the process.
        loaded: the configuration.
        environ: as `read_environ` gives it.

    Raises:
        UsageError: sign-in is off on an address that others reach, or the port is in use.
        StorageError: the home cannot be written.
        ConfigError: what only shows when everything is opened.
    """
    one_arena()
    check(config)
    make_home(loaded)
    listener = listen(config)
    config = replace(config, port=listener.getsockname()[1])
    with listener, log_to_file(loaded.home, loaded.config.log_level):
        settings = Config(
            "unused:app",
            loop="uvloop",
            http="httptools",
            ws="websockets-sansio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
        )
        factory = settings.get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(_live(settings, listener, config, loaded, environ))


def check(config: GatewayConfig) -> None:
    """Refuse settings that would let strangers in.

    Raises:
        UsageError: sign-in is off on an address that others reach.
    """
    if config.auth_disabled and not config.loopback:
        raise UsageError(
            f"DEER_FLOW_AUTH_DISABLED=1 with --host {config.host} would let everybody in.",
            cure="Leave it away, or bind to 127.0.0.1.",
        )


def make_home(loaded: LoadedConfig) -> None:
    """Make the home, before anything is loaded that takes time.

    Raises:
        StorageError: it cannot be made or written.
    """
    try:
        loaded.home.mkdir(parents=True, exist_ok=True)
        writable = os.access(loaded.home, os.W_OK | os.X_OK)
        reason = "" if writable else "not writable"
    except OSError as error:
        reason = error.strerror or "failed"
    if reason:
        raise StorageError(
            f"The home {loaded.home} cannot be used ({reason}).",
            cure="Set DEER_FLOW_HOME to a folder that can be written.",
        )


def listen(config: GatewayConfig) -> socket.socket:
    """A socket that is bound and listens.

    Raises:
        UsageError: the port is in use or not allowed, the host has no address.
    """
    try:
        found = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise UsageError(f"--host {config.host} is no address of this machine.") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        used = error.errno == errno.EADDRINUSE
        reason = "is in use" if used else f"cannot be bound ({error.strerror})"
        raise UsageError(
            f"Port {config.port} of {config.host} {reason}.",
            cure="Choose another with --port, or stop what listens there.",
        ) from error
    listener.setblocking(False)
    return listener


class QuietServer(Server):
    """Without uvicorn's signals, which would end the process with the signal's code."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Of uvicorn: leaves them alone."""
        yield


async def _live(
    settings: Config,
    listener: socket.socket,
    config: GatewayConfig,
    loaded: LoadedConfig,
    environ: Mapping[str, str],
) -> int:
    def load() -> FastAPI:
        from deerflow.gateway.app import create_app  # noqa: PLC0415  (FastAPI, LangChain)

        return create_app(config, loaded, environ)

    front = Front(load)
    settings.app = front
    server = QuietServer(settings)
    on_signals(lambda: _stop(server, front))
    workers = Workers(loaded, config)
    on_hang_up(front.harness, workers.hang_up)
    announcing = asyncio.create_task(_announce(server, front, config, workers))
    try:
        await server.serve([listener])
    finally:
        announcing.cancel()
        await workers.close()
    if front.failure is not None:
        raise front.failure
    return 0


def _stop(server: Server, front: Front) -> None:
    front.stop()
    server.should_exit = True


async def _announce(server: Server, front: Front, config: GatewayConfig, workers: Workers) -> None:
    """Say what was opened; end the process when it could not be."""
    await front.settled.wait()
    if front.failure is not None or front.opening is None or front.opening.gateway is None:
        server.should_exit = True
        return
    for line in await first_lines(front.opening.gateway):
        output.say(line)
    output.flush()
    await workers.open()


async def first_lines(gateway: Gateway) -> list[str]:
    """What a person wants to know after the start."""
    from deerflow.gateway.auth.setup import setup_token  # noqa: PLC0415  (loaded by now)

    config, harness = gateway.config, gateway.runtime.harness
    url = config.public_url.rstrip("/") or address_of(config)
    report = await harness.provider.probe()
    lines = [f"DeerFlow {__version__} listens on {url}"]
    lines.append(f"  model:     {harness.found or harness.catalog.default or 'none'}")
    lines.append(f"  storage:   {harness.storage.kind}, home {harness.loaded.home}")
    lines.append(f"  isolation: {report.level}")
    if not config.execute:
        lines.append("  runs:      executed by other workers alone")
    if config.auth_disabled:
        lines.append("  sign-in:   off, everybody on this machine is the local user")
        return lines
    token = await setup_token(harness.storage.accounts)
    if token:
        lines.append(f"  first account: {url}/setup?token={token}")
        lines.append("  (or `deerflow users create EMAIL --admin`)")
    return lines


def address_of(config: GatewayConfig) -> str:
    """The address that the process listens on."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"http://{host}:{config.port}"
