"""The Orchestrator: walks the questions until every one of them has a status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from deerflow.errors import DeerFlowError, StorageError
from deerflow.exam.journal import Journal
from deerflow.verify.messages import Problem, QuestionStatus

logger = logging.getLogger(__name__)

Solve = Callable[[Problem], Awaitable[QuestionStatus]]
Told = Callable[[Problem, QuestionStatus], None]


class Orchestrator:
    """One repeat of an exam.

    Args:
        solve: the inner loop, for one question.
        journal: where statuses are kept; questions that have one are not asked again.
        repeat: from 1.
        workers: questions at once.
        told: hears of each question that has ended, earlier ones included.
    """

    def __init__(
        self, solve: Solve, journal: Journal, *, repeat: int = 1, workers: int = 1, told: Told
    ) -> None:
        self._solve = solve
        self._journal = journal
        self._repeat = repeat
        self._slots = asyncio.Semaphore(workers)
        self._told = told

    async def run(self, problems: Sequence[Problem]) -> list[QuestionStatus]:
        """Statuses in the order of the questions.

        Raises:
            StorageError: the journal cannot be written; the same command goes on later.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(problem)) for problem in problems]
        except ExceptionGroup as failed:  # the journal's, see `_ended`
            raise failed.exceptions[0] from failed
        return [task.result() for task in tasks]

    async def _one(self, problem: Problem) -> QuestionStatus:
        known = self._journal.status(problem.id, self._repeat)
        if known is None:
            async with self._slots:
                known = await self._ended(problem)
                await self._journal.finish_question(known, self._repeat)
        self._told(problem, known)
        return known

    async def _ended(self, problem: Problem) -> QuestionStatus:
        """The question's status, whatever happens: here its trouble ends and the exam goes on."""
        task = asyncio.ensure_future(self._solve(problem))
        (found,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(found, QuestionStatus):
            return found
        if isinstance(found, StorageError) or not isinstance(found, Exception):
            raise found
        if isinstance(found, DeerFlowError):
            return _failed(problem, f"{found.code}: {found.message}")
        logger.error("question %s failed", problem.id, exc_info=found)
        return _failed(problem, "error: an internal error")


def _failed(problem: Problem, error: str) -> QuestionStatus:
    raw = {"state": "resolver_error", "accepted": False, "attempts": 0, "error": error}
    return QuestionStatus(problem.id, "", False, 0, None, "resolver_error", raw=raw)
