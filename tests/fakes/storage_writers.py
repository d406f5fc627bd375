"""Processes that write to a storage at full speed, to be killed or to compete."""

from __future__ import annotations

import asyncio
import uuid
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.base.id import uuid6

from deerflow.storage.protocol import CallKey, Delta, Storage
from deerflow.storage.sql.storage import SqliteStorage


def call_key(thread_key: str, step: int) -> CallKey:
    """The tool call of a step."""
    return CallKey(thread_key, "r1", "", f"m{step}", 0)


def _checkpoint(step: int) -> Checkpoint:
    return {
        "v": 4,
        "id": str(uuid6(clock_seq=step)),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {"step": step, "big": "x" * 500},
        "channel_versions": {"step": step + 1, "big": 1},
        "versions_seen": {},
        "updated_channels": ["step"],
    }


async def write_step(storage: Storage, key: str, step: int, parent: str, report: Any) -> str:
    """One step as the kernel writes it; `report` hears of each effect whose start is durable."""
    at: dict[str, Any] = {"configurable": {"thread_id": key, "checkpoint_ns": ""}}
    if parent:
        at["configurable"]["checkpoint_id"] = parent
    storage.events.append(key, "r1", "model_started", {"step": step})
    storage.deltas.append(key, Delta("r1", f"m{step}", 0, f"text of {step}"))
    storage.deltas.finish("r1", f"m{step}")
    storage.events.append(key, "r1", "message", {"step": step, "text": f"text of {step} " * 20})
    await storage.journal.tool_started(call_key(key, step), "bash")
    report(step)
    storage.journal.tool_finished(call_key(key, step), "bash", f'"result {step}"')
    storage.events.append(key, "r1", "tool_completed", {"step": step})
    if parent:
        writes = [("messages", [AIMessage(f"answer {step}")])]
        await storage.saver.aput_writes(at, writes, str(uuid.uuid4()), "path")
    stored = await storage.saver.aput(
        at, _checkpoint(step), {"source": "loop", "step": step}, {"step": step + 1}
    )
    return stored["configurable"]["checkpoint_id"]


def write_steps(path: Path, key: str, pipe: Connection) -> None:
    """Write steps for ever; each started effect's number goes down the pipe."""

    async def run() -> None:
        storage = SqliteStorage(path)
        parent, step = "", 0
        while True:
            parent = await write_step(storage, key, step, parent, pipe.send)
            step += 1

    asyncio.run(run())


def write_events(path: Path, key: str, name: str, count: int) -> None:
    """Append so many numbered events and deltas, then close."""

    async def run() -> None:
        storage = SqliteStorage(path)
        position = 0
        for number in range(count):
            text = f"{name}{number} "
            storage.deltas.append(key, Delta(name, "m", position, text))
            position += len(text)
            ticket = storage.events.append(key, name, "notice", {"n": number})
            if number % 10 == 0:
                await ticket
        await storage.close()

    asyncio.run(run())
