"""Row 13: how many children a turn and a run may start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

from deerflow.agent.calls import REFUSED
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.agent.journal import NOT_FINISHED
from deerflow.agent.state import TaskState
from deerflow.config.agents import AT_ONCE
from deerflow.config.schema import SubagentsConfig
from deerflow.middlewares.results import messages_of, refusal

MOST = 50
"""Children of a run that can be configured at most."""
TASK = "task"
"""The tool whose calls are counted."""
_PER_TURN = (
    "Not run: max_concurrent, this is task call {used} of the turn and {limit} of a turn are run. "
    "Use the results of those first; then delegate at most {limit} per turn, or do it yourself."
)
_PER_RUN = (
    "Not run: max_total_per_run, {limit} children per run are allowed and all are used. Do the "
    "rest yourself with what they brought."
)


class Answers(Protocol):
    """Answers `task` calls for which no child is run."""

    def repeated(
        self, state: Mapping[str, Any], turn: AIMessage, call: ToolCall
    ) -> ToolMessage | None:
        """The answer to a call that asks what another one asked, None when it is new."""
        ...

    def cancelled(self, state: Mapping[str, Any], call: ToolCall, run: RunContext) -> ToolResult:
        """The answer to a call of a stopped run."""
        ...


class SubagentLimitMiddleware(Middleware):
    """A call beyond a limit is answered in its place; one that repeats another, from the ledger.

    A turn runs its first `max_concurrent` (2 to 4) calls, a run `max_total_per_run`. Calls of a run
    are counted in the ledger of the state, those of the turn by their places, so that a resume
    counts the same. Refused and repeated calls are not counted.

    Args:
        config: section `subagents`.
        answers: knows the ledger.
    """

    closes = True

    def __init__(self, config: SubagentsConfig, answers: Answers) -> None:
        self._config = config
        self._answers = answers

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Let through, answer from the ledger, or refuse."""
        call = request.tool_call
        if call["name"] != TASK:
            return await next_(request)
        state = cast("dict[str, Any]", request.state)
        if run.closing:
            result = await next_(request)
            left_open = any(message.text == NOT_FINISHED for message in messages_of(result))
            return self._answers.cancelled(state, call, run) if left_open else result
        turn = _turn_of(state["messages"], call["id"])
        if turn is None:
            return await next_(request)
        repeated = self._answers.repeated(state, turn, call)
        if repeated is not None:
            return repeated
        over = self._over(state, turn, call, run)
        if over is None:
            return await next_(request)
        rule, used, limit, text = over
        if call["id"] not in run.completed:
            told = {"rule": rule, "used": used, "limit": limit, "message": text}
            run.emit("guard", {**told, "action": "refused"})
        return refusal(request, text)

    def _over(
        self, state: Mapping[str, Any], turn: AIMessage, call: ToolCall, run: RunContext
    ) -> tuple[str, int, int, str] | None:
        """Rule, number of this call, limit and text of the limit that the call passes."""
        limit = min(at_once(self._config), run.children_at_once or AT_ONCE[1])
        here = self._before(state, turn, call, limit)
        if here >= limit:
            return "max_concurrent", here + 1, limit, _PER_TURN.format(used=here + 1, limit=limit)
        calls = {each["id"] for each in turn.tool_calls}
        entries = cast("dict[str, TaskState]", state.get("delegations") or {}).values()
        used = here + sum(
            entry["run_id"] == run.run_id and entry["task_id"] not in calls for entry in entries
        )
        limit = min(self._config.max_total_per_run, run.most_children or MOST)
        if used >= limit:
            return "max_total_per_run", used + 1, limit, _PER_RUN.format(limit=limit)
        return None

    def _before(self, state: Mapping[str, Any], turn: AIMessage, call: ToolCall, limit: int) -> int:
        """Calls of the turn before this one that ask for a child of their own.

        Beyond the limit nobody asks whether one repeats another: a turn may have any number.
        """
        refused = turn.additional_kwargs.get(REFUSED, {})
        count = 0
        for other in turn.tool_calls:
            if other["id"] == call["id"]:
                break
            if other["name"] == TASK and other["id"] not in refused:
                count += count >= limit or self._answers.repeated(state, turn, other) is None
        return count


def at_once(config: SubagentsConfig) -> int:
    """Children at once per run: `max_concurrent` within the bounds of AT_ONCE."""
    low, high = AT_ONCE
    return min(max(config.max_concurrent, low), high)


def _turn_of(messages: Sequence[AnyMessage], call_id: str | None) -> AIMessage | None:
    for message in reversed(messages):
        if isinstance(message, AIMessage) and any(c["id"] == call_id for c in message.tool_calls):
            return message
    return None
