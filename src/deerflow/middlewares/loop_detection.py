"""Row 14: refuses calls that bring nothing new, and only those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from deerflow.agent.calls import BAD_CALLS, REFUSED
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import (
    Middleware,
    ModelCall,
    ModelNext,
    ModelReply,
    ToolNext,
    ToolResult,
)
from deerflow.agent.journal import LIMIT
from deerflow.agent.reply_edge import with_note
from deerflow.agent.state import CompactionState
from deerflow.config.tools import LoopDetectionConfig
from deerflow.middlewares.progress import MARK, Finding, Progress
from deerflow.middlewares.results import messages_of, rewrite

RULE = "loop_detection"
REFUSED_TURNS = 3
"""Turns with nothing but refused calls, since anything new came, after which the run ends."""


class LoopDetectionMiddleware(Middleware):
    """Warns in the result, then refuses the call in place; the other calls of the turn run.

    The rules and what counts as new stand in `progress.py`. After three turns of refused calls
    alone the run ends with the outcome `limit_reached` (rule "loop_detection") and what it has.

    Args:
        config: section `loop_detection`.
    """

    def __init__(self, config: LoopDetectionConfig) -> None:
        self._config = config

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Call, and refuse what repeats."""
        progress = self._progress(call.run, call.state, call.tools)
        reply = await next_(call)
        message = reply.message
        if message is None or reply.jump is not None or not message.tool_calls:
            return reply
        answered = {result.tool_call_id for result in reply.results}
        ahead: Counter[str] = Counter()
        findings: list[Finding] = []
        allowed = 0
        bad: dict[str, str] = message.additional_kwargs.get(BAD_CALLS) or {}
        for index, request in enumerate(message.tool_calls):
            if request["id"] in answered:
                continue
            problem = bad.get(str(index))  # its arguments read {}, which would make all such alike
            args = request["args"] if problem is None else {BAD_CALLS: problem}
            finding = progress.judge(request["name"], args, ahead)
            if finding is None:
                allowed += 1
                continue
            findings.append(finding)
            _tell(call.run, finding, "refused")
            reply.results.append(
                ToolMessage(
                    content=f"Not run: {RULE}, {finding.text}",
                    name=request["name"],
                    tool_call_id=request["id"] or "",
                    status="error",
                )
            )
        if findings and not allowed:
            progress.refused_turns += 1
            if progress.refused_turns >= REFUSED_TURNS:
                return _stopped(call.run, reply, message, findings[-1])
        return reply

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Run, take note of the result, and warn in it."""
        progress = self._progress(run, request.state, _offered(request))
        result = await next_(request)
        call = request.tool_call
        for message in messages_of(result):
            if message.tool_call_id != call["id"]:
                continue
            finding = progress.observe(
                call["name"], call["args"], message.text, failed=message.status == "error"
            )
            if finding is not None:
                _tell(run, finding, "warned")
                return await rewrite(result, _warning(finding, call["id"] or ""))
        return result

    def _progress(
        self,
        run: RunContext,
        state: dict[str, Any],
        tools: Iterable[BaseTool | dict[str, Any]],
    ) -> Progress:
        """The run's cursor, rebuilt from the messages since a compaction if there is none."""
        progress = run.scratch.get(type(self))
        if progress is None:
            progress = Progress(self._config, _readers(tools))
            compaction: CompactionState | None = state.get("compaction")
            since = compaction["seen"] if compaction else None
            _replay(progress, _after(_of_run(state.get("messages", ()), run.input_id), since))
            run.scratch[type(self)] = progress
        return progress


def forget_reads(run: RunContext) -> None:
    """After a compaction: what was read is out of the model's sight and may be read again."""
    progress = run.scratch.get(LoopDetectionMiddleware)
    if progress is not None:
        progress.forget()


def _warning(finding: Finding, call_id: str) -> Any:
    async def change(message: ToolMessage) -> ToolMessage:
        if message.tool_call_id != call_id:
            return message
        note = MARK + finding.text
        content: Any = message.content
        content = content + note if isinstance(content, str) else [*content, note]
        return message.model_copy(update={"content": content})

    return change


def _stopped(
    run: RunContext, reply: ModelReply, message: AIMessage, finding: Finding
) -> ModelReply:
    text = (
        f"[Stopped: {RULE}, {REFUSED_TURNS} turns in a row asked only for refused calls. The last: "
        f"{finding.text}]"
    )
    limit = {"rule": RULE, "used": finding.used, "limit": finding.limit}
    run.emit("guard", {**limit, "detail": finding.rule, "action": "stopped", "message": text})
    reply.message = with_note(message, text, **{LIMIT: limit})
    reply.jump = "end"
    return reply


def _tell(run: RunContext, finding: Finding, action: str) -> None:
    run.emit(
        "guard",
        {
            "rule": RULE,
            "detail": finding.rule,
            "action": action,
            "used": finding.used,
            "limit": finding.limit,
            "message": finding.text,
        },
    )


def _offered(request: ToolCallRequest) -> Sequence[BaseTool]:
    return cast("Any", request).runtime.tools


def _readers(tools: Iterable[BaseTool | dict[str, Any]]) -> frozenset[str]:
    """Names of the tools that only look: marked idempotent."""
    names: list[str] = []
    for tool in tools:
        if isinstance(tool, BaseTool):
            marks = cast("dict[str, Any]", (tool.metadata or {}).get("deerflow", {}))
            if marks.get("idempotent"):
                names.append(tool.name)
    return frozenset(names)


def _of_run(messages: Sequence[AnyMessage], input_id: str) -> Sequence[AnyMessage]:
    """Messages after the run's input; without it, after the last human message."""
    start = 0
    for index, message in enumerate(messages):
        if message.id == input_id:
            return messages[index + 1 :]
        if isinstance(message, HumanMessage):
            start = index + 1
    return messages[start:]


def _after(messages: Sequence[AnyMessage], ident: str | None) -> Sequence[AnyMessage]:
    """Messages after one of them; all when it is not there."""
    at = next((index + 1 for index, m in enumerate(messages) if ident and m.id == ident), 0)
    return messages[at:]


def _replay(progress: Progress, messages: Sequence[AnyMessage]) -> None:
    calls: dict[str, Any] = {}
    refused: set[str] = set()
    for message in messages:
        if isinstance(message, AIMessage):
            calls = {call["id"] or "": call for call in message.tool_calls}
            refused = set(message.additional_kwargs.get(REFUSED, ()))
            if calls and refused >= set(calls):
                progress.refused_turns += 1
        elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
            if message.tool_call_id in refused:
                continue
            call = calls[message.tool_call_id]
            text = message.text.partition(MARK)[0]
            progress.observe(call["name"], call["args"], text, failed=message.status == "error")
