"""A token budget for a whole exam, of which every question keeps enough for a first answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from deerflow.errors import LimitError
from deerflow.models.usage import CHARS_PER_TOKEN, Tokens
from deerflow.verify.protocol import Ask, Asker, Reply

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
    """

    limit: int
    waiting: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    spent: int = 0
    held: int = 0
    _firsts: int = 0
    _firsts_spent: int = 0

    def enter(self, question_id: str, repeat: int, ask_step: str, tokens: Tokens) -> None:
        """Count a call that was paid, now or before a kill."""
        self.spent += tokens.total
        if ask_step in ("resolve", "sample") and (question_id, repeat) in self.waiting:
            self.waiting.discard((question_id, repeat))
            self._firsts += 1
            self._firsts_spent += tokens.total

    def room_for(self, question_id: str, repeat: int, tokens: int) -> bool:
        """Whether a call of about so many tokens leaves each other question its first answer."""
        if not self.limit:
            return True
        first = self._firsts_spent / self._firsts if self._firsts else float(tokens)
        others = len(self.waiting - {(question_id, repeat)})
        return self.spent + self.held + tokens + others * first <= self.limit


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
        budget = self._budget
        expected = int(len(ask.system + ask.prompt) / CHARS_PER_TOKEN) + ANSWER_TOKENS
        if not budget.room_for(ask.problem.id, self._repeat, expected):
            raise LimitError(
                f"The exam's budget of {budget.limit} tokens has no room for another call.",
                rule="budget",
                used=budget.spent,
                limit=budget.limit,
            )
        budget.held += expected
        try:
            reply = await self._asker.ask(ask)
        finally:
            budget.held -= expected
        budget.enter(ask.problem.id, self._repeat, ask.step, reply.tokens)
        return reply
