"""`/metrics`: figures of this process for Prometheus, for admins and for this machine."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import AuthError, ForbiddenError
from deerflow.gateway.auth.address import is_local, names_this_machine
from deerflow.gateway.deps import Caller, Open
from deerflow.gateway.figures import page

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, gate: Open) -> Response:
    """Figures in the text format of Prometheus.

    An admin's token with whatever scopes will do; from the machine itself none is needed.
    """
    _check(request)
    return await page(gate.runtime, streams=gate.streams)


def _check(request: Request) -> None:
    if is_local(request) and names_this_machine(request):
        return
    caller: Caller | None = request.scope.get("deerflow.caller")
    if caller is None:
        raise AuthError("Sign in first.", cure="Send an admin's API token.")
    if caller.role != "admin":
        raise ForbiddenError("Only admins see figures of everybody.")
