"""What code can check of the own dataset, code has checked: keys hold, mistakes do not."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from random import Random

import pytest

from deerflow.exam.dataset import load_dataset, problem_of
from deerflow.exam.generators.registry import KINDS, OWN_FILE
from deerflow.verify.checks import CodeChecker, build
from deerflow.verify.messages import Problem
from deerflow.verify.programs import verdict
from deerflow.verify.running import Ran

QUESTIONS = {each.id: each for each in load_dataset(OWN_FILE).questions}
GENERATED = [name for name in QUESTIONS if int(name[-3:]) >= 201]
CHECKED = [name for name, each in QUESTIONS.items() if build(problem_of(each)) is not None]

BEYOND = re.compile(r"摩尔质量|molar mass|(?:[A-Z][a-z]){2}(?: x | 自交)")
"""Masses that the question rounds, and two pairs of genes: no check reads these; their keys are
computed a second time in the tests of the generators."""


class Inside:
    """Runs the checking program in this process: the same code, without a child for each run."""

    async def run(self, program: str, data: bytes) -> Ran:
        said, before = io.StringIO(), sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        try:
            with contextlib.redirect_stdout(said):
                verdict.main()
        finally:
            sys.stdin = before
        return Ran(0, said.getvalue())


CHECKER = CodeChecker(Inside())


def test_every_generated_question_can_be_checked() -> None:
    unread = [name for name in GENERATED if name not in CHECKED]
    assert [name for name in unread if not BEYOND.search(QUESTIONS[name].question)] == []
    assert len(GENERATED) - len(unread) >= 40


@pytest.mark.parametrize("name", CHECKED)
async def test_code_verifies_the_key_and_refutes_the_other_options(name: str) -> None:
    question = QUESTIONS[name]
    found = await CHECKER.check(problem_of(question), question.answer)
    assert found.result == "verified", found
    for letter in set("ABCD") - {question.answer} if question.options else ():
        found = await CHECKER.check(problem_of(question), letter)
        assert found.result == "refuted", (letter, found)


@pytest.mark.parametrize("chinese", [False, True], ids=["english", "chinese"])
@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_code_verifies_keys_and_refutes_mistakes_of_any_draw(
    kind: str, chinese: bool
) -> None:
    rng = Random(f"{kind}-{chinese}")
    for _ in range(8):
        draft = KINDS[kind](rng, chinese)
        problem = Problem("drawn", draft.text, "text", (), draft.subject)
        if BEYOND.search(draft.text) and build(problem) is None:
            continue
        found = await CHECKER.check(problem, draft.key)
        assert found.result == "verified", (draft, found)
        for wrong in draft.wrong:
            found = await CHECKER.check(problem, wrong)
            assert found.result == "refuted", (draft, wrong, found)
