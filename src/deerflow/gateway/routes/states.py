"""States of a thread: the newest, earlier ones, and changes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from deerflow.errors import UsageError
from deerflow.gateway.deps import Open, ThreadRead, ThreadWrite
from deerflow.gateway.routes.bodies import (
    CheckpointBody,
    HistoryBody,
    Ident,
    StateBody,
    checkpoint_id,
)
from deerflow.gateway.wire import state_dict
from deerflow.runtime.history import Snapshot
from deerflow.storage.protocol import ThreadRow

router = APIRouter(tags=["threads"])


@router.get("/threads/{thread_id}/state", summary="The newest state of a thread")
async def get(thread: ThreadRead, gate: Open) -> dict[str, Any]:
    """Values, what is due, and what waits for a human."""
    return state_dict(await gate.runtime.histories.state(thread), thread)


@router.get("/threads/{thread_id}/state/{checkpoint}", summary="A state of a thread")
async def get_at(thread: ThreadRead, checkpoint: Ident, gate: Open) -> dict[str, Any]:
    """The state of a checkpoint."""
    return state_dict(await gate.runtime.histories.state(thread, checkpoint), thread)


@router.post("/threads/{thread_id}/state/checkpoint", summary="A state of a thread by reference")
async def post_at(thread: ThreadRead, given: CheckpointBody, gate: Open) -> dict[str, Any]:
    """The state of a checkpoint, named as clients get it from a history."""
    found = await gate.runtime.histories.state(thread, checkpoint_id(given.checkpoint))
    return state_dict(found, thread)


@router.post("/threads/{thread_id}/state", summary="Change the state of a thread")
async def update(thread: ThreadWrite, given: StateBody, gate: Open) -> dict[str, Any]:
    """Title, messages, artifacts or todos; 409 while a run is active."""
    values = given.values or {}
    if isinstance(values, list):
        merged: dict[str, Any] = {}
        for part in values:
            merged |= part
        values = merged
    found = await gate.runtime.histories.update(
        thread,
        values,
        as_node=given.as_node,
        checkpoint_id=given.checkpoint_id or checkpoint_id(given.checkpoint),
    )
    return state_dict(found, thread)


@router.post("/threads/{thread_id}/history", summary="States of a thread, newest first")
async def history(thread: ThreadRead, given: HistoryBody, gate: Open) -> list[dict[str, Any]]:
    """[] for a thread without a state.

    A single state carries no `checkpoint`: clients would send it back with every new run, and fork
    the thread there.
    """
    if given.checkpoint and given.checkpoint.get("checkpoint_ns"):
        return []  # of a child: its states are not kept beyond its run
    found = await _states(thread, given, gate)
    answer = [state_dict(snapshot, thread) for snapshot in found]
    if given.limit == 1:
        for state in answer:
            del state["checkpoint"]
    return answer


async def _states(thread: ThreadRow, given: HistoryBody, gate: Open) -> list[Snapshot]:
    histories = gate.runtime.histories
    before, at = checkpoint_id(given.before), checkpoint_id(given.checkpoint)
    if before and at:
        raise UsageError("Give `before` or `checkpoint`, not both.")
    if at is None:
        return await histories.history(
            thread, limit=given.limit, before=before, metadata=given.metadata
        )
    first = await histories.state(thread, at)
    rest = await histories.history(thread, limit=given.limit, before=at, metadata=given.metadata)
    return [*([first] if first is not None else []), *rest][: given.limit]
