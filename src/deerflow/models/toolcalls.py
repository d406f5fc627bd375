"""Puts streamed tool calls together, whatever way the endpoint splits, numbers and names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

import orjson
from langchain_core.messages import ToolCall

from deerflow.models.private import BAD_CALLS, CALL_FIELDS

_CALL_KEYS = frozenset({"index", "id", "type", "function"})
_FUNCTION_KEYS = frozenset({"name", "arguments"})
UNNAMED = "unknown_tool"
"""Name given to a call without one; the kernel answers it with an error."""


class Slot:
    """One call as far as it came: id, name, argument pieces, opaque fields."""

    __slots__ = ("args", "id", "name", "private")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.args: list[str] = []
        self.private: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """Argument text so far."""
        return "".join(self.args)

    @property
    def complete(self) -> bool:
        """Whether the arguments are a whole JSON object."""
        return parse_arguments(self.text)[1] == "" and bool(self.args)


class CallAssembler:
    """Collects the `tool_calls` of deltas into slots, in order of appearance."""

    __slots__ = ("_by_index", "_last", "slots")

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self._by_index: dict[int, Slot] = {}
        self._last: Slot | None = None

    def add(self, parts: Sequence[Mapping[str, Any]]) -> list[tuple[int, Slot, str]]:
        """Take pieces; returns (position, slot, new argument text) for each."""
        return [self._add(part) for part in parts]

    def _add(self, part: Mapping[str, Any]) -> tuple[int, Slot, str]:
        function: Mapping[str, Any] = part.get("function") or {}
        slot = self._slot(part, function)
        if part.get("id") and not slot.id:
            slot.id = str(part["id"])
        if function.get("name") and not slot.name:
            slot.name = str(function["name"])
        args = function.get("arguments")
        text = (
            args if isinstance(args, str) else "" if args is None else orjson.dumps(args).decode()
        )
        if text:
            slot.args.append(text)
        if part.keys() - _CALL_KEYS or function.keys() - _FUNCTION_KEYS:
            _keep_private(slot.private, part, function)
        self._last = slot
        return self.slots.index(slot), slot, text

    def _slot(self, part: Mapping[str, Any], function: Mapping[str, Any]) -> Slot:
        index = part.get("index")
        numbered = isinstance(index, int)
        known = self._by_index.get(index) if numbered else self._last
        if known is None or _begins_another(known, part.get("id") or "", function):
            known = Slot()
            self.slots.append(known)
        if numbered:
            self._by_index[index] = known
        return known

    def calls(self) -> tuple[list[ToolCall], dict[str, Any]]:
        """Legal calls in order, and their additional_kwargs (signatures, malformed calls)."""
        calls: list[ToolCall] = []
        private: dict[str, Any] = {}
        bad: dict[str, str] = {}
        used: set[str] = set()
        for position, slot in enumerate(self.slots):
            args, problem = parse_arguments(slot.text)
            if problem or not slot.name:
                bad[str(position)] = problem or "The call names no tool."
            if slot.private:
                private[str(position)] = slot.private
            calls.append(
                {
                    "name": slot.name or UNNAMED,
                    "args": args,
                    "id": fresh_id(slot.id, used),
                    "type": "tool_call",
                }
            )
        extra: dict[str, Any] = {}
        if private:
            extra[CALL_FIELDS] = private
        if bad:
            extra[BAD_CALLS] = bad
        return calls, extra


def parse_arguments(text: str) -> tuple[dict[str, Any], str]:
    """(arguments, "") of argument text, or ({}, what is wrong with it)."""
    if not text.strip():
        return {}, ""
    try:
        value: Any = orjson.loads(text)
        if isinstance(value, str):  # some endpoints encode twice
            value = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return {}, f"The arguments are not valid JSON: {error}. They began: {text[:120]}"
    if not isinstance(value, dict):
        return {}, f"The arguments must be a JSON object, not {type(value).__name__}."
    return cast("dict[str, Any]", value), ""


def fresh_id(wanted: str, used: set[str]) -> str:
    """`wanted`, or a new id when it is empty or stands in `used`; enters it there."""
    chosen = wanted if wanted and wanted not in used else f"call_{uuid4().hex[:24]}"
    used.add(chosen)
    return chosen


def _begins_another(slot: Slot, call_id: str, function: Mapping[str, Any]) -> bool:
    """Whether a piece that arrives at `slot` is the head of a further call.

    Endpoints that number every call 0, or not at all, are told by a new id or by a second name
    after whole arguments.
    """
    if not function.get("name"):
        return False
    if call_id and slot.id and call_id != slot.id:
        return True
    return bool(slot.name) and slot.complete


def _keep_private(
    private: dict[str, Any], part: Mapping[str, Any], function: Mapping[str, Any]
) -> None:
    private.update({k: v for k, v in part.items() if k not in _CALL_KEYS and v is not None})
    inner = {k: v for k, v in function.items() if k not in _FUNCTION_KEYS and v is not None}
    if inner:
        private["function"] = {**private.get("function", {}), **inner}
