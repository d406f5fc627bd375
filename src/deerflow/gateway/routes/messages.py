"""What was said in a thread, and what happened in its runs, from the event log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from deerflow.gateway.deps import Caller, Open, RunsOfThread, needs
from deerflow.gateway.frames.places import beginning
from deerflow.gateway.routes.bodies import Ident
from deerflow.gateway.routes.running import Found, RunRead
from deerflow.gateway.transcript import EventQuery, Transcript, events_of
from deerflow.gateway.wire import iso

router = APIRouter(tags=["messages"])

Limit = Annotated[int, Query(ge=1, le=200)]
Before = Annotated[int | None, Query(ge=1, le=2**62)]
After = Annotated[int, Query(ge=0, le=2**62)]
MOST = 1_000
"""Messages that one call gives at most."""


@router.get("/threads/{thread_id}/messages", summary="Messages of a thread")
async def of_thread(
    thread: RunsOfThread,
    gate: Open,
    limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
    before_seq: Before = None,
) -> list[dict[str, Any]]:
    """The newest ones in order, over all runs, with the feedback that runs have."""
    storage = gate.runtime.harness.storage
    page = await Transcript(storage, thread).before(before_seq, limit)
    given = await storage.documents.feedback(thread.thread_key)
    feedback = {
        row.run_id: {
            "feedback_id": row.feedback_id,
            "rating": row.rating,
            "created_at": iso(row.created_at),
            **row.data,
        }
        for row in given
    }
    return [{**entry, "feedback": feedback.get(entry["run_id"])} for entry in page.data]


@router.get("/threads/{thread_id}/messages/page", summary="A page of messages, backwards")
async def page(
    thread: RunsOfThread, gate: Open, before_seq: Before = None, limit: Limit = 50
) -> dict[str, Any]:
    """The messages before `before_seq`, ascending; `next_before_seq` is null on the first page."""
    transcript = Transcript(gate.runtime.harness.storage, thread)
    return (await transcript.before(before_seq, limit)).as_dict()


@router.get("/threads/{thread_id}/runs/{run_id}/messages", summary="Messages of a run")
async def of_run(
    found: RunRead, gate: Open, before_seq: Before = None, limit: Limit = 200
) -> dict[str, Any]:
    """Like `messages/page`, of one run."""
    return await _of_run(found, gate, before_seq, limit)


@router.get("/runs/{run_id}/messages", summary="Messages of a run by its id alone")
async def of_run_alone(
    run_id: Ident,
    gate: Open,
    who: Annotated[Caller, needs("runs:read")],
    before_seq: Before = None,
    limit: Limit = 200,
) -> dict[str, Any]:
    """Like `messages/page`, of one run."""
    found = Found(*await gate.runtime.submissions.find(who.user_id, run_id))
    return await _of_run(found, gate, before_seq, limit)


@router.get("/threads/{thread_id}/runs/{run_id}/events", summary="Events of a run")
async def events(
    found: RunRead,
    gate: Open,
    event_types: str = "",
    task_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    after_seq: After = 0,
) -> list[dict[str, Any]]:
    """The run's log in order.

    `event_types` is a list with commas; `task_id` the call that a child works for.
    """
    storage = gate.runtime.harness.storage
    first = await beginning(storage, found.thread, found.run.created_at)
    types = frozenset(name.strip() for name in event_types.split(",") if name.strip())
    query = EventQuery(types, task_id, limit, after_seq)
    return await events_of(storage, found.thread, found.run.run_id, first, query)


async def _of_run(found: Found, gate: Open, before_seq: int | None, limit: int) -> dict[str, Any]:
    transcript = Transcript(gate.runtime.harness.storage, found.thread)
    page = await transcript.before(before_seq, limit, run_id=found.run.run_id)
    return page.as_dict()
