"""Units: their sizes and dimensions, and quantities in prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

Dimensions = tuple[tuple[str, int], ...]
"""Powers of m, kg, s, A, K, mol, sorted by name; without zeros."""

_TABLE = """
m=m 1: m metre metres meter meters 米
km=m 1000: km kilometre kilometres kilometer kilometers 千米 公里
cm=m 1/100: cm centimetre centimetres centimeter centimeters 厘米
mm=m 1/1000: mm millimetre millimetres millimeter millimeters 毫米
dm=m 1/10: dm decimetre decimetres decimeter decimeters 分米
um=m 1/1000000: μm micrometre micrometer micrometres micrometers 微米
nm=m 1/1000000000: nm nanometre nanometer nanometres nanometers 纳米
mi=m 1609344/1000: mi mile miles 英里
ft=m 3048/10000: ft foot feet 英尺
in=m 254/10000: inch inches 英寸
yd=m 9144/10000: yd yard yards
kg=kg 1: kg kilogram kilograms kilogramme kilogrammes 千克 公斤
g=kg 1/1000: g gram grams gramme grammes 克
mg=kg 1/1000000: mg milligram milligrams 毫克
t=kg 1000: tonne tonnes 吨
lb=kg 45359237/100000000: lb lbs pound pounds 磅
s=s 1: s sec secs second seconds 秒
ms=s 1/1000: ms millisecond milliseconds 毫秒
min=s 60: min mins minute minutes 分钟 分
h=s 3600: h hr hrs hour hours 小时 时
day=s 86400: day days 天
A=A 1: A amp amps ampere amperes 安培 安
mA=A 1/1000: mA milliamp milliamps milliampere milliamperes 毫安
K=K 1: K kelvin kelvins 开尔文
mol=mol 1: mol mole moles 摩尔 摩
L=m3 1/1000: L l litre litres liter liters 升
mL=m3 1/1000000: mL ml millilitre millilitres milliliter milliliters 毫升
ha=m2 10000: ha hectare hectares 公顷
N=kg.m.s-2 1: N newton newtons 牛顿 牛
kN=kg.m.s-2 1000: kN kilonewton kilonewtons 千牛
J=kg.m2.s-2 1: J joule joules 焦耳 焦
kJ=kg.m2.s-2 1000: kJ kilojoule kilojoules 千焦
kWh=kg.m2.s-2 3600000: kWh 千瓦时
W=kg.m2.s-3 1: W watt watts 瓦特 瓦
kW=kg.m2.s-3 1000: kW kilowatt kilowatts 千瓦
Pa=kg.m-1.s-2 1: Pa pascal pascals 帕斯卡 帕
kPa=kg.m-1.s-2 1000: kPa kilopascal kilopascals 千帕
V=kg.m2.s-3.A-1 1: V volt volts 伏特 伏
kV=kg.m2.s-3.A-1 1000: kV kilovolt kilovolts 千伏
Ohm=kg.m2.s-3.A-2 1: Ω ohm ohms Ohm Ohms 欧姆 欧
kOhm=kg.m2.s-3.A-2 1000: kΩ kilohm kilohms kiloohm 千欧
C=A.s 1: C coulomb coulombs 库仑 库
Hz=s-1 1: Hz hertz 赫兹 赫
kmh=m.s-1 5/18: kph kmh
mph=m.s-1 44704/100000: mph
"""
_PREFIXED = {"平方": 2, "立方": 3, "square": 2, "cubic": 3, "sq": 2, "cu": 3}
_NUMBER = (
    r"(?<![A-Za-z0-9_.^])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9])|[0-9]+/[0-9]+"
    r"|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:\s*[*x]\s*10\s*\^\s*\(?[-+]?[0-9]{1,3}\)?)?"
)


def _rows() -> Iterator[tuple[str, Fraction, Dimensions]]:
    for line in _TABLE.strip().splitlines():
        head, words = line.split(":")
        _, definition = head.split("=")
        powers, size = definition.split()
        dims = tuple(
            sorted(
                (found.group(1), int(found.group(2) or 1))
                for found in re.finditer(r"([A-Za-z]+)(-?[0-9]+)?", powers)
            )
        )
        for word in words.split():
            yield word, Fraction(size), dims


UNITS = {word: (size, dims) for word, size, dims in _rows()}
"""Word → size in SI base units, dimensions."""

_PREFIX = rf"(?:{'|'.join(_PREFIXED)})\s*"
_WORD = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_POWER = r"\s*\^?\s*\(?-?[0-9](?![0-9]|\.[0-9])\)?"
_ONE = rf"(?:{_PREFIX})?(?:{_WORD})(?![A-Za-z])(?:{_POWER})?"
_UNIT = re.compile(rf"{_ONE}(?:\s*(?:/|\bper\b|每|\*|\.(?=[A-Za-z])|\s)\s*{_ONE})*")
_PART = re.compile(
    rf"(?P<by>/|\bper\b|每)?\s*(?P<prefix>{_PREFIX})?(?P<unit>{_WORD})(?![A-Za-z])"
    r"(?:\s*\^?\s*\(?(?P<power>-?[0-9])(?![0-9]|\.[0-9])\)?)?"
)
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})\s*-?\s*(?P<unit>{_UNIT.pattern})?")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its size in SI base units and its dimensions."""

    size: Fraction
    dims: Dimensions


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, or with none.

    Attributes:
        number: as written, e.g. "1.5*10^3".
        unit: None where no unit follows.
        start: in the text.
        end: in the text.
    """

    number: str
    unit: Unit | None
    start: int
    end: int

    @property
    def value(self) -> Fraction:
        """The number alone."""
        return amount(self.number)

    @property
    def size(self) -> Fraction:
        """In SI base units; the number alone where no unit follows."""
        return self.value * (self.unit.size if self.unit else 1)


def amount(number: str) -> Fraction:
    """The value of digits as quantities have them ("1,000", "3/2", "6.02*10^23")."""
    text = number.replace(",", "").replace(" ", "")
    power = re.search(r"[*x]10\^\(?([-+]?[0-9]{1,3})\)?$", text)
    if power is None:
        return _fraction(text)
    return _fraction(text[: power.start()]) * Fraction(10) ** int(power.group(1))


def _fraction(text: str) -> Fraction:
    above, _, below = text.partition("/")
    return Fraction(above) / (Fraction(below) or 1) if below else Fraction(above)


def quantities(text: str) -> list[Quantity]:
    """All numbers of a plain text with the units that follow them."""
    return [
        Quantity(
            found["number"],
            unit_of(found["unit"]) if found["unit"] else None,
            found.start(),
            found.end() if found["unit"] else found.start() + len(found["number"]),
        )
        for found in _QUANTITY.finditer(text)
        if len(found["number"]) <= 40
    ]


def unit_of(text: str) -> Unit | None:
    """The unit that a text is ("km/h", "metres per second squared", "千克/立方米")."""
    size, dims, below, place = Fraction(1), dict[str, int](), False, 0
    text = text.strip()
    while place < len(text):
        found = _PART.match(text, place)
        if found is None or found.end() == place:
            return None
        below = below or found["by"] is not None
        power = int(found["power"] or _PREFIXED.get((found["prefix"] or "").strip(), 1))
        power = -power if below else power
        one, parts = UNITS[found["unit"]]
        size *= one**power
        for name, times in parts:
            dims[name] = dims.get(name, 0) + times * power
        place = found.end()
        while place < len(text) and text[place] in " *.":
            place += 1
    return Unit(size, tuple(sorted((name, power) for name, power in dims.items() if power)))


def units_in(text: str) -> list[tuple[Unit, int]]:
    """Units that are named in a plain text without a number, with their places."""
    found = [(unit_of(match.group()), match.start()) for match in _NAMED.finditer(text)]
    return [(unit, place) for unit, place in found if unit is not None]


_NAMED = re.compile(rf"(?<![\w^/]){_UNIT.pattern}")


def dimensions(text: str) -> Dimensions:
    """Dimensions of a unit of the table. A mistake in our own tables is a KeyError."""
    unit = unit_of(text)
    if unit is None:
        raise KeyError(text)
    return unit.dims


def product(parts: list[tuple[Fraction, int]]) -> Fraction:
    """The product of powers."""
    return reduce(lambda total, part: total * part[0] ** part[1], parts, Fraction(1))
