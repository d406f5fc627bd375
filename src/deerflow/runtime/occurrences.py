"""When a scheduled task occurs: cron expressions and local times in a time zone.

Time zones are IANA names. An hour that the clocks leave out has no occurrences of its own: a cron
task whose hour is given starts when the gap ends, one that runs every hour goes on after it. In an
hour that comes twice every time counts once, the first time.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from deerflow.errors import UsageError

LONGEST_EXPRESSION = 200
"""Characters of a cron expression."""
LAST_YEAR = 2200
"""Nothing is planned for later; keeps date arithmetic far from its end."""
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_LOOK_BACK = (3600.0, 86_400.0, 40 * 86_400.0, 366 * 86_400.0, math.inf)
"""Seconds that `newest` looks back, further each time, until it has found enough."""


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its IANA name.

    Raises:
        UsageError: there is none; names the nearest.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = {zone.lower(): zone for zone in available_timezones()}
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        hint = f"Did you mean {known[near[0]]}?" if near else "Give a name like Europe/Berlin."
        raise UsageError(f"There is no time zone {name[:80]!r}.", cure=hint) from None


def check_cron(expression: str) -> str:
    """The expression with single spaces.

    Raises:
        UsageError: too long, not five fields, a bad field (with its position), or no such day ever.
    """
    parts = expression.split()
    if len(expression) > LONGEST_EXPRESSION:
        raise UsageError(f"A cron expression has at most {LONGEST_EXPRESSION} characters.")
    if len(parts) != len(_FIELDS):
        raise UsageError(
            f"A cron expression has five fields, this one has {len(parts)}.",
            cure="Write minute hour day-of-month month day-of-week, for example 30 7 * * MON-FRI.",
        )
    try:
        next(CronSim(expression, datetime(2024, 1, 1)))  # noqa: DTZ001  # local, in no zone
    except (CronSimError, ValueError) as error:
        raise _bad_field(expression, str(error)) from None
    except StopIteration:
        raise UsageError(f"{expression!r} never occurs.", cure="Check day and month.") from None
    return " ".join(parts)


def _bad_field(expression: str, said: str) -> UsageError:
    """The library says "Bad minute"; people want to know where that is."""
    name = said.removeprefix("Bad ")
    number = _FIELDS.index(name) if name in _FIELDS else 0
    found = [match for match in re.finditer(r"\S+", expression)][number]
    return UsageError(
        f"Field {number + 1} of the cron expression ({_FIELDS[number]}, at character"
        f" {found.start() + 1}) is wrong: {found.group()!r}.",
        cure="Use numbers or names in range, with * , - / as in 0 9 1,15 * * or */10 * * * *.",
    )


def instant_of(text: str, zone: ZoneInfo) -> float:
    """UTC seconds of an ISO 8601 time; without an offset it is local to the zone.

    A local time that comes twice is the first of both.

    Raises:
        UsageError: no such form, out of range, or the clocks skip it (names the next valid time).
    """
    try:
        found = datetime.fromisoformat(text.strip()).replace(microsecond=0)
    except ValueError:
        raise UsageError(
            f"{text[:80]!r} is no time.", cure="Write it like 2026-03-29T09:30."
        ) from None
    if not 1970 < found.year < LAST_YEAR:
        raise UsageError(f"The year {found.year} is out of range.", cure="Give a nearer time.")
    if found.tzinfo is not None:
        return found.timestamp()
    if _skipped(found, zone):
        valid = datetime.fromtimestamp(_gap_end(found, zone), zone).replace(tzinfo=None)
        raise UsageError(
            f"{found.isoformat()} does not exist in {zone.key}: the clocks skip it.",
            cure=f"The next valid time is {valid.isoformat()}.",
        )
    return found.replace(tzinfo=zone, fold=0).timestamp()


def occurrences(expression: str, zone: ZoneInfo, after: float) -> Iterator[float]:
    """UTC seconds of every occurrence later than `after`, in order.

    Args:
        expression: as `check_cron` gives it.
        zone: whose clocks count.
        after: UTC seconds.
    """
    # Whole seconds, rounded down: a time just before an occurrence must not become it.
    start = datetime.fromtimestamp(math.floor(after), zone).replace(tzinfo=None)
    hourly = expression.split()[-4].startswith("*")
    last = after
    for local in CronSim(expression, start):
        if _skipped(local, zone):
            if hourly:
                continue
            found = _gap_end(local, zone)
        else:
            found = local.replace(tzinfo=zone, fold=0).timestamp()
        if found > last:
            last = found
            yield found


def next_after(expression: str, zone: ZoneInfo, after: float) -> float | None:
    """The first occurrence later than `after` (UTC seconds), None when there is none."""
    return next(occurrences(expression, zone, after), None)


def newest(expression: str, zone: ZoneInfo, first: float, now: float, most: int) -> list[float]:
    """The newest occurrences from `first` to `now`, both included, oldest first, at most `most`.

    Long absences cost no more than short ones: it looks back as far as it must.
    """
    found: deque[float] = deque(maxlen=most)
    for seconds in _LOOK_BACK:
        begin = max(first, now - seconds)
        found.clear()
        for occurrence in occurrences(expression, zone, begin - 1e-3):
            if occurrence > now:
                break
            found.append(occurrence)
        if len(found) == most or begin == first:
            break
    return list(found)


def _skipped(local: datetime, zone: tzinfo) -> bool:
    """Whether the clocks of the zone leave this local time out."""
    there = local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
    return there.replace(tzinfo=None) != local


def _gap_end(local: datetime, zone: tzinfo) -> float:
    """UTC seconds at which the gap ends that a skipped local time lies in.

    fold=0 reads it by the offset before the gap, fold=1 by the one after (PEP 495): the first
    reading is after the change, the second before it, so halving finds the change.
    """
    after = int(local.replace(tzinfo=zone, fold=0).timestamp())
    before = int(local.replace(tzinfo=zone, fold=1).timestamp())
    offset = datetime.fromtimestamp(after, zone).utcoffset()
    while after - before > 1:
        middle = (after + before) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return float(after)
