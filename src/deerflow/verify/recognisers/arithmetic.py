"""Questions of arithmetic: values of expressions, percentages, averages, divisors, triangles."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from deerflow.verify.facts import Check, Question
from deerflow.verify.grammar import names, to_json, walk
from deerflow.verify.readers import number
from deerflow.verify.statements import runs
from deerflow.verify.units import amount, quantities

_N = r"(-?[0-9][0-9,]*(?:\.[0-9]+)?)"
_EVALUATE = re.compile(
    r"\bcalculate|\bcompute|\bevaluate|\bwhat\s+is\b|\bwhat's\b|\bvalue\s+of\b|\bwork\s+out\b|\bfind\b|=\s*\?|\bsimplif"
    r"|\bequals?\b|=|计算|求|等于|是多少|的值|化简"
)
_ROUND = re.compile(
    r"\bround|\bnearest\b|\bapproximate|\bdecimal\s+places?\b|\bsignificant|\babout\b|约|保留|精确到|近似"
)
_OF = re.compile(
    rf"(?:what\s+is\s+|calculate\s+|find\s+|compute\s+)?{_N}\s*%\s*(?:of)\s+{_N}(?![0-9]*\s*%)"
)
_OF_ZH = re.compile(rf"{_N}\s*的\s*(?:{_N}\s*%)")
_WHAT_PERCENT = (
    re.compile(rf"{_N}\s+is\s+what\s+(?:percent(?:age)?|%)\s+of\s+{_N}"),
    re.compile(rf"{_N}\s*(?:是|占)\s*{_N}\s*的(?:百分之几|百分之多少)"),
)
_WHAT_PERCENT_TURNED = re.compile(rf"what\s+(?:percent(?:age)?|%)\s+of\s+{_N}\s+is\s+{_N}")
_CHANGE = re.compile(
    rf"(?:percent(?:age)?\s+(?:change|increase|decrease)[^0-9]*|(?:increase|decrease|rise|fall|drop)[sd]?\s+)from\s+[^0-9]{{0,3}}{_N}[^0-9]*\bto\s+[^0-9]{{0,3}}{_N}"
)
_MEAN = re.compile(r"\b(?:average|mean)\b|平均数|平均值|算术平均")
_NOT_MEAN = re.compile(
    r"\bspeed\b|\bweighted|\bgeometric|\bharmonic|速度|加权|如果|\bif\b|\bremov|\badd"
)
_GCD = re.compile(
    r"\bgreatest\s+common\s+(?:divisor|factor)|\bhighest\s+common\s+factor|\bgcd\b|\bhcf\b|\bgcf\b|最大公(?:约|因)数"
)
_LCM = re.compile(r"\bleast\s+common\s+multiple|\blowest\s+common\s+multiple|\blcm\b|最小公倍数")
_RIGHT = re.compile(r"\bright(?:-angled|\s+angled)?\s+triangle|直角三角形|\bpythagor")
_HYPOTENUSE = re.compile(r"\bhypotenuse\b|斜边")
_LEGS = re.compile(r"\blegs?\b|\b(?:shorter|other|perpendicular)\s+sides?\b|直角边|两边")
_ASKED_END = re.compile(
    r"(?:\bfind|\bwhat|\bcalculate|\bdetermine|\bhow\s+long|求|则|是多少|为多少|多长)"
)


def _value(kind: str, tree: Any, question: Question, **facts: Any) -> Check:
    rounded = _ROUND.search(question.lower) is not None
    return Check(kind, "value", {"target": tree, "form": "plain", "rounded": rounded, **facts})


def _fraction(text: str) -> Fraction:
    return amount(text.rstrip(","))


def evaluation(question: Question) -> Check | None:
    """The value of one expression without names."""
    if not _EVALUATE.search(question.lower):
        return None
    found = [run.node for run in runs(question.text, frozenset())]
    if any(node.kind in ("list", "equation") for node in found) or len(found) != 1:
        return None
    node = found[0]
    operations = {part.kind for part in walk(node)} - {"number", "neg", "pi"}
    if names(node) or not operations or operations == {"percent"} or "pm" in operations:
        return None
    if operations == {"degree"} or re.search(r"[0-9]\s*[A-Za-z]{2,}", _after(question.text)):
        return None
    return _value("evaluation", to_json(node), question)


def _after(text: str) -> str:
    """What follows the last number of a text, with that number: a unit makes it no plain value."""
    found = list(re.finditer(r"[0-9]", text))
    return text[found[-1].start() :] if found and len(quantities(text)) and any(
        each.unit for each in quantities(text)) else ""  # fmt: skip


def percentage(question: Question) -> Check | None:
    """A percentage of a number, a share in percent, or a change in percent."""
    text = question.lower
    if len(re.findall(r"[0-9][0-9,.]*", text)) != 2:
        return None
    for pattern, turned in (
        *((each, False) for each in _WHAT_PERCENT),
        (_WHAT_PERCENT_TURNED, True),
    ):
        found = pattern.search(text)
        if found:
            part, whole = (_fraction(each) for each in found.groups()[:: -1 if turned else 1])
            return _percent("percentage_share", part / whole, question) if whole else None
    found = _CHANGE.search(text)
    if found:
        old, new = _fraction(found[1]), _fraction(found[2])
        return _percent("percentage_change", abs(new - old) / old, question) if old else None
    found = _OF.search(text)
    if found:
        return _value(
            "percentage", number(_fraction(found[1]) * _fraction(found[2]) / 100), question
        )
    found = _OF_ZH.search(text)
    if found:
        return _value(
            "percentage", number(_fraction(found[1]) * _fraction(found[2]) / 100), question
        )
    return None


def _percent(kind: str, share: Fraction, question: Question) -> Check:
    """A share; answers may be 25 %, or 25 alone since percent are asked for."""
    return _value(kind, number(share), question, percent=True)


def average(question: Question) -> Check | None:
    """The mean of numbers that are listed."""
    if not _MEAN.search(question.lower) or _NOT_MEAN.search(question.lower):
        return None
    found = [run.node for run in runs(question.text, frozenset())]
    lists = [node for node in found if node.kind == "list"]
    if len(lists) != 1 or len(found) != 1:
        return None
    parts = lists[0].children
    if any(names(part) or part.kind in ("list", "equation") for part in parts):
        return None
    total = to_json(parts[0])
    for part in parts[1:]:
        total = ["add", "", total, to_json(part)]
    return _value("average", ["div", "", total, ["number", str(len(parts))]], question)


def divisors(question: Question) -> Check | None:
    """Greatest common divisor or least common multiple of whole numbers."""
    gcd, lcm = _GCD.search(question.lower), _LCM.search(question.lower)
    if bool(gcd) == bool(lcm):
        return None
    digits = re.findall(r"(?<![0-9.])[0-9]{1,9}(?![0-9]*\.[0-9])", question.text)
    numbers = [int(each) for each in digits]
    if not 2 <= len(numbers) <= 6 or not all(numbers):
        return None
    result = math.gcd(*numbers) if gcd else math.lcm(*numbers)
    return _value("gcd" if gcd else "lcm", ["number", str(result)], question)


def right_triangle(question: Question) -> Check | None:
    """The hypotenuse from two legs, or a leg from the hypotenuse and the other leg."""
    if not _RIGHT.search(question.lower):
        return None
    sizes = quantities(question.text)
    units = {(each.unit.size, each.unit.dims) for each in sizes if each.unit}
    if len(sizes) != 2 or len(units) > 1 or any(each.value <= 0 for each in sizes):
        return None
    if units and next(iter(units))[1] != (("m", 1),):
        return None
    asked = _asked(question)
    if asked is None:
        return None
    squares: list[Any] = [["pow", "", number(each.value), ["number", "2"]] for each in sizes]
    if asked == "hypotenuse":
        inner = ["add", "", *squares]
    else:
        longer, shorter = sorted(sizes, key=lambda each: each.value, reverse=True)
        if longer.value == shorter.value:
            return None
        ordered = sorted(squares, key=lambda tree: Fraction(tree[2][1]), reverse=True)
        inner = ["add", "", ordered[0], ["neg", "", ordered[1]]]
    length: Any = ["call", "sqrt", inner]
    rounded = _ROUND.search(question.lower) is not None
    if not units or not _whole_root(inner):
        return Check(asked, "value", {"target": length, "rounded": rounded})
    size = next(iter(units))[0]
    facts = {
        "target": ["mul", "", length, number(size)],
        "dims": [["m", 1]],
        "size": str(size),
        "bare": True,
        "rounded": rounded,
    }
    return Check(asked, "quantity", facts)


def _whole_root(inner: Any) -> bool:
    """Whether a sum or difference of two squares is a square of a whole number."""
    one, other = inner[2], inner[3]
    sign = -1 if other[0] == "neg" else 1
    other = other[2] if sign < 0 else other
    square = Fraction(one[2][1]) ** 2 + sign * Fraction(other[2][1]) ** 2
    return square.denominator == 1 and math.isqrt(int(square)) ** 2 == square


def _asked(question: Question) -> str | None:
    """Which side is asked for: the one that is named where it is asked, not where it is told."""
    text = question.lower
    starts = [found.start() for found in _ASKED_END.finditer(text)]
    told = " ".join(_before_numbers(text))
    hypotenuse_asked = any(_HYPOTENUSE.search(text[start:]) for start in starts[-1:]) or (
        _HYPOTENUSE.search(text) is not None and _HYPOTENUSE.search(told) is None
    )
    legs_told = _LEGS.search(text) is not None or re.search(r"\bsides?\b", text) is not None
    if hypotenuse_asked and legs_told and not re.search(r"\barea|\bperimeter|面积|周长", text):
        return "hypotenuse"
    if _HYPOTENUSE.search(told) and re.search(r"\b(?:other|remaining|second)\b|另一", text):
        return "leg"
    return None


def _before_numbers(text: str) -> list[str]:
    places = [found.start() for found in re.finditer(r"[0-9]+", text)]
    return [text[max(0, place - 60) : place] for place in places]
