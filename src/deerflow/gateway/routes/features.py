"""What of the optional parts this server offers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow.gateway.deps import Caller, Open, needs
from deerflow.gateway.routes.models import Switch

router = APIRouter(tags=["features"])


class Features(BaseModel):
    """Each part with its switch."""

    agents_api: Switch
    browser_control: Switch
    mcp_tasks: Switch
    scheduled_tasks: Switch
    memory: Switch


@router.get("/features", summary="What this server offers")
async def get(gate: Open, who: Annotated[Caller, needs("account:read")]) -> Features:
    """Clients hide what is off."""
    harness = gate.runtime.harness
    config = harness.loaded.config
    off = Switch(enabled=False)
    return Features(
        agents_api=Switch(enabled=config.agents_api.enabled),
        browser_control=off,
        mcp_tasks=off,
        scheduled_tasks=Switch(enabled=config.scheduler.enabled),
        memory=Switch(enabled=harness.memory is not None),
    )
