"""The configuration, read again while the process serves."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deerflow.gateway.auth.access import Access
from deerflow.gateway.deps import Caller, Open, needs
from deerflow.gateway.problems import plain_problem
from deerflow.gateway.reload import reload

router = APIRouter(prefix="/config", tags=["config"])


@router.post("/reload")
async def read_again(
    request: Request, gate: Open, who: Annotated[Caller, needs("admin")]
) -> Response:
    """Read the files of the configuration again, by content; runs under way end as they began.

    422 when a file is broken: the last good state stays in force, `problems` says why.
    """
    changed, loaded = await reload(gate.runtime.harness)
    await Access.of(gate).note("config_reload", who.user_id, request, changed=changed)
    if loaded.reload_problems:
        title = "The configuration is broken; the last good state stays in force."
        body = plain_problem(422, "bad_config", title, problems=list(loaded.reload_problems))
        return JSONResponse(body, status_code=422, media_type="application/problem+json")
    body: dict[str, Any] = {
        "changed": changed,
        "warnings": list(loaded.warnings),
        "sha256": loaded.source_sha256,
    }
    return JSONResponse(body)
