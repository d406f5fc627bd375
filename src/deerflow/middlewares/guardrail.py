"""Row 18: a policy decision before each tool call; `ask` pauses that call alone.

The approval's row in the store is the only truth. A pause is LangGraph's interrupt, which ends the
run; a resume enters the call again, and the row says how it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import orjson
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import interrupt

from deerflow.agent.calls import CallBook
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.agent.journal import marks_of
from deerflow.config.schema import GuardrailsConfig
from deerflow.guardrails import approvals
from deerflow.guardrails.protocol import EVALUATE_SECONDS, Action, GuardrailProvider, Verdict
from deerflow.middlewares.delimiters import one_line
from deerflow.middlewares.results import refusal, rewrite
from deerflow.storage.protocol import ApprovalRow, CallKey

_log = logging.getLogger(__name__)

RULE = "guardrail"
_REASON = 500
"""Characters of a provider's reason."""
_EDITED = 2_000
"""Characters of edited arguments that the result repeats."""


@dataclass(frozen=True, slots=True)
class SupersededCalls:
    """In the scratch of a run that is closed: calls whose child waited for a human.

    Attributes:
        ids: tool_call_ids.
    """

    ids: frozenset[str]


class GuardrailMiddleware(Middleware):
    """Asks the provider before each call, and carries out what humans have decided.

    It stands in the list even when nobody decides: what was decided or is pending holds although
    the configuration has changed since.

    Args:
        config: section `guardrails`.
        provider: who decides; None allows everything.
        seconds: that the provider may take.
        clock: UTC seconds.
        pause: ends the run until the call is entered again; LangGraph's interrupt.
    """

    closes = True

    def __init__(
        self,
        config: GuardrailsConfig,
        provider: GuardrailProvider | None,
        *,
        seconds: float = EVALUATE_SECONDS,
        clock: Callable[[], float] = time.time,
        pause: Callable[[Any], Any] = interrupt,
    ) -> None:
        self._config = config
        self._provider = provider
        self._seconds = seconds
        self._clock = clock
        self._pause = pause

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Let the call through, answer it, or pause it."""
        if self._provider is None and not run.resumed:
            return await next_(request)
        call = request.tool_call
        book: CallBook = run.scratch[CallBook]
        place = book.place(request.state["messages"], call["id"] or "")
        key = CallKey(run.thread_key, run.run_id, run.namespace, place.message_id, place.index)
        row = await self._row(key, run) if run.resumed else None
        if run.closing:
            return await self._close(request, next_, run, key, row)
        if row is None:
            if run.resumed and await _under_way(key, run):
                return await next_(request)  # it was let through before; the journal answers
            verdict = await self._verdict(_action(request, run), run)
            if verdict.decision == "allow":
                return await next_(request)
            if verdict.decision == "deny":
                return _denied(request, verdict, run)
            run.root.asked = True
            row = await run.storage.approvals.request(self._asked(request, verdict, key, run))
        return await self._carry_out(request, next_, run, row)

    # --- approvals ---

    async def _row(self, key: CallKey, run: RunContext) -> ApprovalRow | None:
        """The call's approval as it stands now, what has expired included."""
        ident = approvals.approval_id(key)
        row = await run.storage.approvals.get(run.user_id, ident)
        if row is None or row.status != "pending":
            return row
        if row.expires_at is not None and row.expires_at <= self._clock():
            await run.storage.approvals.expire(self._clock(), thread_key=run.thread_key)
            row = await run.storage.approvals.get(run.user_id, ident)
        return row

    def _asked(
        self, request: ToolCallRequest, verdict: Verdict, key: CallKey, run: RunContext
    ) -> ApprovalRow:
        now, seconds = self._clock(), verdict.expires_seconds
        return ApprovalRow(
            approval_id=approvals.approval_id(key),
            user_id=run.user_id,
            thread_id=run.thread_id,
            thread_key=run.thread_key,
            run_id=run.run_id,
            namespace=run.namespace,
            message_id=key.message_id,
            index=key.index,
            tool=request.tool_call["name"],
            args=request.tool_call["args"],
            reason=one_line(verdict.reason, _REASON),
            default=verdict.default,
            created_at=now,
            expires_at=None if seconds is None else now + seconds,
        )

    async def _carry_out(
        self, request: ToolCallRequest, next_: ToolNext, run: RunContext, row: ApprovalRow
    ) -> ToolResult:
        _tell_asked(request, run, row)
        if row.status == "pending":
            # returns only under a foreign runner, which resumes with a value
            value = self._pause(approvals.waiting(row))
            decision = approvals.answer_of(value, self._clock())
            row = (await approvals.decide(run.storage, run.user_id, row.approval_id, decision)).row
        else:
            _tell_decided(run, row)
        if not approvals.allows(row):
            return refusal(request, approvals.refusal_text(row))
        if row.edited is None:
            return await next_(request)
        edited = _edited(request, row)
        verdict = await self._verdict(_action(edited, run), run)
        if verdict.decision == "deny":  # nobody approves past the policy
            return _denied(edited, verdict, run)
        return await _said_so(row, await next_(edited))

    async def _close(
        self,
        request: ToolCallRequest,
        next_: ToolNext,
        run: RunContext,
        key: CallKey,
        row: ApprovalRow | None,
    ) -> ToolResult:
        """Answer a call of a run that is over: what was recorded counts, nothing runs."""
        if row is not None:
            _tell_asked(request, run, row)
            _tell_decided(run, row)
            if not approvals.allows(row):
                return refusal(request, approvals.refusal_text(row))
        left = cast("SupersededCalls | None", run.scratch.get(SupersededCalls))
        if left is not None and request.tool_call["id"] in left.ids:
            record = await run.storage.journal.tool_lookup(key)
            if record is None or record.result is None:
                return refusal(request, approvals.SUPERSEDED_CHILD)
        result = await next_(request)
        return result if row is None else await _said_so(row, result)

    # --- the provider ---

    async def _verdict(self, action: Action, run: RunContext) -> Verdict:
        """The provider's verdict; a failure is denied, or allowed with a notice."""
        provider = self._provider
        if provider is None:
            return Verdict("allow")

        if getattr(provider, "instant", False):
            with contextlib.suppress(Exception):  # asked again below, where a failure is told
                return await provider.evaluate(action)

        async def asked() -> Verdict:
            return await provider.evaluate(action)

        task = asyncio.create_task(asked())
        try:
            done, _ = await asyncio.wait({task}, timeout=self._seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        problem = _problem(task, self._seconds) if done else f"took more than {self._seconds:g} s"
        if not problem:
            return task.result()
        if not done:
            task.cancel()
            task.add_done_callback(_forget)
        text = f"The policy provider {one_line(provider.name)} {problem}"
        if self._config.fail_closed:
            return Verdict("deny", f"{text}; calls are denied until it works", "failure")
        run.emit("notice", {"message": f"{text}; {action.tool} was allowed."})
        return Verdict("allow", text, "failure")


def _problem(task: asyncio.Task[Verdict], seconds: float) -> str:
    """What is wrong with what a provider gave, "" when nothing is."""
    if task.cancelled():
        return "was cancelled"
    error = task.exception()
    if error is not None:
        _log.warning("a policy provider failed", exc_info=error)
        return f"failed ({type(error).__name__})"
    verdict: Any = task.result()
    if not isinstance(verdict, Verdict) or verdict.decision not in ("allow", "deny", "ask"):
        return "gave no verdict"
    wait: Any = verdict.expires_seconds
    good = wait is None or (isinstance(wait, int | float) and math.isfinite(wait) and wait >= 0)
    return "" if good and verdict.default in ("allow", "deny") else "gave no sound verdict"


def _forget(task: asyncio.Task[Verdict]) -> None:
    if not task.cancelled():
        task.exception()


def _action(request: ToolCallRequest, run: RunContext) -> Action:
    call = request.tool_call
    return Action(
        tool=call["name"],
        args=call["args"],
        user_id=run.user_id,
        thread_id=run.thread_id,
        run_id=run.run_id,
        agent=run.agent,
        sandbox=bool(marks_of(request).get("sandbox")),
    )


async def _under_way(key: CallKey, run: RunContext) -> bool:
    record = await run.storage.journal.tool_lookup(key)
    return record is not None and (record.started or record.result is not None)


def _denied(request: ToolCallRequest, verdict: Verdict, run: RunContext) -> ToolMessage:
    name = request.tool_call["name"]
    reason = one_line(verdict.reason, _REASON).rstrip(". ") or f"{name} is not permitted"
    run.emit(
        "guard",
        {
            "rule": RULE,
            "detail": one_line(verdict.policy),
            "action": "denied",
            "used": 1,
            "limit": 0,
            "message": f"{name}: {reason}.",
        },
    )
    return refusal(
        request,
        f"Denied by policy (guardrail_denied): {reason}. Do not try to reach the same another way; "
        "go on without it, or tell the user what is missing.",
    )


def _tell_asked(request: ToolCallRequest, run: RunContext, row: ApprovalRow) -> None:
    if row.approval_id in run.completed:
        return
    run.completed.add(row.approval_id)
    run.emit(
        "approval_requested",
        {
            "approval_id": row.approval_id,
            "tool_call_id": request.tool_call["id"],
            "tool": row.tool,
            "args": approvals.shown(row.args),
            "reason": row.reason,
            "default": row.default,
            "expires_at": row.expires_at,
        },
    )


def _tell_decided(run: RunContext, row: ApprovalRow) -> None:
    """Log a decision whose event a kill has swallowed, or an expiry that nobody saw before."""
    ident = f"{row.approval_id}.decided"
    if ident not in run.completed:
        run.completed.add(ident)
        run.emit("approval_decided", approvals.decided(row))


def _edited(request: ToolCallRequest, row: ApprovalRow) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": row.edited or {}})


async def _said_so(row: ApprovalRow, result: ToolResult) -> ToolResult:
    """The result, which says with which arguments a human let the call run."""
    if row.edited is None:
        return result
    args = one_line(orjson.dumps(row.edited).decode(), _EDITED)
    return await rewrite(
        result, partial(_prefixed, note=f"(Approved with other arguments: {args})")
    )


async def _prefixed(message: ToolMessage, *, note: str) -> ToolMessage:
    content: Any = message.content
    if isinstance(content, str):
        content = f"{note}\n{content}"
    else:
        content = [{"type": "text", "text": note}, *content]
    return message.model_copy(update={"content": content})
