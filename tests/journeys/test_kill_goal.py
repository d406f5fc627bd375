"""A run that pursues a goal survives kill -9 between and inside its continuations."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from fakes.autopsy import events_of, messages_of
from fakes.killer import Order, World, Zygote, killer_harness, read_ledger, zygote

EVALUATIONS = 3


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


@pytest.fixture(scope="module")
def born() -> Iterator[Zygote]:
    with zygote() as running:
        yield running


async def test_a_kill_after_each_event_of_a_pursuit(
    born: Zygote, tmp_path: Path, scale: Scale
) -> None:
    for name in ("ready", "go"):
        os.mkfifo(tmp_path / name)
    complaints: list[str] = []
    kills = 0
    async with killer_harness(World(Order(str(tmp_path), []))) as harness:
        for event in range(2, 100, scale(11, 1)):
            thread = f"t{event}"
            order = Order(str(tmp_path), [thread], story="goal", die_at_event=event)
            killed = await asyncio.to_thread(born.start(order).wait)
            kills += killed
            if killed:
                await asyncio.to_thread(born.start(Order(str(tmp_path), [thread])).wait)
            row = await harness.storage.threads.get("local", thread)
            assert row is not None
            graph = await harness.agents.graph("scripted")
            state = await graph.aget_state({"configurable": {"thread_id": row.thread_key}})
            runs = await harness.storage.threads.runs(row.thread_key)
            messages, _ = await messages_of(harness, thread)
            events = await events_of(harness, thread)
            found: dict[str, Any] = {
                "runs": [run.status for run in runs],
                "goal": [state.values["goal"][k] for k in ("status", "continuation_count")],
                "answers": [m.text for m in messages if m.type == "ai" and not m.tool_calls],
                "told": _told(events),
            }
            wanted: dict[str, Any] = {
                "runs": ["success"],
                "goal": ["done", 2],
                "answers": ["Part 1.", "Part 2.", "Part 3."],
                "told": ["", "two", "three"],
            }
            complaints += [
                f"{thread}: {key} {found[key]}" for key in wanted if found[key] != wanted[key]
            ]
            effects = [
                e["place"] for e in read_ledger(tmp_path, "effects") if e["thread"] == thread
            ]
            if len(effects) != len(set(effects)) or not set(effects) <= {"g1", "g2", "g3"}:
                complaints.append(f"{thread}: effects {effects}")
            paid = sum(e.type == "usage" for e in events)
            if not EVALUATIONS <= paid <= EVALUATIONS + killed:
                complaints.append(f"{thread}: {paid} evaluations")
            if not killed:
                break
    assert complaints == []
    assert kills > 32 // scale(11, 1)
    print(f"{kills} kills")


def _told(events: list[Any]) -> list[str]:
    """What each human-side message of the log asks for, without repeats of the log's own."""
    texts = [
        str(event.payload["message"]["content"])
        for event in events
        if event.type == "message" and event.payload["message"]["type"] == "human"
    ]
    return [next((n for n in ("two", "three") if f"Missing: {n}" in text), "") for text in texts]
