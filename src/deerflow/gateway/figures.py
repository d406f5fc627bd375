"""The page of figures: in a serving process a route, in a worker a port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.config import Config

from deerflow.errors import NotFoundError, StorageError
from deerflow.gateway.auth.address import is_local, names_this_machine
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.server import QuietServer, listen

if TYPE_CHECKING:
    from deerflow.wiring.runtime import Runtime


async def page(runtime: Runtime, *, streams: int | None) -> Response:
    """Figures of a process in the text format of Prometheus.

    Args:
        runtime: of the process.
        streams: clients that read a stream from it, None when it serves none.

    Raises:
        NotFoundError: they are switched off.
    """
    if runtime.metrics is None:
        raise NotFoundError("Metrics are off.", cure="Set telemetry.metrics to true.")
    exposition = await asyncio.to_thread(_exposition)
    levels = exposition.Levels(
        queue=await _queue(runtime),
        takeovers=runtime.supervisor.takeovers if runtime.supervisor else 0,
        streams=streams,
    )
    text = exposition.exposition(runtime.metrics, levels)
    return Response(text, headers={"Content-Type": exposition.CONTENT_TYPE})


@asynccontextmanager
async def serving(runtime: Runtime, port: int) -> AsyncGenerator[None]:
    """`/metrics` on a port of this machine alone, for a process that has no other; 0 = none.

    Raises:
        UsageError: the port is in use or not allowed.
    """
    if not port:
        yield
        return

    async def answer(request: Request) -> Response:
        if not (is_local(request) and names_this_machine(request)):
            return Response(status_code=403)
        try:
            return await page(runtime, streams=None)
        except NotFoundError as error:
            return Response(error.message, status_code=404)

    app = Starlette(routes=[Route("/metrics", answer)])
    with listen(GatewayConfig(port=port)) as listener:
        server = QuietServer(Config(app, log_config=None, access_log=False, lifespan="off"))
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield
        finally:
            server.should_exit = server.force_exit = True
            await task


async def _queue(runtime: Runtime) -> dict[str, int] | None:
    try:
        return await runtime.harness.storage.queue.depth()
    except StorageError:  # the rest is as true as before
        return None


def _exposition() -> Any:
    from deerflow.telemetry import exposition  # noqa: PLC0415  (prometheus_client, 0.1 s)

    return exposition
