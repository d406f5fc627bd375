"""Tasks that start at a time: their rows, their occurrences, and what is done with them.

Part of `protocol.py`, which hands it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A task that starts at a time.

    Attributes:
        schedule_id: its id.
        user_id: owner.
        thread_id: the client's thread id, None for a new thread each time.
        kind: once or cron.
        status: active, paused or done.
        next_at: UTC seconds of the next occurrence, None when there is none.
        created_at, updated_at: UTC seconds.
        data: JSON object: expression, time zone, input, catch-up policy, … of the scheduler.
    """

    schedule_id: str
    user_id: str
    thread_id: str | None
    kind: Literal["once", "cron"]
    status: Literal["active", "paused", "done"]
    next_at: float | None
    created_at: float
    updated_at: float
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One occurrence.

    Attributes:
        schedule_id: whose.
        occurrence: the time that was meant, UTC seconds.
        run_id: chosen before the run exists, "" when the occurrence was skipped.
        thread_id: the client's id of the run's thread.
        created_at: when it was entered, UTC seconds.
        note: "" = to be started, else what became of it (started, or why not).
    """

    schedule_id: str
    occurrence: float
    run_id: str
    thread_id: str
    created_at: float
    note: str = ""


OCCURRENCES_KEPT = 1000
"""Occurrences of a schedule that its history keeps; those still to be started always stay."""


@runtime_checkable
class Schedules(Protocol):
    """Scheduled tasks."""

    async def put(self, row: ScheduleRow) -> None:
        """Insert or replace. Raises ConflictError when the id is someone else's."""
        ...

    async def get(self, user_id: str, schedule_id: str) -> ScheduleRow | None:
        """One; None when unknown or someone else's."""
        ...

    async def list(
        self, user_id: str, *, thread_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[ScheduleRow]:
        """Newest first."""
        ...

    async def delete(self, user_id: str, schedule_id: str) -> bool:
        """Remove with its history; False when unknown."""
        ...

    async def due(self, now: float, *, limit: int = 20) -> list[ScheduleRow]:
        """Active ones with next_at ≤ now, earliest first, of all users."""
        ...

    async def next_due(self) -> float | None:
        """UTC seconds of the earliest `next_at` of the active ones, None when there is none."""
        ...

    async def advance(
        self,
        row: ScheduleRow,
        runs: Sequence[ScheduledRun],
        *,
        next_at: float | None,
        status: Literal["active", "paused", "done"],
    ) -> bool:
        """Enter occurrences and move on, in one transaction: who comes second gets False.

        It compares owner, `status` and `next_at` with the stored ones, so that an occurrence is
        started by one process; an occurrence that is entered already stays as it is. The run ids
        are chosen before; what its process did not `settle` before it died is in `unstarted`.
        """
        ...

    async def settle(self, schedule_id: str, occurrence: float, note: str) -> None:
        """Write what became of an occurrence; it is no longer in `unstarted` then."""
        ...

    async def unstarted(self, *, limit: int = 20) -> list[tuple[ScheduleRow, ScheduledRun]]:
        """Entered occurrences without a note, first entered first."""
        ...

    async def noted(self, note: str, *, limit: int) -> list[tuple[ScheduleRow, ScheduledRun]]:
        """Occurrences with exactly this note, first entered first."""
        ...

    async def waiting(self, schedule_id: str) -> int:
        """Number of its occurrences that are to be started, or whose run has not ended."""
        ...

    async def unfinished(self) -> int:
        """Number of threads with an unfinished run that a schedule started."""
        ...

    async def runs(self, schedule_id: str, *, limit: int = 50) -> list[ScheduledRun]:
        """Occurrences, newest first."""
        ...
