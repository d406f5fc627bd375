"""Runs of a thread: create, stream, wait, join, cancel, list."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response

from deerflow.errors import ConflictError, ForbiddenError
from deerflow.gateway.deps import Caller, Open, RunsOfThread, needs
from deerflow.gateway.routes.bodies import Count, Ident, Offset, RunBody
from deerflow.gateway.routes.running import (
    Found,
    Joining,
    RunCancel,
    RunDelete,
    RunRead,
    Streaming,
    asked_for,
    stream_of,
    submit,
    waited,
)
from deerflow.gateway.wire import run_dict

router = APIRouter(tags=["runs"])

Creator = Annotated[Caller, needs("runs:create")]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]
Action = Literal["interrupt", "rollback"]
RunStatus = Literal["pending", "running", "success", "error", "interrupted", "timeout"]


@router.post("/threads/{thread_id}/runs", summary="Create a run in the background")
async def create(
    thread_id: Ident, given: RunBody, gate: Open, who: Creator, response: Response, key: Key = None
) -> dict[str, Any]:
    """The run as it is accepted: it waits or runs when this is answered."""
    submitted = _of(
        thread_id, await submit(gate, who, thread_id, given, key=key, interactive=False)
    )
    response.headers["Content-Location"] = submitted.content_location
    return run_dict(submitted.run, submitted.thread.thread_id)


@router.post("/threads/{thread_id}/runs/stream", summary="Create a run and follow it")
async def create_and_stream(
    thread_id: Ident, given: RunBody, gate: Open, who: Creator, key: Key = None
) -> Response:
    """Server-sent events until the run has ended.

    A closed connection does not stop the run, unless `on_disconnect` is `cancel`.
    """
    wanted = asked_for(given.stream_mode, subgraphs=bool(given.stream_subgraphs))
    submitted = _of(thread_id, await submit(gate, who, thread_id, given, key=key))
    cancel = given.on_disconnect == "cancel"
    return await stream_of(gate, submitted, Streaming(wanted, cancel=cancel))


@router.post("/threads/{thread_id}/runs/wait", summary="Create a run and wait for its result")
async def create_and_wait(
    thread_id: Ident, given: RunBody, gate: Open, who: Creator, key: Key = None
) -> Response:
    """The thread's values after the run, or `{"__error__": …}`."""
    submitted = _of(thread_id, await submit(gate, who, thread_id, given, key=key))
    return waited(gate, submitted, cancel=given.on_disconnect == "cancel")


@router.get("/threads/{thread_id}/runs", summary="List the runs of a thread")
async def listing(
    thread: RunsOfThread,
    gate: Open,
    limit: Count = 10,
    offset: Offset = 0,
    status: RunStatus | None = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> list[dict[str, Any]]:
    """Newest first."""
    runs = gate.runtime.submissions.runs
    found = await runs(thread.user_id, thread.thread_id, limit=limit, offset=offset, status=status)
    rows = [run_dict(row, thread.thread_id) for row in found]
    return [{k: v for k, v in row.items() if k in select} for row in rows] if select else rows


@router.get("/threads/{thread_id}/runs/{run_id}", summary="A run")
async def get(found: RunRead) -> dict[str, Any]:
    """Its row."""
    return run_dict(found.run, found.thread.thread_id)


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204, summary="Remove a run")
async def delete(found: RunDelete, gate: Open) -> Response:
    """Remove an ended run from list and log."""
    await gate.runtime.submissions.delete_run(*found.names)
    return Response(status_code=204)


@router.post("/threads/{thread_id}/runs/{run_id}/cancel", status_code=202, summary="Stop a run")
async def cancel(
    found: RunCancel, gate: Open, wait: bool = False, action: Action = "interrupt"
) -> Response:
    """202 at once, or 204 when it has ended (`wait=1`); 409 when it had ended before."""
    await gate.runtime.submissions.cancel(*found.names, action, wait=wait)
    return Response(status_code=204 if wait else 202)


@router.get("/threads/{thread_id}/runs/{run_id}/join", summary="Wait for a run")
async def join(
    found: RunRead, how: Joining, gate: Open, accept: Annotated[str, Header()] = "*/*"
) -> Response:
    """Values of the thread when the run has ended.

    Those who accept `text/event-stream` or send `Last-Event-ID` get its stream.
    """
    if how.last is not None or "text/event-stream" in accept:
        return await stream_of(gate, found, how)
    return waited(gate, found, cancel=how.cancel)


@router.get("/threads/{thread_id}/runs/{run_id}/stream", summary="Follow a run")
async def stream(found: RunRead, how: Joining, gate: Open) -> Response:
    """Its stream from `Last-Event-ID` on, without one from the beginning."""
    return await stream_of(gate, found, how)


@router.post("/threads/{thread_id}/runs/{run_id}/stream", summary="Stop a run and follow its end")
async def cancel_and_stream(
    found: RunRead,
    how: Joining,
    gate: Open,
    who: Annotated[Caller, needs("runs:read")],
    action: Action | None = None,
    wait: bool = False,
) -> Response:
    """Its stream; with `action` the run is asked to stop first, with `wait=1` too it ends first."""
    if action is not None:
        if not who.may("runs:cancel"):
            raise ForbiddenError("This needs the permission runs:cancel.")
        await gate.runtime.submissions.cancel(*found.names, action, wait=wait)
    return await stream_of(gate, found, how)


def _of(thread_id: str, found: Found) -> Found:
    """The run that was handed in.

    Raises:
        ConflictError: the Idempotency-Key is that of a run of another thread.
    """
    if found.thread.thread_id != thread_id:
        raise ConflictError(
            "The Idempotency-Key belongs to a run of another thread.",
            cure="Send a new key with every new request.",
        )
    return found
