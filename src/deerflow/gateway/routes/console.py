"""Figures over the caller's threads and runs, for a dashboard."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from deerflow.gateway.consumption import Consumption, added
from deerflow.gateway.deps import Caller, Gateway, Open, needs
from deerflow.gateway.routes.bodies import Count
from deerflow.gateway.routes.runs import RunStatus
from deerflow.gateway.wire import WIRE_STATUS, run_dict
from deerflow.runtime.occurrences import zone_of
from deerflow.storage.protocol import RunRow, ThreadQuery, ThreadRow

router = APIRouter(prefix="/console", tags=["console"])

Reader = Annotated[Caller, needs("runs:read")]
Days = Annotated[int, Query(ge=1, le=366)]
Zone = Annotated[str, Query(max_length=64)]
DAY = 86_400
PAGE = 500
MOST_RUNS = 50_000
"""Newest runs that figures are made of."""


class Stats(BaseModel):
    """Headline figures of the last `days` days; `success_rate` is null without an ended run."""

    days: int
    threads: int
    runs: int
    runs_today: int
    active_runs: int
    runs_by_status: dict[str, int]
    success_rate: float | None
    total_tokens: int
    total_input_tokens: int
    total_output_tokens: int
    model_calls: int
    cost: dict[str, float]


class RunPage(BaseModel):
    """Runs across threads, newest first; `next_before` is null on the last page."""

    runs: list[dict[str, Any]]
    has_more: bool
    next_before: float | None


class DayUsage(BaseModel):
    """A local day (ISO 8601)."""

    date: str
    runs: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost: dict[str, float]


class Usage(BaseModel):
    """Tokens by local day, the oldest first and without gaps, and by model."""

    timezone: str
    days: list[DayUsage]
    by_model: dict[str, dict[str, Any]]
    by_caller: dict[str, int]


@router.get("/stats", summary="Headline figures")
async def stats(gate: Open, who: Reader, days: Days = 30, timezone: Zone = "UTC") -> Stats:
    """Of the caller's own runs."""
    zone, total = await _zone(timezone), Consumption()
    statuses, today = Counter[str](), 0
    now = datetime.now(zone).date()
    async for _, run in _recent(gate, who, time.time() - days * DAY):
        added(total, run.usage)
        statuses[_status(run)] += 1
        today += _day(run, zone) == now
    ended = sum(count for name, count in statuses.items() if name not in ("pending", "running"))
    return Stats(
        days=days,
        threads=await gate.runtime.harness.storage.threads.count(who.user_id, ThreadQuery()),
        runs=statuses.total(),
        runs_today=today,
        active_runs=statuses["pending"] + statuses["running"],
        runs_by_status=dict(statuses),
        success_rate=round(statuses["success"] / ended, 4) if ended else None,
        total_tokens=total.input + total.output,
        total_input_tokens=total.input,
        total_output_tokens=total.output,
        model_calls=total.calls,
        cost=total.cost,
    )


@router.get("/runs", summary="Runs across all threads")
async def runs(
    gate: Open,
    who: Reader,
    limit: Count = 50,
    before: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
    status: RunStatus | None = None,
) -> RunPage:
    """Newest first; `before` is the `next_before` of the page before."""
    wanted, found, last = limit + 1, list[tuple[ThreadRow, RunRow]](), before
    while len(found) < wanted:
        page = await gate.runtime.harness.storage.queue.of_user(
            who.user_id, limit=PAGE, before=last
        )
        found += [pair for pair in page if status in (None, _status(pair[1]))]
        if len(page) < PAGE:
            break
        last = page[-1][1].created_at
    shown, more = found[:limit], len(found) > limit
    return RunPage(
        runs=[
            {**run_dict(run, thread.thread_id), "thread_title": thread.title}
            for thread, run in shown
        ],
        has_more=more,
        next_before=shown[-1][1].created_at if more and shown else None,
    )


@router.get("/usage", summary="Tokens by day and by model")
async def usage(gate: Open, who: Reader, days: Days = 30, timezone: Zone = "UTC") -> Usage:
    """Of the last so many local days, today included; a run counts on the day of its creation."""
    zone, total = await _zone(timezone), Consumption()
    today = datetime.now(zone).date()
    by_day = {today - timedelta(days=back): Consumption() for back in reversed(range(days))}
    count = Counter[date]()
    async for _, run in _recent(gate, who, time.time() - (days + 1) * DAY):
        day = _day(run, zone)
        if day in by_day:
            added(by_day[day], run.usage)
            added(total, run.usage)
            count[day] += 1
    return Usage(
        timezone=timezone,
        days=[
            DayUsage(
                date=day.isoformat(),
                runs=count[day],
                input_tokens=used.input,
                output_tokens=used.output,
                total_tokens=used.input + used.output,
                cost=used.cost,
            )
            for day, used in by_day.items()
        ],
        by_model=total.by_model,
        by_caller=total.by_caller,
    )


async def _recent(
    gate: Gateway, who: Caller, since: float
) -> AsyncGenerator[tuple[ThreadRow, RunRow]]:
    """Runs that were created since then, newest first."""
    before: float | None = None
    for _ in range(MOST_RUNS // PAGE):
        page = await gate.runtime.harness.storage.queue.of_user(
            who.user_id, limit=PAGE, before=before
        )
        for pair in page:
            if pair[1].created_at < since:
                return
            yield pair
        if len(page) < PAGE:
            return
        before = page[-1][1].created_at


async def _zone(name: str) -> tzinfo:
    """Raises UsageError for an unknown one."""
    return UTC if name == "UTC" else await asyncio.to_thread(zone_of, name)


def _day(run: RunRow, zone: tzinfo) -> date:
    return datetime.fromtimestamp(run.created_at, zone).date()


def _status(run: RunRow) -> str:
    return WIRE_STATUS.get(run.status, run.status)
