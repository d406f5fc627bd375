"""The grammar of formulas: what it reads, what it refuses, and that it never does anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.verify.grammar import AnswerError, parse, show, to_json

SAME = [
    ("(x-2)(x−3)", "(x - 2)*(x - 3)"),
    (r"\frac{1}{2}", "1/2"),
    ("3½", "3 1/2"),
    ("x²-5x+6", "x^2 - 5*x + 6"),
    ("√2/2", "sqrt(2)/2"),
    ("2**3", "2^3"),
    ("1,000", "1000"),
    ("x1=2, x2=3", "x_1 = 2; x_2 = 3"),
    ("$x = 3$ or $x = 2$", "x=3 or x=2"),
    ("sin 30°", "sin(30°)"),
    ("-3^2", "-(3^2)"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_notations_of_one_formula(one: str, other: str) -> None:
    assert parse(one) == parse(other)


def test_json_is_nested_lists() -> None:
    x, five = ["name", "x"], ["number", "5"]
    assert to_json(parse("x = -5")) == ["equation", "", x, ["neg", "", five]]


@pytest.mark.parametrize(
    "text",
    [
        "", "hello world", "__import__('os')", "10^10^10", "9**9**9", "2^5000", "1" * 41, "(" * 50,
        "1+" * 900 + "1", "\0", "\ud800", "٣", "1 2", "(1", "1)", "x = (1, 2) + 3", "=", "1 +",
        "f'(x)", "x.y", "lambda: 1", "[" * 45 + "1" + "]" * 45, "-" * 50 + "1", "1" + "a" * 2_000,
    ],
)  # fmt: skip
def test_anything_else_is_an_answer_error(text: str) -> None:
    with pytest.raises(AnswerError):
        parse(text)


pieces = st.sampled_from(
    [
        *"0123456789xyabi+-*/^=(),;%°√±[]. \n\0²½πθ٣",
        "sin",
        "sqrt",
        "and",
        "or",
        "pi",
        "10",
        r"\frac{",
    ]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=30).map("".join)))
def test_whatever_comes_is_read_or_refused(text: str) -> None:
    try:
        node = parse(text)
    except AnswerError:
        return
    assert parse(show(node)) == node
