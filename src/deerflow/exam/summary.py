"""The Summary Report: how an exam went, from its statuses; always written, also after failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from deerflow.exam.dataset import SUBJECTS, Question
from deerflow.verify.messages import QuestionStatus, State


def summary(
    questions: Sequence[Question],
    repeats: Sequence[Sequence[QuestionStatus]],
    config: Mapping[str, Any],
) -> str:
    """Markdown: states, subjects, tokens, and the questions that nobody agreed on."""
    statuses = [status for repeat in repeats for status in repeat]
    states = Counter(status.state for status in statuses)
    lines = [
        f"# Exam of {len(questions)} questions, arm {config.get('arm', '')}",
        "",
        f"Model {config.get('model', '')}, validator {config.get('validator_model', '')}, "
        f"{len(repeats)} {'repeat' if len(repeats) == 1 else 'repeats'}.",
        "Accepted means that somebody else came to the same answer, not that it is right: "
        "`deerflow exam grade` compares with the key.",
    ]
    if config.get("leaky"):
        lines += ["", "**The validator saw the key: these results show a bound, no ability.**"]
    lines += ["", "| state | questions |", "|---|---|"]
    lines += [f"| {state} | {states[state]} |" for state in get_args(State) if states[state]]
    lines += ["", "| subject | accepted | questions | attempts |", "|---|---|---|---|"]
    for subject in SUBJECTS:
        of = [
            status
            for repeat in repeats
            for question, status in zip(questions, repeat, strict=True)
            if question.subject == subject
        ]
        if of:
            accepted = sum(status.accepted for status in of)
            lines.append(f"| {subject} | {accepted} | {len(of)} | {sum(s.attempts for s in of)} |")
    tokens = sum(_tokens(status) for status in statuses)
    lines += ["", f"Tokens in all: {tokens:,}."]
    open_ones = [status for status in statuses if not status.accepted]
    if open_ones:
        lines += ["", "## Not accepted", ""]
        lines += [f"- {status.question_id}: {status.state}" for status in open_ones]
    return "\n".join(lines) + "\n"


def _tokens(status: QuestionStatus) -> int:
    by_role: dict[str, Any] = status.raw.get("tokens") or {}
    return sum(int(entry.get("total", 0)) for entry in by_role.values())
