"""The graph's input of a run: the messages of its request under ids that a resume knows again."""

from __future__ import annotations

from typing import Any

from deerflow.agent.context import RunContext
from deerflow.runtime.goals import SessionGoal
from deerflow.runtime.request import RunRequest
from deerflow.runtime.wire_messages import said

EARLIER = "pre-"
"""Prefix of the ids of messages that came before the task in its request."""


def graph_input(
    context: RunContext, request: RunRequest, goal: SessionGoal | None = None
) -> dict[str, Any]:
    """Channels for the graph: what came before, and last the message that starts the run.

    Args:
        context: of the run; its `input_id` is the id of that message.
        request: what was asked.
        goal: that the session takes up with it.
    """
    messages = [
        said(sent, f"{EARLIER}{context.run_id}-{number}")
        for number, sent in enumerate(request.earlier)
    ]
    messages.append(said(request.message or {"content": request.task}, context.input_id))
    given: dict[str, Any] = {"messages": messages}
    return given if goal is None else {**given, "goal": goal.begun(context.run_id)}
