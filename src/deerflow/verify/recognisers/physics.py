"""Questions of physics: one formula with two known quantities, conversion of units."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deerflow.verify.facts import Check, Question
from deerflow.verify.readers import number
from deerflow.verify.units import Quantity, Unit, dimensions, product, quantities, units_in

_ASK = (
    r"(?:what\b|which\b|how\s+(?:much|far|fast|long|many|large|big|great|heavy)|find|calculate|determine|compute"
    r"|work\s+out|求|计算|是多少|为多少|多大|多少|多远|多快|多久|多长时间|多长)"
)
_SPOILS = re.compile(
    r"\bfriction|\bcoefficient|\bseries\b|\bparallel\b|\binclin|\bfrom\s+rest\b|\breturn|\bround\s+trip|\beach\b|\banother\b|\bangle"
    r"|\bper\s+person|\bhalf\b|\btwice\b|\bdouble|\btwo\b|\bthree\b|\bother\b|\bresultant|\bdeceler|\binitial|\bfinal\b|\bremain"
    r"|摩擦|串联|并联|斜面|由静止|从静止|往返|返回|一半|两倍|每个|另一|初速|末速|减速|剩"
)
_ROUND = re.compile(
    r"\bround|\bnearest\b|\bapproximat|\bdecimal\s+place|\bsignificant|约|保留|精确"
)


@dataclass(frozen=True, slots=True)
class Role:
    """A quantity by its name: a unit of its dimensions, words that ask for it."""

    unit: str
    words: str


ROLES = {
    "force": Role("N", r"\bforce\b|力(?!学)"),
    "mass": Role("kg", r"\bmass\b|质量"),
    "acceleration": Role("m/s^2", r"\bacceleration\b|加速度"),
    "distance": Role("m", r"\bdistance\b|\bhow\s+far\b|路程|距离|多远|行驶多少千米"),
    "time": Role("s", r"\btime\b|\bhow\s+long\b|时间|多久|多长时间"),
    "speed": Role("m/s", r"\b(?:average\s+)?(?:speed|velocity)\b|\bhow\s+fast\b|速度|速率|多快"),
    "density": Role("kg/m^3", r"\bdensity\b|密度"),
    "volume": Role("m^3", r"\bvolume\b|体积"),
    "voltage": Role("V", r"\bvoltage\b|\bpotential\s+difference\b|\bp\.?d\.?\b|电压"),
    "current": Role("A", r"\bcurrent\b|电流"),
    "resistance": Role("Ω", r"\bresistance\b|电阻"),
    "power": Role("W", r"\bpower\b|功率"),
    "work": Role("J", r"\bwork\b|\benergy\b|做的?功|能量|电能"),
    "pressure": Role("Pa", r"\bpressure\b|压强"),
    "area": Role("m^2", r"\barea\b|面积"),
    "charge": Role("C", r"\bcharge\b|电荷量?"),
    "amount": Role("mol", r"\bmoles\b|\bamount\b|物质的量"),
}
FORMULAS = (
    ("newton_second_law", "force", "mass", "acceleration"),
    ("speed", "distance", "speed", "time"),
    ("density", "mass", "density", "volume"),
    ("ohms_law", "voltage", "current", "resistance"),
    ("electric_power", "power", "voltage", "current"),
    ("work", "work", "force", "distance"),
    ("power", "work", "power", "time"),
    ("pressure", "force", "pressure", "area"),
    ("charge", "charge", "current", "time"),
)
"""Kind, a product, its two factors."""
_CONVERT = re.compile(
    r"\bconvert|\bexpress\b|\bhow\s+many\b|\bin\s+terms\s+of\b|=\s*(?:\?|_+|\(\s*\))|\bchange\b|换算|等于多少|合多少|是多少|多少|转换|化成"
)


def formula(question: Question) -> Check | None:
    """One of FORMULAS with two quantities known and the third asked for."""
    text = question.lower
    if _SPOILS.search(text):
        return None
    sizes = quantities(question.text)
    known = [each for each in sizes if each.unit is not None]
    if len(known) != 2 or len(sizes) != 2 or any(each.size <= 0 for each in known):
        return None
    asked = _asked(text)
    for kind, *roles in FORMULAS:
        found = _fitting(asked, roles, known)
        if found is not None:
            return _check(kind, found, question, known)
    return None


def _asked(text: str) -> set[str]:
    """The roles that the question's last asking part names."""
    parts = [text[found.start() :] for found in re.finditer(_ASK, text)]
    tails = [re.split(r"[.。]\s|\(", part)[0] for part in parts]
    heads = re.findall(r"([^,.。?？;]*)(?:是多少|为多少|多大|等于多少)", text)
    named: set[str] = set()
    for part in (*tails, *heads):
        named |= {name for name, role in ROLES.items() if re.search(role.words, part)}
    return _narrow(named)


def _narrow(named: set[str]) -> set[str]:
    """Longer Chinese names hold shorter ones: 加速度 is no speed."""
    if "acceleration" in named:
        named = named - {"speed"}
    return named


def _fitting(
    asked: set[str], roles: list[str], known: list[Quantity]
) -> tuple[str, dict[str, Fraction]] | None:
    """The role that is asked for and the values of the other two."""
    for wanted in [role for role in roles if role in asked]:
        others = [role for role in roles if role != wanted]
        given: dict[str, Fraction] = {}
        for role in others:
            fits = [e for e in known if e.unit and e.unit.dims == dimensions(ROLES[role].unit)]
            if len(fits) == 1:
                given[role] = fits[0].size
        if len(given) == 2:
            return wanted, given
    return None


def _check(
    kind: str, found: tuple[str, dict[str, Fraction]], question: Question, known: list[Quantity]
) -> Check:
    wanted, given = found
    whole = next(roles[0] for name, *roles in FORMULAS if name == kind)
    if wanted == whole:
        one, other = given.values()
        tree: Any = ["mul", "", number(one), number(other)]
    else:
        factor = next(value for role, value in given.items() if role != whole)
        tree = ["div", "", number(given[whole]), number(factor)]
    dims = dimensions(ROLES[wanted].unit)
    named = [
        unit
        for unit, place in units_in(question.text)
        if unit.dims == dims and not any(each.start <= place < each.end for each in known)
        and re.search(r"(?:\bin|\bmany|多少|单位[是为:]?)\s*\(?$", question.text[:place])
    ]  # fmt: skip
    facts = {
        "target": tree,
        "dims": [list(part) for part in dims],
        "size": str(named[0].size if named else 1),
        "bare": bool(named),
        "rounded": _ROUND.search(question.lower) is not None,
    }
    return Check(kind, "quantity", facts)


def conversion(question: Question) -> Check | None:
    """One quantity in another unit, temperatures too."""
    if not _CONVERT.search(question.lower):
        return None
    temperature = _temperature(question)
    if temperature is not None:
        return temperature
    sizes = quantities(question.text)
    known = [each for each in sizes if each.unit is not None]
    if len(known) != 1 or len(sizes) != 1 or known[0].unit is None:
        return None
    dims = known[0].unit.dims
    others = [
        unit
        for unit, place in units_in(question.text)
        if not known[0].start <= place < known[0].end and unit.dims == dims
    ]
    wanted: list[Unit] = [unit for unit in others if unit.size != known[0].unit.size]
    if len({unit.size for unit in wanted}) != 1:
        return None
    parts = [(known[0].value, 1), (known[0].unit.size, 1)]
    facts = {
        "target": number(product(parts)),
        "dims": [list(part) for part in dims],
        "size": str(wanted[0].size),
        "bare": True,
        "rounded": _ROUND.search(question.lower) is not None,
    }
    return Check("unit_conversion", "quantity", facts)


_TEMPERATURE = re.compile(
    r"(-?[0-9]+(?:\.[0-9]+)?)\s*(?:°\s*)?(C|F|K|kelvins?|celsius|fahrenheit)\b", re.IGNORECASE
)
_SCALE = re.compile(
    r"(?:°\s*)?\b(celsius|fahrenheit|kelvins?)\b|°\s*([CF])\b|摄氏|华氏|开尔文", re.IGNORECASE
)


def _temperature(question: Question) -> Check | None:
    found = _TEMPERATURE.search(question.text)
    if found is None or len(re.findall(r"[0-9]+(?:\.[0-9]+)?", question.text)) != 1:
        return None
    rest = question.text[: found.start()] + " " + question.text[found.end() :]
    scales = {_letter(each.group()) for each in _SCALE.finditer(rest)} - {_letter(found[2])}
    if re.search(r"\bK\b", rest):
        scales.add("K")
    if len(scales) != 1:
        return None
    value, source, wanted = Fraction(found[1]), _letter(found[2]), scales.pop()
    celsius = {"C": value, "F": (value - 32) * 5 / 9, "K": value - Fraction("273.15")}[source]
    result = {"C": celsius, "F": celsius * 9 / 5 + 32, "K": celsius + Fraction("273.15")}[wanted]
    facts = {
        "target": number(result),
        "form": "plain",
        "rounded": True,
        "slack": "0.15" if "K" in (source, wanted) else "0",
    }
    return Check("unit_conversion", "value", facts)


def _letter(word: str) -> str:
    word = word.strip("° ").lower()
    return {"摄": "C", "华": "F", "开": "K"}.get(word[:1], word[:1].upper())
