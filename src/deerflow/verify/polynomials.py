"""Polynomials with rational coefficients: a normal form, within bounds."""

from __future__ import annotations

from fractions import Fraction

from deerflow.verify.grammar import Node

Monomial = tuple[tuple[str, int], ...]
"""Names with their powers, sorted; () is the constant."""
Terms = dict[Monomial, Fraction]

MOST_TERMS = 100
LARGEST_POWER = 24
MOST_BITS = 2_048


def expanded(node: Node) -> Terms | None:
    """The terms of a formula without those that are zero; None where it is no small polynomial."""
    match node.kind:
        case "number":
            return _cleaned({(): Fraction(node.value)})
        case "name":
            return {((node.value, 1),): Fraction(1)}
        case "add" | "mul" | "div" | "pow" | "neg" | "percent":
            parts = [expanded(child) for child in node.children]
            known = [part for part in parts if part is not None]
            return _combined(node, known) if len(known) == len(parts) else None
        case _:
            return None


def _combined(node: Node, parts: list[Terms]) -> Terms | None:
    match node.kind:
        case "add":
            return _sum(parts[0], parts[1])
        case "mul":
            return _product(parts[0], parts[1])
        case "neg":
            return {key: -value for key, value in parts[0].items()}
        case "percent":
            return {key: value / 100 for key, value in parts[0].items()}
        case "div":
            below = _constant(parts[1])
            return {key: value / below for key, value in parts[0].items()} if below else None
        case _:
            return _power(parts[0], _constant(parts[1]))


def _power(below: Terms, above: Fraction | None) -> Terms | None:
    if above is None or above.denominator != 1 or abs(above) > LARGEST_POWER * 4:
        return None
    constant = _constant(below)
    if constant is not None:
        size = max(constant.numerator.bit_length(), constant.denominator.bit_length())
        if size * abs(above) > MOST_BITS or (not constant and above <= 0):
            return None
        return _cleaned({(): constant ** int(above)})
    if not 0 < above <= LARGEST_POWER:
        return None
    total: Terms | None = below
    for _ in range(int(above) - 1):
        total = None if total is None else _product(total, below)
    return total


def _constant(terms: Terms) -> Fraction | None:
    if any(key for key in terms):
        return None
    return terms.get((), Fraction(0))


def _sum(one: Terms, other: Terms) -> Terms | None:
    total = dict(one)
    for key, value in other.items():
        total[key] = total.get(key, Fraction(0)) + value
    return _cleaned(total)


def _product(one: Terms, other: Terms) -> Terms | None:
    if len(one) * len(other) > MOST_TERMS * MOST_TERMS // 4:
        return None
    total: Terms = {}
    for left, first in one.items():
        for right, second in other.items():
            powers = dict(left)
            for name, power in right:
                powers[name] = powers.get(name, 0) + power
            key = tuple(sorted(powers.items()))
            total[key] = total.get(key, Fraction(0)) + first * second
    return _cleaned(total)


def _cleaned(terms: Terms) -> Terms | None:
    """The terms that are not zero; None when they grew beyond the bounds."""
    terms = {key: value for key, value in terms.items() if value}
    sizes = (max(v.numerator.bit_length(), v.denominator.bit_length()) for v in terms.values())
    if len(terms) > MOST_TERMS or any(size > MOST_BITS for size in sizes):
        return None
    return terms
