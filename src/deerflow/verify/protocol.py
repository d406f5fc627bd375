"""What the loop is given: somebody to ask, somebody to check, somebody who allows a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from deerflow.models.usage import Tokens
from deerflow.verify.messages import CheckOutcome, Problem

RoleName = Literal["resolver", "validator", "adjudicator"]
Step = Literal["resolve", "self_check", "blind", "review", "reask", "adjudicate", "sample"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to one role, in a context of its own.

    Attributes:
        problem: what it is about.
        role: who is asked.
        step: what for.
        attempt: of the resolver, from 1.
        number: tells asks of the same step and attempt apart (samples, the re-ask).
        repeat: of the exam, from 1.
        feedback: what the resolver is told about its last answer; `prompt` holds it too.
        system: the role's instructions.
        prompt: everything that it is shown.
    """

    problem: Problem
    role: RoleName
    step: Step
    attempt: int
    system: str
    prompt: str
    number: int = 0
    repeat: int = 1
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a role said, what that cost, and how long it took in milliseconds."""

    text: str
    tokens: Tokens = field(default_factory=Tokens)
    latency_ms: int = 0


class Asker(Protocol):
    """Asks roles; each ask is isolated from all others."""

    async def ask(self, ask: Ask) -> Reply:
        """The role's reply.

        Raises:
            ModelError: there is none.
            LimitError: the budget has no room for it.
        """
        ...


class Checker(Protocol):
    """Checks answers by code that is built from the question alone."""

    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        """What code says of an answer; never raises for what a model wrote."""
        ...
