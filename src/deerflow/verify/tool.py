"""`verify_answer`: somebody who has not seen the answer derives one of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from deerflow.agent.context import RunContext
from deerflow.errors import ToolError
from deerflow.middlewares.token_usage import CHILD_USAGE, add_child
from deerflow.subagents.batch_job import Executor, Team
from deerflow.tools.schema import Names, Runtime, answer, make_tool, optional
from deerflow.verify.children import ChildAsker, Given
from deerflow.verify.loop import Loop
from deerflow.verify.messages import Problem, QuestionStatus
from deerflow.verify.policy import Policy
from deerflow.verify.protocol import Checker

NAME = "verify_answer"
VERIFICATION = "deerflow_verification"
"""additional_kwargs of the result: what `told` gives."""
LONGEST = 20_000
"""Characters of a question or an answer."""

ONCE = Policy(max_attempts=1, adjudicate=False)
"""One look at one answer: what follows from it is the lead's to decide."""

_DESCRIPTION = (
    "Check a result before you rely on it: an independent examiner who sees only `question` "
    "derives an answer, then compares. Put all facts into `question`; `answer` is the bare result."
)
_LABELLED = re.compile(r"\s*[A-Z]\s*[.)、:：．]")

Checkers = Callable[[RunContext], Checker | None]


class VerifyArgs(BaseModel):
    """Arguments of verify_answer."""

    question: str
    answer: str
    options: Names = optional(list)


def no_checker(run: RunContext) -> Checker | None:
    """Nothing is checked by code."""
    return None


def verify_tools(executor: Executor, checkers: Checkers = no_checker) -> list[BaseTool]:
    """The `verify_answer` tool.

    Args:
        executor: runs the examiner as a child.
        checkers: who checks by code for a run, None for nobody.
    """

    async def verify_answer(
        question: str, answer: str, runtime: Runtime, options: Sequence[str] = ()
    ) -> Any:
        run = cast("RunContext", runtime.context)
        call_id = runtime.tool_call_id or ""
        problem, given = _problem(question, answer, options)
        asker = ChildAsker(executor, run, name=f"verify-{call_id}", tool_call_id=call_id)
        seed = Random(call_id)  # noqa: S311  # an order, nothing secret
        loop = Loop(Given(given, asker), ONCE, checkers(run), shuffle=seed)
        async with Team(runtime.config) as team:
            status = await team.hire(loop.solve(problem))
        return _answered(status, asker, runtime)

    return [make_tool(NAME, _DESCRIPTION, VerifyArgs, verify_answer, {"idempotent": True})]


def told(status: QuestionStatus) -> dict[str, Any]:
    """What somebody who asked for a verification hears of it: JSON."""
    checks = [c for c in status.raw["checks"] if c["result"] != "not_applicable"]
    found: dict[str, Any] = {
        "accepted": status.accepted,
        "state": status.state,
        "own_answer": status.validator_answer,
        "feedback": feedback_of(status),
    }
    if checks:
        found["check"] = checks[0]["result"]
    if "error" in status.raw:
        found["error"] = status.raw["error"]["message"]
    return found


def feedback_of(status: QuestionStatus) -> str:
    """What was said against the answer that was looked at last, "" when nothing was."""
    if status.accepted:
        return ""
    said = [step["feedback"] for step in status.raw["history"] if "feedback" in step]
    refuted = [c["detail"] for c in status.raw["checks"] if c["result"] == "refuted"]
    return "\n".join(part for part in (*said[-1:], *refuted[-1:]) if part)


def _answered(status: QuestionStatus, asker: ChildAsker, runtime: Runtime) -> Any:
    found = told(status)
    add_child(cast("RunContext", runtime.context), runtime.tool_call_id or "", None)
    extra = {VERIFICATION: found, CHILD_USAGE: asker.meter.to_dict()}
    text = json.dumps(found, ensure_ascii=False)
    return answer(NAME, runtime, text, additional_kwargs=extra)


def _problem(question: str, answer: str, options: Sequence[str]) -> tuple[Problem, str]:
    """What is asked, and the answer: the letter where it is an option's words.

    Raises:
        ToolError: nothing to ask or to check, or too much of it.
    """
    for name, text in (("question", question), ("answer", answer)):
        if not text.strip():
            raise ToolError(f"The {name} is empty.", cure="Give both, each complete in itself.")
        if len(text) > LONGEST:
            raise ToolError(
                f"The {name} has {len(text):,} characters, at most {LONGEST:,} are taken.",
                cure="Verify one result at a time.",
            )
    if not options:
        return Problem(NAME, question), answer
    if not 2 <= len(options) <= 26 or not all(option.strip() for option in options):
        raise ToolError("`options` are 2 to 26 texts.", cure="Leave it out for open questions.")
    shown = tuple(options)
    if not all(_LABELLED.match(option) for option in options):
        shown = tuple(f"{chr(65 + n)}. {option}" for n, option in enumerate(options))
    words = answer.strip().casefold()
    for original, option in zip(options, shown, strict=True):
        if words in (original.strip().casefold(), option.strip().casefold()):
            answer = option.strip()[0]
    return Problem(NAME, question, "letter", shown), answer
