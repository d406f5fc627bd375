"""Which skills guide a role in a subject; their texts are part of the role's instructions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from deerflow.verify.messages import Problem
from deerflow.verify.protocol import RoleName

BY_SUBJECT: Mapping[str, str] = {
    "math": "math-solver",
    "physics": "physics-solver",
    "chemistry": "physics-solver",
    "chinese": "language-analyzer",
    "english": "language-analyzer",
}
OTHERWISE = "exam-taker"
BY_ROLE: Mapping[RoleName, str] = {
    "resolver": "exam-resolver",
    "validator": "exam-validator",
    "adjudicator": "exam-validator",
}
NAMES = tuple(sorted({*BY_SUBJECT.values(), *BY_ROLE.values(), OTHERWISE}))


def skill_text(name: str) -> str:
    """A skill's instructions, without its header."""
    whole = files("deerflow.exam").joinpath("skills", name, "SKILL.md").read_text("utf-8")
    return whole.split("---\n", 2)[2].strip()


class Guidance:
    """Skills of roles and subjects, and lessons of earlier exams.

    Args:
        lessons: what was learnt, by subject; one sentence each.
    """

    def __init__(self, lessons: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._texts = {name: skill_text(name) for name in NAMES}
        self._lessons = lessons or {}

    @property
    def texts(self) -> Mapping[str, str]:
        """Instructions by name of the skill."""
        return self._texts

    def __call__(self, problem: Problem, role: RoleName) -> str:
        """What a role is told for a problem."""
        parts = [
            self._texts[BY_ROLE[role]],
            self._texts[BY_SUBJECT.get(problem.subject, OTHERWISE)],
        ]
        lessons = self._lessons.get(problem.subject, ())
        if lessons and role == "resolver":
            parts.append("Lessons of earlier exams:\n" + "\n".join(f"- {each}" for each in lessons))
        return "\n\n".join(parts)
