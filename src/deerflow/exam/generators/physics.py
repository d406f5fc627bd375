"""Physics: speed, density, units, force, current."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

from deerflow.exam.generators.drafts import Difficulty, Draft, Number, measured, shown


def _draft(
    level: Difficulty, text: str, value: Number, unit: str, mistakes: Sequence[Number]
) -> Draft:
    return measured(("physics", level), text, value, unit, mistakes)


def speed(rng: Random, chinese: bool) -> Draft:
    """Speed, way or time of a train; or a runner's speed in the other unit."""
    return rng.choice((_speed, _way, _time))(rng, chinese)


def _speed(rng: Random, chinese: bool) -> Draft:
    hours, rate = Fraction(rng.choice((3, 5, 7)), 2), 10 * rng.randint(4, 20)
    way = rate * hours
    text = (
        f"一列火车在 {shown(hours)} h 内行驶 {shown(way)} km，它的平均速度是多少 km/h？"
        if chinese
        else f"A train travels {shown(way)} km in {shown(hours)} h. "
        "What is its average speed, in km/h?"
    )
    return _draft("easy", text, rate, "km/h", [way * hours, way - hours, Fraction(rate, 2)])


def _way(rng: Random, chinese: bool) -> Draft:
    minutes, rate = rng.choice((15, 20, 30, 45)), 12 * rng.randint(2, 9)
    way = Fraction(rate * minutes, 60)
    text = (
        f"一辆汽车以 {rate} km/h 的速度匀速行驶 {minutes} min，通过的路程是多少 km？"
        if chinese
        else f"A car moves at a constant speed of {rate} km/h for {minutes} min. "
        "What is the distance that it covers, in km?"
    )
    mistakes: list[Number] = [rate * minutes, Fraction(rate * minutes, 100), way * 2]
    return _draft("medium", text, way, "km", mistakes)


def _time(rng: Random, chinese: bool) -> Draft:
    rate, seconds = rng.randint(4, 15), 10 * rng.randint(3, 20)
    way = rate * seconds
    text = (
        f"一名选手以 {rate} m/s 的速度匀速前进 {way} m，所用的时间是多少 s？"
        if chinese
        else f"A cyclist moves at a constant speed of {rate} m/s. "
        f"How long does it take to cover {way} m, in s?"
    )
    mistakes: list[Number] = [way * rate, Fraction(seconds, 10), way - rate]
    return _draft("easy", text, seconds, "s", mistakes)


def density(rng: Random, chinese: bool) -> Draft:
    """Density of a block, or the mass of one."""
    value = Fraction(rng.choice((8, 12, 18, 25, 27, 45, 72, 79)), 10)
    volume = 10 * rng.randint(2, 12)
    mass = value * volume
    if rng.random() < 0.5:
        text = (
            f"一块固体的质量是 {shown(mass)} g，体积是 {volume} cm^3，它的密度是多少 g/cm^3？"
            if chinese
            else f"What is the density, in g/cm^3, of a solid block with a mass of {shown(mass)} g "
            f"and a volume of {volume} cm^3?"
        )
        mistakes = [mass * volume, value * 10, value / 10, mass - volume]
        return _draft("easy", text, value, "g/cm^3", mistakes)
    text = (
        f"某种固体的密度是 {shown(value)} g/cm^3，体积是 {volume} cm^3，它的质量是多少 g？"
        if chinese
        else f"What is the mass, in g, of a solid block with a density of {shown(value)} g/cm^3 "
        f"and a volume of {volume} cm^3?"
    )
    mistakes = [mass * 10, volume + value, mass / 2]
    return _draft("easy", text, mass, "g", mistakes)


UNITS: tuple[tuple[str, str, Fraction, tuple[int, ...], Difficulty], ...] = (
    ("km/h", "m/s", Fraction(5, 18), (18, 36, 54, 72, 90, 108, 126, 144), "medium"),
    ("m/s", "km/h", Fraction(18, 5), (5, 10, 15, 20, 25, 30, 35), "medium"),
    ("kg", "g", Fraction(1000), (3, 7, 12, 45), "easy"),
    ("g/cm^3", "kg/m^3", Fraction(1000), (2, 3, 8, 11), "medium"),
    ("h", "s", Fraction(3600), (2, 3, 4, 5), "easy"),
    ("cm^2", "m^2", Fraction(1, 10_000), (400, 2500, 6000, 75_000), "hard"),
    ("m^3", "L", Fraction(1000), (2, 5, 9), "easy"),
)
"""From, to, factor, numbers that give short results, difficulty."""


def unit_conversion(rng: Random, chinese: bool) -> Draft:
    """A quantity in another unit; the mistakes turn the factor round or slip a place."""
    source, target, factor, numbers, level = rng.choice(UNITS)
    number = rng.choice(numbers)
    value = number * factor
    text = (
        f"{number} {source} 等于多少 {target}？"
        if chinese
        else f"How many {target} is {number} {source}?"
    )
    turned = number / factor
    mistakes: list[Number] = [value * 10, value / 10, value * 100]
    if Fraction(turned * 10).denominator == 1:
        mistakes.insert(0, turned)
    return _draft(level, text, value, target, mistakes)


def force(rng: Random, chinese: bool) -> Draft:
    """F = m a for one of the three."""
    mass, gain = rng.choice((2, 4, 5, 8, 10, 20)), Fraction(rng.randint(3, 15), 2)
    push = mass * gain
    if rng.random() < 0.5:
        text = (
            f"质量为 {mass} kg 的物体受到 {shown(push)} N 的合力，它的加速度是多少 m/s^2？"
            if chinese
            else f"A net force of {shown(push)} N acts on an object of mass {mass} kg. "
            "What is its acceleration, in m/s^2?"
        )
        mistakes: list[Number] = [push * mass, push - mass, gain * 2, gain / 2]
        return _draft("easy", text, gain, "m/s^2", mistakes)
    text = (
        f"要使质量为 {mass} kg 的物体产生 {shown(gain)} m/s^2 的加速度，需要多少 N 的合力？"
        if chinese
        else f"What is the net force, in N, that gives an object of mass {mass} kg "
        f"an acceleration of {shown(gain)} m/s^2?"
    )
    return _draft("medium", text, push, "N", [mass + gain, push * 10, push / 2])


def current(rng: Random, chinese: bool) -> Draft:
    """Ohm's law for current, voltage or resistance."""
    ohms, amperes = (
        rng.choice((4, 5, 8, 10, 12, 20, 30)),
        Fraction(rng.choice((3, 5, 6, 7, 8, 9)), 4),
    )
    volts = ohms * amperes
    asked = rng.choice(("current", "resistance", "voltage"))
    if asked == "current":
        text = (
            f"{ohms} Ω 的电阻两端的电压是 {shown(volts)} V，通过它的电流是多少 A？"
            if chinese
            else f"The voltage across a resistor of {ohms} Ω is {shown(volts)} V. "
            "What is the current through it, in A?"
        )
        return _draft("easy", text, amperes, "A", [volts * ohms, amperes * 2, amperes / 2])
    if asked == "voltage":
        text = (
            f"通过 {ohms} Ω 电阻的电流是 {shown(amperes)} A，它两端的电压是多少 V？"
            if chinese
            else f"A current of {shown(amperes)} A flows through a resistor of {ohms} Ω. "
            "What is the voltage across it, in V?"
        )
        return _draft("easy", text, volts, "V", [ohms + amperes, volts * 2, volts / 2])
    text = (
        f"某电阻两端的电压是 {shown(volts)} V，通过它的电流是 {shown(amperes)} A，"
        "它的电阻是多少 Ω？"
        if chinese
        else f"The voltage across a resistor is {shown(volts)} V and the current through it is "
        f"{shown(amperes)} A. What is its resistance, in Ω?"
    )
    return _draft("medium", text, ohms, "Ω", [volts * amperes, ohms * 2, volts - amperes])
