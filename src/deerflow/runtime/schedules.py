"""Scheduled tasks: once at a time, or again and again by a cron expression.

Any number of processes may call `Scheduler.tick`. An occurrence is entered by one of them, in one
transaction with the step to the next one; its run has an id made of schedule and occurrence, so
that handing it in again after a crash makes no second run.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from deerflow.config.storage import SchedulerConfig
from deerflow.errors import (
    ConflictError,
    DeerFlowError,
    NotFoundError,
    StorageError,
    ThreadGoneError,
    UsageError,
)
from deerflow.runtime.passing import GOES, Remover, remove_ended
from deerflow.runtime.planning import (
    TIMES,
    Fired,
    Task,
    fired,
    first_of,
    following,
    planned,
    task_of,
)
from deerflow.runtime.request import RunRequest
from deerflow.runtime.submission import SubmitOptions
from deerflow.storage.protocol import RunRow, ScheduledRun, ScheduleRow, Storage, Submitted

logger = logging.getLogger(__name__)

MOST_SCHEDULES = 500
"""Tasks of one user."""
MOST_WAITING = 100
"""Occurrences of a task whose end is awaited; further ones are left out, and noted."""
MOST_IN_THREAD = 10
"""The same for a task that is bound to a thread, where one waits for the other."""
PAGE = 20
LATE_SECONDS = 60.0
"""An occurrence that is found later than this (and than two polls) counts as missed."""
SHORTEST_REST = 0.2
"""Seconds between two looks at least."""
BACKGROUND = 0
"""Priority of scheduled runs: nobody waits for them."""
STARTED = "started"


class Submitter(Remover, Protocol):
    """What of `Submissions` is used here."""

    async def submit(self, request: RunRequest, options: SubmitOptions = ..., /) -> Submitted:
        """Accept a run."""
        ...


class Starts:
    """Hands the runs of occurrences in.

    Args:
        storage: the stores.
        submissions: hands runs in.
    """

    def __init__(self, storage: Storage, submissions: Submitter) -> None:
        self._storage = storage
        self._submissions = submissions

    async def start(self, row: ScheduleRow, entry: ScheduledRun) -> DeerFlowError | None:
        """Hand a run in; what is wrong with it is noted. Only the database's failures are raised.

        Returns:
            None when it is handed in, else why it never will be.
        """
        storage, task = self._storage, task_of(row)
        goes = not task.keep and row.thread_id is None
        note, failure = GOES if goes else STARTED, None
        try:
            if await storage.threads.run(entry.run_id) is None:
                await self.check_thread(row.user_id, task)
                await self._submissions.submit(_request(row, task, entry), _options(task, entry))
        except (UsageError, ConflictError, ThreadGoneError) as error:
            note, failure = f"failed: {error.message}", error
            logger.warning("schedule %s: %s", row.schedule_id, error)
        await storage.schedules.settle(entry.schedule_id, entry.occurrence, note)
        if isinstance(failure, NotFoundError) and row.thread_id is not None:
            await self._end_orphan(row)
        return failure

    async def _end_orphan(self, row: ScheduleRow) -> None:
        """Pause a task whose thread was deleted: it would fail every time."""
        if await self._storage.threads.get(row.user_id, row.thread_id or "") is not None:
            return
        found = await self._storage.schedules.get(row.user_id, row.schedule_id)
        if found is not None and found.status == "active":
            await self._storage.schedules.advance(found, [], next_at=None, status="paused")

    async def check_thread(self, user_id: str, task: Task) -> None:
        """Raise NotFoundError when the task is bound to a thread that is not there."""
        thread_id = task.request.thread_id
        if thread_id is None:
            return
        if await self._storage.threads.get(user_id, thread_id) is None:
            raise NotFoundError(f"There is no thread {thread_id[:80]!r} here.")


class Scheduler:
    """Tasks of users, and their starts.

    Args:
        storage: the stores.
        submissions: hands runs in.
        config: section `scheduler`.
    """

    def __init__(self, storage: Storage, submissions: Submitter, config: SchedulerConfig) -> None:
        self._storage = storage
        self._submissions = submissions
        self._starts = Starts(storage, submissions)
        self._config = config
        self._changed = asyncio.Event()

    # --- what users do with their tasks ---

    async def create(self, user_id: str, task: Task, *, active: bool = True) -> ScheduleRow:
        """Plan a task.

        Args:
            user_id: owner.
            task: what, and when.
            active: False makes it paused.

        Raises:
            UsageError: schedules are off, too many of them, or something in the task is wrong.
            NotFoundError: no such thread.
        """
        self._on()
        if len(await self._storage.schedules.list(user_id, limit=MOST_SCHEDULES)) == MOST_SCHEDULES:
            raise UsageError(
                f"A user has at most {MOST_SCHEDULES} scheduled tasks.", cure="Delete some."
            )
        now = time.time()
        await self._starts.check_thread(user_id, task)
        row = await asyncio.to_thread(planned, uuid.uuid4().hex, user_id, task, now, self._delay)
        row = row if active else replace(row, status="paused", next_at=None)
        await self._storage.schedules.put(row)
        self._changed.set()
        return await self.get(user_id, row.schedule_id)

    async def edit(self, user_id: str, schedule_id: str, **changes: Any) -> ScheduleRow:
        """Replace fields of its Task. A task that is done is planned anew.

        Raises:
            UsageError: see `create`.
            NotFoundError: unknown or someone else's; no such thread.
        """
        self._on()
        row = await self.get(user_id, schedule_id)
        before = task_of(row)
        task = replace(before, **changes)
        await self._starts.check_thread(user_id, task)
        moved = row.status == "done" or _times(task) != _times(before)
        delay = self._delay if moved else None
        new = await asyncio.to_thread(planned, schedule_id, user_id, task, time.time(), delay)
        new = replace(new, created_at=row.created_at)
        if row.status == "paused" or not moved:  # what is due just now stays due
            new = replace(new, status=row.status, next_at=row.next_at)
        await self._storage.schedules.put(new)
        self._changed.set()
        return await self.get(user_id, schedule_id)

    async def get(self, user_id: str, schedule_id: str) -> ScheduleRow:
        """One.

        Raises:
            NotFoundError: unknown or someone else's, alike.
        """
        row = await self._storage.schedules.get(user_id, schedule_id)
        if row is None:
            raise _no_schedule(schedule_id)
        return row

    async def list(
        self, user_id: str, *, thread_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[ScheduleRow]:
        """A user's, newest first; of one thread when it is given."""
        return await self._storage.schedules.list(
            user_id, thread_id=thread_id, limit=limit, offset=offset
        )

    async def pause(self, user_id: str, schedule_id: str) -> ScheduleRow:
        """No further occurrence; what has begun goes on. Raises NotFoundError."""
        while True:
            row = await self.get(user_id, schedule_id)
            if row.status != "active" or await self._storage.schedules.advance(
                row, [], next_at=None, status="paused"
            ):
                return await self.get(user_id, schedule_id)

    async def resume(self, user_id: str, schedule_id: str) -> ScheduleRow:
        """On from now; what was due meanwhile is not made up for.

        Raises:
            UsageError: schedules are off, or no occurrence is left.
            NotFoundError: unknown or someone else's.
        """
        self._on()
        while True:
            row = await self.get(user_id, schedule_id)
            if row.status == "active":
                return row
            next_at = await asyncio.to_thread(first_of, task_of(row), time.time())
            if next_at is None:
                raise UsageError("No occurrence is left.", cure="Give the task another time.")
            if await self._storage.schedules.advance(row, [], next_at=next_at, status="active"):
                self._changed.set()
                return await self.get(user_id, schedule_id)

    async def trigger(self, user_id: str, schedule_id: str) -> ScheduledRun:
        """Start it now, beside its plan.

        Raises:
            UsageError: schedules are off, or the task cannot start (any more).
            NotFoundError: unknown or someone else's; its thread is gone.
        """
        self._on()
        while True:
            row = await self.get(user_id, schedule_id)
            entry = _entry(row, round(time.time(), 6), time.time())
            if await self._storage.schedules.advance(
                row, [entry], next_at=row.next_at, status=row.status
            ):
                break
        error = await self._starts.start(row, entry)
        if error is not None:
            raise error
        return entry

    async def delete(self, user_id: str, schedule_id: str) -> None:
        """Remove it with its history; runs that have begun stay. Raises NotFoundError."""
        if not await self._storage.schedules.delete(user_id, schedule_id):
            raise _no_schedule(schedule_id)

    async def history(
        self, user_id: str, schedule_id: str, *, limit: int = 50
    ) -> list[tuple[ScheduledRun, RunRow | None]]:
        """Occurrences, newest first, each with its run where there is one.

        Raises:
            NotFoundError: unknown or someone else's.
        """
        await self.get(user_id, schedule_id)
        entries = await self._storage.schedules.runs(schedule_id, limit=limit)
        return [(entry, await self._run_of(entry)) for entry in entries]

    # --- what workers do ---

    async def look(self) -> None:
        """Wait until something may be due, then `tick`: a Supervisor's duty without a pause."""
        await self._rest()
        await self.tick(time.time())

    async def tick(self, now: float) -> None:
        """Enter what is due and start what waits, as far as there is room.

        Args:
            now: UTC seconds.

        Raises:
            StorageError: the database failed; the next tick goes on.
        """
        if not self._config.enabled:
            return
        while rows := await self._storage.schedules.due(now, limit=PAGE):
            for row in rows:
                await self._enter(row, now)
            if len(rows) < PAGE:
                break
        room = self._config.max_concurrent_runs - await self._storage.schedules.unfinished()
        for row, entry in await self._storage.schedules.unstarted(limit=PAGE):
            if room <= 0:
                break
            if await self._starts.start(row, entry) is None:
                room -= 1
        await remove_ended(self._storage, self._submissions)

    async def _rest(self) -> None:
        longest = float(self._config.poll_interval_seconds)
        self._changed.clear()
        try:
            due = await self._storage.schedules.next_due()
        except StorageError:
            await asyncio.sleep(longest)
            raise
        wait = longest if due is None else min(longest, max(SHORTEST_REST, due - time.time()))
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _enter(self, row: ScheduleRow, now: float) -> None:
        """Write down what is due of a task, and when it is due next."""
        try:
            late = max(LATE_SECONDS, 2.0 * float(self._config.poll_interval_seconds))
            due = await asyncio.to_thread(fired, row, now, late)
            next_at = await asyncio.to_thread(following, row, now)
        except DeerFlowError as error:  # a zone that this machine does not know
            logger.warning("schedule %s cannot go on: %s", row.schedule_id, error)
            await self._storage.schedules.advance(row, [], next_at=None, status="paused")
            return
        entries = [_entry(row, at, now) for at in due.starts]
        most = MOST_WAITING if row.thread_id is None else MOST_IN_THREAD
        if entries and await self._storage.schedules.waiting(row.schedule_id) >= most:
            due = Fired((), due.starts[-1], f"left out: {most} earlier ones wait")
            entries = []
        if due.missed is not None:
            entries.append(ScheduledRun(row.schedule_id, due.missed, "", "", now, due.note))
        status = "done" if next_at is None else "active"
        await self._storage.schedules.advance(row, entries, next_at=next_at, status=status)

    async def _run_of(self, entry: ScheduledRun) -> RunRow | None:
        return await self._storage.threads.run(entry.run_id) if entry.run_id else None

    @property
    def _delay(self) -> float:
        return float(self._config.min_once_delay_seconds)

    def _on(self) -> None:
        if not self._config.enabled:
            raise UsageError(
                "Scheduled tasks are off on this server.",
                cure="Set scheduler.enabled: true in the configuration and restart.",
            )


def _no_schedule(schedule_id: str) -> NotFoundError:
    return NotFoundError(f"There is no scheduled task {schedule_id[:80]!r} here.")


def _times(task: Task) -> tuple[str | None, ...]:
    return tuple(getattr(task, name) for name in TIMES)


def _entry(row: ScheduleRow, occurrence: float, now: float) -> ScheduledRun:
    """An occurrence that is to be started; its ids follow from it alone."""
    place = uuid.uuid5(uuid.NAMESPACE_OID, f"{row.schedule_id}:{occurrence:.6f}")
    thread_id = row.thread_id or str(uuid.uuid5(place, "thread"))
    return ScheduledRun(row.schedule_id, occurrence, place.hex, thread_id, now)


def _request(row: ScheduleRow, task: Task, entry: ScheduledRun) -> RunRequest:
    return replace(task.request, user_id=row.user_id, thread_id=entry.thread_id)


def _options(task: Task, entry: ScheduledRun) -> SubmitOptions:
    meant = datetime.fromtimestamp(entry.occurrence, UTC).isoformat()
    return SubmitOptions(
        strategy="enqueue",
        metadata={**task.metadata, "schedule_id": entry.schedule_id, "scheduled_for": meant},
        webhook=task.webhook,
        idempotency_key=f"schedule:{entry.run_id}",
        priority=BACKGROUND,
        run_id=entry.run_id,
    )
