"""What counts as a claim of the key, and what only has its value or its words."""

from __future__ import annotations

import pytest

from deerflow.exam.graders.claims import claims, claims_value, claims_words, is_formula
from deerflow.verify.answers import agree
from deerflow.verify.messages import Problem

SOLVE = "Solve the equation 3x - 7 = 2x + 5 for x."
FACTOR = "Factor x^2 - 5x + 6 completely."
EXPAND = "Expand (x+2)(x-2)."
SYSTEM = "Solve x + y = 7 and x - y = 1. State both."
FORCE = "A force of 10 N accelerates a 2 kg mass. What is the acceleration?"
WATER = "Balance the equation: H2 + O2 -> H2O."

CLAIMED = [
    (SOLVE, "x = 12", "12"),
    (SOLVE, "x = 12", "Subtract 2x: x - 7 = 5, so x = 12."),
    (SOLVE, "x = 12", "The answer is 12."),
    (SOLVE, "x = 12", "Not sure at first. x = 12"),
    (SOLVE, "x = 12", "答案是12。我验算了。"),
    (FACTOR, "(x-2)(x-3)", "(x - 3)(x - 2)"),
    (FACTOR, "(x-2)(x-3)", "x^2 - 5x + 6 = (x-2)(x-3)"),
    (EXPAND, "x^2-4", "x^2 - 4"),
    (EXPAND, "x^2-4", "(x+2)(x-2) = x^2 - 4"),
    (SYSTEM, "x = 4, y = 3", "y = 3 and x = 4"),
    (SYSTEM, "x = 4, y = 3", "x is 4 and y is 3"),
    (SYSTEM, "x = 4, y = 3", "(4, 3)"),
    (SYSTEM, "x = 4, y = 3", "4 and 3"),
    (FORCE, "5 m/s^2", "a = F/m = 10/2 = 5 m/s\u00b2"),
    (WATER, "2H2 + O2 -> 2H2O", "2H2 + O2 = 2H2O"),
    ("What is 3 + 4?", "7", "3 + 4 = 7"),
]
NOT_CLAIMED = [
    (SOLVE, "x = 12", ""),
    (SOLVE, "x = 12", "x = 11, x = 12"),
    (SOLVE, "x = 12", "12 or 13"),
    (SOLVE, "x = 12", "x = 12 is wrong"),
    (SOLVE, "x = 12", "13 (not 12)"),
    (SOLVE, "x = 12", "x > 12"),
    (SOLVE, "x = 12", "x <= 12"),
    (SOLVE, "x = 12", "The answer is x = 12. No, wait: x = 13."),
    (SOLVE, "x = 12", "12 不对"),
    (SOLVE, "x = 12", SOLVE),
    (FACTOR, "(x-2)(x-3)", "x^2 - 5x + 6"),
    (FACTOR, "(x-2)(x-3)", "(x+2)(x+3)"),
    (EXPAND, "x^2-4", "(x-2)(x+2)"),
    (SYSTEM, "x = 4, y = 3", "x = 3, y = 4"),
    (SYSTEM, "x = 4, y = 3", "(3, 4)"),
    (SYSTEM, "x = 4, y = 3", "3 and 4"),
    (SYSTEM, "x = 4, y = 3", "4 or 3"),
    (SYSTEM, "x = 4, y = 3", "x = 4"),
    (FORCE, "5 m/s^2", "5 m/s"),
    (FORCE, "5 m/s^2", "50 m/s^2"),
    (WATER, "2H2 + O2 -> 2H2O", "H2 + O2 -> H2O"),
    ("What is 3 + 4?", "7", "3 + 4"),
]


def claimed(question: str, response: str, key: str) -> bool:
    problem = Problem("math-001", question)
    return claims_value(question, response, key, lambda one, other: agree(problem, one, other))


@pytest.mark.parametrize(("question", "key", "response"), CLAIMED)
def test_claimed(question: str, key: str, response: str) -> None:
    assert claimed(question, response, key)


@pytest.mark.parametrize(("question", "key", "response"), NOT_CLAIMED)
def test_not_claimed(question: str, key: str, response: str) -> None:
    assert not claimed(question, response, key)


def test_an_inequality_is_claimed_as_one() -> None:
    assert claimed("Solve 2x > 6.", "x > 3", "x > 3")
    assert not claimed("Solve 2x > 6.", "x = 3", "x > 3")


@pytest.mark.parametrize(
    ("key", "formula"),
    [
        ("5", True),
        ("5 m/s^2", True),
        ("x = 4, y = 3", True),
        ("2H2 + O2 -> 2H2O", True),
        ("3 sqrt(2) cm", True),
        ("12 apples", True),
        ("Paris", False),
        ("pH = 7, indicating the solution is neither acidic nor basic.", False),
    ],
)
def test_keys_of_calculations(key: str, formula: bool) -> None:
    assert is_formula(key) == formula


def test_words_are_the_same_without_articles_and_signs() -> None:
    key = "The wall was painted by Tom."
    assert claims_words("the wall was painted by Tom", key)
    assert claims_words("Answer: A wall was painted by Tom!", key)
    assert not claims_words("Tom was painted by the wall.", key)
    assert not claims_words("The wall was not painted by Tom.", key)
    assert not claims_words("", key)
    assert not claims_words("", "...")


def test_the_last_statement_is_a_claim() -> None:
    assert claims(" ") == []
    assert claims("Thus x = 12.") == ["Thus x = 12.", "x = 12.", "x = 12"]
    assert claims("x = 1\nx = 2\nDone.")[1:] == ["x = 2", "x = 2"]
    assert claims("It is not true that the answer is 12.") == [
        "It is not true that the answer is 12."
    ]
