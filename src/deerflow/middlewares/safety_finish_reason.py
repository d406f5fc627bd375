"""Row 16: after a safety stop or a length cut no half-written call runs, and the user sees why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.record import visible_text
from deerflow.agent.reply_edge import EMPTY, legal_calls, superseded, with_note, with_usage_of
from deerflow.errors import LimitError, ModelError

STOPPED = "deerflow_stopped"
"""additional_kwargs of an answer that was stopped or cut: {kind, reason}."""

CUTS_IN_A_ROW = 3
"""Turns in a row with cut calls that end the run; before, the model is told to write less."""

_SAFETY = frozenset(
    "content_filter content_filtered refusal safety recitation blocklist prohibited_content spii "
    "image_safety guardrail_intervened sensitive".split()
)
_LENGTH = frozenset(
    "length max_tokens max_output_tokens model_length model_context_window_exceeded "
    "insufficient_system_resource".split()
)
_REASON_KEYS = ("finish_reason", "stop_reason", "done_reason", "stopReason")

CONTINUE = (
    "Your answer was cut at the output limit. Continue exactly where it stopped; repeat nothing."
)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why an answer is not whole, and the provider's word for it."""

    kind: Literal["safety", "length"]
    reason: str


Detector = Callable[[AIMessage], Stop | None]


def built_in(message: AIMessage) -> Stop | None:
    """Knows the words of OpenAI, Anthropic, Google, Bedrock, Ollama, DeepSeek, Mistral, Zhipu."""
    for reason in _reasons(message):
        if reason in _SAFETY:
            return Stop("safety", reason)
        if reason in _LENGTH:
            return Stop("length", reason)
    return Stop("safety", "refusal") if _refusal_text(message) else None


class SafetyFinishReasonMiddleware(Middleware):
    """What is whole stays, what is half is not run.

    Safety stop: calls are removed, the answer ends with a visible note, and so does the run.
    Length cut with calls: each call is answered in place with the advice to write less at a time;
    after three such turns in a row the run ends with a note. Length cut in text: the model goes on
    once where it stopped; an answer that is still cut ends with a note.

    Args:
        detectors: asked in order; None means the built-in one.
    """

    def __init__(self, detectors: Sequence[Detector] | None = None) -> None:
        self._detectors = (built_in,) if detectors is None else tuple(detectors)

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Call, and look at how the answer ended."""
        reply = await next_(call)
        message = reply.message
        stop = self._stop(message)
        if message is None or stop is None or reply.jump is not None:
            return reply
        if stop.kind == "length" and not _has_calls(message) and visible_text(message):
            reply = await self._continued(call, message, next_)
            message, stop = cast("AIMessage", reply.message), self._stop(reply.message)
            if stop is None:
                return reply
        return self._ended(call, reply, message, stop)

    def _ended(
        self, call: ModelCall, reply: ModelReply, message: AIMessage, stop: Stop
    ) -> ModelReply:
        if stop.kind == "length" and not _has_calls(message) and not visible_text(message):
            return reply  # nothing but reasoning: an empty answer, asked for once more outside
        if stop.kind == "length" and _has_calls(message):
            earlier = self._cuts_before(call)
            if earlier + 1 < CUTS_IN_A_ROW:
                return _refused(reply, message, stop)
        note = _note(message, stop)
        call.run.emit("notice", {"message": note})
        mark: dict[str, Any] = {STOPPED: {"kind": stop.kind, "reason": stop.reason}}
        if not visible_text(message) and not _refusal_text(message):
            mark[EMPTY] = True
        reply.message = with_note(_without_calls(message), note, **mark)
        reply.results = []
        return reply

    async def _continued(self, call: ModelCall, message: AIMessage, next_: ModelNext) -> ModelReply:
        """One request to go on; its text is joined to the text so far."""
        asked = [*call.messages, AIMessage(message.text), HumanMessage(CONTINUE)]
        try:
            reply = await next_(call.with_(messages=asked))
        except (ModelError, LimitError):  # the first part is worth more than an error
            return ModelReply(message)
        if reply.message is None:
            return ModelReply(message)
        superseded(call, message, "length", "The answer was cut; its end is asked for.")
        rest = with_usage_of(reply.message, message)
        content: Any = rest.content
        content = message.text + content if isinstance(content, str) else [message.text, *content]
        reply.message = rest.model_copy(update={"content": content})
        return reply

    def _stop(self, message: AIMessage | None) -> Stop | None:
        if message is None:
            return None
        found = (detect(message) for detect in self._detectors)
        return next((stop for stop in found if stop is not None), None)

    def _cuts_before(self, call: ModelCall) -> int:
        """How many turns directly before this one were cut at the output limit."""
        count = 0
        for message in reversed(call.state.get("messages", ())):
            if isinstance(message, ToolMessage):
                continue
            stop = self._stop(message) if isinstance(message, AIMessage) else None
            if stop is None or stop.kind != "length" or STOPPED in message.additional_kwargs:
                break
            count += 1
        return count


def _refused(reply: ModelReply, message: AIMessage, stop: Stop) -> ModelReply:
    """All calls answered in place: which of them was half-written cannot be told for sure."""
    text = (
        f"Not run: your answer was cut at the output limit ({stop.reason}) while it wrote its "
        "calls. Send less at a time: one call, long content in several smaller writes."
    )
    reply.message, _ = legal_calls(message)
    reply.results = [
        ToolMessage(content=text, name=c["name"], tool_call_id=c["id"] or "", status="error")
        for c in reply.message.tool_calls
    ]
    return reply


def _note(message: AIMessage, stop: Stop) -> str:
    count = len(message.tool_calls) + len(message.invalid_tool_calls)
    calls = f" {count} tool call{'s were' if count > 1 else ' was'} not run." if count else ""
    if stop.kind == "safety":
        refusal = "" if visible_text(message) else _refusal_text(message)
        said = f" It says: {refusal}" if refusal else ""
        return (
            f"[The provider stopped this answer for safety reasons ({stop.reason}).{said}{calls}]"
        )
    return f"[The answer was cut at the model's output limit ({stop.reason}).{calls}]"


def _has_calls(message: AIMessage) -> bool:
    return bool(message.tool_calls or message.invalid_tool_calls)


def _without_calls(message: AIMessage) -> AIMessage:
    content: Any = message.content
    if isinstance(content, list):
        dropped = ("tool_use", "tool_call", "function_call", "refusal")
        content = [
            part
            for part in cast("list[Any]", content)
            if not (isinstance(part, dict) and cast("dict[str, Any]", part).get("type") in dropped)
        ]
    dropped_keys = ("tool_calls", "function_call", "deerflow_bad_calls", "refusal")
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k not in dropped_keys}
    changes: dict[str, Any] = {
        "tool_calls": [],
        "invalid_tool_calls": [],
        "additional_kwargs": kwargs,
    }
    return message.model_copy(update={"content": content, **changes})


def _reasons(message: AIMessage) -> list[str]:
    metadata: Mapping[str, Any] = message.response_metadata
    values: list[Any] = [metadata.get(key) for key in _REASON_KEYS]
    details = metadata.get("incomplete_details")
    if isinstance(details, Mapping):
        values.append(cast("Mapping[str, Any]", details).get("reason"))
    return [str(value).rsplit(".", 1)[-1].lower() for value in values if value]


def _refusal_text(message: AIMessage) -> str:
    said: Any = message.additional_kwargs.get("refusal")
    if isinstance(message.content, list):
        for part in message.content:
            if isinstance(part, dict) and part.get("type") == "refusal":
                said = part.get("refusal")
    return str(said).strip() if said else ""
