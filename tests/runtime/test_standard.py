"""Standard mode: another server that speaks the protocol runs the graph, the log is ours.

The server here is our own gateway on a real port.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deerflow.runtime.request import RunRequest
from deerflow.storage.protocol import RunRow
from deerflow.wiring.runtime import Runtime, open_runtime
from fakes.gateway import gateway, listening
from fakes.harness import loaded, scripted_config

TODO = {"content": "Look", "status": "completed"}
SCRIPT = [
    {"calls": [{"name": "write_todos", "args": {"todos": [TODO]}}]},
    {"text": "Done."},
]


@asynccontextmanager
async def standard(home: Path, script: Any) -> AsyncGenerator[Runtime]:
    """A runtime whose runs are driven by a server that plays the script."""
    async with gateway(home / "there", script) as served, listening(served.app) as url:
        section = {"mode": "standard", "langgraph_url": f"{url}/api"}
        config = loaded(scripted_config([{"text": "never asked"}], runtime=section), home / "here")
        async with open_runtime(config, {}, durable=False) as runtime:
            yield runtime


async def run(runtime: Runtime, task: str) -> RunRow:
    """A run of thread t, ended."""
    done = await runtime.submissions.submit(RunRequest(task=task, thread_id="t", plan=True))
    return await runtime.submissions.wait(done.run.thread_key, done.run.run_id)


async def test_a_run_over_there_is_logged_and_kept_here(tmp_path: Path) -> None:
    async with standard(tmp_path, SCRIPT) as runtime:
        row = await run(runtime, "Look")
        log = await runtime.harness.storage.events.read(row.thread_key)
        thread = await runtime.harness.storage.threads.by_key(row.thread_key)
        assert thread is not None
        state = await runtime.histories.state(thread)
    assert (row.status, row.error) == ("success", None)
    kinds = [event.payload["message"]["type"] for event in log if event.type == "message"]
    assert kinds[-3:] == ["ai", "tool", "ai"]  # inputs got an id over there, and are told again
    assert kinds.count("ai") == 2
    assert [event.payload for event in log if event.type == "todos"] == [{"todos": [TODO]}]
    assert log[-1].type == "run_ended"
    assert state is not None
    assert state.values["messages"][-1].content == "Done."


async def test_an_error_over_there_is_the_end_here(tmp_path: Path) -> None:
    async with standard(tmp_path, [{"error": "auth"}]) as runtime:
        row = await run(runtime, "Look")
        log = await runtime.harness.storage.events.read(row.thread_key)
    assert row.status == "error"
    assert row.error is not None
    assert row.error["message"].startswith("The run failed: ")
    assert log[-1].type == "run_ended"
