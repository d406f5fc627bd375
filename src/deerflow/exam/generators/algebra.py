"""Algebra: linear equations, roots, factors, products, values of expressions."""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from random import Random

from deerflow.exam.generators.drafts import Draft, nonzero, polynomial, shown, three


def linear_equation(rng: Random, chinese: bool) -> Draft:
    """Numbers and x on both sides; the mistakes move a term without changing its sign."""
    solution, low = nonzero(rng, -9, 12), rng.randint(2, 4)
    high = low + rng.randint(2, 6)
    left = nonzero(rng, -9, 9)
    right = (high - low) * solution + left
    equation = f"{polynomial(high, left)} = {polynomial(low, right)}"
    mistakes = [
        Fraction(right + left, high - low),
        Fraction(right - left, high + low),
        Fraction(-solution),
        Fraction(right, high - low),
    ]
    wrong = tuple(f"x = {shown(each)}" for each in three(solution, mistakes))
    text = f"解方程：{equation}。" if chinese else f"Solve the equation {equation} for x."
    key = f"x = {solution}"
    accept = (f"x={solution}", f"x equals {solution}")
    return Draft("math", "easy", text, key, wrong, (key,), accept)


def quadratic_roots(rng: Random, chinese: bool) -> Draft:
    """Two different whole roots; the mistakes turn signs."""
    one = nonzero(rng, -7, 7)
    two = rng.choice([each for each in range(-7, 8) if each and abs(each) != abs(one)])
    one, two = sorted((one, two))
    equation = f"{polynomial(1, -(one + two), one * two)} = 0"
    text = (
        f"求方程 {equation} 的两个根。"
        if chinese
        else f"Find both roots of the equation {equation}."
    )
    word = "或" if chinese else "or"

    def pair(first: int, second: int) -> str:
        low, high = sorted((first, second))
        return f"x = {low} {word} x = {high}"

    wrong = (pair(-one, -two), pair(-one, two), pair(one, -two))
    accept = (
        f"x={one} or x={two}",
        f"x={two} or x={one}",
        f"x1={one}, x2={two}",
        f"x1={two}, x2={one}",
        f"{one} and {two}",
        f"{two} and {one}",
        f"{one}, {two}",
    )
    criteria = (f"x = {one}", f"x = {two}")
    return Draft("math", "medium", text, pair(one, two), wrong, criteria, accept)


def factoring(rng: Random, chinese: bool) -> Draft:
    """A product of two binomials; the mistakes turn signs, so their products differ."""
    lead, one, two = rng.choice((1, 1, 2, 3)), nonzero(rng, -8, 8), nonzero(rng, -8, 8)
    while gcd(lead, one) > 1 or abs(one) == abs(lead * two):
        one, two = nonzero(rng, -8, 8), nonzero(rng, -8, 8)
    product = polynomial(lead, lead * two + one, one * two)

    def factors(first: int, second: int) -> str:
        return f"({polynomial(lead, first)})({polynomial(1, second)})"

    text = f"分解因式：{product}。" if chinese else f"Factor {product} completely."
    wrong = (factors(-one, -two), factors(-one, two), factors(one, -two))
    close = [f"({polynomial(lead, one)})", f"({polynomial(1, two)})"]
    tight = [each.replace(" ", "") for each in close]
    accept = ("".join(tight), "".join(reversed(tight)))
    level = "medium" if lead == 1 else "hard"
    return Draft("math", level, text, "".join(close), wrong, tuple(close), accept)


def expansion(rng: Random, chinese: bool) -> Draft:
    """The product of two binomials; the mistakes lose the middle term or a sign."""
    lead, other = rng.randint(1, 4), rng.randint(1, 3)
    one, two = nonzero(rng, -7, 7), nonzero(rng, -7, 7)
    while lead * two + other * one == 0:
        two = nonzero(rng, -7, 7)
    first, middle, last = lead * other, lead * two + other * one, one * two
    crossed = lead * two - other * one
    shapes = [
        (first, 0, last),
        (first, -middle, last),
        (first, middle, -last),
        (first, crossed, last),
    ]
    rng.shuffle(shapes)
    key = polynomial(first, middle, last)
    wrong = [text for text in dict.fromkeys(polynomial(*shape) for shape in shapes) if text != key]
    product = f"({polynomial(lead, one)})({polynomial(other, two)})"
    text = f"展开并化简：{product}。" if chinese else f"Expand and simplify {product}."
    accept = (key.replace(" ", ""),)
    return Draft("math", "medium", text, key, tuple(wrong[:3]), (key,), accept)


def evaluation(rng: Random, chinese: bool) -> Draft:
    """A quadratic at a negative number; the mistakes lose a sign or square the factor too."""
    a, b, c, x = rng.randint(2, 5), nonzero(rng, -6, 6), nonzero(rng, -9, 9), -rng.randint(2, 4)
    value = a * x * x + b * x + c
    if abs(value) < 10:  # a single digit would be found in many wrong answers
        return evaluation(rng, chinese)
    mistakes = [
        -a * x * x + b * x + c,
        a * x * x - b * x + c,
        (a * x) ** 2 + b * x + c,
        2 * a * x + b * x + c,
    ]
    expression = polynomial(a, b, c)
    text = (
        f"当 x = {x} 时，求 {expression} 的值。"
        if chinese
        else f"Find the value of {expression} when x = {x}."
    )
    wrong = tuple(shown(each) for each in three(value, mistakes))
    return Draft("math", "easy", text, str(value), wrong, (str(value),))
