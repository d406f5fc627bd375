"""Tasks that start by themselves: once at a time, or again and again by a cron expression."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from deerflow.gateway.deps import Caller, Gateway, Open, ThreadRead, needs
from deerflow.gateway.routes.bodies import Body, Count, Ident, Json, Metadata, Offset
from deerflow.gateway.wire import WIRE_STATUS, iso
from deerflow.runtime.planning import LONGEST_TITLE, CatchUp, Task, task_of
from deerflow.runtime.wire_runs import LEAD, ClientRun, request_of
from deerflow.storage.protocol import RunRow, ScheduledRun, ScheduleRow

router = APIRouter(tags=["scheduled tasks"])

Reader = Annotated[Caller, needs("threads:read")]
Writer = Annotated[Caller, needs("threads:write")]
Title = Annotated[str, Field(max_length=LONGEST_TITLE)]
Prompt = Annotated[str, Field(min_length=1, max_length=1_000_000)]
Zone = Annotated[str, Field(min_length=1, max_length=64)]
Moment = Annotated[str, Field(max_length=64)]
Expression = Annotated[str, Field(max_length=255)]

TIMES = {
    "cron": "cron",
    "run_at": "at",
    "timezone": "zone",
    "starts_at": "starts_at",
    "ends_at": "ends_at",
    "catch_up": "catch_up",
    "title": "title",
    "webhook": "webhook",
    "metadata": "metadata",
}
"""Fields of the wire that are fields of `planning.Task`."""
ASKED = ("prompt", "thread_id", "agent_name", "model_name", "context")
"""Fields of the wire that make its request."""


class TaskBody(Body):
    """What is to be done, and when: exactly one of `cron` and `run_at`.

    `run_at`, `starts_at` and `ends_at` are ISO 8601, without an offset local to `timezone`.
    Without `thread_id` each run gets a thread of its own.
    """

    title: Title = ""
    prompt: Prompt
    cron: Expression | None = None
    run_at: Moment | None = None
    timezone: Zone = "UTC"
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    catch_up: CatchUp = "skip"
    thread_id: Ident | None = None
    agent_name: str | None = Field(None, max_length=255)
    model_name: str | None = Field(None, max_length=255)
    context: Json | None = None
    webhook: str | None = Field(None, max_length=2048)
    metadata: Metadata = Field(default_factory=dict)
    enabled: bool = True


class TaskPatch(Body):
    """What changes of a task; fields that are not sent stay."""

    title: Title | None = None
    prompt: Prompt | None = None
    cron: Expression | None = None
    run_at: Moment | None = None
    timezone: Zone | None = None
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    catch_up: CatchUp | None = None
    thread_id: Ident | None = None
    agent_name: str | None = Field(None, max_length=255)
    model_name: str | None = Field(None, max_length=255)
    context: Json | None = None
    webhook: str | None = Field(None, max_length=2048)
    metadata: Metadata | None = None


class ScheduledTask(BaseModel):
    """A task; times are ISO 8601 in UTC, null when there is none."""

    id: str
    title: str
    prompt: str
    kind: Literal["once", "cron"]
    cron: str | None
    run_at: str | None
    timezone: str
    starts_at: str | None
    ends_at: str | None
    catch_up: CatchUp
    thread_id: str | None
    agent_name: str
    model_name: str | None
    webhook: str | None
    metadata: dict[str, Any]
    status: Literal["active", "paused", "done"]
    next_run_at: str | None
    created_at: str | None
    updated_at: str | None


class Occurrence(BaseModel):
    """A start: when it was meant, its run, and what became of it."""

    task_id: str
    scheduled_for: str | None
    run_id: str | None
    thread_id: str | None
    status: str | None
    note: str
    created_at: str | None


@router.get("/scheduled-tasks", summary="List my scheduled tasks")
async def listing(
    gate: Open, who: Reader, limit: Count = 100, offset: Offset = 0
) -> list[ScheduledTask]:
    """Newest first; crons of the LangGraph protocol are among them."""
    rows = await gate.runtime.schedules.list(who.user_id, limit=limit, offset=offset)
    return [_shown(row) for row in rows]


@router.post("/scheduled-tasks", summary="Plan a task")
async def create(given: TaskBody, gate: Open, who: Writer) -> ScheduledTask:
    """422 when its times are wrong, or scheduled tasks are off on this server."""
    fields = {theirs: getattr(given, ours) for ours, theirs in TIMES.items()}
    asked = {name: getattr(given, name) for name in ASKED}
    task = Task(_request(gate, who, asked), data={"asked": asked}, **fields)
    return _shown(await gate.runtime.schedules.create(who.user_id, task, active=given.enabled))


@router.get("/scheduled-tasks/{task_id}", summary="A scheduled task")
async def get(task_id: Ident, gate: Open, who: Reader) -> ScheduledTask:
    """With the time of its next start."""
    return _shown(await gate.runtime.schedules.get(who.user_id, task_id))


@router.patch("/scheduled-tasks/{task_id}", summary="Change a scheduled task")
async def patch(task_id: Ident, given: TaskPatch, gate: Open, who: Writer) -> ScheduledTask:
    """A task that is done is planned anew. `cron` replaces `run_at`, and the other way round."""
    scheduler = gate.runtime.schedules
    before = task_of(await scheduler.get(who.user_id, task_id))
    sent = given.model_fields_set
    changes: dict[str, Any] = {}
    for ours, theirs in TIMES.items():
        value = getattr(given, ours)
        if ours in sent and (value is not None or ours in ("starts_at", "ends_at", "webhook")):
            changes[theirs] = value
    if "cron" in changes:
        changes.setdefault("at", None)
    elif "at" in changes:
        changes |= {"cron": None, "starts_at": None, "ends_at": None}
    if sent & {*ASKED}:
        asked = _asked(before) | {name: getattr(given, name) for name in ASKED if name in sent}
        changes["request"] = _request(gate, who, asked)
        changes["data"] = {**before.data, "asked": asked}
    return _shown(await scheduler.edit(who.user_id, task_id, **changes))


@router.post("/scheduled-tasks/{task_id}/pause", summary="Pause a scheduled task")
async def pause(task_id: Ident, gate: Open, who: Writer) -> ScheduledTask:
    """What has begun goes on."""
    return _shown(await gate.runtime.schedules.pause(who.user_id, task_id))


@router.post("/scheduled-tasks/{task_id}/resume", summary="Go on with a scheduled task")
async def resume(task_id: Ident, gate: Open, who: Writer) -> ScheduledTask:
    """What was due meanwhile is not made up for."""
    return _shown(await gate.runtime.schedules.resume(who.user_id, task_id))


@router.post("/scheduled-tasks/{task_id}/trigger", summary="Start a scheduled task now")
async def trigger(task_id: Ident, gate: Open, who: Writer) -> Occurrence:
    """Beside its plan."""
    entry = await gate.runtime.schedules.trigger(who.user_id, task_id)
    return _start(entry, await gate.runtime.harness.storage.threads.run(entry.run_id))


@router.delete("/scheduled-tasks/{task_id}", status_code=204, summary="Remove a scheduled task")
async def delete(task_id: Ident, gate: Open, who: Writer) -> Response:
    """With its history; runs that have begun stay."""
    await gate.runtime.schedules.delete(who.user_id, task_id)
    return Response(status_code=204)


@router.get("/scheduled-tasks/{task_id}/runs", summary="Starts of a scheduled task")
async def starts(task_id: Ident, gate: Open, who: Reader, limit: Count = 50) -> list[Occurrence]:
    """Newest first."""
    found = await gate.runtime.schedules.history(who.user_id, task_id, limit=limit)
    return [_start(entry, run) for entry, run in found]


@router.get("/threads/{thread_id}/scheduled-tasks", summary="Scheduled tasks of a thread")
async def of_thread(thread: ThreadRead, gate: Open, limit: Count = 100) -> list[ScheduledTask]:
    """Those that run in it."""
    rows = await gate.runtime.schedules.list(
        thread.user_id, thread_id=thread.thread_id, limit=limit
    )
    return [_shown(row) for row in rows]


def _request(gate: Gateway, who: Caller, asked: dict[str, Any]) -> Any:
    """The run that a task starts. Raises UsageError for a context of the wrong form."""
    context: dict[str, Any] = {**(asked["context"] or {})}
    if asked["model_name"]:
        context["model_name"] = asked["model_name"]
    run = ClientRun(
        assistant_id=asked["agent_name"],
        input={"messages": [{"type": "human", "content": asked["prompt"] or ""}]},
        context=context,
    )
    config = gate.runtime.harness.parts.config
    return request_of(run, user_id=who.user_id, thread_id=asked["thread_id"], config=config)


def _asked(task: Task) -> dict[str, Any]:
    """What the task was asked for; of a cron, what its request says."""
    kept = task.data.get("asked")
    if kept is not None:
        return dict(kept)
    request = task.request
    return {
        "prompt": request.task,
        "thread_id": request.thread_id,
        "agent_name": request.agent_name or None,
        "model_name": request.model,
        "context": request.context,
    }


def _shown(row: ScheduleRow) -> ScheduledTask:
    task = task_of(row)
    return ScheduledTask(
        id=row.schedule_id,
        title=task.title,
        prompt=task.request.task,
        kind=row.kind,
        cron=task.cron,
        run_at=task.at,
        timezone=task.zone,
        starts_at=task.starts_at,
        ends_at=task.ends_at,
        catch_up=task.catch_up,
        thread_id=row.thread_id,
        agent_name=task.request.agent_name or LEAD,
        model_name=task.request.model,
        webhook=task.webhook,
        metadata=task.metadata,
        status=row.status,
        next_run_at=iso(row.next_at),
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def _start(entry: ScheduledRun, run: RunRow | None) -> Occurrence:
    return Occurrence(
        task_id=entry.schedule_id,
        scheduled_for=iso(entry.occurrence),
        run_id=entry.run_id or None,
        thread_id=entry.thread_id or None,
        status=WIRE_STATUS.get(run.status, run.status) if run is not None else None,
        note=entry.note,
        created_at=iso(entry.created_at),
    )
