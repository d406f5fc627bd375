"""The different answers to a question, and what speaks for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from deerflow.verify.answers import agree, declared_letter
from deerflow.verify.messages import CheckResult, Problem, ResolverOutput

Voice = Literal["resolver", "sample", "validator", "review", "adjudicator"]
"""Who came to an answer: `validator` before, `review` after it saw somebody else's."""

_BLANK = re.compile(r"\s+")


@dataclass(slots=True)
class Candidate:
    """An answer that somebody gave, together with all that agree with it.

    Attributes:
        output: as the resolver gave it first, else as whoever did.
        result: what is compared and checked, see `result_of`.
        voices: who came to it by themselves, in order.
        check: what code says of it, None when it was not asked.
        may_win: whether it may become the answer; False for what somebody had from the key.
    """

    output: ResolverOutput
    result: str
    voices: list[Voice] = field(default_factory=list[Voice])
    check: CheckResult | None = None
    may_win: bool = True

    @property
    def votes(self) -> int:
        """Answers that agree with it; the validator has one vote, however often it says so."""
        return sum(v not in ("validator", "review") for v in self.voices) + self.validated

    @property
    def validated(self) -> bool:
        """Whether the validator came to it, before or after it saw another answer."""
        return "validator" in self.voices or "review" in self.voices

    @property
    def resolved(self) -> bool:
        """Whether the resolver came to it, in an attempt or a sample."""
        return "resolver" in self.voices or "sample" in self.voices

    @property
    def standing(self) -> tuple[bool, bool, int, int, bool]:
        """What speaks for it, the weightiest first: code, roles, votes, the resolver."""
        roles = self.resolved + self.validated + ("adjudicator" in self.voices)
        return self.check == "verified", self.check != "refuted", roles, self.votes, self.resolved


class Candidates:
    """All answers to one problem, those that agree as one."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._all: list[Candidate] = []

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._all)

    def add(self, output: ResolverOutput, voice: Voice, *, may_win: bool = True) -> Candidate:
        """Count an answer.

        Args:
            output: the answer.
            voice: who gave it.
            may_win: False for what its author may have from the key.

        Returns:
            The one that it agrees with, else a new one.
        """
        found = self.find(output)
        if found is None:
            found = Candidate(output, result_of(self._problem, output), may_win=False)
            self._all.append(found)
        if not may_win:
            return found
        resolved = voice in ("resolver", "sample")
        if not found.may_win or (resolved and not found.resolved):
            found.output = output  # the resolver's words are handed in, not a validator's notes
        found.may_win = True
        found.voices.append(voice)
        return found

    def find(self, output: ResolverOutput) -> Candidate | None:
        """The candidate that an answer agrees with, None when it is a new one."""
        result = result_of(self._problem, output)
        for candidate in self._all:
            if candidate.result == result or agree(self._problem, candidate.result, result):
                return candidate
        return None

    def best(self) -> Candidate | None:
        """The one that most speaks for, the earliest of several; None when there is none."""
        able = [candidate for candidate in self._all if candidate.may_win]
        return max(able, key=lambda candidate: candidate.standing, default=None)

    def agreement(self, candidate: Candidate) -> float:
        """Share of all votes that an answer has, 0 to 1."""
        return candidate.votes / max(1, sum(each.votes for each in self._all))


def result_of(problem: Problem, output: ResolverOutput) -> str:
    """What of an answer is compared: its letter, or its result without the working.

    A stated result counts only when the answer holds it, so that nobody hands in one thing and has
    another compared.
    """
    if problem.kind == "letter":
        return letter_of(problem, output.response) or output.response
    final = output.final.strip()
    if not final:
        return output.response
    place = _BLANK.sub("", output.response).casefold()
    wanted = re.escape(_BLANK.sub("", final).casefold())
    left, right = r"(?<![\d.])" if final[0].isdigit() else "", r"(?![\d])"
    held = re.search(left + wanted + (right if final[-1].isdigit() else ""), place)
    return final if held else output.response


def letter_of(problem: Problem, response: str) -> str | None:
    """The letter that an answer declares, or whose option it is in words; None for neither."""
    letters = [option.strip()[:1] for option in problem.options]
    declared = declared_letter(response)
    return declared or next((one for one in letters if agree(problem, one, response)), None)


def handed_in(problem: Problem, output: ResolverOutput) -> str:
    """An answer as it is handed in: the bare letter where one is asked for."""
    return result_of(problem, output) if problem.kind == "letter" else output.response
