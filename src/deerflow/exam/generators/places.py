"""Geography: map scales and time zones."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from deerflow.exam.generators.drafts import Draft, measured, shown

CM_PER_KM = 100_000
DAYS = {
    -1: ("on the previous day", "前一天"),
    0: ("on the same day", "同一天"),
    1: ("on the next day", "后一天"),
}


def map_scale(rng: Random, chinese: bool) -> Draft:
    """From the map to the land, or back."""
    scale = rng.choice((50_000, 100_000, 200_000, 250_000, 500_000, 1_000_000, 2_000_000))
    on_map = Fraction(rng.choice((3, 4, 5, 7, 8, 9, 12, 15)), rng.choice((1, 2)))
    land = on_map * scale / CM_PER_KM
    if rng.random() < 0.5:
        text = (
            f"在比例尺为 1:{scale} 的地图上，两地相距 {shown(on_map)} cm，两地的实际距离是多少 km？"
            if chinese
            else f"On a map with a scale of 1:{scale}, two towns are {shown(on_map)} cm apart. "
            "What is the real distance between them, in km?"
        )
        mistakes = [land * 10, land / 10, land * 100]
        return measured(("geography", "easy"), text, land, "km", mistakes)
    text = (
        f"实际相距 {shown(land)} km 的两地，在比例尺为 1:{scale} 的地图上相距多少 cm？"
        if chinese
        else f"Two towns are {shown(land)} km apart. "
        f"How far apart are they on the map, in cm, when its scale is 1:{scale}?"
    )
    mistakes = [on_map * 10, on_map / 10, on_map * 2]
    return measured(("geography", "medium"), text, on_map, "cm", mistakes)


def _zone(offset: int) -> str:
    return f"UTC{offset:+d}" if offset else "UTC"


def time_zone(rng: Random, chinese: bool) -> Draft:
    """The time elsewhere at one moment; the mistakes go the wrong way or lose an hour."""
    here = rng.choice((8, 8, 9, 5, 3, 1))
    there = rng.choice([each for each in (-8, -5, -3, 0, 1, 3, 9, 10) if each != here])
    hour, minute = rng.randint(1, 23), rng.choice((0, 30))
    gap = there - here

    def clock(change: int) -> str:
        day, rest = divmod(hour + change, 24)
        when = f"{rest:02d}:{minute:02d}"
        name = DAYS[day]
        return f"{when}，{name[1]}" if chinese else f"{when} {name[0]}"

    text = (
        f"{_zone(here)} 时区的甲地是 {hour:02d}:{minute:02d}，"
        f"此时 {_zone(there)} 时区的乙地是几点？"
        "（注明前一天、同一天或后一天）"
        if chinese
        else f"It is {hour:02d}:{minute:02d} in a city in the time zone {_zone(here)}. "
        f"What time is it in a city in the time zone {_zone(there)}? "
        "(Say whether on the previous, the same or the next day.)"
    )
    key = clock(gap)
    far = [-gap, gap + 1, gap - 1, gap + 12 if gap < 0 else gap - 12]
    wrong = [clock(each) for each in far if -24 <= hour + each < 48]
    day = divmod(hour + gap, 24)[0]
    shown_time = f"{(hour + gap) % 24:02d}:{minute:02d}"
    # The day is asked for in words that an ASCII rubric can see in English only.
    criteria = () if chinese else (shown_time, DAYS[day][0].split()[2])
    level = "hard" if day else "medium"
    return Draft("geography", level, text, key, tuple(wrong[:3]), criteria)
