"""`/health`: the process answers. `/ready`: it can do its work."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deerflow import __version__
from deerflow.errors import StorageError
from deerflow.gateway.lifespan import Opening
from deerflow.gateway.problems import not_ready

DATABASE_SECONDS = 2.0
"""How long the database may take to answer a simple question."""

router = APIRouter(tags=["health"])


@router.get("/health")
async def health() -> dict[str, str]:
    """The process answers, whatever else it can do."""
    return {"status": "healthy", "service": "deerflow", "version": __version__}


@router.get("/ready")
async def ready(request: Request) -> Response:
    """200 when requests can be served, else 503: it opens, ends, or its database is silent."""
    opening: Opening = request.app.state.opening
    if not opening.ready or opening.gateway is None:
        return not_ready()
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            await opening.gateway.runtime.harness.storage.accounts.has_admin()
    except (StorageError, TimeoutError):
        return not_ready(5)
    return JSONResponse({"status": "ready"})
