"""Tool calls that wait for the caller."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from deerflow.errors import NotFoundError
from deerflow.gateway.deps import Caller, Open, ThreadRead, needs
from deerflow.gateway.routes.bodies import Body, Count, Ident, Json
from deerflow.gateway.wire import iso
from deerflow.guardrails.approvals import NOTE_LIMIT
from deerflow.storage.protocol import ApprovalRow, Decision

router = APIRouter(tags=["approvals"])

Reader = Annotated[Caller, needs("threads:read")]
Status = Literal["pending", "approved", "rejected", "expired", "superseded", "all"]


class DecisionBody(Body):
    """Whether the call may run, perhaps with other arguments."""

    decision: Literal["approve", "reject"]
    args: Json | None = None
    reason: str = Field("", max_length=NOTE_LIMIT)


class Approval(BaseModel):
    """A call with what became of it; `default` is what expiry means."""

    approval_id: str
    thread_id: str
    run_id: str
    agent: str
    tool: str
    args: dict[str, Any]
    reason: str
    default: Literal["deny", "allow"]
    status: str
    created_at: str | None
    expires_at: str | None
    decided_at: str | None
    decided_by: str
    edited: dict[str, Any] | None
    note: str


@router.get("/approvals", summary="Calls that wait for me")
async def listing(
    gate: Open, who: Reader, status: Status = "pending", limit: Count = 100
) -> list[Approval]:
    """Over all threads, oldest first."""
    approvals = gate.runtime.harness.storage.approvals
    wanted = None if status == "all" else status
    return [_shown(row) for row in await approvals.list(who.user_id, status=wanted, limit=limit)]


@router.get("/threads/{thread_id}/approvals", summary="Calls of a thread that wait for me")
async def of_thread(
    thread: ThreadRead, gate: Open, status: Status = "pending", limit: Count = 100
) -> list[Approval]:
    """Oldest first."""
    rows = await gate.runtime.harness.storage.approvals.list(
        thread.user_id,
        thread_key=thread.thread_key,
        status=None if status == "all" else status,
        limit=limit,
    )
    return [_shown(row) for row in rows]


@router.get("/approvals/{approval_id}", summary="A call that waits, or waited")
async def get(approval_id: Ident, gate: Open, who: Reader) -> Approval:
    """By its whole id."""
    row = await gate.runtime.harness.storage.approvals.get(who.user_id, approval_id)
    if row is None:
        raise NotFoundError(f"There is no approval {approval_id[:80]!r}.")
    return _shown(row)


@router.post("/approvals/{approval_id}", summary="Decide over a call that waits")
async def decide(
    approval_id: Ident,
    given: DecisionBody,
    gate: Open,
    who: Annotated[Caller, needs("runs:create")],
) -> Approval:
    """The first decision counts; the run goes on with the last one that it waits for."""
    yes = given.decision == "approve"
    decision = Decision(
        "approved" if yes else "rejected",
        who.user_id,
        time.time(),
        given.args if yes else None,
        "" if yes else given.reason,
    )
    return _shown(await gate.runtime.submissions.decide(who.user_id, approval_id, decision))


def _shown(row: ApprovalRow) -> Approval:
    return Approval(
        approval_id=row.approval_id,
        thread_id=row.thread_id,
        run_id=row.run_id,
        agent=row.namespace or "lead",
        tool=row.tool,
        args=row.args,
        reason=row.reason,
        default=row.default,
        status=row.status,
        created_at=iso(row.created_at),
        expires_at=iso(row.expires_at),
        decided_at=iso(row.decided_at),
        decided_by=row.decided_by,
        edited=row.edited,
        note=row.note,
    )
