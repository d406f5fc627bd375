"""Prints what a conversation costs in the storage: bytes and CPU of the growth cases.

    python bench/storage_growth.py            # every case
    python bench/storage_growth.py tools10    # one of them

The agent is LangChain's `create_agent` with the state of the product and a scripted model; one
middleware writes the events and journal rows that a run of the product writes.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ToolCallRequest
from langchain_core.messages import HumanMessage, ToolMessage, message_to_dict
from langchain_core.tools import StructuredTool

from deerflow.agent.state import ThreadState
from deerflow.models.scripted import ScriptedChatModel
from deerflow.storage.protocol import CallKey, ModelKey, Storage
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage

CHANCE = random.Random(7)
WORDS = ["".join(CHANCE.choices("etaoinshrdlucmfw", k=CHANCE.randint(2, 9))) for _ in range(3000)]


def prose(size: int) -> str:
    """Text of so many characters that compresses about as well as English."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words.append(WORDS[min(int(CHANCE.paretovariate(0.6)), 2999)])
    return " ".join(words)[:size]


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation: turns, tool rounds per turn, sizes in characters, images."""

    name: str
    turns: int
    rounds: int
    question: int
    result: int
    answer: int
    images: int = 0
    limit_mb: float = 0.0


CASES = [
    Case("10 turns of TOOLS 1", 10, 1, 40, 60, 600, limit_mb=0.12),
    Case("100 turns, 2 kB results", 100, 1, 200, 2000, 800, limit_mb=3.2),
    Case("P07 text: 200 turns x 2 kB x 3 steps", 200, 1, 200, 1000, 800, limit_mb=5.0),
    Case("P07 with ten 1 MB images", 200, 1, 200, 1000, 800, images=10, limit_mb=31.2),
    Case("tools10", 20, 10, 40, 60, 600),
    Case("text20", 100, 0, 40, 60, 120),
]


class Recorder(AgentMiddleware[Any, Any]):
    """Writes what a run of the product writes."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self.storage, self.key, self.run, self.turn = storage, "", "", 0

    def emit(self, type: str, payload: dict[str, Any]) -> None:
        """Queue an event."""
        self.storage.events.append(self.key, self.run, type, payload)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """Events and journal of a model call."""
        self.turn += 1
        self.emit("model_started", {"turn": self.turn, "model": "scripted"})
        response = await handler(request)
        message = response.result[0]
        message.id = message.id or f"msg_{uuid.uuid4().hex}"
        text = json.dumps(message_to_dict(message))
        self.storage.journal.model_finished(
            ModelKey(self.key, self.run, "", self.turn, "0" * 64), text
        )
        self.emit("message", {"message": message_to_dict(message)})
        usage = {"input_tokens": 100, "output_tokens": 100, "total_tokens": 200}
        self.emit(
            "model_completed",
            {"turn": self.turn, "model": "scripted", "message_id": message.id, "usage": usage},
        )
        return response

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Events and journal of a tool call."""
        call = request.tool_call
        key = CallKey(self.key, self.run, "", request.state["messages"][-1].id, 0)
        self.emit("tool_started", {"tool_call_id": call["id"], "name": call["name"], "args": {}})
        await self.storage.journal.tool_started(key, call["name"])
        result: ToolMessage = await handler(request)
        self.storage.journal.tool_finished(key, call["name"], json.dumps(message_to_dict(result)))
        self.emit("message", {"message": message_to_dict(result)})
        self.emit(
            "tool_completed",
            {"tool_call_id": call["id"], "name": call["name"], "status": "success", "seconds": 0.1},
        )
        return result


async def look_up(n: int) -> str:
    """Look something up."""
    return prose(n)


def build(storage: Storage, case: Case, recorder: Recorder) -> Any:
    """The agent of a case."""
    tool = StructuredTool.from_function(coroutine=look_up, name="look_up")
    call = {"calls": [{"name": "look_up", "args": {"n": case.result}}]}
    script: list[dict[str, Any]] = []
    for _ in range(case.turns):
        script += [call] * case.rounds + [{"text": prose(case.answer)}]
    return create_agent(
        ScriptedChatModel(script=script),
        [tool],
        middleware=[recorder],
        state_schema=ThreadState,
        checkpointer=storage.saver,
    )


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(file.stat().st_size for file in folder.iterdir())


async def converse(storage: Storage, case: Case) -> tuple[int, list[float]]:
    """Run a case; gives the unique bytes of its content and the CPU milliseconds of each turn."""
    recorder = Recorder(storage)
    agent = build(storage, case, recorder)
    thread = await storage.threads.ensure("bench", case.name)
    recorder.key = thread.thread_key
    config = {"configurable": {"thread_id": thread.thread_key}, "recursion_limit": 1000}
    content, cpu = 0, list[float]()
    for turn in range(case.turns):
        started = time.process_time()
        recorder.run, recorder.turn = uuid.uuid4().hex, 0
        text = prose(case.question)
        await storage.threads.start_run(
            thread.thread_key,
            recorder.run,
            input={"task": text},
            config={"model": "scripted"},
            event=("run_started", {"input": text, "model": "scripted", "resumed": False}),
        )
        question = HumanMessage(text, id=f"msg_{uuid.uuid4().hex}")
        recorder.emit("message", {"message": message_to_dict(question)})
        config["configurable"]["run_id"] = recorder.run
        await agent.ainvoke({"messages": [question]}, config, durability="sync")
        recorder.emit("run_ended", {"status": "success", "outcome": {"kind": "answered"}})
        await storage.threads.end_run(recorder.run, status="success", outcome={"kind": "answered"})
        cpu.append((time.process_time() - started) * 1e3)
        content += case.question + case.rounds * case.result + case.answer
        if turn < case.images:
            image = CHANCE.randbytes(1_000_000)
            for _ in range(3):
                await storage.blobs.put("bench", thread.thread_key, image, "image/png")
            content += len(image)
    return content, cpu


async def measure(case: Case) -> dict[str, Any]:
    """Bytes and CPU of a case on a fresh database."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder / "deerflow.db")
        before = size_of(folder)
        storage = SqliteStorage(folder / "deerflow.db")
        content, cpu = await converse(storage, case)
        await storage.close()
        after = size_of(folder)
    cpu.sort()
    return {
        "case": case.name,
        "stored_mb": round((after - before) / 1e6, 3),
        "limit_mb": case.limit_mb,
        "content_mb": round(content / 1e6, 3),
        "cpu_ms_per_turn_median": round(cpu[len(cpu) // 2], 1),
        "cpu_ms_per_turn_p90": round(cpu[len(cpu) * 9 // 10], 1),
    }


async def main(names: list[str]) -> None:
    """Print one JSON line per case."""
    for case in CASES:
        if not names or case.name in names:
            print(json.dumps(await measure(case)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
