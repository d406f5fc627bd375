"""Fits a transcript into a small window: system text and task stay, the oldest turns go first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    ToolMessage,
)

Line = dict[str, str]
"""One message as the chat template takes it: {role, content}."""

BYTES_PER_TOKEN = 3.0
"""UTF-8 bytes per token, on the safe side; SmolLM2 has about 4.3 for English, 3.2 for code."""
_PER_MESSAGE = 8
_RESULT = 1_500
"""Characters of a tool result that stay when the window is short: head and tail."""
_ARGUMENT = 600
"""Characters of an argument of an earlier call that are shown."""
_FLOOR = 80
"""Characters below which no text is cut further."""
DROPPED = "[Earlier messages were left out.]"


@dataclass(slots=True)
class _Block:
    """Lines that stay or go together: a message of the user, or a call with its results."""

    lines: list[Line]
    request: bool = False


def tokens(lines: Sequence[Line]) -> int:
    """Estimated tokens of these messages."""
    size = sum(len(line["content"].encode()) for line in lines)
    return int(size / BYTES_PER_TOKEN) + _PER_MESSAGE * len(lines)


def rendered(messages: Sequence[BaseMessage], extra: str = "") -> list[Line]:
    """The transcript in lines: calls as JSON of the assistant, results as words of the user.

    Args:
        messages: legal LangChain messages.
        extra: goes after the system text.
    """
    system, blocks = _blocks(messages)
    return _joined(system, extra, blocks, dropped=False)


def fitted(messages: Sequence[BaseMessage], budget: int, extra: str = "") -> list[Line]:
    """As `rendered`, in at most about `budget` estimated tokens.

    In this order: older tool results are cut to head and tail; the oldest blocks before the current
    request go; then the oldest steps after it; then every long text is cut, the request last. A
    call and its results go together.
    """
    system, blocks = _blocks(messages)
    lines = _joined(system, extra, blocks, dropped=False)
    if tokens(lines) <= budget:
        return lines
    for block in blocks:
        block.lines = [_cut(line, _RESULT) if not block.request else line for line in block.lines]
    current = max((i for i, block in enumerate(blocks) if block.request), default=0)
    dropped = False
    while len(blocks) > 1 and tokens(_joined(system, extra, blocks, dropped)) > budget:
        if current > 0:
            blocks.pop(0)
            current -= 1
        elif len(blocks) > 2:
            blocks.pop(1)
        else:
            break
        dropped = True
    return _squeezed(_joined(system, extra, blocks, dropped), budget)


def _squeezed(lines: list[Line], budget: int) -> list[Line]:
    """Cut the longest texts, again and again, until the estimate fits or nothing long is left."""
    while tokens(lines) > budget:
        longest = max(range(len(lines)), key=lambda i: len(lines[i]["content"]))
        size = len(lines[longest]["content"])
        if size <= _FLOOR:
            break
        lines[longest] = _cut(lines[longest], max(_FLOOR, size * 2 // 3))
    return lines


def _cut(line: Line, limit: int) -> Line:
    text = line["content"]
    if len(text) <= limit:
        return line
    head = limit * 2 // 3
    shown = f"{text[:head]}\n[…]\n{text[len(text) - (limit - head - 5) :]}"
    return {**line, "content": shown}


def _joined(system: str, extra: str, blocks: Sequence[_Block], dropped: bool) -> list[Line]:
    """One system line, then the blocks with neighbours of one role joined: templates want turns."""
    head = "\n\n".join(part for part in (system, extra) if part)
    lines: list[Line] = [{"role": "system", "content": head}] if head else []
    body = [line for block in blocks for line in block.lines]
    if dropped:
        body.insert(0, {"role": "user", "content": DROPPED})
    for line in body:
        if lines and lines[-1]["role"] == line["role"] != "system":
            lines[-1] = {**line, "content": f"{lines[-1]['content']}\n\n{line['content']}"}
        else:
            lines.append(line)
    return lines


def _blocks(messages: Sequence[BaseMessage]) -> tuple[str, list[_Block]]:
    system: list[str] = []
    blocks: list[_Block] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(message.text)
        elif isinstance(message, ToolMessage):
            line = {
                "role": "user",
                "content": f"Result of {message.name or 'the tool'}:\n{message.text}",
            }
            if blocks and not blocks[-1].request:
                blocks[-1].lines.append(line)
            else:
                blocks.append(_Block([line]))
        elif isinstance(message, AIMessage):
            blocks.append(_Block([{"role": "assistant", "content": _said(message)}]))
        else:
            blocks.append(_Block([{"role": "user", "content": message.text}], request=True))
    return "\n\n".join(system), blocks


def _said(message: AIMessage) -> str:
    calls = [
        json.dumps({"tool": call["name"], "args": _shortened(call["args"])}, ensure_ascii=False)
        for call in message.tool_calls
    ]
    return "\n".join([*([message.text] if message.text else []), *calls]) or "(no answer)"


def _shortened(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments with long texts cut: what was written is in the file, not in the window."""
    return {
        key: _cut({"content": value}, _ARGUMENT)["content"] if isinstance(value, str) else value
        for key, value in args.items()
    }
