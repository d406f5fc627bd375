"""What resolver, validator and checks tell each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

AnswerKind = Literal["letter", "text"]
State = Literal[
    "accepted",
    "exhausted",
    "unvalidated",
    "validator_error",
    "resolver_error",
    "budget_exceeded",
]
"""How a question ended. Only `accepted` says that somebody else came to the same answer."""

CheckResult = Literal["verified", "refuted", "not_applicable", "check_failed"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What a role may know of a question; key, rubric, notes and source have no place here.

    Attributes:
        id: of the question.
        text: the question.
        kind: whether a letter of `options` or words are asked for.
        options: "A. text" and so on, for `letter`.
        subject: e.g. "math", or "".
    """

    id: str
    text: str
    kind: AnswerKind = "text"
    options: tuple[str, ...] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ResolverOutput:
    """An answer and how it was found.

    Attributes:
        response: the answer as it is handed in.
        reasoning: how it was found.
        confidence: what the resolver says of it, 0 to 1.
        final: the result alone, as it stands in `response`; "" when that is all result.
    """

    response: str
    reasoning: str = ""
    confidence: float | None = None
    final: str = ""


@dataclass(frozen=True, slots=True)
class ValidatorVerdict:
    """Whether an answer is accepted, what is wrong with it, and the validator's own answer."""

    accepted: bool
    feedback: str = ""
    checked_answer: str = ""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What code says of an answer.

    Attributes:
        result: a check that fails is never an acceptance.
        detail: one sentence for people.
        kind: of the check, e.g. "linear_system", "" when none applies.
        seconds: it took.
    """

    result: CheckResult
    detail: str = ""
    kind: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class QuestionStatus:
    """How a question ended.

    Attributes:
        question_id: of the question.
        final_response: the best supported answer, "" when there is none.
        accepted: whether `state` is "accepted".
        attempts: answers that the resolver gave.
        validator_answer: the validator's own answer, None when none was derived.
        state: see State.
        reasoning: of the final response.
        latency_ms: of all calls and checks together.
        raw: history: answers, verdicts, checks, ladder, tokens, confidence, error.
    """

    question_id: str
    final_response: str
    accepted: bool
    attempts: int
    validator_answer: str | None
    state: State
    reasoning: str = ""
    latency_ms: int = 0
    raw: dict[str, Any] = field(default_factory=dict[str, Any])
