"""Occurrences: cron and local times where clocks change."""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import UsageError
from deerflow.runtime.occurrences import (
    check_cron,
    instant_of,
    newest,
    next_after,
    occurrences,
    zone_of,
)

ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca",
    "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "UTC",
)  # fmt: skip
BERLIN = ZoneInfo("Europe/Berlin")
DAY = 86_400.0


def utc(text: str) -> float:
    """UTC seconds of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def some(expression: str, zone: ZoneInfo, after: str, count: int) -> list[str]:
    """The next occurrences, in UTC."""
    found = islice(occurrences(expression, zone, utc(after)), count)
    return [datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M") for at in found]


# --- the clocks' changes, one by one ---


def test_a_daily_task_keeps_its_local_hour() -> None:
    assert some("30 7 * * *", BERLIN, "2026-03-27T12:00", 3) == [
        "03-28 06:30", "03-29 05:30", "03-30 05:30",
    ]  # fmt: skip


def test_an_hour_that_is_left_out_starts_when_the_gap_ends() -> None:
    assert some("30 2 * * *", BERLIN, "2026-03-28T00:00", 3) == [
        "03-28 01:30", "03-29 01:00", "03-30 00:30",
    ]  # fmt: skip
    # Whoever looks just after the gap does not start it again.
    assert some("30 2 * * *", BERLIN, "2026-03-29T01:00", 1) == ["03-30 00:30"]


def test_every_hour_goes_on_after_the_gap() -> None:
    assert some("30 * * * *", BERLIN, "2026-03-29T00:00", 3) == [
        "03-29 00:30", "03-29 01:30", "03-29 02:30",
    ]  # fmt: skip


def test_an_hour_that_comes_twice_counts_once() -> None:
    assert some("30 2 * * *", BERLIN, "2026-10-24T12:00", 2) == ["10-25 00:30", "10-26 01:30"]
    assert some("0 * * * *", BERLIN, "2026-10-24T23:30", 3) == [
        "10-25 00:00", "10-25 02:00", "10-25 03:00",
    ]  # fmt: skip
    # From within its second pass, as after a restart at that time.
    assert some("*/15 2 * * *", BERLIN, "2026-10-25T01:20", 1) == ["10-26 01:00"]


def test_half_an_hour_of_daylight_saving() -> None:
    howe = ZoneInfo("Australia/Lord_Howe")
    assert some("15 2 * * *", howe, "2026-10-03T12:00", 1) == ["10-03 15:30"]
    assert some("45 1 * * *", howe, "2026-04-04T12:00", 2) == ["04-04 14:45", "04-05 15:15"]


# --- against a slow and simple reading of the rule ---


@cache
def changes() -> tuple[tuple[str, int], ...]:
    """Days on which a zone's clocks change, 2000 to 2036, and some on which they do not."""
    found: list[tuple[str, int]] = []
    for name in ZONES:
        zone = ZoneInfo(name)
        days = range(int(utc("2000-01-01")), int(utc("2037-01-01")), int(DAY))
        offsets = [datetime.fromtimestamp(day, zone).utcoffset() for day in days]
        moved = [day for day, a, b in zip(days, offsets, offsets[1:], strict=False) if a != b]
        found += [(name, day) for day in (*moved, days[3], days[5000])]
    return tuple(found)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """A minute or hour field."""
    number = st.integers(low, high).map(str)
    return st.one_of(
        number,
        st.sampled_from(["*", "*/2", "*/7", "0", "2,3"]),
        st.lists(number, min_size=2, max_size=3).map(",".join),
        st.integers(low, high - 1).map(lambda first: f"{first}-{min(first + 5, high)}"),
    )


def numbers(text: str, size: int) -> set[int]:
    """What a field of the strategy above means."""
    found: set[int] = set()
    for part in text.split(","):
        step = int(part.partition("/")[2] or 1)
        if part.startswith("*"):
            found |= set(range(0, size, step))
        else:
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def slowly(minute: str, hour: str, zone: ZoneInfo, first: int, last: int) -> Iterator[float]:
    """Occurrences in [first, last), minute by minute."""
    minutes, hours = numbers(minute, 60), numbers(hour, 24)
    hourly = hour.startswith("*")
    before = datetime.fromtimestamp(first - 60, zone).replace(tzinfo=None)
    for at in range(first, last, 60):
        there = datetime.fromtimestamp(at, zone)
        local = there.replace(tzinfo=None)
        gap: list[datetime] = []
        if not hourly and local - before > timedelta(minutes=1):
            count = int((local - before).total_seconds()) // 60
            gap = [before + timedelta(minutes=n) for n in range(1, count)]
        now = there.fold == 0 and local.minute in minutes and local.hour in hours
        if now or any(t.minute in minutes and t.hour in hours for t in gap):
            yield float(at)
        before = local


@given(st.data())
def test_it_is_what_the_clock_on_the_wall_says(data: st.DataObject) -> None:
    name, day = data.draw(st.sampled_from(changes()))
    minute, hour = data.draw(field(0, 59)), data.draw(field(0, 23))
    first = day - 3600 + 60 * data.draw(st.integers(0, 600))
    last = day + int(DAY) + 3600
    zone = ZoneInfo(name)

    found = takewhile(lambda at: at < last, occurrences(f"{minute} {hour} * * *", zone, first - 1))
    assert list(found) == list(slowly(minute, hour, zone, first, last))


@given(st.data())
def test_the_next_one_is_the_same_from_wherever_one_looks(data: st.DataObject) -> None:
    name, day = data.draw(st.sampled_from(changes()))
    expression = f"{data.draw(field(0, 59))} {data.draw(field(0, 23))} * * *"
    zone = ZoneInfo(name)
    at = day + data.draw(st.floats(0, DAY, allow_nan=False))
    following = next_after(expression, zone, at)
    assert following is not None
    assert following > at
    between = data.draw(st.floats(at, following, exclude_max=True, allow_nan=False))
    assert next_after(expression, zone, between) == following


@given(st.sampled_from(changes()), st.integers(0, 2880))
def test_a_local_time_is_refused_or_comes_back(change: tuple[str, int], minutes: int) -> None:
    name, day = change
    zone = ZoneInfo(name)
    local = datetime.fromtimestamp(day, zone).replace(tzinfo=None) + timedelta(minutes=minutes)
    try:
        at = instant_of(local.isoformat(), zone)
    except UsageError as error:
        suggested = re.search(r"valid time is (\S+)\.", error.cure)
        assert suggested is not None
        after = datetime.fromisoformat(suggested.group(1))
        assert after > local
        end = instant_of(after.isoformat(), zone)
        just_before = datetime.fromtimestamp(end - 60, zone).replace(tzinfo=None)
        assert just_before < local, "it is the first time after the gap"
        return
    there = datetime.fromtimestamp(at, zone)
    assert there.replace(tzinfo=None) == local
    assert there.fold == 0


# --- single times ---


def test_a_time_that_does_not_exist_is_refused_with_the_next_one() -> None:
    with pytest.raises(UsageError, match=r"2026-03-29T02:30:00 does not exist") as refused:
        instant_of("2026-03-29T02:30", BERLIN)
    assert refused.value.cure == "The next valid time is 2026-03-29T03:00:00."


def test_a_time_with_an_offset_is_no_local_time() -> None:
    assert instant_of("2026-03-29T02:30:00+01:00", BERLIN) == utc("2026-03-29T01:30")
    assert instant_of("2026-03-29T02:30:00Z", BERLIN) == utc("2026-03-29T02:30")


@pytest.mark.parametrize("text", ["", "soon", "0001-01-01", "9999-12-31T23:59:59", "2026-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        instant_of(text, BERLIN)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "Did you mean Europe/Berlin?"),
        ("europe/berlin ", "Did you mean Europe/Berlin?"),
        ("xyzzyx", "Give a name like Europe/Berlin."),
        ("../../etc/passwd", "Give a name like Europe/Berlin."),
        ("Europe", ""),
        ("", ""),
        ("a\0b", ""),
    ],
)
def test_an_unknown_zone_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no time zone") as refused:
        zone_of(name)
    assert hint in refused.value.cure


# --- expressions ---


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("61 * * * *", r"Field 1 .*\(minute, at character 1\) is wrong: '61'"),
        ("0  24 * * *", r"Field 2 .*\(hour, at character 4\) is wrong: '24'"),
        ("0 0 32 * *", r"Field 3 .*\(day-of-month, at character 5\)"),
        ("0 0 * FOO *", r"Field 4 .*\(month, at character 7\)"),
        ("0 0 * * 9", r"Field 5 .*\(day-of-week, at character 9\)"),
        ("*/0 * * * *", "Field 1"),
        ("0 0 30 2 *", "Field 3"),
        ("5-1 * * * *", "Field 1"),
        ("0 0 * * ²L", "Field"),
        ("* * * *", "five fields, this one has 4"),
        ("* * * * * *", "five fields, this one has 6"),
        ("", "has 0"),
        ("1," * 200 + "1 * * * *", "at most 200 characters"),
    ],
)
def test_a_bad_expression_is_refused_with_the_place(expression: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_cron(expression)


def test_a_good_expression_is_tidied() -> None:
    assert check_cron(" 0   9 1,15 JAN-MAR mon ") == "0 9 1,15 JAN-MAR mon"
    assert check_cron("0 0 L * *") == "0 0 L * *"
    assert some("0 0 29 2 *", ZoneInfo("UTC"), "2026-01-01", 1) == ["02-29 00:00"]


def test_a_hair_before_an_occurrence_is_before_it() -> None:
    nine = utc("2026-06-01T09:00")
    assert next_after("0 9 * * *", ZoneInfo("UTC"), math.nextafter(nine, 0)) == nine
    assert next_after("0 9 * * *", ZoneInfo("UTC"), nine) == nine + DAY


# --- after an absence ---


def test_the_newest_are_found_however_long_nobody_looked() -> None:
    now = utc("2026-06-01T12:00:30")
    first = utc("2016-01-01")

    assert newest("* * * * *", BERLIN, first, now, 3) == [now - 150, now - 90, now - 30]
    assert newest("0 0 1 1 *", ZoneInfo("UTC"), first, now, 3) == [
        utc("2024-01-01"), utc("2025-01-01"), utc("2026-01-01"),
    ]  # fmt: skip
    assert newest("0 0 1 1 *", ZoneInfo("UTC"), utc("2025-06-01"), now, 3) == [utc("2026-01-01")]
    exactly = utc("2026-06-01T12:00")
    assert newest("0 12 * * *", ZoneInfo("UTC"), exactly, exactly, 3) == [exactly]
    assert newest("0 13 * * *", ZoneInfo("UTC"), exactly, exactly, 3) == []
