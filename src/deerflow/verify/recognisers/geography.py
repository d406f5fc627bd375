"""Questions of geography: scales of maps, time zones."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from deerflow.verify.facts import Check, Question
from deerflow.verify.readers import number
from deerflow.verify.times import DAY, times
from deerflow.verify.units import Quantity, quantities, units_in

_SCALE = re.compile(r"(?<![0-9:])1\s*(?::|/|比)\s*([0-9][0-9,]{2,12})(?![0-9:])")
_MAP = re.compile(r"\bmap\b|\bscale\b|地图|比例尺|图上|实际")
_ROUND = re.compile(r"\bround|\bnearest\b|\bapproximat|约|保留")
_ZONE = re.compile(
    r"\b(?:UTC|GMT)\s*(?:([+-])\s*([0-9]{1,2})(?::?(30|45))?)?(?![0-9])|([东西])\s*([一二三四五六七八九十]+|[0-9]{1,2})\s*(?:时?区)|(?:零|中)时区"
)
_DIGITS = {each: place for place, each in enumerate("零一二三四五六七八九十")}


def map_scale(question: Question) -> Check | None:
    """A real distance from one on the map, or the other way round."""
    found = _SCALE.search(question.text)
    if found is None or not _MAP.search(question.lower):
        return None
    ratio = int(found[1].replace(",", ""))
    text = question.text[: found.start()] + " " * (found.end() - found.start())
    text += question.text[found.end() :]
    sizes = quantities(text)
    if len(sizes) != 1 or sizes[0].unit is None or sizes[0].unit.dims != (("m", 1),) or not ratio:
        return None
    on_map = _on_map(text.lower(), sizes[0])
    if on_map is None:
        return None
    size = sizes[0].size * ratio if on_map else sizes[0].size / ratio
    places = [(unit, place) for unit, place in units_in(text) if unit.dims == (("m", 1),)]
    named = {unit.size for unit, place in places if not sizes[0].start <= place < sizes[0].end}
    facts: dict[str, Any] = {
        "target": number(size),
        "dims": [["m", 1]],
        "size": str(min(named) if len(named) == 1 else 1),
        "bare": len(named) == 1,
        "rounded": _ROUND.search(question.lower) is not None,
    }
    return Check("map_scale", "quantity", facts)


def _on_map(text: str, size: Quantity) -> bool | None:
    """Whether the distance that is given is the one on the map."""
    asked = re.search(
        r"(?:what|how|find|calculate)[^.?]*"
        r"\b(actual|real|ground|true|on\s+the\s+map|map\s+distance)"
        r"|(实际|图上)(?:上|的)?(?:距离|长度)?[^0-9,。]{0,8}"
        r"(?:多少|多远|多长|是|为)",
        text,
    )
    if asked:
        word = asked[1] or asked[2]
        return word in ("actual", "real", "ground", "true", "实际")
    if size.unit is not None and size.unit.size <= Fraction(1, 100):
        return True if re.search(r"\bapart\s+on\s+(?:the|a)\s+map|图上", text) else None
    return None


def time_zone(question: Question) -> Check | None:
    """The time in one zone when it is a time in another."""
    zones = list(_ZONE.finditer(question.text))
    clocks = times(_ZONE.sub(lambda found: " " * len(found.group()), question.text))
    if len(zones) != 2 or len(clocks) != 1:
        return None
    if not re.search(r"\bwhat\b|\bwhen\b|\btime\b|几点|时间|多少", question.lower):
        return None
    first, second = (_offset(found) for found in zones)
    if first is None or second is None:
        return None
    source, wanted = (
        (first, second) if _given_first(question, zones, clocks[0].start) else (second, first)
    )
    minutes = clocks[0].minutes + wanted - source
    return Check("time_zone", "clock", {"minutes": minutes % DAY, "day": minutes // DAY})


def _given_first(question: Question, zones: list[re.Match[str]], clock: int) -> bool:
    """Whether the time that is told belongs to the zone that is named first.

    The time and its zone stand in one part of the sentence; the question stands in the other.
    """
    between = question.text[zones[0].end() : zones[1].start()]
    if zones[0].end() <= clock < zones[1].start():
        cut = re.search(r"[,.;?]|\bwhen\b|\bwhat\b|当", between)
        return cut is None or zones[0].end() + cut.start() > clock
    return clock < zones[0].start()


def _offset(found: re.Match[str]) -> int | None:
    """Minutes east of Greenwich."""
    if found[4]:
        hours = _number(found[5])
        sign = 1 if found[4] == "东" else -1
        return None if hours is None or hours > 12 else hours * 60 * sign
    if found[2] is None:
        return 0
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return (minutes if found[1] == "+" else -minutes) if minutes <= 14 * 60 else None


def _number(text: str) -> int | None:
    if text.isdecimal():
        return int(text)
    if len(text) == 1:
        return _DIGITS.get(text)
    return 10 + _DIGITS[text[1]] if len(text) == 2 and text[0] == "十" else None
