"""What a kind of question draws before it becomes a record: text, key, typical mistakes, rubric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Literal

from deerflow.exam.dataset import Subject

Difficulty = Literal["easy", "medium", "hard"]
Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Draft:
    """One question without number, form and letter.

    Attributes:
        subject: it belongs to.
        difficulty: of this draw.
        text: the question, in English or Chinese.
        key: the right answer as an option or a reference answer writes it.
        wrong: three answers that differ from the key and from each other in value.
        criteria: of the written form, worth one point each; none where only letters are asked.
        accept: other spellings of the whole answer; a grader takes them for every criterion.
    """

    subject: Subject
    difficulty: Difficulty
    text: str
    key: str
    wrong: tuple[str, ...]
    criteria: tuple[str, ...]
    accept: tuple[str, ...] = ()


Maker = Callable[[Random, bool], Draft]
"""Draws a question; the second argument asks for Chinese."""


def shown(number: Number) -> str:
    """A number as people write it: whole, a decimal that ends within four places, or a fraction."""
    value = Fraction(number)
    if value.denominator == 1:
        return str(value.numerator)
    scaled = value * 10_000
    if scaled.denominator == 1:
        sign = "-" if value < 0 else ""
        whole, rest = divmod(abs(scaled.numerator), 10_000)
        return f"{sign}{whole}.{str(rest).zfill(4).rstrip('0')}"
    return f"{value.numerator}/{value.denominator}"


def three(key: Number, mistakes: Iterable[Number]) -> list[Number]:
    """The first three mistakes that are not the key, even rounded; values near it fill up."""
    found: list[Number] = []
    near = [key * 2, key + 1, key + 2, key - 1, key * 3, key + 10]
    for each in (*mistakes, *near):
        if each not in found and not _rounded(each, key):
            found.append(each)
        if len(found) == 3:
            break
    return found


def _rounded(number: Number, key: Number) -> bool:
    """Whether a number is the key, or could pass for it with fewer decimal places."""
    places = len(shown(number).partition(".")[2])
    return abs(number - key) * 2 * 10**places <= (1 if "/" not in shown(number) else 0)


def amounts(key: Number, mistakes: Iterable[Number], unit: str = "") -> tuple[str, tuple[str, ...]]:
    """Key and three mistakes as text, with a unit: "%" is joined, others stand apart."""
    tail = unit if unit in ("", "%") else f" {unit}"
    # A negative or vanishing quantity gives itself away wherever the key is positive.
    likely = [each for each in mistakes if (key <= 0 or each > 0) and "/" not in shown(each)]
    return f"{shown(key)}{tail}", tuple(f"{shown(each)}{tail}" for each in three(key, likely))


def measured(
    kind: tuple[Subject, Difficulty],
    text: str,
    value: Number,
    unit: str,
    mistakes: Sequence[Number],
) -> Draft:
    """A quantity in the unit that the question names; `kind` is subject and difficulty.

    A bare number is accepted where it cannot be found in the unit itself or in most answers.
    """
    key, wrong = amounts(value, mistakes, unit)
    accept = [key.replace(" ", "")]
    if any(mark.isdigit() for mark in unit):
        accept += [key.replace("^2", "²").replace("^3", "³"), key.replace("^", "")]
    elif len(shown(value)) > 1:
        accept.append(shown(value))
    return Draft(*kind, text, key, wrong, (key,), tuple(accept))


def polynomial(*coefficients: int) -> str:
    """E.g. (2, -5, 0) as "2x^2 - 5x"; the highest power comes first."""
    parts: list[str] = []
    top = len(coefficients) - 1
    for power, factor in zip(range(top, -1, -1), coefficients, strict=True):
        if factor == 0:
            continue
        size = "" if abs(factor) == 1 and power else str(abs(factor))
        name = {0: "", 1: "x"}.get(power, f"x^{power}")
        sign = (" - " if factor < 0 else " + ") if parts else ("-" if factor < 0 else "")
        parts.append(f"{sign}{size}{name}")
    return "".join(parts) or "0"


def nonzero(rng: Random, low: int, high: int) -> int:
    """A whole number of the range that is not 0."""
    return rng.choice([each for each in range(low, high + 1) if each])
