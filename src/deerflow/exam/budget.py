"""A token budget for a whole exam, of which every question keeps enough for a first answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from deerflow.errors import LimitError
from deerflow.models.usage import CHARS_PER_TOKEN, Tokens
from deerflow.verify.protocol import Ask, Asker, Reply

FIRST = ("resolve", "sample")
"""Steps that may be a question's first answer."""
ANSWER_TOKENS = 300
"""Output that a call is expected to have before anything is known of the model's answers."""


@dataclass(slots=True)
class Budget:
    """What is spent of the tokens of an exam, all repeats together.

    Attributes:
        limit: tokens in all, 0 for no limit.
        waiting: (question, repeat) without a first answer.
        spent: tokens that were paid.
        held: tokens of calls under way, as estimated.
        changed: told of when a call under way ends.
    """

    limit: int
    waiting: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    spent: int = 0
    held: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _firsts: int = 0
    _firsts_spent: int = 0

    async def told(self) -> None:
        """Calls that wait look again."""
        async with self.changed:
            self.changed.notify_all()

    def enter(self, question_id: str, repeat: int, ask_step: str, tokens: Tokens) -> None:
        """Count a call that was paid, now or before a kill."""
        self.spent += tokens.total
        if self.begin(question_id, repeat, ask_step):
            self.first(tokens)

    def begin(self, question_id: str, repeat: int, ask_step: str) -> bool:
        """Whether this is the first answer of a question; it waits for it no more then."""
        waits = ask_step in FIRST and (question_id, repeat) in self.waiting
        if waits:
            self.waiting.discard((question_id, repeat))
        return waits

    def first(self, tokens: Tokens) -> None:
        """Count what a first answer took, for what is kept for the others."""
        self._firsts += 1
        self._firsts_spent += tokens.total

    def room(self, tokens: int, *, first: bool, held: bool = True) -> bool:
        """Whether a call of about so many tokens leaves each question its first answer.

        Args:
            tokens: of the call.
            first: it is a first answer itself: what is kept, is kept for it.
            held: count calls under way; without them it says whether waiting may help.
        """
        if not self.limit:
            return True
        each = self._firsts_spent / self._firsts if self._firsts else float(tokens)
        kept = 0 if first else len(self.waiting) * each
        return self.spent + (self.held if held else 0) + tokens + kept <= self.limit


class BudgetedAsker:
    """Refuses calls for which the budget has no room.

    Args:
        asker: who asks.
        budget: of the exam, shared by its repeats.
        repeat: of the exam, from 1.
    """

    def __init__(self, asker: Asker, budget: Budget, repeat: int) -> None:
        self._asker = asker
        self._budget = budget
        self._repeat = repeat

    async def ask(self, ask: Ask) -> Reply:
        """See Asker.

        Raises:
            LimitError: no room.
        """
        budget, step = self._budget, ask.step
        expected = int(len(ask.system + ask.prompt) / CHARS_PER_TOKEN) + ANSWER_TOKENS
        first = budget.begin(ask.problem.id, self._repeat, step)
        paid = False
        try:
            await self._room(expected, first=first)
            budget.held += expected
            try:
                reply = await self._asker.ask(ask)
            finally:
                budget.held -= expected
                await budget.told()
            paid = True
        finally:
            if first and not paid:
                budget.waiting.add((ask.problem.id, self._repeat))
        budget.spent += reply.tokens.total
        if first:
            budget.first(reply.tokens)
        return reply

    async def _room(self, expected: int, *, first: bool) -> None:
        """Return when there is room; calls under way may take less than they hold."""
        budget = self._budget
        async with budget.changed:
            while not budget.room(expected, first=first):
                if not budget.held or not budget.room(expected, first=first, held=False):
                    raise LimitError(
                        f"The exam's budget of {budget.limit} tokens has no room for another call.",
                        rule="budget",
                        used=budget.spent,
                        limit=budget.limit,
                    )
                await budget.changed.wait()
