"""Both sides of the journal as rows: recorded always, replayed only on resume."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from deerflow.agent.calls import CallBook
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import (
    Middleware,
    ModelCall,
    ModelNext,
    ModelReply,
    ToolNext,
    ToolResult,
)
from deerflow.agent.record import visible_text
from deerflow.storage.protocol import CallKey, ModelKey
from deerflow.tools.protocol import ToolMarks

NOT_RUN = "Not run: the run ended before this call."
NOT_FINISHED = "Not finished: the run ended before this call had a result."
REPLAYED = "deerflow_replayed"
LIMIT = "deerflow_limit"
UNKNOWN = (
    "Outcome unknown: the run was interrupted while this call was under way, and it may or may "
    "not have taken "
    "effect. Check the present state before you repeat it."
)


class Codec:
    """Messages and commands as text: msgpack of LangGraph's serializer in base64 (no pickle)."""

    def __init__(self) -> None:
        self._serde = JsonPlusSerializer(pickle_fallback=False)

    def dump(self, value: Any) -> str:
        """Text of a message or Command."""
        if isinstance(value, Command):
            command = cast("Command[Any]", value)
            value = {"update": command.update, "goto": command.goto or None}
        kind, data = self._serde.dumps_typed(value)
        return f"{kind}:{base64.b64encode(data).decode('ascii')}"

    def load(self, text: str) -> Any:
        """What `dump` was given."""
        kind, _, data = text.partition(":")
        value = self._serde.loads_typed((kind, base64.b64decode(data)))
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            # frozen: subscripting it at run time would set __orig_class__ and fail
            return Command(update=fields["update"], goto=fields["goto"] or ())
        return value


def request_digest(call: ModelCall) -> str:
    """sha256 over what the model is sent: its name, system text, tools' names and each message."""
    digest = hashlib.sha256(call.run.model_name.encode())
    for part in (call.system, *call.messages):
        if part is not None:
            digest.update(_bytes_of(part))
    for tool in call.tools:
        name = tool.get("name", "") if isinstance(tool, dict) else tool.name
        digest.update(str(name).encode() + b"\0")
    return digest.hexdigest()


def _bytes_of(message: AnyMessage) -> bytes:
    calls = (
        [(c["name"], c["args"]) for c in message.tool_calls]
        if isinstance(message, AIMessage)
        else ""
    )
    return f"{message.type}\0{message.content}\0{calls}\0".encode("utf-8", "surrogatepass")


class ModelJournal(Middleware):
    """Between rows 16 and 17: a finished model call is never paid twice."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Replay on resume, else call and record."""
        run = call.run
        key = ModelKey(run.thread_key, run.run_id, run.namespace, call.turn, request_digest(call))
        if run.resumed:
            recorded = await run.storage.journal.model_lookup(key)
            if recorded is not None:
                message = self._codec.load(recorded)
                message.additional_kwargs[REPLAYED] = True
                return ModelReply(message)
        reply = await next_(call)
        if reply.message is not None and _worth_replaying(reply.message, run):
            run.storage.journal.model_finished(key, self._codec.dump(reply.message))
        return reply


def _worth_replaying(message: AIMessage, run: RunContext) -> bool:
    """Not a notice of ours, and for an item of a batch no empty reply: its retry asks again."""
    if LIMIT in message.additional_kwargs:
        return False
    called = message.tool_calls or message.invalid_tool_calls
    return not run.batch_day or bool(called or visible_text(message))


class ToolJournal(Middleware):
    """Directly around the tool, inside row 23: no outside effect twice."""

    closes = True

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Replay a recorded result; tell the unknown outcome of a started effect; else run."""
        call = request.tool_call
        book: CallBook = run.scratch[CallBook]
        place = book.place(request.state["messages"], call["id"] or "")
        key = CallKey(run.thread_key, run.run_id, run.namespace, place.message_id, place.index)
        marks = marks_of(request)
        journal = run.storage.journal
        if run.resumed:
            record = await journal.tool_lookup(key)
            if record is not None and record.result is not None:
                return self._codec.load(record.result)
            told = run.logged.get(f"{place.message_id}.{place.index}")
            if told is not None:  # it failed, and that was told before the kill
                return _failure(call, told["content"])
            if record is not None and record.started and not marks.get("idempotent"):
                return _failure(call, UNKNOWN)
        if run.closing:  # an idempotent call leaves no start: it may have been under way
            return _failure(call, NOT_FINISHED if marks.get("idempotent") else NOT_RUN)
        if not marks.get("idempotent"):
            await journal.tool_started(key, call["name"])
        result = await next_(request)
        journal.tool_finished(key, call["name"], self._dumped(result))
        return result

    def _dumped(self, result: ToolResult) -> str:
        """Text of a result; an artifact that cannot be stored (a frame, a handle) is let go."""
        try:
            return self._codec.dump(result)
        except TypeError:
            for message in _answers(result):
                message.artifact = None
            return self._codec.dump(result)


def _answers(result: ToolResult) -> list[ToolMessage]:
    if isinstance(result, ToolMessage):
        return [result]
    update = cast("dict[str, Any]", result.update or {})
    messages = cast("list[Any]", update.get("messages", ()))
    return [message for message in messages if isinstance(message, ToolMessage)]


def _failure(call: ToolCall, content: Any) -> ToolMessage:
    return ToolMessage(
        content=content, name=call["name"], tool_call_id=call["id"] or "", status="error"
    )


def marks_of(request: ToolCallRequest) -> ToolMarks:
    """The marks of the called tool, {} for an unknown or foreign one."""
    metadata = request.tool.metadata if request.tool is not None else None
    return cast("ToolMarks", (metadata or {}).get("deerflow", {}))
