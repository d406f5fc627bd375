"""What is compared of an answer, and what speaks for it."""

from __future__ import annotations

import pytest

from deerflow.verify.candidates import Candidates, handed_in, result_of
from deerflow.verify.messages import Problem, ResolverOutput

LETTER = Problem("q", "Which?", "letter", ("A. one", "B. two"))
TEXT = Problem("q", "Solve 2x = 24.")


@pytest.mark.parametrize(
    ("response", "final", "result"),
    [
        ("Both sides by 2: x = 12.", "x = 12", "x = 12"),
        ("Both sides by 2: x=12.", "x = 12", "x = 12"),
        ("So X = 12", "x = 12", "x = 12"),
        ("x = 12", "", "x = 12"),
        ("x = 13", "12", "x = 13"),
        ("x = 120", "12", "x = 120"),
        ("x = 312", "12", "x = 312"),
        ("x = 3.12", "12", "x = 3.12"),
        ("所以 x = 12。", "x = 12", "x = 12"),
        ("(a+b)*c", "(a+b)", "(a+b)"),
    ],
)
def test_a_stated_result_counts_when_the_answer_holds_it(
    response: str, final: str, result: str
) -> None:
    assert result_of(TEXT, ResolverOutput(response, final=final)) == result


def test_of_a_letter_question_the_letter_counts() -> None:
    output = ResolverOutput("The answer is B", final="A")
    assert result_of(LETTER, output) == handed_in(LETTER, output) == "B"
    assert handed_in(LETTER, ResolverOutput("I cannot tell")) == "I cannot tell"


def test_words_are_handed_in_as_they_are() -> None:
    output = ResolverOutput("Both sides by 2: x = 12", final="x = 12")
    assert handed_in(TEXT, output) == "Both sides by 2: x = 12"


def test_answers_that_agree_are_one() -> None:
    candidates = Candidates(LETTER)
    first = candidates.add(ResolverOutput("B"), "resolver")
    assert candidates.add(ResolverOutput("The answer is B"), "validator") is first
    assert candidates.add(ResolverOutput("A"), "sample") is not first
    assert candidates.best() is first
    assert (first.votes, len(list(candidates)), candidates.agreement(first)) == (2, 2, 2 / 3)


def test_the_validator_has_one_vote() -> None:
    candidates = Candidates(LETTER)
    theirs = [candidates.add(ResolverOutput("B"), voice) for voice in ("validator", "review")][0]
    assert (theirs.votes, theirs.validated, theirs.resolved) == (1, True, False)


def test_what_came_from_the_key_cannot_win_and_has_no_vote() -> None:
    candidates = Candidates(LETTER)
    leaked = candidates.add(ResolverOutput("B"), "review", may_win=False)
    assert candidates.best() is None
    mine = candidates.add(ResolverOutput("A", "own"), "resolver")
    assert candidates.best() is mine
    assert candidates.add(ResolverOutput("B", "own too"), "resolver") is leaked
    assert candidates.best() is leaked  # equal standing: the earlier one
    assert (leaked.votes, leaked.validated, leaked.output.reasoning) == (1, False, "own too")
    candidates.add(ResolverOutput("A"), "review", may_win=False)
    assert not mine.validated


def test_standing_is_code_then_roles_then_votes_then_the_resolver() -> None:
    candidates = Candidates(TEXT)
    theirs = candidates.add(ResolverOutput("1"), "validator")
    mine = candidates.add(ResolverOutput("2"), "resolver")
    assert candidates.best() is mine
    voted = candidates.add(ResolverOutput("3"), "sample")
    voted.voices.append("sample")
    assert candidates.best() is voted
    both = candidates.add(ResolverOutput("4"), "resolver")
    both.voices.append("review")
    assert candidates.best() is both
    theirs.check = "verified"
    assert candidates.best() is theirs
    theirs.check, both.check = None, "refuted"
    assert candidates.best() is voted


def test_the_resolvers_words_are_kept() -> None:
    candidates = Candidates(TEXT)
    found = candidates.add(ResolverOutput("12"), "review")
    candidates.add(ResolverOutput("12", "with working"), "resolver")
    assert found.output.reasoning == "with working"
    candidates.add(ResolverOutput("12", "later"), "resolver")
    assert found.output.reasoning == "with working"
