"""Runs of a lead with children: stories of a scripted model, and what is left of the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from deerflow.events import Event
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import Harness
from fakes.harness import SCRIPTED, scripted_harness

USAGE = {"input": 100, "output": 10}


def task(prompt: str, kind: str = "general-purpose", **more: Any) -> dict[str, Any]:
    """A call of the tool `task`."""
    args = {"description": f"do {prompt[:20]}", "prompt": prompt, "subagent_type": kind}
    return {"name": "task", "args": args | more}


def says(text: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A turn that is paid for."""
    return {"text": text, "calls": list(calls), "usage": USAGE, **more}


@dataclass
class Played:
    """What is left of a run."""

    result: RunResult
    events: list[Event]
    state: dict[str, Any]

    def of(self, *types: str) -> list[dict[str, Any]]:
        """Payloads of the events of these types, in order."""
        return [event.payload for event in self.events if event.type in types]

    @property
    def answers(self) -> list[ToolMessage]:
        """Results of the lead's `task` calls in order."""
        return [m for m in self.result.messages if isinstance(m, ToolMessage) and m.name == "task"]


async def played(harness: Harness, text: str = "script:lead go", **more: Any) -> Played:
    """One run in thread "t" to its end."""
    handle = await harness.runs.start(RunRequest(task=text, thread_id="t", **more))
    result = await handle.result()
    events = [event async for event in handle.events()]
    return Played(result, events, await state_of(harness))


async def state_of(harness: Harness) -> dict[str, Any]:
    """The state of thread "t"."""
    thread = await harness.storage.threads.get("local", "t")
    assert thread is not None
    graph = await harness.agents.graph("scripted")
    state = await graph.aget_state({"configurable": {"thread_id": thread.thread_key}})
    return dict(state.values)


def model(stories: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A model that tells stories by transcript, so that children do not take each other's turns."""
    return {
        "name": "scripted",
        "use": SCRIPTED,
        "script": stories,
        "follow": "transcript",
        **more,
    }


async def family(
    home: Path, stories: dict[str, Any], *, tools: tuple[BaseTool, ...] = (), **sections: Any
) -> Played:
    """A run of the story "lead" in a harness of its own."""
    models = sections.pop("models", [model(stories)])
    async with scripted_harness([], home, tools=tools, models=models, **sections) as harness:
        return await played(harness)
