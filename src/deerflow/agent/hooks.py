"""The four hooks of a row of THE LIST, and the two values that travel through them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from deerflow.agent.context import RunContext


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of the model on its way in; rows hand on a changed copy (`call.with_(...)`).

    Attributes:
        model: what will be called; row 15 may replace it.
        messages: without the system message.
        system: system message or None.
        tools: offered tools.
        settings: keyword arguments for the model (tool_choice included).
        state: the thread state, read-only.
        run: the run.
        turn: from 1.
    """

    model: BaseChatModel
    messages: list[AnyMessage]
    system: SystemMessage | None
    tools: Sequence[BaseTool | dict[str, Any]]
    settings: dict[str, Any]
    state: dict[str, Any]
    run: RunContext
    turn: int

    def with_(self, **changes: Any) -> ModelCall:
        """A copy with some fields changed."""
        kept = {name: getattr(self, name) for name in self.__slots__ if name not in changes}
        return ModelCall(**kept, **changes)  # half the time of dataclasses.replace


@dataclass(slots=True)
class ModelReply:
    """What came back; rows change it in place or hand on another.

    Attributes:
        message: the AI message; None when the model was not called (jump to end).
        results: tool messages that answer refused calls of `message`. The chain keeps their text
            with the message and answers in place, when the calls of the turn run, so that results
            stand in call order.
        update: further state update (channel → value).
        jump: "end" ends the run after this step, "model" asks again at once.
    """

    message: AIMessage | None
    results: list[ToolMessage] = field(default_factory=list[ToolMessage])
    update: dict[str, Any] = field(default_factory=dict[str, Any])
    jump: Literal["end", "model"] | None = None


ToolResult = ToolMessage | Command[Any]
ModelNext = Callable[[ModelCall], Awaitable[ModelReply]]
ToolNext = Callable[[ToolCallRequest], Awaitable[ToolResult]]


class Middleware:
    """Base of a row. Override only the hooks that the row needs; the chain calls no other.

    A row holds no per-run state: cursors live in `run.scratch[type(self)]`. `start` does not run
    on resume, `finish` not on interrupt, error, cancel or kill.
    """

    tools: Sequence[BaseTool] = ()
    closes: ClassVar[bool] = False
    """Whether `tool` also runs around results that are taken over from a former run."""
    state_schema: ClassVar[type | None] = None

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Before the first model turn; returns a state update. Down the list."""
        ...

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Around each model call; outermost first."""
        return await next_(call)

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Around each tool call, outermost first; only here may `interrupt()` be called."""
        return await next_(request)

    async def finish(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """After the last turn; returns a state update. Down the list, like `start`."""
        ...
