"""Turns of a thread, answered again or gone on with in another thread; its goal; compaction."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from deerflow.gateway.deps import Gateway, Open, ThreadRead, ThreadWrite, own_thread
from deerflow.gateway.frames.follow import beginning
from deerflow.gateway.routes.bodies import Body, Ident, Metadata
from deerflow.gateway.routes.threads import branches_of
from deerflow.gateway.transcript import EventQuery, events_of
from deerflow.gateway.wire import thread_dict
from deerflow.runtime.branching import LONGEST_TEXT
from deerflow.runtime.goals import LONGEST, MOST_CONTINUATIONS, SessionGoal
from deerflow.runtime.request import RunRequest
from deerflow.runtime.wire_runs import LEAD
from deerflow.storage.protocol import RunRow, ThreadRow

router = APIRouter(tags=["turns"])

ThreadRun = Annotated[ThreadRow, Depends(own_thread("runs:create"))]
COMPACT_SECONDS = 120
"""A summary that takes longer goes on by itself; the answer says so."""


class RegenerateBody(Body):
    """Any message of the latest turn."""

    message_id: Ident


class EditBody(Body):
    """The user's message of the latest turn, and what it is to say."""

    human_message_id: Ident
    replacement_text: str = Field(min_length=1, max_length=LONGEST_TEXT)


class BranchBody(Body):
    """Any message of the turn that the new thread goes on from."""

    message_id: Ident | None = None
    message_ids: list[Ident] = Field(default_factory=list, max_length=1000)
    title: str | None = Field(None, max_length=1000)
    thread_id: Ident | None = None
    metadata: Metadata | None = None


class GoalBody(Body):
    """An objective, and how often the agent is sent on for it."""

    objective: str = Field(min_length=1, max_length=LONGEST)
    max_continuations: int = Field(MOST_CONTINUATIONS, ge=1, le=MOST_CONTINUATIONS)


class CompactBody(Body):
    """How to compact."""

    force: bool = True
    hint: str = Field("", max_length=2000, description="What must not get lost.")
    agent_name: str | None = Field(None, max_length=255)
    model_name: str | None = Field(None, max_length=255)


class Rerun(BaseModel):
    """What to send as a new run: `input`, `checkpoint` and `metadata`."""

    input: dict[str, Any]
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    target_run_id: str
    source_message_ids: list[str]


class EditedRerun(Rerun):
    """With the id that the replaced message gets."""

    replacement_human_message_id: str


class Goal(BaseModel):
    """objective, status, continuation_count, max_continuations, reason, run_id; or null."""

    goal: dict[str, Any] | None


class Compacted(BaseModel):
    """Whether older messages are sent as a summary from now on; `reason` is a sentence."""

    compacted: bool
    reason: str
    run_id: str
    messages: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None


@router.post(
    "/threads/{thread_id}/runs/regenerate/prepare", summary="Prepare the latest turn to run again"
)
async def regenerate(thread: ThreadRun, given: RegenerateBody, gate: Open) -> Rerun:
    """Nothing is changed; 409 for an earlier turn, or while a run is active."""
    found = await branches_of(gate).regenerate(thread, given.message_id)
    return Rerun(
        input=found.input,
        checkpoint=found.checkpoint,
        metadata=found.metadata,
        target_run_id=found.target_run_id,
        source_message_ids=list(found.source_message_ids),
    )


@router.post(
    "/threads/{thread_id}/runs/edit-regenerate/prepare",
    summary="Prepare the latest turn to run again with other words",
)
async def edit(thread: ThreadRun, given: EditBody, gate: Open) -> EditedRerun:
    """Attachments of the message stay. Nothing is changed."""
    found = await branches_of(gate).edit(thread, given.human_message_id, given.replacement_text)
    return EditedRerun(
        input=found.input,
        checkpoint=found.checkpoint,
        metadata=found.metadata,
        target_run_id=found.target_run_id,
        source_message_ids=list(found.source_message_ids),
        replacement_human_message_id=found.replacement_id,
    )


@router.post("/threads/{thread_id}/branches", summary="Go on from a turn in another thread")
async def branch(thread: ThreadWrite, given: BranchBody, gate: Open) -> dict[str, Any]:
    """The new thread, with `parent_thread_id`; 404 when the thread has no such message."""
    named = [*([given.message_id] if given.message_id else []), *given.message_ids]
    made = await branches_of(gate).branch(
        thread,
        named[0] if named else "",
        title=given.title,
        thread_id=given.thread_id,
        metadata=given.metadata,
    )
    return {**thread_dict(made), "parent_thread_id": thread.thread_id}


@router.get("/threads/{thread_id}/goal", summary="The goal of a thread")
async def goal(thread: ThreadRead, gate: Open) -> Goal:
    """Null without one."""
    return Goal(goal=await gate.runtime.histories.goal(thread))


@router.put("/threads/{thread_id}/goal", summary="Set the goal of a thread")
async def set_goal(thread: ThreadWrite, given: GoalBody, gate: Open) -> Goal:
    """The thread's next run pursues it; 409 while a run is active."""
    asked = SessionGoal(given.objective, given.max_continuations)
    return Goal(goal=await gate.runtime.histories.set_goal(thread, asked))


@router.delete("/threads/{thread_id}/goal", summary="Drop the goal of a thread")
async def clear_goal(thread: ThreadWrite, gate: Open) -> Goal:
    """409 while a run is active."""
    await gate.runtime.histories.clear_goal(thread)
    return Goal(goal=None)


@router.post("/threads/{thread_id}/compact", summary="Send older messages as a summary")
async def compact(thread: ThreadWrite, given: CompactBody, gate: Open) -> Compacted:
    """A short run that writes the summary; what was said stays in the history.

    409 while a run is active.
    """
    request = RunRequest(
        f"/compact {given.hint}".strip(),
        thread_id=thread.thread_id,
        user_id=thread.user_id,
        model=given.model_name,
        agent_name="" if given.agent_name in (None, LEAD) else given.agent_name,
    )
    run = (await gate.runtime.submissions.submit(request)).run
    try:
        async with asyncio.timeout(COMPACT_SECONDS):
            run = await gate.runtime.submissions.wait(thread.thread_key, run.run_id)
    except TimeoutError:
        return Compacted(compacted=False, reason="The summary is still written.", run_id=run.run_id)
    return await _compacted(gate, thread, run)


async def _compacted(gate: Gateway, thread: ThreadRow, run: RunRow) -> Compacted:
    """What the log says of it."""
    if run.error:
        reason = str(run.error.get("message") or "The run failed.")
        return Compacted(compacted=False, reason=reason, run_id=run.run_id)
    storage = gate.runtime.harness.storage
    now = await storage.threads.by_key(thread.thread_key) or thread
    first = await beginning(storage, now, run.created_at)
    query = EventQuery(frozenset({"compacted"}), None, 10, 0)
    found = await events_of(storage, now, run.run_id, first, query)
    if not found:
        reason = "There is nothing to compact yet."
        return Compacted(compacted=False, reason=reason, run_id=run.run_id)
    told: dict[str, Any] = found[-1]["content"]
    numbers = {name: told[name] for name in ("messages", "tokens_before", "tokens_after")}
    reason = "{messages} messages became a summary.".format(**numbers)
    return Compacted(compacted=True, reason=reason, run_id=run.run_id, **numbers)
