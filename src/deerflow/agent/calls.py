"""Book-keeping of tool calls: legal ids, refusals in place, position of a call in its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

BAD_CALLS = "deerflow_bad_calls"
"""additional_kwargs of an AI message: index of a malformed call → what is wrong with it."""

REFUSED = "deerflow_refused"
"""additional_kwargs of an AI message: id of a call that must not run → the text that answers it."""

SHELLS = frozenset({"bash", "python"})
"""Tools that run in the agent's persistent shell; two of them in a turn run in forks of it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands: id of its AI message, index in it, and the refusal text if any."""

    message_id: str
    index: int
    refusal: str | None
    shells: int


@dataclass(slots=True)
class CallBook:
    """Cursor of one run over its calls; rebuilt from the history when the run is resumed."""

    used: set[str] = field(default_factory=set[str])
    seen: int = 0
    places: dict[str, Place] = field(default_factory=dict[str, Place])

    def catch_up(self, messages: Sequence[AnyMessage]) -> None:
        """Take note of the ids in messages that came since the last look."""
        if len(messages) < self.seen:  # the history was compacted: look at all of it again
            self.used.clear()
            self.seen = 0
        for message in messages[self.seen :]:
            if isinstance(message, AIMessage):
                self.used.update(call["id"] or "" for call in message.tool_calls)
        self.seen = len(messages)

    def settle(self, message: AIMessage, results: Sequence[ToolMessage]) -> AIMessage:
        """Make the calls of a new message legal and remember where they stand.

        Ids that are empty or were used in the thread are renamed; malformed and refused calls keep
        their place and get their answer noted in the message.

        Args:
            message: has an id.
            results: answers of refused calls, by the ids as they came.

        Returns:
            The message to store.
        """
        if not message.tool_calls:
            return message
        answers = {result.tool_call_id: str(result.content) for result in results}
        extra = dict(message.additional_kwargs)
        bad: dict[Any, str] = extra.pop(BAD_CALLS, {})
        tail = (message.id or "")[-24:]  # providers allow 40 characters in an id
        calls: list[Any] = []
        refused: dict[str, str] = {}
        for index, call in enumerate(message.tool_calls):
            old = call["id"] or ""
            new = old if old and old not in self.used else f"call_{tail}_{index}"
            self.used.add(new)
            calls.append({**call, "id": new})
            text = answers.get(old) or bad.get(index) or bad.get(str(index))
            if text:
                refused[new] = text
        if refused:
            extra[REFUSED] = refused
        settled = message.model_copy(
            update={"tool_calls": calls, "invalid_tool_calls": [], "additional_kwargs": extra}
        )
        self._enter(settled)
        return settled

    def _enter(self, message: AIMessage) -> None:
        refused: dict[str, str] = message.additional_kwargs.get(REFUSED, {})
        shells = sum(1 for call in message.tool_calls if call["name"] in SHELLS)
        self.places = {
            call["id"] or "": Place(message.id or "", index, refused.get(call["id"] or ""), shells)
            for index, call in enumerate(message.tool_calls)
        }

    def place(self, messages: Sequence[AnyMessage], call_id: str) -> Place:
        """Position of a call, looked up in the history after a resume."""
        found = self.places.get(call_id)
        if found is None:
            for message in reversed(messages):
                if isinstance(message, AIMessage) and message.tool_calls:
                    self._enter(message)
                    break
            found = self.places.get(call_id, Place("unknown", 0, None, 1))
        return found
