"""Row 9: plan mode, and the plan kept in sight: shown again, and asked about when left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import REMINDER
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.state import Todo
from deerflow.middlewares.delimiters import REMINDER_TAG, after, block, one_line
from deerflow.middlewares.requests import is_request, last_request

TOOL = "write_todos"
MARK = "deerflow_plan"
"""additional_kwargs of a request that was made in plan mode."""

FAR = 20
"""Messages after which a plan counts as out of sight (about ten turns of one call)."""

SHOWN = 30
"""Entries that a reminder lists."""

_PLAN = (
    "Plan mode: before you act, write the whole plan with write_todos; then work through it, one "
    "entry in progress at a time, and mark each as soon as it is done."
)
_ONCE = "deerflow_todo_reminder"


class TodoListMiddleware(Middleware):
    """The behaviour around `write_todos`; the tool itself is in tools."""

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Note plan mode on the request, so that it reads the same on later turns."""
        messages: list[AnyMessage] = state["messages"]
        index = last_request(messages)
        if index < 0 or not messages[index].id:
            return None
        request = messages[index]
        if bool(request.additional_kwargs.get(MARK)) == run.plan:
            return None
        extra = {k: v for k, v in request.additional_kwargs.items() if k != MARK}
        if run.plan:
            extra[MARK] = True
        return {"messages": [request.model_copy(update={"additional_kwargs": extra})]}

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Show plan and plan mode, report changes, ask once about entries that are left open."""
        todos: list[Todo] = call.state.get("todos") or []
        _report(call.run, todos)
        reply = await next_(_shown(call, todos))
        if _ends(reply) and _open(todos) and _may_remind(call):
            entries = "; ".join(one_line(todo["content"], 100) for todo in _open(todos)[:SHOWN])
            reminder = HumanMessage(
                content=f"The plan still has open entries: {entries}. Finish them, or bring the "
                f"plan up to date with {TOOL}. If you are done or wait for the user, give your "
                "final answer in full.",
                additional_kwargs={REMINDER: True, _ONCE: True},
            )
            reply.update.setdefault("messages", []).append(reminder)
            reply.jump = "model"
        return reply


def _report(run: RunContext, todos: list[Todo]) -> None:
    """A `todos` event when the plan changed since the turn before (in this run)."""
    known = run.scratch.get(TodoListMiddleware)
    if known is None and not run.resumed:
        known = todos
    if known != todos:
        run.emit("todos", {"todos": list(todos)})
    run.scratch[TodoListMiddleware] = todos


def _shown(call: ModelCall, todos: list[Todo]) -> ModelCall:
    messages: list[AnyMessage] | None = None
    for index, message in enumerate(call.messages):
        if MARK in message.additional_kwargs and is_request(message):
            messages = messages or list(call.messages)
            messages[index] = after(message, block(REMINDER_TAG, _PLAN))
    if _open(todos) and _out_of_sight(call.messages):
        messages = messages or list(call.messages)
        messages.append(HumanMessage(content=_rendered(todos), additional_kwargs={REMINDER: True}))
    return call if messages is None else call.with_(messages=messages)


def _rendered(todos: list[Todo]) -> str:
    lines = [f"- {todo['status']}: {one_line(todo['content'], 200)}" for todo in todos[:SHOWN]]
    if len(todos) > SHOWN:
        lines.append(f"and {len(todos) - SHOWN} more")
    return block(REMINDER_TAG, "\n".join(["Your plan so far:", *lines]))


def _open(todos: list[Todo]) -> list[Todo]:
    return [todo for todo in todos if todo["status"] != "completed"]


def _out_of_sight(messages: Sequence[AnyMessage]) -> bool:
    return not any(_plans(message) for message in messages[-FAR:])


def _plans(message: AnyMessage) -> bool:
    return isinstance(message, AIMessage) and any(c["name"] == TOOL for c in message.tool_calls)


def _ends(reply: ModelReply) -> bool:
    return reply.jump is None and reply.message is not None and not reply.message.tool_calls


def _may_remind(call: ModelCall) -> bool:
    """Once a run, only about a plan that this run wrote, and while a turn is left to answer in."""
    if call.run.turn + 2 > call.run.max_turns:
        return False
    messages = call.state["messages"]
    since = messages[last_request(messages) + 1 :]
    if any(_ONCE in message.additional_kwargs for message in since):
        return False
    return any(_plans(message) for message in since)
