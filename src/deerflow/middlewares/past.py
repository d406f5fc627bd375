"""The part of a conversation that a summary stands for: as Markdown, in brief, and as facts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from deerflow.agent.context import RunContext
from deerflow.errors import SandboxError
from deerflow.middlewares.delimiters import one_line
from deerflow.middlewares.kept_words import sentences
from deerflow.middlewares.requests import is_request
from deerflow.sandbox.protocol import WORKSPACE

FOLDER = f"{WORKSPACE}/.history"
"""Hidden from listings, like the spill folder; what is in it can be read and searched."""

RESULT = (600, 300)
ARGUMENT = (200, 100)
SAID = (4_000, 1_000)
"""Characters of head and tail that a summariser is shown of a result, an argument, a message."""

DELEGATED = 1_500
"""Characters of the list of delegations."""
FILES = 40
"""Paths that are listed."""

_WRITERS = frozenset({"write_file", "str_replace"})
_PRESENTS = "present_files"
_PATH = re.compile(r"/mnt/[\w./\u00c0-\uffff-]+\w")


async def stored(messages: Sequence[AnyMessage], run: RunContext, number: int) -> str | None:
    """Virtual path of the transcript as Markdown, None when the sandbox takes no file."""
    agent = re.sub(r"[^A-Za-z0-9_-]", "_", run.namespace)[:60]
    path = f"{FOLDER}/{agent}-{number}.md" if agent else f"{FOLDER}/{number}.md"
    data = markdown(messages).encode("utf-8", "backslashreplace")
    try:
        await (await run.sandbox()).write(path, data)
    except SandboxError:
        return None
    return path


def markdown(messages: Iterable[AnyMessage]) -> str:
    """The whole text of messages; pictures and hidden thinking are left out."""
    return "\n\n".join(_entry(message, None, None) for message in messages) + "\n"


def brief(messages: Iterable[AnyMessage]) -> list[str]:
    """An entry per message for a summariser; long ones are cut to head and tail."""
    return [_entry(message, RESULT, ARGUMENT) for message in messages]


def facts(
    delegations: Mapping[str, Mapping[str, Any]], messages: Sequence[AnyMessage], delivered: Any
) -> str:
    """What was delegated and which files were written or delivered, "" for nothing.

    Args:
        delegations: of the thread state.
        messages: whose calls are looked at.
        delivered: virtual paths that the user was given.
    """
    parts: list[str] = []
    lines: list[str] = []
    room = DELEGATED
    for task in reversed(list(delegations.values())):
        line = (
            f"- {one_line(str(task.get('description', '')), 120)} "
            f"({one_line(str(task.get('status', '')), 20)}): "
            f"{one_line(str(task.get('result', '')), 240)}"
        )
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    if lines:
        parts.append("\n".join(["## Delegated so far, with results", "", *reversed(lines)]))
    written = [path for path in _written(messages) if path not in set(delivered)]
    for title, paths in (("Files written", written), ("Files delivered", list(delivered))):
        if paths:
            left = f"\n- and {len(paths) - FILES} more" if len(paths) > FILES else ""
            listed = "\n".join(f"- {one_line(path)}" for path in paths[-FILES:])
            parts.append(f"## {title}\n\n{listed}{left}")
    return "\n\n".join(parts)


def made_here(messages: Sequence[AnyMessage], earlier: str, limit: int) -> str:
    """A summary without a model: what the agent said and found, newest last.

    Args:
        messages: what is covered and was not before.
        earlier: the summary so far.
        limit: characters.
    """
    lines: list[str] = []
    for message in messages:
        if isinstance(message, AIMessage):
            lines += [f"- {line}" for line in _gist(message.text)]
            lines += [f"- {_called(call)}" for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            found = dict.fromkeys(_PATH.findall(message.text[:4_000]))
            lines += [f"- {message.name or 'tool'}: {' '.join(list(found)[:3])}"] if found else []
    room = limit - min(len(earlier), limit // 2)
    kept: list[str] = []
    for line in reversed(list(dict.fromkeys(lines))):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(filter(None, (clipped(earlier, limit // 2), *reversed(kept)))).strip()


def clipped(text: str, limit: int) -> str:
    """A text of at most so many characters, cut at the end of a line where there is one."""
    if len(text) <= limit:
        return text
    head = text[: max(0, limit - 2)]
    at = head.rfind("\n")
    return (head[:at] if at > limit // 2 else head) + "\n\u2026"


def _gist(text: str) -> list[str]:
    """First sentence of a text, and one with a number when there is one further on."""
    found = sentences(text[:8_000])
    numbers = [line for line in found[1:] if any(sign.isdigit() for sign in line)]
    return [one_line(" ".join(line.split()), 240) for line in (*found[:1], *numbers[:2])]


def _called(call: Any) -> str:
    args = cast("dict[str, Any]", call["args"])
    shown = next((str(value) for value in args.values() if isinstance(value, str)), "")
    return f"called {call['name']} {one_line(shown, 120)}".strip()


def _written(messages: Sequence[AnyMessage]) -> list[str]:
    paths: list[str] = []
    for message in messages:
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            path = call["args"].get("path")
            if call["name"] in _WRITERS and isinstance(path, str):
                paths.append(path)
    return list(dict.fromkeys(paths))


def _entry(
    message: AnyMessage, result: tuple[int, int] | None, argument: tuple[int, int] | None
) -> str:
    text = str(message.text)
    if isinstance(message, ToolMessage):
        failed = ", failed" if message.status == "error" else ""
        return f"### Result of {message.name or 'a tool'}{failed}\n\n{_cut(text, result)}"
    said = _cut(text, SAID if result else None)
    if isinstance(message, AIMessage):
        lines = [
            f"- called {call['name']}: {_args(call['args'], argument)}"
            for call in message.tool_calls
        ]
        return "\n\n".join(filter(None, ("## Agent", said, "\n".join(lines))))
    if isinstance(message, HumanMessage) and is_request(message):
        return f"## User\n\n{said}"
    return f"## Note to the agent\n\n{said}"


def _args(args: Mapping[str, Any], limit: tuple[int, int] | None) -> str:
    if limit is None:
        return json.dumps(args, ensure_ascii=False, default=str)
    return ", ".join(f"{key}={_cut(str(value), limit)!r}" for key, value in args.items())


def _cut(text: str, limit: tuple[int, int] | None) -> str:
    if limit is None or len(text) <= sum(limit) * 5 // 4:
        return text
    head, tail = limit
    return f"{text[:head]} [\u2026 {len(text) - head - tail} characters \u2026] {text[-tail:]}"
