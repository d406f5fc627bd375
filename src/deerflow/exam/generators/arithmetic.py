"""Percent and average."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from deerflow.exam.generators.drafts import Draft, Number, amounts, shown, three


def percent(rng: Random, chinese: bool) -> Draft:
    """A part of a number, a changed price, or the price before a change."""
    return rng.choice((_part, _changed, _before))(rng, chinese)


def _part(rng: Random, chinese: bool) -> Draft:
    rate, whole = rng.choice((5, 12, 15, 35, 45, 60, 75)), 20 * rng.randint(4, 30)
    value = Fraction(rate * whole, 100)
    text = f"{whole} 的 {rate}% 是多少？" if chinese else f"What is {rate}% of {whole}?"
    mistakes: list[Number] = [whole - value, value * 10, Fraction(whole, rate), value / 10]
    key, wrong = amounts(value, mistakes)
    return Draft("math", "easy", text, key, wrong, (key,))


def _changed(rng: Random, chinese: bool) -> Draft:
    rate, old = rng.choice((5, 10, 15, 20, 25, 30)), 20 * rng.randint(3, 40)
    down = rng.random() < 0.5
    step = Fraction(rate * old, 100)
    value = old - step if down else old + step
    text = (
        f"一件商品原价 {old} 元，{'降价' if down else '涨价'} {rate}% 后的价格是多少元？"
        if chinese
        else f"The price of an article is {old} yuan. What is the price, in yuan, after it is "
        f"{'reduced' if down else 'increased'} by {rate}%?"
    )
    mistakes: list[Number] = [step, old + step if down else old - step, Fraction(old - rate)]
    key, wrong = amounts(value, mistakes)
    return Draft("math", "medium", text, key, wrong, (key,))


def _before(rng: Random, chinese: bool) -> Draft:
    rate, old = rng.choice((10, 20, 25, 40)), 100 * rng.randint(2, 9)
    new = Fraction(old * (100 - rate), 100)
    text = (
        f"一件商品降价 {rate}% 后的价格是 {shown(new)} 元，原价是多少元？"
        if chinese
        else f"After a reduction by {rate}% an article costs {shown(new)} yuan. "
        "What was its price before, in yuan?"
    )
    mistakes: list[Number] = [new * (100 + rate) / 100, new * (100 - rate) / 100, new + rate]
    key, wrong = amounts(old, mistakes)
    return Draft("math", "hard", text, key, wrong, (key,))


def average(rng: Random, chinese: bool) -> Draft:
    """The mean of some numbers, or the number that a mean lacks."""
    return rng.choice((_mean, _lacking))(rng, chinese)


def _listed(numbers: list[int], chinese: bool) -> str:
    if chinese:
        return "、".join(map(str, numbers))
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _mean(rng: Random, chinese: bool) -> Draft:
    count = rng.choice((4, 5))
    numbers = [rng.randint(3, 40) for _ in range(count)]
    numbers[-1] += -sum(numbers) % count
    total, ordered = sum(numbers), sorted(numbers)
    listed = _listed(numbers, chinese)
    text = f"求 {listed} 的平均数。" if chinese else f"Find the average of {listed}."
    middle = Fraction(ordered[(count - 1) // 2] + ordered[count // 2], 2)
    mistakes: list[Number] = [middle, Fraction(total, count - 1), Fraction(total, count + 1)]
    near = [each for each in mistakes if Fraction(each).denominator in (1, 2)]
    key = str(total // count)
    wrong = tuple(shown(each) for each in three(total // count, near))
    return Draft("math", "easy", text, key, wrong, (key,))


def _lacking(rng: Random, chinese: bool) -> Draft:
    count = rng.choice((4, 5))
    known, mean = [rng.randint(8, 30) for _ in range(count - 1)], rng.randint(14, 24)
    while not 2 <= count * mean - sum(known) <= 45:
        known, mean = [rng.randint(8, 30) for _ in range(count - 1)], rng.randint(14, 24)
    value = count * mean - sum(known)
    listed = _listed(known, chinese)
    text = (
        f"{listed} 和 y 这 {count} 个数的平均数是 {mean}，求 y。"
        if chinese
        else f"The average of the {count} numbers {', '.join(map(str, known))} and y is {mean}. "
        "Find y."
    )
    mistakes: list[Number] = [(count - 1) * mean - sum(known), mean, abs(sum(known) - mean)]
    key, wrong = amounts(value, mistakes)
    return Draft("math", "medium", text, key, wrong, (key,), (f"y={key}",))
