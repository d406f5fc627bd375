"""A process that works on a batch and may kill itself in the middle of it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

import deerflow
import fakes
from deerflow.models.scripted import ScriptedChatModel
from deerflow.runtime.request import RunRequest
from deerflow.wiring.harness import Harness, open_harness
from fakes.harness import loaded, scripted_config

THREAD = "t"
ITEMS = "/mnt/user-data/uploads/items.jsonl"
TASK = "script:lead Work on the list."
STORIES: dict[str, list[dict[str, Any]]] = {
    "lead": [
        {
            "calls": [
                {
                    "name": "task_batch",
                    "args": {"items": ITEMS, "prompt_template": "script:child Item {name}."},
                }
            ],
            "usage": {"input": 100, "output": 1},
        },
        {"text": "All items are done.", "usage": {"input": 100, "output": 1}},
    ],
    "child": [
        {
            "calls": [{"name": "mark", "args": {"place": "ITEM"}}],
            "usage": {"input": 10, "output": 1},
        },
        {"text": "Answer for ITEM", "usage": {"input": 10, "output": 1}},
    ],
}


@dataclass
class Outside:
    """What lies outside of the process: a ledger per kind of line.

    Attributes:
        home: DEER_FLOW_HOME; the ledgers are there too.
        die_at: kill the process at this mark, 0 never.
    """

    home: Path
    die_at: int = 0
    marks: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    def write(self, ledger: str, **line: Any) -> None:
        """Append one line, whole or not at all."""
        text = json.dumps({"pid": os.getpid(), **line}) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        file = os.open(self.home / f"{ledger}.jsonl", flags, 0o600)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def read(self, ledger: str) -> list[dict[str, Any]]:
        """Lines of a ledger, oldest first."""
        file = self.home / f"{ledger}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]

    async def mark(self, place: str) -> str:
        """Leave a mark outside."""
        await asyncio.sleep(self.dice.uniform(0, 0.004))
        self.write("marks", place=place)
        self.marks += 1
        if self.marks == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(self.dice.uniform(0, 0.004))
        return f"marked {place}"

    @property
    def tools(self) -> list[BaseTool]:
        """The tool `mark`, whose effect must not happen twice."""
        return [StructuredTool.from_function(coroutine=self.mark, name="mark")]


class ItemModel(ScriptedChatModel):
    """A scripted model that puts the asked item into its turns and notes each request.

    Attributes:
        outside: where they are noted.
    """

    outside: Any = None

    def _take(self, messages: Any, kwargs: Any) -> Any:
        turn = super()._take(messages, kwargs)
        asked = next(m.text for m in reversed(messages) if m.type == "human")
        item = re.findall(r"Item (\w+)\.", asked)
        if not item:
            return turn
        self.outside.write("requests", item=item[0], turn=turn.number)
        calls = tuple(call.model_copy(update={"args": {"place": item[0]}}) for call in turn.calls)
        text = turn.text.replace("ITEM", item[0])
        return turn.model_copy(update={"text": text, "calls": calls})


@asynccontextmanager
async def batch_harness(outside: Outside, **sections: Any) -> AsyncGenerator[Harness]:
    """A harness on SQLite with the stories and the tool."""
    model = {
        "name": "scripted",
        "use": f"{__name__}:{ItemModel.__name__}",
        "script": STORIES,
        "follow": "transcript",
        "outside": outside,
    }
    given: dict[str, Any] = {"database": {"backend": "sqlite"}, **sections}
    config = scripted_config([], models=[model], **given)
    opened = open_harness(loaded(config, outside.home), {}, tools=outside.tools)
    async with opened as harness:
        yield harness


async def work(home: str, die_at: int, resume: bool) -> None:
    """Run the task, or go on with it, until the process dies."""
    outside = Outside(Path(home), die_at)
    async with batch_harness(outside, sandbox={"use": "local"}) as harness:
        await (await harness.runs.start(request(outside.home, resume=resume))).result()


def request(home: Path, *, resume: bool) -> RunRequest:
    """What the process is asked."""
    if resume:
        return RunRequest(thread_id=THREAD, resume=True)
    return RunRequest(task=TASK, thread_id=THREAD, uploads=(home / "items.jsonl",))


async def dies(home: Path, die_at: int, *, resume: bool = False) -> bool:
    """Work in a process of its own; whether it died of SIGKILL."""
    folders = [str(Path(package.__path__[0]).parent) for package in (fakes, deerflow)]
    code = (
        f"import sys, asyncio; sys.path[:0] = {folders}; from {__name__} import work; "
        f"asyncio.run(work({str(home)!r}, {die_at}, {resume}))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    return await process.wait() == -signal.SIGKILL
