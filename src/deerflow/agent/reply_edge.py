"""Where replies enter the kernel: malformed calls become legal, an empty answer is asked for again.

A row of the chain without a number, between rows 14 and 15: outside the retries, so that asking
again has retries of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import add_usage

from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.record import drop_deltas, visible_text

EMPTY = "deerflow_empty"
"""additional_kwargs of a last message without an answer: True; the run's outcome is "empty"."""

NUDGE = (
    "Your last reply reached the user as nothing: it had no visible text and called no tool. "
    "Answer now, briefly, in plain text, or call a tool."
)
NUDGE_INTENT = (
    "Your last reply only announced a tool call; nothing was called. Call the tool now through the "
    "tool interface, or answer the user in plain text."
)
NOTE = "[The model gave no answer, also when it was asked once more.]"
MALFORMED = "Not run: the arguments of this call are not a valid JSON object. Send the call again."

_TAGGED = re.compile(
    r"<\|?(tool_calls?|function_calls?|tool_use|invoke|function)\b[^>]*>.*?(</\|?\1\|?>|<\|?/\1\|?>|\Z)"
    r"|\[TOOL_CALLS\].*|<｜tool▁calls▁begin｜>.*|\bAction:[ \t]*[\w.-]+\s*\n\s*Action Input:.*",
    re.DOTALL | re.IGNORECASE,
)
_FENCE = re.compile(r"\A\s*```\w*\s*(.*?)\s*(```)?\s*\Z", re.DOTALL)
_NAMED = re.compile(
    r'\A[\[{\s]*"(?:name|tool|tool_name|function|action|recipient_name)"\s*:\s*"([^"]+)"'
)
_APPLIED = re.compile(r"\A(?:functions?\.|tools?\.)?([\w.-]+)\(.*\)\Z", re.DOTALL)
_ANNOUNCED = re.compile(
    r"\A(?:(?:ok(?:ay)?|sure|great|alright|all right|now|next|first|then|and)[,.!:]?\s+)*"
    r"(?:I['’]ll|I will|I['’]m going to|I am going to|let me|let['’]s|I need to|I should)\s+"
    r"(?:now |first |next |just |quickly |also |go ahead and |start by )*"
    r"(?:us(?:e|ing)|call(?:ing)?|invok\w+|run(?:ning)?|execut\w+|writ\w+|creat\w+|read(?:ing)?|"
    r"search\w*|check\w*|look\w*|open\w*|fetch\w*|list\w*|sav\w+|generat\w+|inspect\w*|examin\w+|"
    r"view\w*|load\w*|download\w*|find\w*|grep|edit\w*|updat\w+|mak(?:e|ing))\b"
    r"[^\n?]{0,200}\Z",
    re.IGNORECASE,
)
_SECOND_SENTENCE = re.compile(r"[.!]\s+\S")


def only_intent(text: str, tools: Sequence[str]) -> bool:
    """Whether a reply only writes out or announces a tool call instead of making it.

    Args:
        text: visible text of a reply that made no call.
        tools: names of the offered tools; without any, nothing is an intent.
    """
    text = text.strip()
    if not text or not tools:
        return False
    rest = _TAGGED.sub("", text).strip()
    if rest != text:
        return not rest or _announces(rest)
    fenced = _FENCE.match(text)
    body = fenced.group(1) if fenced else text.strip("`")
    named = _NAMED.match(body) or _APPLIED.match(body)
    if named is not None and named.group(1) in tools and body[-1:] in ")}]":
        return True
    return _announces(text)


def _announces(text: str) -> bool:
    return bool(_ANNOUNCED.match(text)) and not _SECOND_SENTENCE.search(text)


def with_note(message: AIMessage, note: str, **extra: Any) -> AIMessage:
    """The message with a visible note below its text and further additional_kwargs."""
    content: Any = message.content
    if isinstance(content, str):
        content = f"{content.strip()}\n\n{note}".strip()
    else:
        content = [*content, {"type": "text", "text": note}]
    kwargs = {**message.additional_kwargs, **extra}
    return message.model_copy(update={"content": content, "additional_kwargs": kwargs})


def with_usage_of(message: AIMessage, earlier: AIMessage) -> AIMessage:
    """The message with the tokens of the call that it replaces added to its own."""
    if earlier.usage_metadata is None:
        return message
    usage = add_usage(message.usage_metadata, earlier.usage_metadata)
    return message.model_copy(update={"usage_metadata": usage})


def legal_calls(message: AIMessage, text: str = MALFORMED) -> tuple[AIMessage, list[ToolMessage]]:
    """Malformed calls as legal ones without arguments, each with the result that answers it.

    create_agent would rewrite the whole message channel for a stored `invalid_tool_calls`.
    """
    if not message.invalid_tool_calls:
        return message, []
    calls = list(message.tool_calls)
    results: list[ToolMessage] = []
    for index, bad in enumerate(message.invalid_tool_calls):
        name, id_ = bad.get("name") or "unknown_tool", bad.get("id") or f"malformed_{index}"
        calls.append(ToolCall(name=name, args={}, id=id_, type="tool_call"))
        results.append(ToolMessage(content=text, name=name, tool_call_id=id_, status="error"))
    legal = message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})
    return legal, results


def superseded(call: ModelCall, message: AIMessage, code: str, why: str) -> None:
    """Tell readers that what was streamed of this message is void: the model is asked again."""
    run = call.run
    drop_deltas(run.storage, run.run_id, message.id or "")
    run.emit(
        "model_retry",
        {
            "model": run.model_name,
            "attempt": 1,
            "code": code,
            "message": why,
            "wait_seconds": 0.0,
            "next_model": run.model_name,
            "message_id": message.id,
        },
    )


class ReplyEdge(Middleware):
    """Legal calls, and one bounded retry when the model's last message holds nothing for the user.

    Nothing is "", white space, hidden reasoning alone, or a tool call written as text. The retry
    carries a request to answer that is not stored; if it fails too, the message gets a visible note
    and the mark `deerflow_empty`.
    """

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Call; ask once more when the reply is empty."""
        reply = _legalised(await next_(call))
        tools = [_name(tool) for tool in call.tools]
        if not _empty(reply, tools):
            return reply
        first = cast("AIMessage", reply.message)
        text = visible_text(first)
        asked: list[AnyMessage] = [HumanMessage(NUDGE)]
        if text:
            asked = [AIMessage(text), HumanMessage(NUDGE_INTENT)]
        superseded(call, first, "empty_answer", "The model gave no answer and is asked once more.")
        second = _legalised(await next_(call.with_(messages=[*call.messages, *asked])))
        if second.message is not None:
            second.message = with_usage_of(second.message, first)
            if _empty(second, tools):
                second.message = with_note(second.message, NOTE, **{EMPTY: True})
        return second


def _legalised(reply: ModelReply) -> ModelReply:
    if reply.message is not None:
        reply.message, results = legal_calls(reply.message)
        reply.results.extend(results)
    return reply


def _empty(reply: ModelReply, tools: Sequence[str]) -> bool:
    message = reply.message
    if message is None or reply.jump is not None or message.tool_calls:
        return False
    text = visible_text(message)
    if isinstance(message.content, list) and any(_shows(part) for part in message.content):
        return False
    return not text or only_intent(text, tools)


def _shows(part: Any) -> bool:
    """Whether a content part is something to see besides text (a picture, a file)."""
    kinds = ("image", "image_url", "file", "audio", "video")
    return isinstance(part, dict) and cast("dict[str, Any]", part).get("type") in kinds


def _name(tool: Any) -> str:
    if isinstance(tool, dict):
        fields = cast("dict[str, Any]", tool)
        return str(fields.get("function", fields).get("name", ""))
    return str(tool.name)
