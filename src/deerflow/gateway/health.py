"""`/health`: the process answers. `/ready`: it can do its work."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deerflow import __version__
from deerflow.gateway.lifespan import Opening
from deerflow.gateway.problems import not_ready

router = APIRouter(tags=["health"])


@router.get("/health")
async def health() -> dict[str, str]:
    """The process answers, whatever else it can do."""
    return {"status": "healthy", "service": "deerflow", "version": __version__}


@router.get("/ready")
async def ready(request: Request) -> Response:
    """200 when requests can be served, else 503."""
    opening: Opening = request.app.state.opening
    return JSONResponse({"status": "ready"}) if opening.ready else not_ready()
