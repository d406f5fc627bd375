"""The log of a whole run as a golden file, and each event as its documentation says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.prebuilt import ToolRuntime

from deerflow.agent.context import RunContext
from deerflow.cli.run import as_line
from deerflow.runtime.request import RunRequest
from fakes.documented import check_payload
from fakes.harness import scripted_harness

PATH = "/mnt/user-data/outputs/hello.md"
TODOS = [{"content": "Write", "status": "completed"}]
USAGE = {"input": 100, "output": 20}
SCRIPT = [
    {
        "text": "I write the file.",
        "calls": [
            {"name": "write_file", "args": {"path": PATH, "content": "# Deer\n"}},
            {"name": "calculator", "args": {"expression": "6*7"}},
            {"name": "no_such_tool", "args": {}},
        ],
        "usage": USAGE,
    },
    {"calls": [{"name": "write_todos", "args": {"todos": TODOS}}], "usage": USAGE},
    {"calls": [{"name": "deliver", "args": {}}], "usage": USAGE},
    {"calls": [{"name": "present_files", "args": {"paths": [PATH]}}], "usage": USAGE},
    {"text": "hello.md is there.", "usage": USAGE},
]
IDENT = re.compile(r"\b(?:ai-|in-)?[0-9a-f]{32}\b")


@tool
async def deliver(runtime: ToolRuntime[RunContext, Any]) -> str:
    """Write the deliverable on the disk, which files of the in-memory sandbox never reach."""
    folder = runtime.context.folders.outputs
    await asyncio.to_thread(folder.mkdir, parents=True)
    await asyncio.to_thread((folder / "hello.md").write_text, "# Deer\n")
    return "There."


async def lines(home: Path, script: Any, task: str, **request: Any) -> list[dict[str, Any]]:
    """The events of a run as `--json` prints them."""
    async with scripted_harness(script, home, tools=[deliver]) as harness:
        handle = await harness.runs.start(RunRequest(task=task, thread_id="t", **request))
        await handle.result()
        return [as_line(event) async for event in handle.events()]


def normalised(events: list[dict[str, Any]]) -> str:
    """JSON lines with ids numbered in order of appearance, and without times."""
    text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
    text = re.sub(r'"created_at": "[^"]+"', '"created_at": "TIME"', text)
    text = re.sub(r'"at": [\d.e+]+', '"at": 0', text)
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        bare = match[0].removeprefix("ai-").removeprefix("in-")
        known = numbers.setdefault(bare, f"ID{len(numbers) + 1}")
        return match[0].replace(bare, known)

    return IDENT.sub(number, text)


async def test_the_events_of_a_run_are_the_golden_file(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    events = await lines(tmp_path, SCRIPT, "Write a note about deer into hello.md")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert str(tmp_path) not in json.dumps(events)
    golden("run_events.jsonl", normalised(events))


async def test_every_event_has_the_fields_that_its_documentation_names(tmp_path: Path) -> None:
    ask = {"name": "ask_clarification", "args": {"question": "Which?", "options": ["a"]}}
    error = [{"error": "server"}, {"text": "Back."}]
    quick = {"retry_base_delay_ms": 1, "retry_cap_delay_ms": 1}
    events = await lines(tmp_path / "1", SCRIPT, "Write a note about deer into hello.md")
    events += await lines(tmp_path / "2", [{"calls": [ask]}], "Choose")
    events += await lines(tmp_path / "3", SCRIPT, "Go", max_turns=1)
    async with scripted_harness(error, tmp_path / "4", llm_call=quick) as harness:
        handle = await harness.runs.start(RunRequest(task="Go"))
        await handle.result()
        events += [as_line(event) async for event in handle.events()]
    for event in events:
        check_payload(event["type"], event["payload"])
    assert {event["type"] for event in events} >= {"question", "guard", "model_retry", "artifacts"}
