"""One question's way through the loop: who was asked, what was said, what it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from deerflow.errors import DeerFlowError, ModelError
from deerflow.models.usage import Tokens
from deerflow.verify import prompts
from deerflow.verify.answers import agree
from deerflow.verify.candidates import Candidate, Candidates, handed_in, letter_of, result_of
from deerflow.verify.messages import (
    CheckResult,
    Problem,
    QuestionStatus,
    ResolverOutput,
    State,
)
from deerflow.verify.protocol import Ask, Asker, Checker, Reply, RoleName, Step
from deerflow.verify.reading import ReplyError

T = TypeVar("T")

Guidance = Callable[[Problem, RoleName], str]


class Fault(Exception):
    """A role gave nothing that can be used.

    Attributes:
        role: which.
        error: {code, message} for `raw`.
    """

    def __init__(self, role: RoleName, code: str, message: str) -> None:
        super().__init__(message)
        self.role = role
        self.error = {"code": code, "message": message}


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part: somebody to ask, somebody to check, and what roles are told beside."""

    asker: Asker
    checker: Checker | None
    guidance: Guidance


class Course:
    """What a question has come to so far.

    Args:
        problem: the question.
        cast: who takes part.
    """

    def __init__(self, problem: Problem, cast: Cast) -> None:
        self.problem = problem
        self.attempt = 0
        self.answers = 0
        self.candidates = Candidates(problem)
        self.last: ResolverOutput | None = None
        self.newest: Candidate | None = None
        self.own: ResolverOutput | None = None
        self.checked = ""
        self.history: list[dict[str, Any]] = []
        self.ladder: list[dict[str, Any]] = []
        self._cast = cast
        self._checks: list[dict[str, Any]] = []
        self._tokens: dict[RoleName, Tokens] = {}
        self._latency = 0
        self._reasks = 0
        self._seen: list[tuple[Candidate | None, Candidate]] = []
        self._chosen: tuple[Candidate, ResolverOutput] | None = None
        self._decided = ""
        self._error: dict[str, str] | None = None

    # ---- asking ----

    async def ask(
        self,
        role: RoleName,
        step: Step,
        prompt: str,
        read: Callable[[str], T],
        *,
        number: int = 0,
        feedback: str = "",
    ) -> T:
        """What a role says, read; a reply that cannot be read is asked for once more.

        Raises:
            Fault: there is no reply, or both cannot be read.
            LimitError: the budget has no room for it.
        """
        guidance = self._cast.guidance(self.problem, role)
        system = prompts.system(role, self.problem, guidance, review=step == "review")
        ask = Ask(self.problem, role, step, self.attempt, system, prompt, number, feedback=feedback)
        reply = await self._reply(ask)
        try:
            return read(reply.text)
        except ReplyError as error:
            why = error.why
        self.note(step, unreadable=why, reply=reply.text[: prompts.SHOWN])
        self._reasks += 1
        prompt = prompts.again(prompt, reply.text, why)
        reply = await self._reply(replace(ask, step="reask", prompt=prompt, number=self._reasks))
        try:
            return read(reply.text)
        except ReplyError as error:
            self.note("reask", unreadable=error.why, reply=reply.text[: prompts.SHOWN])
            raise Fault(role, "unreadable_reply", error.why) from None

    async def _reply(self, ask: Ask) -> Reply:
        try:
            reply = await self._cast.asker.ask(ask)
        except ModelError as error:
            raise Fault(ask.role, error.code, error.message) from error
        self._tokens.setdefault(ask.role, Tokens()).add(reply.tokens)
        self._latency += reply.latency_ms
        return reply

    async def check(self, candidate: Candidate, voice: RoleName) -> CheckResult:
        """What code says of an answer; asked once for each."""
        if self._cast.checker is None:
            return "not_applicable"
        if candidate.check is None:
            outcome = await self._cast.checker.check(self.problem, candidate.result)
            candidate.check = outcome.result
            self._latency += round(outcome.seconds * 1000)
            found = {"of": voice, "attempt": self.attempt, "response": candidate.result}
            found |= {"result": outcome.result, "kind": outcome.kind, "detail": outcome.detail}
            self._checks.append(found)
        return candidate.check

    def objection(self, candidate: Candidate) -> str:
        """What code has against an answer, "" when nothing."""
        if candidate.check != "refuted":
            return ""
        details = (c["detail"] for c in self._checks if c["response"] == candidate.result)
        return f"A check by code refutes the result {candidate.result}. {next(details, '')}".strip()

    def agrees(self, other: ResolverOutput) -> bool:
        """Whether an answer has the same result as the resolver's newest."""
        if self.last is None:
            return False
        if self.problem.kind == "letter":  # two that name no letter have nothing in common
            mine = letter_of(self.problem, self.last.response)
            return mine is not None and mine == letter_of(self.problem, other.response)
        mine, theirs = (result_of(self.problem, output) for output in (self.last, other))
        return bool(theirs) and agree(self.problem, mine, theirs)

    def again(self, other: Candidate) -> bool:
        """Whether this pair of the resolver's and another's answer was there before.

        From now on it was.
        """
        pair = (self.newest, other)
        if any(seen[0] is pair[0] and seen[1] is pair[1] for seen in self._seen):
            return True
        self._seen.append(pair)
        return False

    def answered(self, answer: ResolverOutput) -> Candidate:
        """Count the resolver's answer."""
        self.last = answer
        self.newest = self.candidates.add(answer, "resolver")
        return self.newest

    # ---- writing down ----

    def note(self, step: str, **facts: Any) -> None:
        """Add to the history."""
        self.history.append({"attempt": self.attempt, "step": step, **facts})

    def note_answer(self, step: Step, answer: ResolverOutput, **facts: Any) -> None:
        """Add an answer to the history as it was given."""
        self.note(
            step,
            response=answer.response,
            final=answer.final,
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            **facts,
        )

    def climb(self, rung: str, outcome: str) -> None:
        """Add to what the ladder has tried."""
        self.ladder.append({"rung": rung, "attempt": self.attempt, "outcome": outcome})

    def choose(self, candidate: Candidate, by: str) -> None:
        """Take an answer, whatever speaks for others; of the resolver's the newest wording."""
        newest = self.last if candidate is self.newest else None
        self._chosen, self._decided = (candidate, newest or candidate.output), by

    def failed(self, error: DeerFlowError | Fault) -> None:
        """Write down what ended the question early."""
        told = error.error if isinstance(error, Fault) else None
        if isinstance(error, DeerFlowError):
            told = {"code": error.code, "message": error.message}
        self._error = told

    def status(self, state: State) -> QuestionStatus:
        """How the question ended, with all that was written down."""
        best = self.candidates.best()
        output = None if best is None else best.output
        if self._chosen is not None:
            best, output = self._chosen
        accepted = state == "accepted"
        validator = self.checked or None
        if self.own is not None:
            validator = result_of(self.problem, self.own)
        raw: dict[str, Any] = {
            "state": state,
            "accepted": accepted,
            "decided_by": self._decided,
            "attempts": self.answers,
            "validator_answer": validator,
            "history": self.history,
            "checks": self._checks,
            "ladder": self.ladder,
            "confidence": {
                "stated": None if output is None else output.confidence,
                "agreement": None if best is None else round(self.candidates.agreement(best), 4),
            },
            "tokens": {role: tokens.to_dict() for role, tokens in self._tokens.items()},
        }
        if self._error is not None:
            raw["error"] = self._error
        return QuestionStatus(
            question_id=self.problem.id,
            final_response="" if output is None else handed_in(self.problem, output),
            accepted=accepted,
            attempts=self.answers,
            validator_answer=validator,
            state=state,
            reasoning="" if output is None else output.reasoning,
            latency_ms=self._latency,
            raw=raw,
        )
