"""What people answer: decisions over calls that wait, and how the run goes on after the last."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import orjson

from deerflow.errors import ConflictError, UsageError
from deerflow.guardrails import approvals
from deerflow.runtime.history import address, reader
from deerflow.runtime.parts import RunParts
from deerflow.runtime.stopping import ended
from deerflow.storage.protocol import ApprovalRow, Decision, RunRow, ThreadRow

if TYPE_CHECKING:
    from deerflow.runtime.engine import Engine

MOST = 1_000
"""Runs of a thread that are looked through."""
PAUSE_SECONDS = 5.0
"""Seconds that a decision waits for a run that is just about to pause."""
_YES = ("approve", "approved", "accept", "edit", "yes")
_WORDS = ("answer", "value", "text", "content", "response")


class Answers:
    """Decisions over calls that wait, from any process.

    Args:
        parts: what runs are driven with.
        engine: executes them, here or elsewhere.
    """

    def __init__(self, parts: RunParts, engine: Engine) -> None:
        self._parts = parts
        self._storage = parts.storage
        self._engine = engine

    async def expire(self) -> int:
        """Carry out what has expired, of all users; their runs go on. Returns how many rows."""
        rows = await approvals.expire(self._storage, time.time())
        for user_id, thread_key, run_id in {(r.user_id, r.thread_key, r.run_id) for r in rows}:
            await self.go_on(user_id, thread_key, run_id)
        return len(rows)

    async def decide(self, user_id: str, approval_id: str, decision: Decision) -> ApprovalRow:
        """Record a decision; the run goes on with the last one. See `Submissions.decide`."""
        made = await approvals.decide(self._storage, user_id, approval_id, decision)
        if made.counts:
            await self.go_on(user_id, made.row.thread_key, made.row.run_id)
        return made.row

    async def answer(self, thread: ThreadRow, given: Any) -> RunRow | None:
        """Take a value for what waits in a thread, as LangGraph's resume does.

        Only calls of the newest run that waits: a thread goes on from its newest state.

        Args:
            thread: the thread.
            given: one answer for all calls that wait; a list, or {"decisions": [...]}, in their
                order; or an object from approval or interrupt id to answer. An answer is true or
                {"approved": true, "args"?}, or {"type": "approve" | "edit" | "reject", …}.
                Everything else is a refusal, a text its reason.

        Returns:
            The run, pending again when nothing waits any more; None when no call waits.

        Raises:
            UsageError: a list of another length, or edited arguments that cannot be taken.
        """
        rows = await self._rows(thread.user_id, thread.thread_key)
        if not rows:
            return None
        run_id = rows[-1].run_id
        rows = [row for row in rows if row.run_id == run_id]
        now = time.time()
        answers = await self._by_row(thread, rows, given)
        for row in rows:
            if row.approval_id in answers:
                decision = decision_of(answers[row.approval_id], thread.user_id, now)
                await approvals.decide(self._storage, thread.user_id, row.approval_id, decision)
        back = await self.go_on(thread.user_id, thread.thread_key, run_id)
        return back or await self._storage.threads.run(run_id)

    async def go_on(self, user_id: str, thread_key: str, run_id: str) -> RunRow | None:
        """Hand a paused run out again when nothing of it waits any more.

        A run that others of its thread have begun after goes on no more: the state is theirs.

        Returns:
            The row that is pending again; None when it does not go on now.
        """
        storage = self._storage
        if await self._waits(user_id, thread_key, run_id):
            return None
        thread, run = await storage.threads.by_key(thread_key), await storage.threads.run(run_id)
        if thread is None or run is None:
            return None
        if run.status == "running":  # it looks at decisions itself, unless it is about to pause
            with contextlib.suppress(TimeoutError):
                run = await ended(storage, thread, run, seconds=PAUSE_SECONDS)
        if run.status != "interrupted" or await self._waits(user_id, thread_key, run_id):
            return None
        if await self._is_over(run):
            return None
        back = await storage.queue.put_back(run_id)
        if back is not None:
            await self._engine.start(back, user_id)
        return back

    async def _by_row(
        self, thread: ThreadRow, rows: list[ApprovalRow], given: Any
    ) -> dict[str, Any]:
        """Approval id → answer."""
        ids = [row.approval_id for row in rows]
        fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        listed: Any = fields.get("decisions", given)
        if isinstance(listed, list):
            answers = cast("list[Any]", listed)
            if len(answers) != len(ids):
                raise UsageError(f"{len(ids)} calls wait, but {len(answers)} answers came.")
            return dict(zip(ids, answers, strict=True))
        names = {**{ident: ident for ident in ids}, **await self._interrupts(thread)}
        if fields and all(key in names for key in fields):
            return {names[key]: value for key, value in fields.items() if names[key] in ids}
        return dict.fromkeys(ids, cast("Any", given))

    async def _interrupts(self, thread: ThreadRow) -> dict[str, str]:
        """Ids of LangGraph's interrupts → approval ids."""
        state = await reader(self._parts).aget_state(address(thread.thread_key))
        found: dict[str, str] = {}
        for pause in state.interrupts:
            value: Any = pause.value
            if isinstance(value, dict) and "approval_id" in value:
                found[pause.id] = str(cast("dict[str, Any]", value)["approval_id"])
        return found

    async def _rows(self, user_id: str, thread_key: str) -> list[ApprovalRow]:
        await approvals.expire(self._storage, time.time(), thread_key)
        return await self._storage.approvals.list(
            user_id, thread_key=thread_key, limit=approvals.MOST
        )

    async def _is_over(self, run: RunRow) -> bool:
        """Whether a later run of the thread has begun."""
        for row in await self._storage.threads.runs(run.thread_key, limit=MOST):
            if row.run_id == run.run_id:
                return False
            if row.started_at is not None:
                return True
        return True

    async def _waits(self, user_id: str, thread_key: str, run_id: str) -> bool:
        rows = await self._rows(user_id, thread_key)
        return any(row.run_id == run_id for row in rows)


def decision_of(answer: Any, by: str, at: float) -> Decision:
    """The decision that an answer stands for; what is no clear yes is a no."""
    if isinstance(answer, str):
        said = answer.strip()
        yes = said.lower() in _YES
        answer = {"approved": yes, "reason": "" if said.lower() in ("reject", "no") else said}
    elif isinstance(answer, dict):
        fields = cast("dict[str, Any]", answer)
        if "approved" not in fields and isinstance(fields.get("type"), str):
            edited: Any = fields.get("args") or fields.get("edited_action") or {}
            if isinstance(edited, dict) and "args" in edited:  # {name, args}
                edited = cast("dict[str, Any]", edited)["args"]
            answer = {
                "approved": fields["type"].lower() in _YES,
                "args": cast("Any", edited) or None,
                "reason": fields.get("reason") or fields.get("message"),
            }
    return replace(approvals.answer_of(answer, at), by=by)


def words_of(answer: Any) -> str:
    """An answer to a question, as the text of a message.

    Raises:
        UsageError: it says nothing.
    """
    if isinstance(answer, dict):
        fields = cast("dict[str, Any]", answer)
        answer = next((fields[key] for key in _WORDS if fields.get(key)), fields)
    text = answer if isinstance(answer, str) else orjson.dumps(answer, default=str).decode()
    if not text.strip() or answer is None:
        raise UsageError("The answer is empty.")
    return text


def nothing_waits() -> ConflictError:
    """What is said when a resume finds nothing to answer."""
    return ConflictError("Nothing in this thread waits for an answer.", cure="Send a message.")
