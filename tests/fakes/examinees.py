"""Scripted roles of an exam, and exams that are killed after any event of their journal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deerflow
import fakes
from deerflow.errors import ModelUnavailableError
from deerflow.exam.sitting import ExamPlan, Sat, sit
from deerflow.models.usage import Tokens
from deerflow.verify.messages import CheckOutcome, Problem
from deerflow.verify.protocol import Ask, Reply

SUBJECTS = ("math", "english", "physics", "history")
TOKENS = Tokens(calls=1, input=10, output=5)


def question(number: int) -> dict[str, Any]:
    """A question of the public shape whose key is its number; every fourth asks for a letter."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    letter = number % 4 == 0
    return {
        "id": f"{subject}-{number + 1:03}",
        "subject": subject,
        "type": "multiple_choice" if letter else "short_answer",
        "question": f"Which number is {number}?",
        **({"options": [f"{name}. {name}{name}" for name in "ABCD"]} if letter else {}),
        "answer": "B" if letter else str(number),
        "answer_type": "letter" if letter else "text",
        "scoring": {"max_points": 1, "method": "exact"}
        if letter
        else {
            "max_points": 1,
            "method": "rubric",
            "rubric": [{"criterion": f"number n{number}", "points": 1}],
        },
        "source": "made for a test",
        "difficulty": "easy",
        "notes": f"accept: {number}",
    }


def write_dataset(path: Path, count: int = 20) -> Path:
    """A dataset file of so many questions."""
    path.write_text(json.dumps([question(number) for number in range(count)]), encoding="utf-8")
    return path


class Examinees:
    """Answers every ask from what is asked alone; each question has its own story.

    Args:
        calls: file to which every finished call is appended, None for none.
    """

    def __init__(self, calls: Path | None = None) -> None:
        self._calls = calls

    async def ask(self, ask: Ask) -> Reply:
        """See Asker."""
        await asyncio.sleep(0)
        number = int(ask.problem.id.rsplit("-", 1)[1]) - 1
        text = self._said(ask, number)
        self._note(ask.problem.id, ask.role, ask.step, ask.attempt, ask.number)
        return Reply(text, replace(TOKENS), 7)

    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        """See Checker."""
        self._note(problem.id, "check", "check", response, 0)
        number = int(problem.id.rsplit("-", 1)[1]) - 1
        if number % 3:
            return CheckOutcome("not_applicable")
        right = response == _key(problem, number)
        return CheckOutcome("verified" if right else "refuted", "counted", "scripted")

    def _note(self, *what: object) -> None:
        if self._calls is not None:
            file = os.open(self._calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(file, (json.dumps(what) + "\n").encode())
            os.close(file)

    @staticmethod
    def _said(ask: Ask, number: int) -> str:
        key, wrong = _key(ask.problem, number), _wrong(ask.problem, number)
        story = number % 10
        if story == 9 and ask.role == "resolver":
            raise ModelUnavailableError("The model is away.", model="scripted")
        if ask.step == "adjudicate":
            return json.dumps({"reason": "counted", "choice": 0})
        if ask.step in ("review", "reask") or (ask.step == "blind" and story == 7):
            if story == 7 or (story == 3 and ask.number == 0):
                return "The answer is incorrect"
            return json.dumps({"accepted": False, "feedback": "Count.", "checked_answer": key})
        mistaken = ask.role == "resolver" and (story == 5 or (story in (1, 3) and ask.attempt == 1))
        answer = wrong if mistaken else key
        return json.dumps({"reasoning": "counted", "response": answer, "confidence": 0.8})


def _key(problem: Problem, number: int) -> str:
    return "B" if problem.kind == "letter" else str(number)


def _wrong(problem: Problem, number: int) -> str:
    return "C" if problem.kind == "letter" else str(number + 1_000)


def plan(folder: Path, dataset: Path, **fields: Any) -> ExamPlan:
    """An exam of scripted roles."""
    return ExamPlan(dataset, folder, "scripted", "scripted", **fields)


async def sat(plan: ExamPlan, noted: Callable[[int], None] = lambda count: None) -> Sat:
    """Sit an exam with scripted roles; calls are noted in its folder."""
    plan.out.mkdir(parents=True, exist_ok=True)
    examinees = Examinees(plan.out / "calls.jsonl")
    return await sit(plan, examinees, examinees, noted=noted)


def killed_exams(root: Path, dataset: Path, counts: list[int]) -> list[int]:
    """For each count: an exam in `root/<count>` killed with -9 after so many events, then resumed.

    Returns:
        Signals (negative) that ended the first processes.
    """
    folders = [str(Path(package.__path__[0]).parent) for package in (fakes, deerflow)]
    code = f"import sys; sys.path[:0] = {folders}; from {__name__} import zygote; zygote()"
    command = json.dumps({"root": str(root), "dataset": str(dataset), "counts": counts})
    done = subprocess.run(
        [sys.executable, "-c", code], input=command, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def zygote() -> None:
    """Forks the exams one by one; nothing is imported twice."""
    command = json.loads(sys.stdin.read())
    ends: list[int] = []
    for count in command["counts"]:
        exam = plan(Path(command["root"], str(count)), Path(command["dataset"]))
        ends.append(_forked(exam, count))
        resumed = _forked(exam, 0)
        if resumed:
            raise SystemExit(f"the exam killed after event {count} ended with {resumed}")
    print(json.dumps(ends))


def _forked(exam: ExamPlan, count: int) -> int:
    child = os.fork()
    if child == 0:
        code = 1

        def noted(events: int) -> None:
            if events == count:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            asyncio.run(sat(exam, noted))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
