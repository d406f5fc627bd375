"""Percent and average."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from deerflow.exam.generators.drafts import Difficulty, Draft, Number, amounts, shown


def percent(rng: Random, chinese: bool) -> Draft:
    """A part of a number, its share in percent, or a change in percent."""
    return rng.choice((_part, _share, _share if chinese else _change))(rng, chinese)


def _part(rng: Random, chinese: bool) -> Draft:
    rate, whole = rng.choice((5, 12, 15, 35, 45, 60, 75)), 20 * rng.randint(4, 30)
    value = Fraction(rate * whole, 100)
    text = f"{whole} 的 {rate}% 是多少？" if chinese else f"What is {rate}% of {whole}?"
    mistakes: list[Number] = [whole - value, value * 10, Fraction(whole, rate), value / 10]
    key, wrong = amounts(value, mistakes)
    return Draft("math", "easy", text, key, wrong, (key,))


def _share(rng: Random, chinese: bool) -> Draft:
    rate, whole = rng.choice((15, 24, 35, 45, 65, 85, 120)), 20 * rng.randint(3, 25)
    part = Fraction(rate * whole, 100)
    text = (
        f"{shown(part)} 是 {whole} 的百分之几？"
        if chinese
        else f"{shown(part)} is what percentage of {whole}?"
    )
    mistakes: list[Number] = [abs(100 - rate), Fraction(10_000, rate), Fraction(rate, 10)]
    return _percentage("easy", text, rate, mistakes)


def _change(rng: Random, chinese: bool) -> Draft:
    rate, old = rng.choice((20, 25, 30, 40, 60)), 20 * rng.randint(2, 20)
    step, down = Fraction(rate * old, 100), rng.random() < 0.5
    new = old - step if down else old + step
    word = "decrease" if down else "increase"
    text = f"What is the percentage {word} from {old} yuan to {shown(new)} yuan?"
    mistakes: list[Number] = [step * 100 / new, 100 - rate, new * 100 / old]
    return _percentage("medium", text, rate, mistakes)


def _percentage(level: Difficulty, text: str, value: int, mistakes: list[Number]) -> Draft:
    key, wrong = amounts(value, mistakes, "%")
    return Draft("math", level, text, key, wrong, (str(value),))


def average(rng: Random, chinese: bool) -> Draft:
    """The mean of four or five numbers: whole ones, or with one decimal place."""
    tenths = rng.random() < 0.5
    count = rng.choice((4, 5))
    numbers = [rng.randint(3, 40) for _ in range(count)]
    numbers[-1] += -sum(numbers) % count
    if tenths and len({number % 10 for number in numbers}) > 1:
        return _mean([Fraction(number, 10) for number in numbers], "medium", chinese)
    return _mean([Fraction(number) for number in numbers], "easy", chinese)


def _mean(numbers: list[Fraction], level: Difficulty, chinese: bool) -> Draft:
    count, ordered = len(numbers), sorted(numbers)
    total = sum(numbers, Fraction())
    names = [shown(number) for number in numbers]
    text = (
        f"求 {'、'.join(names)} 的平均数。"
        if chinese
        else f"Find the average of {', '.join(names[:-1])} and {names[-1]}."
    )
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    value = total / count
    mistakes: list[Number] = [
        each for each in (middle, total / (count - 1), total / (count + 1)) if len(shown(each)) <= 4
    ]
    key, wrong = amounts(value, mistakes)
    return Draft("math", level, text, key, wrong, (key,))
