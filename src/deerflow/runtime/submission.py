"""What clients do with runs: hand them in, wait, stop, decide, and remove; in any process."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from deerflow.errors import ConflictError, UsageError
from deerflow.guardrails import approvals
from deerflow.runtime.admission import Admission
from deerflow.runtime.answering import Answers, nothing_waits, words_of
from deerflow.runtime.checks import no_thread
from deerflow.runtime.lookup import MOST, Lookup
from deerflow.runtime.parts import RunParts
from deerflow.runtime.request import RunRequest
from deerflow.runtime.stopping import displace, ended, roll_back, stop
from deerflow.runtime.webhooks import Webhooks, call_for
from deerflow.storage.protocol import (
    ApprovalRow,
    Cancel,
    Decision,
    RunRow,
    Strategy,
    Submitted,
)
from deerflow.storage.states import is_to_take_back

if TYPE_CHECKING:
    from deerflow.runtime.engine import Engine

INTERACTIVE = 10
"""Priority of a run that somebody waits for."""
LONGEST_DELAY = 366 * 86_400.0
"""Seconds that a run may be put off."""
STOP_SECONDS = 2.0
"""Seconds that a deletion waits for the thread's run to end."""
LONGEST_KEY = 255
"""Characters of an idempotency key."""


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """How a run is handed in.

    Attributes:
        strategy: when the thread has an unfinished run.
        metadata: the client's JSON object.
        after_seconds: delay of its start.
        webhook: address that is called when it has ended, see `runtime.webhooks`.
        idempotency_key: of the user; the same key again gives the run that is there.
        priority: higher goes first; 0 in the background.
        if_not_exists: whether a thread that does not exist is made.
        run_id: hex of a UUID, chosen by a caller that hands the same run in again after a crash;
            random when None.
    """

    strategy: Strategy = "reject"
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    after_seconds: float = 0.0
    webhook: str | None = None
    idempotency_key: str | None = None
    priority: int = INTERACTIVE
    if_not_exists: Literal["create", "reject"] = "create"
    run_id: str | None = None


DEFAULT = SubmitOptions()


class Submissions(Lookup):
    """Runs as clients see them. Everything is asked for by the user's id and the client's ids.

    Args:
        parts: what runs are driven with.
        engine: executes them, here or elsewhere.
        webhooks: checks addresses; made from `parts` when None.
    """

    def __init__(
        self, parts: RunParts, engine: Engine, *, webhooks: Webhooks | None = None
    ) -> None:
        super().__init__(parts.storage)
        self._parts = parts
        self._engine = engine
        self._admission = Admission(parts)
        self.webhooks = webhooks or Webhooks(parts.storage, parts.config.runtime)
        self.answers = Answers(parts, engine)

    # --- handing in ---

    async def submit(self, request: RunRequest, options: SubmitOptions = DEFAULT) -> Submitted:
        """Accept a run: it is durable when this returns, and starts when it is its turn.

        What waits for a human in the thread is superseded by it.

        Raises:
            UsageError: something in the request or the options is wrong.
            NotFoundError: unknown model, agent or checkpoint; with if_not_exists "reject", thread.
            ConflictError: strategy "reject" and the thread has an unfinished run.
        """
        await self._check(request, options)
        storage = self._parts.storage
        delay = options.after_seconds
        not_before = time.time() + delay if delay else None
        submitted, bare = None, False
        while submitted is None:  # None: somebody made the thread meanwhile
            prepared = await self._admission.prepare(request)
            prepared = replace(prepared, run_id=options.run_id or prepared.run_id)
            run = prepared.run(
                metadata=options.metadata,
                strategy=options.strategy,
                not_before=not_before,
                priority=options.priority,
                idempotency_key=options.idempotency_key,
                delivery=call_for(prepared.thread, prepared.run_id, options.webhook),
            )
            bare = prepared.new
            submitted = await storage.queue.submit(prepared.thread, run, new=bare)
        if submitted.created:
            await self._follow_up(submitted, bare=bare)
        if submitted.ready and submitted.run.ended_at is None:
            await self._engine.start(submitted.run, request.user_id)
        return submitted

    async def submit_all(
        self, requests: Sequence[tuple[RunRequest, SubmitOptions]]
    ) -> list[Submitted]:
        """Several, in order. Raises like `submit`; those before the refused one are accepted."""
        return [await self.submit(request, options) for request, options in requests]

    async def _check(self, request: RunRequest, options: SubmitOptions) -> None:
        delay, key = options.after_seconds, options.idempotency_key
        if not 0 <= delay <= LONGEST_DELAY:  # also refuses what is no number
            raise UsageError(f"`after_seconds` is 0 to {LONGEST_DELAY:.0f}.")
        if key is not None and not (0 < len(key) <= LONGEST_KEY and key.isprintable()):
            raise UsageError(f"An idempotency key has 1 to {LONGEST_KEY} printable characters.")
        if options.webhook is not None:
            self.webhooks.check(options.webhook)
        if options.if_not_exists == "reject":
            found = await self._parts.storage.threads.get(request.user_id, request.thread_id or "")
            if found is None:
                raise no_thread(request.thread_id)

    async def _follow_up(self, submitted: Submitted, *, bare: bool) -> None:
        """What belongs to a new run: the end of those that it displaces."""
        for other in submitted.cancelled:
            await displace(self._engine, self._parts, other)
        if submitted.ready and not bare:  # in a new thread nothing waits
            now, key = time.time(), submitted.run.thread_key
            await approvals.supersede(self._parts.storage, now, key)

    # --- ending ---

    async def cancel(
        self,
        user_id: str,
        thread_id: str,
        run_id: str,
        action: Cancel = "interrupt",
        *,
        wait: bool = False,
    ) -> RunRow:
        """Ask for the end of a run; within 2 s nothing of it is at work any more.

        Args:
            user_id: owner of the thread.
            thread_id: the client's thread id.
            run_id: the run.
            action: interrupt keeps what it has done, rollback removes it.
            wait: return when it has ended.

        Raises:
            NotFoundError: unknown or someone else's, alike.
            ConflictError: it has ended: "… is not cancellable".
        """
        thread, run = await self.run(user_id, thread_id, run_id)
        asked = await stop(self._engine, self._parts, run, action)
        if not wait:
            return asked
        done = await ended(self._parts.storage, thread, asked)
        if is_to_take_back(done):
            await roll_back(self._parts, done)  # its worker does the same, unless it has died
        return done

    async def cancel_all(
        self,
        user_id: str,
        *,
        thread_id: str | None = None,
        run_ids: Sequence[str] | None = None,
        statuses: Sequence[str] = ("pending", "running"),
        action: Cancel = "interrupt",
    ) -> list[RunRow]:
        """Ask for the end of several runs; those that have ended, or are not there, are left out.

        Args:
            user_id: owner.
            thread_id: only of this thread.
            run_ids: only these.
            statuses: only runs of these statuses.
            action: see `cancel`.

        Raises:
            NotFoundError: no such thread.
        """
        stopped: list[RunRow] = []
        for run in await self._unfinished(user_id, thread_id):
            if run.status not in statuses or (run_ids is not None and run.run_id not in run_ids):
                continue
            with contextlib.suppress(ConflictError):
                stopped.append(await stop(self._engine, self._parts, run, action))
        return stopped

    async def _unfinished(self, user_id: str, thread_id: str | None) -> list[RunRow]:
        """Unfinished runs, newest first: what waits ends before what would release it."""
        storage = self._parts.storage
        if thread_id is not None:
            thread = await self.thread(user_id, thread_id)
            rows = await storage.threads.runs(thread.thread_key, limit=MOST)
            return [row for row in rows if row.ended_at is None]
        found: list[RunRow] = []
        for status in ("pending", "running"):
            pairs = await storage.queue.of_user(user_id, limit=MOST, status=status)
            found += [row for _, row in pairs]
        return found

    async def delete_run(self, user_id: str, thread_id: str, run_id: str) -> None:
        """Remove an ended run from the list and the log; the thread's state keeps its messages.

        Raises:
            NotFoundError: unknown or someone else's, alike.
            ConflictError: it has not ended.
        """
        _, run = await self.run(user_id, thread_id, run_id)
        if run.ended_at is None:
            raise ConflictError("The run is active.", cure="Cancel it first.")
        await self._parts.storage.queue.remove(run_id)

    async def delete_thread(self, user_id: str, thread_id: str) -> None:
        """Remove a thread with everything of it; its runs are stopped first, for at most 2 s.

        What still writes afterwards is refused by the store.

        Raises:
            NotFoundError: unknown or someone else's, alike.
        """
        storage = self._parts.storage
        thread = await self.thread(user_id, thread_id)
        stopped = await self.cancel_all(user_id, thread_id=thread_id)
        ends = [ended(storage, thread, run, seconds=STOP_SECONDS) for run in stopped]
        await asyncio.gather(*ends, return_exceptions=True)  # TimeoutError: it is refused then
        key = await storage.threads.delete(user_id, thread_id)
        if key is not None:
            root = self._parts.folders(user_id, key).root.parent
            await asyncio.to_thread(shutil.rmtree, root, True)

    # --- people ---

    async def decide(self, user_id: str, approval_id: str, decision: Decision) -> ApprovalRow:
        """Record a decision over a call that waits; the run goes on with the last one.

        The first decision counts; a later one changes nothing and is no error.

        Raises:
            UsageError: edited arguments or reason that cannot be taken.
            NotFoundError: no such approval, or someone else's.
        """
        return await self.answers.decide(user_id, approval_id, decision)

    async def resume(
        self, request: RunRequest, answer: Any, options: SubmitOptions = DEFAULT
    ) -> Submitted:
        """Answer what waits in a thread: calls (see `Answers.answer`), or a question.

        Args:
            request: user, thread, and settings of a run that the answer to a question begins.
            answer: the value.
            options: of that run.

        Returns:
            The paused run that goes on (created is False), or the new one.

        Raises:
            NotFoundError: no such thread.
            ConflictError: nothing waits, or the thread is busy.
        """
        thread = await self.thread(request.user_id, request.thread_id or "")
        going = await self.answers.answer(thread, answer)
        if going is not None:
            return Submitted(going, created=False, ready=going.status == "pending")
        last = await self._parts.storage.threads.runs(thread.thread_key, limit=1)
        if last and last[0].status == "interrupted":  # decided or expired, and not gone on with
            back = await self.answers.go_on(request.user_id, thread.thread_key, last[0].run_id)
            if back is not None:
                return Submitted(back, created=False, ready=True)
        outcome = (last[0].outcome or {}) if last else {}
        if outcome.get("kind") != "waiting_for_human" or "question" not in outcome:
            raise nothing_waits()
        text = words_of(answer)
        return await self.submit(replace(request, task=text, message=None, earlier=()), options)
