"""What exams teach, kept in the user's memory when that is wanted: arms stay comparable without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deerflow.exam.dataset import SUBJECTS, Question
from deerflow.memory.protocol import MemoryManager, Source
from deerflow.verify.messages import QuestionStatus

MARK = "Exam lesson"
MOST = 5
"""Lessons of a subject that a resolver is told."""
SHOWN = 160
"""Characters of a question and of a lesson that are kept."""


async def lessons_of(memory: MemoryManager, user_id: str) -> dict[str, tuple[str, ...]]:
    """Lessons by subject, newest first."""
    facts = (await memory.load(user_id)).current
    found: dict[str, tuple[str, ...]] = {}
    for subject in SUBJECTS:
        mark = f"{MARK} ({subject}): "
        told = [fact for fact in facts if fact.content.startswith(mark)]
        told.sort(key=lambda fact: fact.last_confirmed, reverse=True)
        if told:
            found[subject] = tuple(fact.content.removeprefix(mark) for fact in told[:MOST])
    return found


async def remember(
    memory: MemoryManager,
    user_id: str,
    questions: Sequence[Question],
    statuses: Sequence[QuestionStatus],
) -> int:
    """Keep what a validator taught: solved questions whose first answer had not been accepted.

    What was right at once teaches nothing and would push the user's own facts out of the memory.

    Returns:
        How many lessons were kept.
    """
    kept = 0
    for question, status in zip(questions, statuses, strict=True):
        feedback = _feedback(status)
        if not (status.accepted and status.attempts > 1 and feedback):
            continue
        solved = f"{_short(question.question)} → {_short(status.final_response)}"
        text = f"{MARK} ({question.subject}): {_short(feedback)} [{solved}]"
        await memory.add(
            user_id, text, category="knowledge", source=Source(thread=f"exam {question.id}")
        )
        kept += 1
    return kept


def _feedback(status: QuestionStatus) -> str:
    """The feedback that the accepted answer followed, "" for none."""
    history: list[dict[str, Any]] = status.raw.get("history") or []
    told = [str(entry.get("feedback") or "") for entry in history]
    return next((text for text in reversed(told) if text), "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
