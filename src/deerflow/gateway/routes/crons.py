"""Crons of the LangGraph protocol, over the scheduled tasks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from deerflow.gateway.deps import Caller, Gateway, Open, ThreadWrite, needs
from deerflow.gateway.routes.bodies import Body, Count, Ident, Json, Offset, RunBody
from deerflow.gateway.routes.running import settled
from deerflow.gateway.wire import LEAD, iso
from deerflow.runtime.planning import Task, task_of
from deerflow.runtime.schedules import MOST_SCHEDULES, Scheduler
from deerflow.runtime.wire_runs import request_of
from deerflow.storage.protocol import ScheduleRow

router = APIRouter(tags=["crons"])

Reader = Annotated[Caller, needs("threads:read")]
Writer = Annotated[Caller, needs("threads:write")]
PAYLOAD = ("assistant_id", "input", "config", "context", "webhook", "multitask_strategy")


class CronBody(RunBody):
    """A run that starts again and again."""

    schedule: str = Field(min_length=1, max_length=255)
    timezone: str | None = Field(None, max_length=255)
    end_time: str | None = Field(None, max_length=64)
    enabled: bool | None = None
    on_run_completed: Literal["delete", "keep"] | None = None


class CronPatch(RunBody):
    """What changes of a cron."""

    schedule: str | None = Field(None, min_length=1, max_length=255)
    timezone: str | None = Field(None, max_length=255)
    end_time: str | None = Field(None, max_length=64)
    enabled: bool | None = None
    on_run_completed: Literal["delete", "keep"] | None = None


class CronSearch(Body):
    """Which crons."""

    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: bool | None = None
    metadata: Json | None = None
    limit: Count = 10
    offset: Offset = 0
    sort_by: Literal[
        "cron_id",
        "assistant_id",
        "thread_id",
        "created_at",
        "updated_at",
        "next_run_date",
        "end_time",
    ] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None

    def fits(self, cron: dict[str, Any]) -> bool:
        """Whether a cron is asked for."""
        for name in ("assistant_id", "thread_id", "enabled"):
            asked = getattr(self, name)
            if asked is not None and cron[name] != asked:
                return False
        return all(cron["metadata"].get(k) == v for k, v in (self.metadata or {}).items())


@router.post("/runs/crons", summary="Start runs by a cron expression, each in a new thread")
async def create(given: CronBody, gate: Open, who: Writer) -> dict[str, Any]:
    """The cron."""
    return await _create(gate, who.user_id, who, None, given)


@router.post("/threads/{thread_id}/runs/crons", summary="Start runs of a thread by a cron")
async def create_for_thread(
    thread: ThreadWrite, given: CronBody, gate: Open, who: Writer
) -> dict[str, Any]:
    """The cron."""
    return await _create(gate, thread.user_id, who, thread.thread_id, given)


@router.post("/runs/crons/search", summary="Find crons")
async def search(given: CronSearch, gate: Open, who: Reader) -> list[dict[str, Any]]:
    """The caller's."""
    found = await _fitting(gate, who, given)
    key = given.sort_by
    found.sort(key=lambda cron: str(cron[key] or ""), reverse=given.sort_order == "desc")
    rows = found[given.offset : given.offset + given.limit]
    if given.select is None:
        return rows
    return [{k: v for k, v in row.items() if k in given.select} for row in rows]


@router.post("/runs/crons/count", summary="Count crons")
async def count(given: CronSearch, gate: Open, who: Reader) -> int:
    """How many a search would find."""
    return len(await _fitting(gate, who, given))


@router.patch("/runs/crons/{cron_id}", summary="Change a cron")
async def patch(cron_id: Ident, given: CronPatch, gate: Open, who: Writer) -> dict[str, Any]:
    """Fields that are not sent stay."""
    scheduler = _scheduler(gate)
    row = await scheduler.get(who.user_id, cron_id)
    before, sent = task_of(row), given.model_fields_set
    kept = dict(before.data)
    payload: dict[str, Any] = {**kept.get("payload", {}), **_payload(given, sent)}
    changes: dict[str, Any] = {}
    for name, field in (("schedule", "cron"), ("timezone", "zone"), ("end_time", "ends_at")):
        value = getattr(given, name)
        if name in sent and (value is not None or name == "end_time"):
            changes[field] = value
    if sent & {*PAYLOAD, "metadata"}:
        whole = RunBody.model_validate({**payload, "metadata": given.metadata})
        run = (await settled(gate, who, whole)).client_run()
        config = gate.runtime.harness.parts.config
        changes["request"] = request_of(
            run, user_id=who.user_id, thread_id=row.thread_id, config=config
        )
        changes["webhook"] = payload.get("webhook")
        kept |= {"payload": payload, "metadata": given.metadata or kept.get("metadata", {})}
        changes["metadata"] = kept["metadata"]
    if given.on_run_completed is not None:
        kept["on_run_completed"] = given.on_run_completed
        changes["keep"] = given.on_run_completed != "delete"
    row = await scheduler.edit(who.user_id, cron_id, **changes, data=kept)
    if given.enabled is not None:
        switch = scheduler.resume if given.enabled else scheduler.pause
        row = await switch(who.user_id, cron_id)
    return cron_dict(row)


@router.delete("/runs/crons/{cron_id}", status_code=204, summary="Remove a cron")
async def delete(cron_id: Ident, gate: Open, who: Writer) -> Response:
    """Runs that have begun stay."""
    await _scheduler(gate).delete(who.user_id, cron_id)
    return Response(status_code=204)


def cron_dict(row: ScheduleRow) -> dict[str, Any]:
    """A scheduled task as a cron."""
    task = task_of(row)
    payload: dict[str, Any] = task.data.get("payload", {})
    return {
        "cron_id": row.schedule_id,
        "assistant_id": payload.get("assistant_id") or task.request.agent_name or LEAD,
        "thread_id": row.thread_id,
        "on_run_completed": task.data.get("on_run_completed"),
        "end_time": task.ends_at,
        "schedule": task.cron,
        "timezone": task.zone,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "payload": payload,
        "user_id": row.user_id,
        "next_run_date": iso(row.next_at),
        "metadata": task.data.get("metadata", {}),
        "enabled": row.status == "active",
    }


async def _create(
    gate: Gateway, user_id: str, who: Caller, thread_id: str | None, given: CronBody
) -> dict[str, Any]:
    run = (await settled(gate, who, given)).client_run()
    config = gate.runtime.harness.parts.config
    task = Task(
        request_of(run, user_id=user_id, thread_id=thread_id, config=config),
        cron=given.schedule,
        zone=given.timezone or "UTC",
        ends_at=given.end_time,
        webhook=given.webhook,
        metadata=given.metadata or {},
        keep=given.on_run_completed != "delete",
        data={
            "payload": _payload(given, set(PAYLOAD)),
            "metadata": given.metadata or {},
            "on_run_completed": given.on_run_completed,
        },
    )
    return cron_dict(
        await _scheduler(gate).create(user_id, task, active=given.enabled is not False)
    )


def _payload(given: RunBody, names: set[str]) -> dict[str, Any]:
    """What of a request a client finds in the cron again; nothing secret."""
    found = {name: getattr(given, name) for name in PAYLOAD if name in names}
    context: dict[str, Any] | None = found.get("context")
    if context:
        hidden = ("secrets", "github_token")
        found["context"] = {k: v for k, v in context.items() if k not in hidden}
    return {name: value for name, value in found.items() if value is not None}


async def _fitting(gate: Gateway, who: Caller, given: CronSearch) -> list[dict[str, Any]]:
    rows = await _scheduler(gate).list(who.user_id, limit=MOST_SCHEDULES)
    crons = [cron_dict(row) for row in rows if row.kind == "cron"]
    return [cron for cron in crons if given.fits(cron)]


def _scheduler(gate: Gateway) -> Scheduler:
    return gate.runtime.schedules
