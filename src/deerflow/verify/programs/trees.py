"""Formulas from JSON to sympy, within bounds; nothing is ever evaluated as Python.

Runs inside a sandbox, beside sympy and nothing else of ours.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from typing import Any

import sympy

DEEPEST = 120
MOST_NODES = 1_000
MOST_BITS = 4_096
LARGEST_SYMBOLIC = 24
DIGITS = re.compile(r"(?:[0-9]{1,40}(?:\.[0-9]{1,40})?|\.[0-9]{1,40})(?:/[0-9]{1,40})?")
NAME = re.compile(r"[A-Za-zθαβλΔ][0-9]{0,2}")

CALLS = {
    "sqrt": sympy.sqrt,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "cot": sympy.cot,
    "sec": sympy.sec,
    "csc": sympy.csc,
    "arcsin": sympy.asin,
    "arccos": sympy.acos,
    "arctan": sympy.atan,
    "abs": sympy.Abs,
    "exp": sympy.exp,
    "ln": sympy.log,
    "log": lambda value: sympy.log(value, 10),  # pyright: ignore[reportUnknownLambdaType]
}


class BoundsError(ValueError):
    """The tree is not one of ours, or would grow beyond all bounds."""


def rebuild(tree: Any, depth: int = 0) -> Any:
    """The sympy expression of a tree; a tuple of them for a list or an equation.

    Raises:
        BoundsError: see there.
    """
    if depth > DEEPEST or not isinstance(tree, list) or len(tree) < 2:
        raise BoundsError("no tree")
    if depth == 0 and count(tree) > MOST_NODES:
        raise BoundsError("too many parts")
    kind, value = tree[0], tree[1]
    if kind == "number":
        if not isinstance(value, str) or not DIGITS.fullmatch(value):
            raise BoundsError("no number")
        return sympy.Rational(value)
    if kind == "name":
        if not isinstance(value, str) or not NAME.fullmatch(value):
            raise BoundsError("no name")
        return sympy.Symbol(value)
    if kind == "pi":
        return sympy.pi
    parts = [rebuild(part, depth + 1) for part in tree[2:]]
    if kind in ("list", "equation"):
        return tuple(parts)
    if any(isinstance(part, tuple) for part in parts):
        raise BoundsError("a list stands where a number belongs")
    return combine(kind, value, parts)


def combine(kind: str, value: str, parts: list[Any]) -> Any:
    """One operation on sympy expressions."""
    if kind == "add":
        return bounded(sympy.Add(*parts))
    if kind == "mul":
        return bounded(sympy.Mul(*parts))
    if kind == "div":
        if parts[1].is_zero:
            raise BoundsError("division by zero")
        return bounded(parts[0] / parts[1])
    if kind == "pow":
        return power(parts[0], parts[1])
    if kind == "neg":
        return -parts[0]
    if kind == "percent":
        return parts[0] / 100
    if kind == "degree":
        return parts[0] * sympy.pi / 180
    if kind == "call":
        return called(value, parts[0])
    raise BoundsError("no operation")


def called(name: str, value: Any) -> Any:
    """A function's value; one of those that we know."""
    if name not in CALLS:
        raise BoundsError("no function")
    if name == "exp" and not value.free_symbols and abs(value.evalf()) > 100:
        raise BoundsError("an exponent is too large")
    return bounded(CALLS[name](value))


def power(below: Any, above: Any) -> Any:
    """A power that stays small.

    Raises:
        BoundsError: it would not.
    """
    if above.is_Rational:
        size = abs(above)
        if below.is_Rational:
            bits = max(int(below.p).bit_length(), int(below.q).bit_length())
            if bits * size > MOST_BITS:
                raise BoundsError("a power is too large")
        elif size > LARGEST_SYMBOLIC:
            raise BoundsError("an exponent is too large")
        if below.is_zero and above <= 0:
            raise BoundsError("a power of zero")
    elif not above.free_symbols and below.is_Rational:
        raise BoundsError("an exponent is not rational")
    return bounded(below**above)


def bounded(value: Any) -> Any:
    """The value itself.

    Raises:
        BoundsError: it is infinite, undefined, or a number with thousands of digits.
    """
    if value.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
        raise BoundsError("no finite number")
    for number in value.atoms(sympy.Rational):
        if max(int(number.p).bit_length(), int(number.q).bit_length()) > MOST_BITS:
            raise BoundsError("a number is too large")
    return value


def count(tree: Any) -> int:
    """How many parts a tree has; stops counting soon after there are too many."""
    total, waiting = 0, [tree]
    while waiting and total <= MOST_NODES:
        total += 1
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(child for child in part[2:] if isinstance(child, list))
    return total


def equal(one: Any, other: Any) -> bool:
    """Whether two expressions are the same for all values of their names."""
    difference = one - other
    if difference.is_zero:
        return True
    if not difference.free_symbols and abs(complex(difference.evalf(30))) > 1e-15:
        return False
    if sympy.expand(difference).is_zero:
        return True
    return bool(sympy.simplify(difference).is_zero)
