"""A tool at which runs wait for the test, and the figures that it keeps of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from deerflow.agent.context import RunContext

HELD: list[dict[str, Any]] = [{"calls": [{"name": "hold"}]}, {"text": "Let through."}] * 4
"""One call that waits, then an answer, for four runs of a thread; played by the transcript."""


def held_model(script: Any = HELD) -> list[dict[str, Any]]:
    """Section `models`: every run plays the script from its own place."""
    use = "deerflow.models.scripted:ScriptedChatModel"
    return [{"name": "scripted", "use": use, "script": script, "follow": "transcript"}]


class Gate:
    """Runs that call `hold` wait until the test opens the gate.

    Attributes:
        order: task or thread ids of runs in the order in which they came to the gate.
        most: the most runs at once, by user and (key "") in all.
        stopped: threads whose wait was cancelled.
    """

    def __init__(self) -> None:
        self.order: list[str] = []
        self.most: Counter[str] = Counter()
        self.stopped: list[str] = []
        self._here: Counter[str] = Counter()
        self._opened = asyncio.Event()
        self._came = asyncio.Condition()

    def open(self) -> None:
        """Let everybody through, now and later."""
        self._opened.set()

    async def reached(self, number: int) -> None:
        """Wait until so many have come so far."""
        async with asyncio.timeout(30), self._came:
            await self._came.wait_for(lambda: len(self.order) >= number)

    def tool(self) -> BaseTool:
        async def hold(runtime: ToolRuntime) -> str:
            """Wait."""
            return await self._hold(runtime.context)

        return StructuredTool.from_function(
            coroutine=hold, metadata={"deerflow": {"idempotent": True}}
        )

    async def _hold(self, context: RunContext) -> str:
        for name in (context.user_id, ""):
            self._here[name] += 1
            self.most[name] = max(self.most[name], self._here[name])
        async with self._came:
            self.order.append(context.thread_id)
            self._came.notify_all()
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            self.stopped.append(context.thread_id)
            raise
        finally:
            for name in (context.user_id, ""):
                self._here[name] -= 1
        return "held"
