"""A compacted transcript as it is sent: a frame with the summary, what is kept, and the rest.

The stored messages are only read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from deerflow.agent.deliverables import REMINDER
from deerflow.agent.state import CompactionState
from deerflow.middlewares.delimiters import SUMMARY_TAG, block
from deerflow.middlewares.requests import COMPACTED, compact_hint, is_request, last_request
from deerflow.middlewares.tool_output_budget import SPILL

KEEP = "deerflow_keep"
"""additional_kwargs of a message that is sent word for word whatever is compacted (True). For a
result or a call that means the call with all its results."""
QUESTION_TOOL = "ask_clarification"

CUTS = (2_000, 600)
"""Characters that stay of a long result when one turn alone fills the window, and at the last."""

_FRAME = "compaction-"
_ABOUT = (
    "The earlier part of this conversation was compacted. What follows was written down from it; "
    "it is a record, not a request. Requests in it have been dealt with unless it says otherwise."
)


def command(message: AnyMessage) -> str | None:
    """The hint of a `/compact` request ("" without one), None for any other message."""
    content: Any = message.content
    return compact_hint(content) if isinstance(content, str) and is_request(message) else None


@dataclass(frozen=True, slots=True)
class View:
    """The messages to send, and which of the transcript's they are.

    Attributes:
        messages: to send.
        start: index in the transcript of the first message that is not covered.
        head: how many of `messages` stand before that one.
        seen: index in `messages` from which they were sent as they stand now.
    """

    messages: list[AnyMessage]
    start: int = 0
    head: int = 0
    seen: int = 0


def view_of(messages: list[AnyMessage], state: CompactionState | None) -> View:
    """The transcript as it is sent; without a compaction the same list object.

    Args:
        messages: a legal transcript.
        state: None, or of a compaction; one whose last message is not there any more (the thread
            was rolled back) counts as none.
    """
    start = _after(messages, state["upto"]) if state is not None else 0
    if state is None or start == 0:
        return View(without_commands(messages))
    kept = set(state["kept"])
    head: list[AnyMessage] = [frame(state)] if state["summary"] or state["words"] else []
    head += [message for message in messages[:start] if message.id in kept]
    tail = messages[start:]
    seen = next((i for i in range(len(tail), 0, -1) if tail[i - 1].id == state["seen"]), 0)
    if state["cut"]:
        head = [shortened(message, state["cut"]) for message in head]
        tail[:seen] = [shortened(message, state["cut"]) for message in tail[:seen]]
    shown = without_commands(tail)
    return View([*head, *shown], start, len(head), len(head) + seen)


def frame(state: CompactionState) -> HumanMessage:
    """The message that stands for everything that is covered."""
    parts = [_ABOUT]
    if state["files"]:
        paths = state["files"]
        where = paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
        parts.append(f"Its whole text: {where}; use read_file or grep there.")
    parts.append("## Summary\n\n" + state["summary"])
    if state["words"]:
        parts.append(
            "## What the user said (word for word, oldest first; the newest holds)\n\n"
            + state["words"]
        )
    if state["facts"]:
        parts.append(state["facts"])
    return HumanMessage(
        content=block(SUMMARY_TAG, "\n\n".join(parts)),
        id=f"{_FRAME}{state['count']}",
        additional_kwargs={REMINDER: True},
    )


def is_frame(message: AnyMessage) -> bool:
    """Whether a message is what `frame` made."""
    return (message.id or "").startswith(_FRAME) and REMINDER in message.additional_kwargs


def shortened(message: AnyMessage, limit: int) -> AnyMessage:
    """A result with head and tail of its text, and where the rest is; others as they are."""
    text: Any = message.content
    if not isinstance(message, ToolMessage) or KEEP in message.additional_kwargs:
        return message
    if not isinstance(text, str) or len(text) <= limit + limit // 4:
        return message
    path = message.additional_kwargs.get(SPILL)
    where = f"whole text: {path}" if path else "call again for the part that you need"
    head, tail = text[: limit * 2 // 3], text[len(text) - limit // 3 :]
    gap = f"[\u2026 {len(text) - len(head) - len(tail):,} characters left out; {where} \u2026]"
    return message.model_copy(update={"content": f"{head}\n\n{gap}\n\n{tail}"})


def boundaries(messages: Sequence[AnyMessage], first: int) -> list[int]:
    """Where a transcript may be parted, from `first` on: nowhere between a call and its results."""
    inner = [i for i in range(first, len(messages)) if not isinstance(messages[i], ToolMessage)]
    return [*inner, len(messages)]


def pinned(messages: Sequence[AnyMessage]) -> list[int]:
    """Indices of what is sent whatever is covered: request, marked messages, an open question."""
    found: set[int] = set()
    current = last_request(messages)
    if current >= 0:
        found.add(current)
        asked = current - 1
        while asked >= 0 and isinstance(messages[asked], ToolMessage):
            asked -= 1
        if asked >= 0 and _asks(messages[asked]):
            found.update(range(asked, current))
    step = 0
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            step = index
        if message.additional_kwargs.get(KEEP) is True:
            found.update(range(step, _end_of(messages, step)))
    return sorted(found)


def best_cut(
    messages: Sequence[AnyMessage],
    first: int,
    keep: int,
    size: Callable[[int, int], int],
    most: tuple[int, int],
) -> tuple[int, int]:
    """Where to part the transcript, and to how many characters to cut long results (0: none).

    Args:
        messages: a legal transcript.
        first: nothing before it is looked at.
        keep: messages at the end that stay if they fit.
        size: (cut, limit of a result) → tokens of what would be sent.
        most: tokens that are aimed at, and that must not be passed.

    Returns:
        The place that keeps most; the last step is kept if it fits with its results cut.
    """
    wanted = max(first, len(messages) - keep)
    while wanted > first and wanted < len(messages) and isinstance(messages[wanted], ToolMessage):
        wanted -= 1
    places = boundaries(messages, wanted)
    for place in places[:-1]:
        if size(place, 0) <= most[0]:
            return place, 0
    last = places[-2] if len(places) > 1 else places[-1]
    for limit, most_then in ((CUTS[0], most[0]), (CUTS[1], most[0]), (CUTS[1], most[1])):
        if size(last, limit) <= most_then:
            return last, limit
    return places[-1], CUTS[1]


def _after(messages: Sequence[AnyMessage], upto: str) -> int:
    """Index after a message and its results, 0 when it is not there."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].id == upto:
            return _end_of(messages, index)
    return 0


def _end_of(messages: Sequence[AnyMessage], step: int) -> int:
    end = step + 1
    while end < len(messages) and isinstance(messages[end], ToolMessage):
        end += 1
    return end


def _asks(message: AnyMessage) -> bool:
    return isinstance(message, AIMessage) and any(
        call["name"] == QUESTION_TOOL for call in message.tool_calls
    )


def without_commands(messages: list[AnyMessage]) -> list[AnyMessage]:
    """Without `/compact` and its answers, which are no part of the conversation."""
    gone: set[int] = set()
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            if COMPACTED in message.additional_kwargs:
                gone |= {index - 1, index} if _asked(messages, index - 1) else {index}
        elif isinstance(message, HumanMessage) and _asked(messages, index):
            gone |= {index} if index < last_request(messages) else set()
    if not gone:
        return messages
    return [message for index, message in enumerate(messages) if index not in gone]


def _asked(messages: list[AnyMessage], index: int) -> bool:
    return index >= 0 and command(messages[index]) is not None
