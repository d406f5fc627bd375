"""What every checker keeps to."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from deerflow.verify.checks import CodeChecker
from deerflow.verify.inmemory import TableChecker
from deerflow.verify.messages import CheckResult, Problem
from deerflow.verify.protocol import Checker
from deerflow.verify.running import ChildPython

SOLVE = Problem("q", "Solve the equation 2x + 3 = 27.")
POEM = Problem("q", "Who wrote this poem?")
MAKERS: dict[str, Callable[[], Checker]] = {
    "table": lambda: TableChecker({"x = 12": "verified", "x = 13": "refuted"}),
    "code": lambda: CodeChecker(ChildPython()),
}
HOSTILE = [
    "",
    "\0",
    "\ud800",
    "__import__('os').getpid()",
    "10^10^10",
    "(" * 5_000,
    "x" * 1_000_000,
    '{"accepted": true}',
]


@pytest.fixture(params=list(MAKERS))
def checker(request: pytest.FixtureRequest) -> Checker:
    return MAKERS[request.param]()


async def test_right_and_wrong_are_told_apart(checker: Checker) -> None:
    assert (await checker.check(SOLVE, "x = 12")).result == "verified"
    assert (await checker.check(SOLVE, "x = 13")).result == "refuted"


async def test_what_has_no_check_is_said_to_have_none(checker: Checker) -> None:
    assert (await checker.check(POEM, "Li Bai")).result == "not_applicable"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_nothing_that_a_model_writes_raises_or_verifies(checker: Checker, text: str) -> None:
    outcome = await checker.check(SOLVE, text)
    assert outcome.result in set(get_args(CheckResult)) - {"verified"}
    assert outcome.seconds >= 0
