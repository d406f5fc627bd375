"""A scheduled task as its row keeps it, and which of its occurrences start when it is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from deerflow.errors import UsageError
from deerflow.runtime.occurrences import check_cron, instant_of, newest, next_after, zone_of
from deerflow.runtime.request import RunRequest
from deerflow.storage.protocol import ScheduleRow

CatchUp = Literal["skip", "once", "all"]
"""What becomes of occurrences that nobody was there for: none of them starts, one run stands for
all, or all start (the newest MOST_MISSED)."""
MOST_MISSED = 100
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done, and when. Exactly one of `cron` and `at` is given.

    Attributes:
        request: the run; its thread_id binds the task to a thread, None takes a new one each time.
        cron: expression of five fields.
        at: ISO 8601 time; without an offset local to `zone`.
        zone: IANA name.
        starts_at: no occurrence of `cron` before it, as `at`.
        ends_at: no occurrence of `cron` after it, as `at`.
        catch_up: for `cron`; a single task that was missed starts when it is found.
        title: for people.
        webhook: called when a run has ended.
        metadata: of the runs.
        data: what the caller wants to find in the row again.
        keep: whether a new thread stays when its run has ended; a given one always does.
    """

    request: RunRequest
    cron: str | None = None
    at: str | None = None
    zone: str = "UTC"
    starts_at: str | None = None
    ends_at: str | None = None
    catch_up: CatchUp = "skip"
    title: str = ""
    webhook: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    keep: bool = True


@dataclass(frozen=True, slots=True)
class Fired:
    """What is due of a task.

    Attributes:
        starts: occurrences to start, oldest first.
        missed: an occurrence that is only written down, or None.
        note: why.
    """

    starts: tuple[float, ...]
    missed: float | None = None
    note: str = ""


TIMES = ("cron", "at", "zone", "starts_at", "ends_at")
"""Fields of a Task that say when."""
_PLAIN = (*TIMES, "catch_up", "title", "webhook", "metadata", "data", "keep")
"""Fields that its row keeps as they are."""


def planned(
    schedule_id: str, user_id: str, task: Task, now: float, delay: float | None
) -> ScheduleRow:
    """The row of a checked task.

    Args:
        schedule_id: its id.
        user_id: owner.
        task: as the client gave it.
        now: UTC seconds.
        delay: seconds that `at` must lie ahead; None does not look.

    Raises:
        UsageError: something in it is wrong; says what, where and how to cure it.
    """
    task = _checked(task)
    next_at = _single(task, now, delay) if task.at is not None else first_of(task, now)
    if next_at is None:
        raise UsageError("The task would never start.", cure="Check its times.")
    request = replace(task.request, user_id=user_id).to_dict()
    plain = {name: getattr(task, name) for name in _PLAIN}
    return ScheduleRow(
        schedule_id=schedule_id,
        user_id=user_id,
        thread_id=task.request.thread_id,
        kind="once" if task.cron is None else "cron",
        status="active",
        next_at=next_at,
        created_at=now,
        updated_at=now,
        data={"request": request, **plain},
    )


def task_of(row: ScheduleRow) -> Task:
    """The task that `planned` was given."""
    plain = {name: row.data[name] for name in _PLAIN if name in row.data}
    return Task(RunRequest.from_dict(row.data["request"]), **plain)


def first_of(task: Task, now: float) -> float | None:
    """The first occurrence after now (UTC seconds); None when none is left. Raises UsageError."""
    zone = zone_of(task.zone)
    if task.cron is None:
        at = instant_of(task.at or "", zone)
        return at if at > now else None
    begin = now if task.starts_at is None else max(now, instant_of(task.starts_at, zone) - 1)
    found = next_after(task.cron, zone, begin)
    end = None if task.ends_at is None else instant_of(task.ends_at, zone)
    return None if found is None or (end is not None and found > end) else found


def following(row: ScheduleRow, now: float) -> float | None:
    """When a task is due next, once what is due now is entered; None when it is done."""
    return None if row.kind == "once" else first_of(task_of(row), now)


def fired(row: ScheduleRow, now: float, late: float) -> Fired:
    """What is due of a row whose `next_at` has come.

    Args:
        row: an active one.
        now: UTC seconds.
        late: seconds after which an occurrence counts as missed.

    Raises:
        UsageError: the row's zone is unknown here.
    """
    if row.next_at is None:
        return Fired(())
    task = task_of(row)
    if task.cron is None:
        return Fired((row.next_at,))
    zone = zone_of(task.zone)
    until = now if task.ends_at is None else min(now, instant_of(task.ends_at, zone))
    found = newest(task.cron, zone, row.next_at, until, MOST_MISSED) or [row.next_at]
    if task.catch_up == "all":
        return Fired(tuple(found))
    last = found[-1]
    if task.catch_up == "once" or now - last <= late:
        return Fired((last,))
    count = f"{len(found)} or more" if len(found) == MOST_MISSED else str(len(found))
    return Fired((), last, f"missed: {count} while no server was at work")


def _checked(task: Task) -> Task:
    """The task with its expression tidied. Raises UsageError."""
    request = task.request
    if not request.task.strip() and request.goal is None:
        raise UsageError("The task is empty.", cure="Say what is to be done.")
    if request.uploads or request.resume or request.checkpoint_id is not None:
        raise UsageError(
            "A scheduled task takes no uploads, resume or checkpoint.",
            cure="Put files into the thread and bind the task to it.",
        )
    if (task.cron is None) == (task.at is None):
        raise UsageError(
            "A scheduled task has either a cron expression or a single time.", cure="Give one."
        )
    if task.catch_up not in get_args(CatchUp):
        raise UsageError(
            f"The catch-up policy {task.catch_up!r} is unknown.", cure="Use skip, once or all."
        )
    if len(task.title) > LONGEST_TITLE:
        raise UsageError(f"A title has at most {LONGEST_TITLE} characters.")
    zone = zone_of(task.zone)
    if task.cron is None:
        if task.starts_at is not None or task.ends_at is not None:
            raise UsageError("A single task has no start and end.", cure="Leave them away.")
        return task
    times = [instant_of(text, zone) for text in (task.starts_at, task.ends_at) if text is not None]
    if len(times) == 2 and times[1] < times[0]:
        raise UsageError(
            f"The end {task.ends_at} is before the start {task.starts_at}.", cure="Swap them."
        )
    return replace(task, cron=check_cron(task.cron))


def _single(task: Task, now: float, delay: float | None) -> float:
    at = instant_of(task.at or "", zone_of(task.zone))
    if delay is not None and at < now + delay:
        said = "is over" if at <= now else f"is less than {delay:.0f} s ahead"
        raise UsageError(
            f"{task.at} ({task.zone}) {said}.",
            cure="Give a later time (scheduler.min_once_delay_seconds is the shortest delay).",
        )
    return at
