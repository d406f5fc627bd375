"""A model for the memory updater that follows rules instead of thinking."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from deerflow.errors import DeerFlowError, ModelUnavailableError
from deerflow.memory.protocol import Ask

_SAID = re.compile(r"remember: ([^\n;]+)")
_INSTEAD = re.compile(r"instead of (.+?) remember: ([^\n;]+)")


def by_rule(value: dict[str, Any]) -> dict[str, Any]:
    """What the user asks to remember ("remember: X;", "instead of X remember: Y;")."""
    known = {fact["content"]: fact["id"] for fact in value["known_facts"]}
    facts: list[dict[str, Any]] = []
    for exchange in value["exchanges"]:
        replaced = {new: old for old, new in _INSTEAD.findall(exchange["user"])}
        for content in _SAID.findall(exchange["user"]):
            old = known.get(replaced.get(content, ""))
            fact = {"content": content, "category": "context", "confidence": 0.9}
            facts.append({**fact, "supersedes": [old] if old else []})
    return {"facts": facts}


class Extractor:
    """`ask_for` of a `MemoryUpdater`.

    Attributes:
        prompts: (user, prompt) of each call, in order.
        errors: raised by the next calls, one each.
        running: calls that are under way now, and the most there ever were.
        gate: when set, calls wait for it.
        entered: set when a call is under way.
    """

    def __init__(
        self,
        reply: Callable[[dict[str, Any]], dict[str, Any] | str] = by_rule,
        *,
        gate: asyncio.Event | None = None,
    ) -> None:
        self._reply = reply
        self.prompts: list[tuple[str, str]] = []
        self.errors: list[DeerFlowError] = []
        self.running = 0
        self.most = 0
        self.gate = gate
        self.entered = asyncio.Event()

    def fail(self, times: int) -> None:
        """The next calls fail as an endpoint that is down."""
        self.errors += [ModelUnavailableError("down", model="m")] * times

    def __call__(self, user_id: str) -> Ask:
        """The ask of a user."""

        def ask(system: str, user: str) -> Awaitable[str]:
            assert "data" in system
            return self._asked(user_id, user)

        return ask

    async def _asked(self, user_id: str, user: str) -> str:
        self.prompts.append((user_id, user))
        self.running += 1
        self.most = max(self.most, self.running)
        self.entered.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
            await asyncio.sleep(0)
            if self.errors:
                raise self.errors.pop(0)
            reply = self._reply(json.loads(user))
            return reply if isinstance(reply, str) else json.dumps(reply)
        finally:
            self.running -= 1
