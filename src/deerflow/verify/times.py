"""Times of day and days in prose."""

from __future__ import annotations

import re
from dataclasses import dataclass

DAY = 24 * 60
_TIME = re.compile(
    r"(?<![0-9:.])(?P<early>凌晨|上午|早上|中午|下午|晚上|傍晚)?\s*(?P<hour>[0-9]{1,2})"
    r"(?:\s*(?::|时|点)\s*(?P<minute>[0-5][0-9])?(?:\s*分)?(?P<colon>)|(?=\s*(?:[ap]\.?m\b|o'clock)))"
    r"(?:\s*(?P<half>[ap])\.?m\b\.?)?(?![0-9:])",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\b(?:12\s+)?(?P<noon>noon|midnight)\b|正午|午夜", re.IGNORECASE)
_LATER = re.compile(
    r"next\s+day|following\s+day|day\s+after|\+1\s*day|次日|第二天|翌日|后一天", re.I
)
_EARLIER = re.compile(r"previous\s+day|day\s+before|prior\s+day|-1\s*day|前一天|前一日|昨天", re.I)
_SAME = re.compile(r"same\s+day|当天|同一天|当日", re.IGNORECASE)
_AFTERNOON = ("下午", "晚上", "傍晚")


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day in minutes after midnight, the day as offset or None, and its place."""

    minutes: int
    day: int | None
    start: int


def times(text: str) -> list[Time]:
    """The times of day of a plain text in their order."""
    day = _day(text)
    found: list[Time] = []
    for match in _TIME.finditer(text):
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
        half, early = (match["half"] or "").lower(), match["early"] or ""
        if match["minute"] is None and not half and ":" in match.group():
            continue
        if hour > 24 or (half and not 1 <= hour <= 12):
            continue
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        elif early in _AFTERNOON and hour < 12:
            hour += 12
        found.append(Time((hour * 60 + minute) % DAY, day, match.start()))
    for match in _WORDS.finditer(text):
        noon = "noon" in match.group().lower() or match.group() == "正午"
        if not re.search(r"12(?::00)?\s*$", text[: match.start()]):
            found.append(Time(720 if noon else 0, day, match.start()))
    return sorted(found, key=lambda each: each.start)


def _day(text: str) -> int | None:
    if _LATER.search(text):
        return 1
    if _EARLIER.search(text):
        return -1
    return 0 if _SAME.search(text) else None
