"""Letters that are declared, and answers that say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.verify.answers import agree, answers_nothing, declared_letter
from deerflow.verify.messages import Problem

WORDS = Problem("q", "?")
LETTERS = Problem("q", "?", "letter", ("A. 3", "B. 4", "C. a river"))

DECLARED = [
    ("Answer: D", "D"), ("The answer is B", "B"), ("(C)", "C"), ("**B**", "B"), ("答案是B", "B"),
    ("选B", "B"), ("Ｄ", "D"), (" A. ", "A"), ("B. 4", "B"), ("b", "B"), ("故选：C", "C"),
    ("It is a simile, so B", "B"), ("A is wrong, the answer is C", "C"), (r"\boxed{C}", "C"),
    ("The answer is A because it rains", "A"), ("Option B is correct", "B"), ("因此选 D。", "D"),
    ("Answer: A. No, wait.\nAnswer: C", "C"), ("Answer:\n\nB", "B"),
    ("not A", None), ("The answer is not A", None), ("A man walks", None), ("4", None), ("", None),
    ("Answer: a bird", None), ("I think a bird", None), ("A\0", None), ("A" * 30_000, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "letter"), DECLARED, ids=[ascii(e[0][:30]) for e in DECLARED])
def test_the_last_declared_letter(text: str, letter: str | None) -> None:
    assert declared_letter(text) == letter


SAME = [
    ("1,000", "10^3"), ("0.5", "1/2"), ("50%", "1/2"), ("x = 12", "12"), ("The answer is 5", "5"),
    ("x=4, y=3", "y = 3, x = 4"), ("(x-2)(x-3)", "(x-3)(x-2)"), ("36 km/h", "10 m/s"),
    ("5 m/s²", "5 meters per second squared"), ("Yangtze", "the Yangtze."),
    ("2H2 + O2 -> 2H2O", "O2 + 2H2 = 2H2O"), ("5 m/s²", "a = 5 m/s^2"),
]  # fmt: skip
DIFFERENT = [
    ("5", "6"), ("5 m/s", "5 m/s^2"), ("2H2 + O2 -> 2H2O", "H2 + O2 -> H2O"), ("x = 2", "x = -2"),
    ("x = 2 or x = 3", "x = 2"), ("", "."), ("x=4, y=3", "x=3, y=4"),
    ("The Qing dynasty fell in 1911", "The republic was founded in 1911"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_answers_that_agree(one: str, other: str) -> None:
    assert agree(WORDS, one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_answers_that_do_not_agree(one: str, other: str) -> None:
    assert not agree(WORDS, one, other)


def test_letters_agree_by_letter_or_by_the_text_of_the_option() -> None:
    assert agree(LETTERS, "Answer: B", "(B) because")
    assert agree(LETTERS, "4", "B")
    assert agree(LETTERS, "A river", "C")
    assert not agree(LETTERS, "A", "B")


texts = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from([*"0123456789xyAB=+-*/^(),% .", " m/s", "H2", "O2", "->", "answer: "]),
        max_size=12,
    ).map("".join),
)  # fmt: skip


@given(texts, texts, st.sampled_from([WORDS, LETTERS]))
def test_agreement_is_reflexive_and_symmetric(one: str, other: str, problem: Problem) -> None:
    letter = declared_letter(one) if problem is LETTERS else None
    assert agree(problem, one, one) == (not answers_nothing(one) and letter in (None, *"ABC"))
    assert agree(problem, one, other) == agree(problem, other, one)


@pytest.mark.parametrize(
    "other",
    [
        "x > 12",
        "x ≥ 12",
        "x is at least 12",
        "x = 12 is wrong",
        "x is not 12",
        "The answer is x = 12. No, wait: x = 13.",
        "答案不是 12",
    ],
)
def test_what_is_denied_taken_back_or_bounded_agrees_with_nothing(other: str) -> None:
    assert not agree(Problem("q", "Solve 2x = 24."), "x = 12", other)
    assert not agree(Problem("q", "Solve 2x = 24."), other, "x = 12")


def test_where_the_form_is_asked_for_it_counts() -> None:
    factor = Problem("q", "Factor x^2 - 5x + 6.")
    assert not agree(factor, "x^2 - 5x + 6", "(x-2)(x-3)")
    assert agree(factor, "(x-3)(x-2)", "(x - 2)*(x - 3)")
    assert agree(Problem("q", "Which polynomial has the roots 2 and 3?"), "x^2-5x+6", "(x-2)(x-3)")


@pytest.mark.parametrize("nothing", ["I don't know.", "Unknown", "", "  ", "不知道", "n/a"])
def test_two_who_do_not_know_do_not_agree(nothing: str) -> None:
    assert not agree(Problem("q", "Who was it?"), nothing, nothing)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x ≤ 3", "x ≥ 3"), ("2x+1", "2(x+1)"), ("2", "±2"), ("5", "5!"), ("A∪B", "A∩B"),
        ("(0,1)", "[0,1]"), ("5", "5 million"), ("10 m/s south", "10 m/s north"), ("Aa", "aa"),
        ("221 AD", "221 BC"), ("Co", "CO"), ("(4,3)", "(3,4)"), ("5 m down", "5 m up"),
        ("-(x+1)", "-x+1"), ("-x^2", "(-x)^2"), ("x^2+1", "x^(2+1)"), (".5", "5"),
        ("3∈A", "3∉A"), ("5‰", "5"), ("1,2", "12"), ("¬p", "p"), ("|x|", "x"),
        ("x1=2, x2=3", "x1=3, x2=2"), ("公元前221年", "221年"), ("向东5米", "向西5米"),
    ],
)  # fmt: skip
def test_a_sign_a_place_or_an_order_makes_another_answer(one: str, other: str) -> None:
    assert not agree(Problem("q", "?"), one, other)
    assert not agree(Problem("q", "?"), other, one)


@pytest.mark.parametrize(
    "nothing",
    ["?", "...", "None", "Sorry, I can't help with that.", "It cannot be determined.",
     "I am not able to tell."],
)  # fmt: skip
def test_a_refusal_answers_nothing(nothing: str) -> None:
    assert answers_nothing(nothing)
    assert not agree(Problem("q", "?"), nothing, nothing)


@pytest.mark.parametrize(
    "text", ["both (A) and (B)", "答案：A或B", "选A和B", "**A** and **B**", "Answer: A or B"]
)
def test_two_letters_declare_none(text: str) -> None:
    assert declared_letter(text) is None


def test_a_correction_counts_and_a_letter_that_is_no_option_does_not() -> None:
    assert declared_letter("Answer: C, no wait, D") == "D"
    letters = Problem("q", "?", "letter", ("A. one", "B. two"))
    assert not agree(letters, "Answer: E", "Answer: E!")
