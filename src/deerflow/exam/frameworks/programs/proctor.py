"""What the programs of all frameworks share, so that only the framework differs.

The standard library alone: this file runs beside a program in an environment without DeerFlow. It
hands out the questions, reads replies strictly, holds each question to its rules, and writes the
results. How roles are asked, and how an answer goes round, is the program's.

    python with_NAME.py --paper FILE --out DIR --base-url URL --model NAME [--workers N]

The key of the endpoint is in the environment as OPENAI_API_KEY. Progress is written to stdout, a
line for each question; whatever a framework prints goes to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

MAX_ATTEMPTS = 3
RESULTS = "results.json"
SUMMARY = "summary.md"

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)```", re.DOTALL | re.IGNORECASE)
_LETTER = re.compile(r"(?<![A-Za-z0-9])[A-Z](?![A-Za-z0-9])")
_SHOWN = 4_000


class UnreadableError(Exception):
    """A reply that is not what was asked for; it counts as no reply at all."""


@dataclass(frozen=True)
class Question:
    """One question as roles may see it: no key, no rubric, no notes.

    Attributes:
        id: of the question.
        subject, type: as results name them.
        kind: "letter" or "text".
        text: the question with its options.
        resolver, validator: the instructions of the roles.
    """

    id: str
    subject: str
    type: str
    kind: str
    text: str
    resolver: str
    validator: str


@dataclass(frozen=True)
class Resolution:
    """An answer; `final` is its result alone."""

    response: str
    reasoning: str = ""
    final: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether the validator accepts, what it objects to, and its own result."""

    accepted: bool
    feedback: str = ""
    checked_answer: str = ""


@dataclass
class Sheet:
    """What a question has come to: the rules of the inner loop, whoever goes round it.

    A program asks for a prompt, hands in what a role said, and goes on until `settled`. An
    exception that leaves the program ends the question as an error of the role that was asked.
    """

    question: Question
    role: str = "resolver"
    attempts: int = 0
    answer: Resolution | None = None
    verdict: Verdict | None = None
    accepted: bool = False
    error: str = ""
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tokens: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    @property
    def settled(self) -> bool:
        """Whether the question is at its end."""
        return self.accepted or self.attempts >= MAX_ATTEMPTS

    def resolver_prompt(self) -> str:
        """What the resolver is asked next."""
        self.role = "resolver"
        if self.answer is None or self.verdict is None:
            return self.question.text
        return (
            f"{self.question.text}\n\n# An earlier answer\n\n"
            f"{framed(self.answer.response, 'answer')}\n\n# What a reviewer said about it\n\n"
            f"{framed(self.verdict.feedback, 'feedback')}\n\nThe reviewer may be wrong too. "
            "Work the question out afresh and answer what you find."
        )

    def validator_prompt(self) -> str:
        """What the validator is asked about the newest answer."""
        self.role = "validator"
        answer = self.answer or Resolution("")
        text = (
            f"{self.question.text}\n\n# The candidate's answer\n\n"
            f"{framed(answer.response, 'answer')}"
        )
        if answer.reasoning:
            text += f"\n\nIts reasoning:\n\n{framed(answer.reasoning, 'reasoning')}"
        return text

    def resolved(self, answer: Resolution) -> None:
        """Take the resolver's answer."""
        self.attempts += 1
        self.answer = answer
        self.role = "validator"
        self.history.append(
            {"attempt": self.attempts, "step": "resolve", "response": answer.response}
        )

    def judged(self, verdict: Verdict) -> None:
        """Take the validator's verdict: accepted only with a result that is the answer's."""
        self.verdict = verdict
        self.accepted = verdict.accepted and self._same(verdict.checked_answer)
        self.role = "resolver"
        self.history.append(
            {
                "attempt": self.attempts,
                "step": "review",
                "accepted": verdict.accepted,
                "feedback": verdict.feedback,
                "checked_answer": verdict.checked_answer,
                "agrees": self._same(verdict.checked_answer),
            }
        )

    def spend(self, sent: int, made: int, calls: int = 1, role: str = "") -> None:
        """Count calls and tokens of a role; "" is the one that is asked now."""
        spent = self.tokens.setdefault(role or self.role, {"calls": 0, "input": 0, "output": 0})
        spent["calls"] += calls
        spent["input"] += sent
        spent["output"] += made

    def record(self, latency_ms: int) -> dict[str, Any]:
        """The question's entry in the results."""
        answer = self.answer or Resolution("")
        accepted = self.accepted and not self.error
        state = "accepted" if accepted else "exhausted"
        if self.error:
            state = f"{self.role}_error"
        raw: dict[str, Any] = {
            "state": state,
            "accepted": accepted,
            "attempts": self.attempts,
            "validator_answer": self.verdict.checked_answer if self.verdict else None,
            "calls": sum(spent["calls"] for spent in self.tokens.values()),
            "tokens": self.tokens,
            "history": self.history,
        }
        if self.error:
            raw["error"] = self.error
        letter = only_letter(answer.response) if self.question.kind == "letter" else ""
        return {
            "question_id": self.question.id,
            "subject": self.question.subject,
            "type": self.question.type,
            "response": letter or answer.response,
            "reasoning": answer.reasoning,
            "latency_ms": latency_ms,
            "raw": raw,
        }

    def _same(self, checked: str) -> bool:
        answer = self.answer or Resolution("")
        if self.question.kind == "letter":
            letter = only_letter(answer.response)
            return bool(letter) and letter == only_letter(checked)
        mine = {plain(answer.final), plain(answer.response)} - {""}
        return plain(checked) in mine


Solve = Callable[[Sheet], Coroutine[Any, Any, None]]
"""A program's inner loop: leaves when the sheet is settled."""

Build = Callable[[str, str], Solve]
"""Makes a program's inner loop from the model's name and the endpoint's URL."""


# ---- reading ----


def resolution_in(text: str) -> Resolution:
    """The answer in a reply: of its JSON object, else the whole text.

    Raises:
        UnreadableError: there is no answer.
    """
    try:
        return resolution_of(object_in(text))
    except UnreadableError:
        if not text.strip():
            raise
        return Resolution(text.strip())


def verdict_in(text: str) -> Verdict:
    """The verdict that a reply consists of.

    Raises:
        UnreadableError: it is no JSON object, or `accepted` is no boolean. Nothing is guessed.
    """
    return verdict_of(object_in(text))


def resolution_of(found: Mapping[str, Any]) -> Resolution:
    """The answer in an object's fields. Raises UnreadableError."""
    response = words(found, "response")
    if not response:
        raise UnreadableError("There is no response.")
    return Resolution(response, words(found, "reasoning"), words(found, "final"))


def verdict_of(found: Mapping[str, Any]) -> Verdict:
    """The verdict in an object's fields. Raises UnreadableError."""
    accepted = found.get("accepted")
    if not isinstance(accepted, bool):
        raise UnreadableError("accepted is no boolean.")
    return Verdict(accepted, words(found, "feedback"), words(found, "checked_answer"))


def object_in(text: str) -> dict[str, Any]:
    """The one JSON object that a text consists of, bare or fenced. Raises UnreadableError."""
    body = text.strip()
    fenced = _FENCE.fullmatch(body)
    try:
        found: Any = json.loads(
            fenced[1] if fenced else body, object_pairs_hook=_once, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise UnreadableError("The reply is not one JSON object.") from error
    if not isinstance(found, dict):
        raise UnreadableError("The reply is not one JSON object.")
    return found  # pyright: ignore[reportUnknownVariableType]  # names of JSON are texts


def words(found: Mapping[str, Any], name: str) -> str:
    """A field's text; a number as it is written, null as nothing. Raises UnreadableError."""
    value = found.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnreadableError(f"{name} is no text.")
    return str(value).strip()


def only_letter(text: str) -> str:
    """The one capital letter that stands alone in a text, "" when there is none or several."""
    found = set(_LETTER.findall(text))
    return found.pop() if len(found) == 1 else ""


def plain(text: str) -> str:
    """A text without case, outer marks and differences of white space."""
    return " ".join(text.casefold().split()).strip(" .;:!?\"'`*$")


def framed(text: str, what: str) -> str:
    """A text as material, between lines that it cannot hold itself."""
    half = _SHOWN // 2
    cut = text if len(text) <= _SHOWN else f"{text[:half]} […] {text[-half:]}"
    mark = hashlib.sha256(cut.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"--- BEGIN {what} {mark} ---\n{cut}\n--- END {what} {mark} ---"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# ---- orchestrator, summary, writer ----


def main(name: str, packages: Sequence[str], build: Build) -> None:
    """Run a program from its command line.

    Args:
        name: of the framework, in results.
        packages: whose versions results tell.
        build: makes its inner loop.
    """
    parser = argparse.ArgumentParser(description=f"Sits an exam with {name}.")
    for option in ("--paper", "--out", "--base-url", "--model"):
        parser.add_argument(option, required=True)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    progress = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    paper: dict[str, Any] = json.loads(Path(given.paper).read_text("utf-8"))
    questions = [Question(**each) for each in paper["questions"]]
    begun = datetime.now(timezone.utc)  # noqa: UP017  (one name in every Python that a framework has)
    solve = build(given.model, given.base_url)
    records, seconds = asyncio.run(_sit(questions, solve, max(1, given.workers), progress))
    config = {
        **paper["config"],
        "max_attempts": MAX_ATTEMPTS,
        "workers": max(1, given.workers),
        "versions": {package: version(package) for package in packages},
        "wall_ms": round(seconds * 1000),
    }
    document = {
        "framework": name,
        "model": given.model,
        "generated_at": begun.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "config": config,
        "results": records,
    }
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    _replace(out / RESULTS, json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    _replace(out / SUMMARY, summary(document))


def summary(document: Mapping[str, Any]) -> str:
    """How the questions ended, in Markdown."""
    states: dict[str, int] = {}
    for record in document["results"]:
        state = record["raw"]["state"]
        states[state] = states.get(state, 0) + 1
    lines = [f"# {document['framework']}", "", "| State | Questions |", "|---|--:|"]
    return "\n".join([*lines, *(f"| {state} | {n} |" for state, n in states.items())]) + "\n"


async def _sit(
    questions: Sequence[Question], solve: Solve, workers: int, progress: TextIO
) -> tuple[list[dict[str, Any]], float]:
    """All records in the order of the questions, and the seconds from first to last."""
    found: dict[str, dict[str, Any]] = {}
    waiting = iter(questions)

    async def work() -> None:
        for question in waiting:
            sheet, begun = Sheet(question), time.monotonic()
            # Errors of frameworks have no root in common; each leaves a status, and none is lost.
            (error,) = await asyncio.gather(solve(sheet), return_exceptions=True)
            if error is not None:
                sheet.error = f"{type(error).__name__}: {error}"[:500]
                sys.stderr.write(f"{question.id}: {sheet.error}\n")
            found[question.id] = sheet.record(round((time.monotonic() - begun) * 1000))
            state = found[question.id]["raw"]["state"]
            progress.write(f"[{len(found)}/{len(questions)}] {question.id}: {state}\n")
            progress.flush()

    begun = time.monotonic()
    await asyncio.gather(*(work() for _ in range(workers)))
    seconds = time.monotonic() - begun
    return [found[question.id] for question in questions], seconds


def _replace(path: Path, text: str) -> None:
    trial = path.with_name(f".{path.name}.{os.getpid()}")
    trial.write_text(text, encoding="utf-8", errors="backslashreplace")
    trial.replace(path)
