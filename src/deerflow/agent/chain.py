"""The one composite middleware: folds the hooks of all rows into create_agent's wraps.

Separate middlewares are graph nodes, and each node visit is a checkpoint: 20 of them cost 23 ms
and 1.7 GB per hundred turns where this costs 5 ms and 3.3 MB (measured on LangGraph 1.2). So
`start`, after-model work and `finish` ride on the model node, and state goes back as one Command
beside the reply.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import langsmith
from langchain.agents.middleware.types import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.types import Command

from deerflow.agent.calls import CallBook
from deerflow.agent.context import RunContext
from deerflow.agent.execute import Executor
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply, ToolNext, ToolResult
from deerflow.agent.journal import LIMIT, NOT_RUN, REPLAYED
from deerflow.agent.record import THINKING, drop_deltas, shown
from deerflow.agent.sound import sound
from deerflow.agent.state import ThreadState, apply_update
from deerflow.models.protocol import delta_sink
from deerflow.storage.protocol import Delta

ModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
ToolHandler = Callable[[ToolCallRequest], Awaitable[ToolResult]]


async def _inline(default: Any, context: Any, func: Any, /, *args: Any, **kwargs: Any) -> Any:
    """LangSmith's bookkeeping on the loop while tracing is off: hops cost 7 ms per ten tools."""
    container: Any = args[0] if args else None
    if type(container) is dict and cast("dict[str, Any]", container).get("new_run", 0) is None:
        return None  # the end of a call that is not traced
    if langsmith.utils.tracing_is_enabled():
        return await default(context, func, *args, **kwargs)
    return context.run(func, *args, **kwargs)


class Chain(AgentMiddleware[ThreadState, RunContext, Any]):
    """Rows in order, outermost first, as one LangChain middleware.

    Args:
        rows: the rows, the two journal rows among them.
        context: makes the RunContext when the graph runs under someone else's runner (LangGraph
            Server); takes the LangGraph runtime.
        direct: call tools directly; False when third-party middlewares wrap tool calls nearer to
            the tool.
    """

    state_schema = ThreadState

    def __init__(
        self,
        rows: Sequence[Middleware],
        *,
        context: Callable[[Any], RunContext] | None = None,
        direct: bool = True,
    ) -> None:
        super().__init__()
        langsmith.set_runtime_overrides(aio_to_thread=_inline)
        self._context = context
        self._starts = [r.start for r in rows if _overrides(r, "start")]
        self._models = [r.model for r in rows if _overrides(r, "model")]
        self._tools = [r.tool for r in rows if _overrides(r, "tool")]
        self._closers = [r.tool for r in rows if r.closes]
        self._finishes = [r.finish for r in rows if _overrides(r, "finish")]
        self._execute: Callable[..., Awaitable[ToolResult]] = Executor() if direct else _hand_on
        self.tools = [tool for row in rows for tool in row.tools]

    # --- model ---

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: ModelHandler,
    ) -> ExtendedModelResponse[Any]:
        """One model turn: start hooks on the first, the rows, finish hooks on the last."""
        run = self._run(request.runtime)
        if run.closing:
            return ExtendedModelResponse(
                ModelResponse(result=[]), Command(update={"jump_to": "end"})
            )
        state = cast("dict[str, Any]", request.state)
        book = _book(run, state["messages"])
        update: dict[str, Any] = {}
        if run.turn == 0:
            state = await _each(self._starts, state, run, update)
        call = ModelCall(
            model=request.model,
            messages=state["messages"],
            system=request.system_message,
            tools=request.tools,
            settings=dict(request.model_settings),
            state=state,
            run=run,
            turn=run.turn + 1,
        )
        reply = await self._descend(call, partial(_call_model, request=request, handler=handler))
        message = self._settle(reply, run, book)
        if reply.update:
            _merge(update, reply.update)
        fresh: list[AnyMessage] = [message] if message is not None else []
        if reply.jump == "end" and message is not None:
            fresh += _unrun(message, run)
        if reply.jump == "end" or (reply.jump is None and not (message and message.tool_calls)):
            local = apply_update(state, {**reply.update, "messages": fresh})
            await _each(self._finishes, local, run, update)
        if len(fresh) > 1:
            _merge(update, {"messages": fresh[1:]})
        if reply.jump is not None:
            update["jump_to"] = reply.jump
        return ExtendedModelResponse(
            ModelResponse(result=cast("Any", fresh[:1])), Command(update=update) if update else None
        )

    async def _descend(self, call: ModelCall, terminal: ModelNext) -> ModelReply:
        step = terminal
        for hook in reversed(self._models):
            step = partial(hook, next_=step)
        return await step(call)

    def _settle(self, reply: ModelReply, run: RunContext, book: CallBook) -> AIMessage | None:
        message = reply.message
        if message is None:
            return None
        replayed = message.additional_kwargs.pop(REPLAYED, False)
        message = book.settle(message, reply.results)
        if message.tool_calls:
            for call in message.tool_calls:
                run.bash_calls[call["id"] or ""] = book.places[call["id"] or ""].shells
        run.turn += 1
        if message.id not in run.logged:
            log_message(run, message)
        if message.id not in run.completed:
            run.emit(
                "model_completed",
                {
                    "turn": run.turn,
                    "model": message.response_metadata.get("deerflow_model", run.model_name),
                    "message_id": message.id,
                    "usage": message.usage_metadata,
                    "finish_reason": message.response_metadata.get("finish_reason"),
                    "replayed": bool(replayed),
                },
            )
        return message

    # --- tools ---

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        """One tool call: refused ones are answered in place, others go through the rows."""
        runtime: Any = cast("Any", request).runtime
        run = self._run(runtime)
        if runtime.context is not run:  # a foreign runner: tools still find our context
            request = ToolCallRequest(
                request.tool_call, request.tool, request.state, replace(runtime, context=run)
            )
        call = request.tool_call
        call_id = call["id"] or ""
        messages = request.state["messages"]
        place = _book(run, messages).place(messages, call_id)
        run.bash_calls[call_id] = place.shells
        ident = f"{place.message_id}.{place.index}"
        if ident not in run.logged:
            run.emit(
                "tool_started",
                {"tool_call_id": call_id, "name": call["name"], "args": call["args"]},
            )
        if place.refusal is not None:
            result: ToolResult = ToolMessage(
                content=place.refusal, name=call["name"], tool_call_id=call_id, status="error"
            )
        else:
            step: Any = partial(self._execute, handler=handler)
            for hook in reversed(self._closers if run.closing else self._tools):
                step = partial(_through, hook, run, step)
            result = await step(request)
        message = _named(result, ident, call_id)
        if message is not None:
            _tell(run, message, call["name"])
        return result

    def _run(self, runtime: Any) -> RunContext:
        if isinstance(runtime.context, RunContext):
            return runtime.context
        if self._context is None:
            raise TypeError("the graph was started without a RunContext")
        return self._context(runtime)


async def _hand_on(request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
    return await handler(request)


async def _through(
    hook: Callable[..., Awaitable[ToolResult]],
    run: RunContext,
    next_: ToolNext,
    request: ToolCallRequest,
) -> ToolResult:
    return await hook(request, next_, run)


async def _call_model(
    call: ModelCall, *, request: ModelRequest[Any], handler: ModelHandler
) -> ModelReply:
    """The innermost step: LangChain's own handler under our delta sink, or the turn limit."""
    run = call.run
    if run.turn >= run.max_turns:
        return _limit_reply(run)
    message_id = f"ai-{uuid.uuid4().hex}"
    run.emit("model_started", {"turn": call.turn, "message_id": message_id})
    offset = thought = 0
    outer = delta_sink.get()  # row 15 listens for signs of life

    def sink(kind: str, text: str) -> None:
        nonlocal offset, thought
        if outer is not None:
            outer(kind, text)
        if run.parent is not None:
            return
        if kind == "text":
            run.storage.deltas.append(run.thread_key, Delta(run.run_id, message_id, offset, text))
            offset += len(text)
        elif kind == "reasoning":
            piece = Delta(run.run_id, message_id + THINKING, thought, text)
            run.storage.deltas.append(run.thread_key, piece)
            thought += len(text)

    token = delta_sink.set(sink)
    try:
        response = await handler(
            request.override(
                model=call.model,
                messages=call.messages,
                system_message=call.system,
                tools=list(call.tools),
                model_settings=call.settings,
                state=cast("Any", call.state),
            )
        )
    except Exception:
        # a retry writes the message anew
        drop_deltas(run.storage, run.run_id, message_id, thought=thought > 0)
        raise
    finally:
        delta_sink.reset(token)
    message = sound(cast("AIMessage", response.result[-1]), call.tools)
    message.id = message_id
    return ModelReply(message)


def _limit_reply(run: RunContext) -> ModelReply:
    limit = {"rule": "max_turns", "used": run.turn, "limit": run.max_turns}
    text = f"Stopped: the limit of {run.max_turns} model turns (max_turns) is reached."
    run.emit("guard", {**limit, "message": text})
    child = f"-{run.namespace}" if run.namespace else ""
    ident = f"limit-{run.run_id}{child}-{run.turn}"  # the same after a kill
    message = AIMessage(content=text, id=ident, additional_kwargs={LIMIT: limit})
    return ModelReply(message, jump="end")


def _unrun(message: AIMessage, run: RunContext) -> list[AnyMessage]:
    """Answers for the calls of a message after which the run ends, so that history stays legal."""
    answers: list[AnyMessage] = []
    for index, call in enumerate(message.tool_calls):
        answer = ToolMessage(
            content=NOT_RUN, name=call["name"], tool_call_id=call["id"] or "", status="error"
        )
        answer.id = f"{message.id}.{index}"
        log_message(run, answer)
        answers.append(answer)
    return answers


def log_message(run: RunContext, message: AnyMessage) -> None:
    """Queue a finished message as an event; its deltas go with it."""
    run.emit("message", {"message": shown(message)})
    if isinstance(message, AIMessage):
        thought = "reasoning_content" in message.additional_kwargs
        drop_deltas(run.storage, run.run_id, message.id or "", thought=thought)


def _tell(run: RunContext, message: ToolMessage, name: str) -> None:
    """Log a result; after a kill, what the log says already is what the history gets."""
    told = run.logged.get(message.id or "")
    if told and isinstance(told["content"], str) and isinstance(message.content, str):
        message.content, message.status = told["content"], told["status"]
    call_id = message.tool_call_id
    if call_id not in run.completed:
        run.emit(
            "tool_completed",
            {"tool_call_id": call_id, "name": name, "status": message.status},
        )
    if told is None:
        log_message(run, message)


def _named(result: ToolResult, ident: str, call_id: str) -> ToolMessage | None:
    """The tool message inside a result, given the id that its place decides."""
    if isinstance(result, ToolMessage):
        result.id = ident
        return result
    update = cast("dict[str, Any]", result.update or {})
    for message in cast("list[Any]", update.get("messages", ())):
        if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
            message.id = ident
            return message
    return None


def _book(run: RunContext, messages: Sequence[AnyMessage]) -> CallBook:
    """The run's call book, brought up to date; the turns are counted after a resume."""
    book = run.scratch.get(CallBook)
    if book is None:
        book = run.scratch[CallBook] = CallBook()
        run.turn = run.turn or _turns(messages, run.input_id)
    book.catch_up(messages)
    return book


def _turns(messages: Sequence[AnyMessage], input_id: str) -> int:
    turns = 0
    for message in reversed(messages):
        if message.id == input_id:
            return turns
        turns += message.type == "ai"
    return 0


async def _each(
    hooks: Sequence[Callable[[dict[str, Any], RunContext], Awaitable[dict[str, Any] | None]]],
    state: dict[str, Any],
    run: RunContext,
    update: dict[str, Any],
) -> dict[str, Any]:
    """Run hooks down the list on a local copy of the state; their updates gather in `update`."""
    for hook in hooks:
        change = await hook(state, run)
        if change:
            _merge(update, change)
            state = apply_update(state, change)
    return state


def _merge(update: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if key == "messages":
            update[key] = [*update.get(key, ()), *value]
        elif key in update:
            update[key] = apply_update({key: update[key]}, {key: value})[key]
        else:
            update[key] = value


def _overrides(row: Middleware, hook: str) -> bool:
    return getattr(type(row), hook) is not getattr(Middleware, hook)
