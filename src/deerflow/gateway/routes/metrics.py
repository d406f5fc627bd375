"""`/metrics`: figures of this process for Prometheus, for admins and for this machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import AuthError, ForbiddenError, NotFoundError, StorageError
from deerflow.gateway.auth.address import is_local, names_this_machine
from deerflow.gateway.deps import Caller, Open

if TYPE_CHECKING:
    from deerflow.wiring.runtime import Runtime

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, gate: Open) -> Response:
    """Figures in the text format of Prometheus.

    An admin's token with whatever scopes will do; from the machine itself none is needed.
    """
    _check(request)
    runtime = gate.runtime
    if runtime.metrics is None:
        raise NotFoundError("Metrics are off.", cure="Set telemetry.metrics to true.")
    page = await asyncio.to_thread(_exposition)
    levels = page.Levels(
        queue=await _queue(runtime),
        takeovers=runtime.supervisor.takeovers if runtime.supervisor else 0,
        streams=gate.streams,
    )
    text = page.exposition(runtime.metrics, levels)
    return Response(text, headers={"Content-Type": page.CONTENT_TYPE})


def _check(request: Request) -> None:
    if is_local(request) and names_this_machine(request):
        return
    caller: Caller | None = request.scope.get("deerflow.caller")
    if caller is None:
        raise AuthError("Sign in first.", cure="Send an admin's API token.")
    if caller.role != "admin":
        raise ForbiddenError("Only admins see figures of everybody.")


async def _queue(runtime: Runtime) -> dict[str, int] | None:
    try:
        return await runtime.harness.storage.queue.depth()
    except StorageError:  # the rest is as true as before
        return None


def _exposition() -> Any:
    from deerflow.telemetry import exposition  # noqa: PLC0415  (prometheus_client, 0.1 s)

    return exposition
