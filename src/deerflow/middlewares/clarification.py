"""Row 26, the last: a clarification ends the run with a question and no further model call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AnyMessage, ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import (
    Middleware,
    ModelCall,
    ModelNext,
    ModelReply,
    ToolNext,
    ToolResult,
)
from deerflow.agent.journal import marks_of
from deerflow.middlewares.results import messages_of, rewrite

MARK = "deerflow_question"
"""additional_kwargs of a tool message that ends the run: {question, options, fields, context}."""


class ClarificationMiddleware(Middleware):
    """Other calls of the turn run and keep their results; then the run waits for the human.

    `Command(goto=END)` does not end a create_agent run, and `return_direct` only when it is the
    sole call; so the next model turn sees the mark and answers with nothing and a jump to the end.
    """

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Mark the result of a tool that ends the run, and tell the user."""
        result = await next_(request)
        if not marks_of(request).get("ends_run"):
            return result
        if all(message.status == "error" for message in messages_of(result)):
            return result
        question = _question(request.tool_call["args"], messages_of(result))
        run.emit("question", question)
        return await rewrite(result, partial(_marked, question=question))

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """End instead of asking the model when a question stands open."""
        if open_questions(call.state["messages"]):
            return ModelReply(None, jump="end")
        return await next_(call)


def open_questions(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Questions among the results that end a transcript, in call order; [] when the run goes on.

    The runner reads the outcome `waiting_for_human` from it.
    """
    found: list[dict[str, Any]] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        question = message.additional_kwargs.get(MARK)
        if question is not None:
            found.insert(0, question)
    return found


def _question(args: dict[str, Any], results: Sequence[ToolMessage]) -> dict[str, Any]:
    """The question as the arguments have it, its form as the tool has understood it."""
    return {
        "question": str(args.get("question", "")),
        "options": [str(option) for option in _list(args.get("options"))],
        "fields": [field for result in results for field in _form(result)],
        "context": str(args.get("context") or ""),
    }


def _form(result: ToolMessage) -> list[Any]:
    return _list(_fields_of(_fields_of(result.artifact).get("human_input")).get("fields"))


def _fields_of(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


async def _marked(message: ToolMessage, *, question: dict[str, Any]) -> ToolMessage:
    return message.model_copy(
        update={"additional_kwargs": {**message.additional_kwargs, MARK: question}}
    )
