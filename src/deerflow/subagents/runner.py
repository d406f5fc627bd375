"""Runs children: isolated context, own rows and clock, the thread's files, the lead's budgets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.build import graph_steps
from deerflow.agent.context import RunContext
from deerflow.agent.journal import LIMIT
from deerflow.agent.record import visible_text
from deerflow.agent.reply_edge import EMPTY
from deerflow.config.schema import SubagentsConfig
from deerflow.errors import DeerFlowError, ThreadGoneError
from deerflow.middlewares.subagent_limit import at_once
from deerflow.middlewares.token_usage import MODEL, recount, usage_of
from deerflow.models.protocol import Catalog
from deerflow.models.usage import UsageMeter
from deerflow.subagents.roster import SubagentSpec

Graph = CompiledStateGraph[Any, Any, Any, Any]
ChildStatus = Literal["completed", "failed", "timed_out", "cancelled"]

STOPPED = ("Stopped:", "[Stopped:")
"""How the notices of limits begin."""
INTERRUPT = "__interrupt__"
"""Key of a chunk that tells what waits for a human, as LangGraph's streaming pages have it."""
FOUND = 2_000
"""Characters of the newest result that stand in for the answer of a child that wrote none."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child ended.

    Attributes:
        status: structured; never read off the text.
        text: its last visible answer, or what it had.
        stop_reason: "" when it finished by itself, else the rule that stopped it.
        turns: model turns it took.
        usage: its own tokens, as `usage_of` gives them.
        error: {code, message, cure} or None.
    """

    status: ChildStatus
    text: str
    stop_reason: str = ""
    turns: int = 0
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, Any] | None = None


@dataclass(slots=True)
class _Attempt:
    """One child at work: its context, and its messages as far as they came."""

    context: RunContext
    messages: list[AnyMessage] = field(default_factory=list[AnyMessage])


class SubagentExecutor:
    """Runs children of this process under its semaphores.

    Args:
        config: section `subagents`.
        graph: the compiled agent for a kind of child and its context.
        catalog: prices of what a child used in a former process; None counts this process alone.
    """

    def __init__(
        self,
        config: SubagentsConfig,
        graph: Callable[[SubagentSpec, RunContext], Awaitable[Graph]],
        catalog: Catalog | None = None,
    ) -> None:
        self._config = config
        self._graph = graph
        self._catalog = catalog
        self._global = asyncio.Semaphore(config.global_)
        self._users: dict[str, tuple[asyncio.Semaphore, int]] = {}

    async def run(
        self,
        spec: SubagentSpec,
        prompt: str,
        run: RunContext,
        *,
        name: str,
        max_turns: int = 0,
        bounded: bool = True,
    ) -> ChildResult:
        """Wait for room, then run one child to its end. See `carry_out`.

        Args:
            spec: its kind.
            prompt: the whole task: the child sees nothing else.
            run: the parent's context.
            name: namespace of the child; the same when the call is entered again.
            max_turns: fewer model turns than the kind allows, 0 for as many.
            bounded: False for callers with a bound of their own: the run's semaphore is left
                out, the user's and the process's hold.
        """
        async with self.room(run, bounded=bounded):
            return await self.carry_out(spec, prompt, run, name=name, max_turns=max_turns)

    @asynccontextmanager
    async def room(self, run: RunContext, *, bounded: bool = True) -> AsyncGenerator[None]:
        """A place for one child among those of the run, of the user and of the process."""
        async with AsyncExitStack() as stack:
            if bounded:
                held = run.root.scratch
                if SubagentExecutor not in held:
                    held[SubagentExecutor] = asyncio.Semaphore(at_once(self._config))
                await stack.enter_async_context(held[SubagentExecutor])
            await stack.enter_async_context(self._of_user(run.user_id))
            await stack.enter_async_context(self._global)
            yield

    async def carry_out(
        self, spec: SubagentSpec, prompt: str, run: RunContext, *, name: str, max_turns: int = 0
    ) -> ChildResult:
        """Run one child to its end, without waiting for room; its clock starts here.

        The child's graph is nested in the tools node that calls us: its checkpoints have a
        namespace of that call, so after a kill or an approval it goes on where it stopped, and an
        interrupt inside it reaches the lead's run. Each entry has a fresh clock.

        Raises:
            GraphBubbleUp: it waits for a human.
            asyncio.CancelledError: the run was stopped.
            ThreadGoneError: the thread was deleted.
        """
        turns = min(max_turns or spec.max_turns, spec.max_turns)
        spent = UsageMeter()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + spec.timeout_seconds
        left = max(1, spec.max_attempts)
        while True:
            child = run.child(name, spec.model or run.model_name, turns, kind=spec.name)
            if spec.skills is not None:
                child.skills = spec.skills
            result = await self._attempt(spec, prompt, _Attempt(child), deadline)
            spent.merge(UsageMeter.from_dict(usage_of(child)))
            left -= 1
            if result.status != "failed" or not left:
                return replace(result, usage=spent.to_dict())

    async def _attempt(
        self, spec: SubagentSpec, prompt: str, attempt: _Attempt, deadline: float
    ) -> ChildResult:
        child = attempt.context
        clock = asyncio.timeout_at(deadline)
        try:
            async with clock:
                graph = await self._graph(spec, child)
                given: Any = {"messages": [HumanMessage(prompt, id=child.input_id)]}
                steps = graph_steps(child.max_turns, len(graph.nodes))
                config: Any = {"recursion_limit": steps}
                stream = cast("Any", graph).astream(
                    given, config, context=child, stream_mode="values"
                )
                async with contextlib.aclosing(stream):  # pyright: ignore[reportArgumentType]
                    async for values in stream:
                        if INTERRUPT in values:  # of a child that is not nested, see batch_job
                            raise GraphInterrupt(values[INTERRUPT])
                        attempt.messages = values.get("messages", [])
        except TimeoutError:
            if not clock.expired():
                raise
            return _out_of_time(attempt, spec.timeout_seconds)
        except ThreadGoneError:
            raise
        except DeerFlowError as error:
            told = {"code": error.code, "message": error.message, "cure": error.cure}
            return _result(attempt, "failed", _had(attempt.messages), error=told)
        finally:
            if self._catalog is not None:
                recount(child, attempt.messages, self._catalog)
            if child.sandbox_started:  # shells of children that are over would use up the processes
                await (await child.sandbox()).dismiss(child.agent)
        return _ended(attempt)

    @asynccontextmanager
    async def _of_user(self, user_id: str) -> AsyncGenerator[None]:
        """A place among the user's children; forgotten when nobody holds or awaits one."""
        semaphore, holders = self._users.get(user_id, (asyncio.Semaphore(self._config.per_user), 0))
        self._users[user_id] = semaphore, holders + 1
        try:
            async with semaphore:
                yield
        finally:
            semaphore, holders = self._users.pop(user_id)
            if holders > 1:
                self._users[user_id] = semaphore, holders - 1


def _ended(attempt: _Attempt) -> ChildResult:
    """The result of a child whose graph came to its end."""
    last = next((m for m in reversed(attempt.messages) if isinstance(m, AIMessage)), None)
    text = visible_text(last) if last is not None else ""
    limit: dict[str, Any] | None = None if last is None else last.additional_kwargs.get(LIMIT)
    if last is not None and limit is not None:
        if text.startswith(STOPPED):  # a notice of ours, not the child's words
            had = _had(attempt.messages[: attempt.messages.index(last)])
            text = "\n\n".join(filter(None, (had, text)))
        return _result(attempt, "completed", text, str(limit.get("rule", "limit")))
    if last is None or EMPTY in last.additional_kwargs or not text:
        error = {
            "code": "empty_answer",
            "message": "The child gave no answer.",
            "cure": "Give it a smaller or clearer task.",
        }
        return _result(attempt, "failed", _had(attempt.messages), error=error)
    return _result(attempt, "completed", text)


def _out_of_time(attempt: _Attempt, seconds: float) -> ChildResult:
    error = {
        "code": "child_timeout",
        "message": f"The child ran out of its time of {seconds:g} s.",
        "cure": "Give it a smaller task.",
    }
    return _result(attempt, "timed_out", _had(attempt.messages), "timeout_seconds", error)


def _result(
    attempt: _Attempt,
    status: ChildStatus,
    text: str,
    stop_reason: str = "",
    error: dict[str, Any] | None = None,
) -> ChildResult:
    turns = sum(MODEL in m.response_metadata for m in attempt.messages if isinstance(m, AIMessage))
    return ChildResult(status, text, stop_reason, turns=turns, error=error)


def _had(messages: Sequence[AnyMessage]) -> str:
    """What a stopped child had: its last words, else the newest result that was no error."""
    for message in reversed(messages):
        if isinstance(message, AIMessage) and EMPTY not in message.additional_kwargs:
            if visible_text(message):
                return visible_text(message)
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and message.status != "error" and message.text:
            text = message.text
            text = text if len(text) <= FOUND else text[:FOUND] + "…"
            return f"[No words of its own. Its newest result, of {message.name}:]\n{text}"
    return ""
