"""The end of a run is written once, whatever happens meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deerflow.agent.context import RunContext
from deerflow.runtime.parts import RunParts
from deerflow.runtime.request import RunRequest
from deerflow.runtime.runs import RunHandle, Runs
from deerflow.wiring.stores import thread_folders
from fakes.harness import scripted_harness


async def test_a_stop_that_comes_while_the_end_is_written_changes_nothing(tmp_path: Path) -> None:
    handles: list[RunHandle] = []

    def usage(_: RunContext) -> dict[str, Any]:
        handles[0].cancel()  # asked for in the middle of writing the end
        return {}

    async with scripted_harness([{"text": "Four."}], tmp_path) as harness:
        parts = RunParts(
            config=harness.loaded.config,
            storage=harness.storage,
            provider=harness.provider,
            catalog=harness.catalog,
            agent=harness.agents,
            folders=thread_folders(harness.loaded),
            usage=usage,
            profile=harness.agents.profile,
        )
        handles.append(await Runs(parts).start(RunRequest(task="What is 2 + 2?")))
        result = await handles[0].result()
        events = [event async for event in handles[0].events()]
    assert (result.status, result.text) == ("success", "Four.")
    ends = [event.payload["status"] for event in events if event.type == "run_ended"]
    assert ends == ["success"]
