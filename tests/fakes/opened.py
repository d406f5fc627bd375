"""An open runtime with a scripted model, as a serving process has it; runs are tasks here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from deerflow.events import Event
from deerflow.runtime.branching import Branches
from deerflow.runtime.parts import RunParts
from deerflow.runtime.request import RunRequest
from deerflow.runtime.submission import SubmitOptions
from deerflow.storage.protocol import RunRow, Storage, ThreadRow
from deerflow.wiring.parts import Given
from deerflow.wiring.runtime import Runtime, open_runtime
from fakes.harness import check_events, loaded, scripted_config

USER = "anna"


@dataclass(frozen=True)
class Service:
    """A runtime, and the short ways of tests."""

    runtime: Runtime

    @property
    def parts(self) -> RunParts:
        return self.runtime.harness.parts

    @property
    def storage(self) -> Storage:
        return self.runtime.harness.storage

    @property
    def branches(self) -> Branches:
        return Branches(self.parts, self.runtime.histories)

    async def submit(self, task: str, thread_id: str = "t", **more: Any) -> RunRow:
        """Hand in; `options` are those of SubmitOptions, the rest of RunRequest."""
        options = SubmitOptions(**more.pop("options", {}))
        request = RunRequest(task=task, thread_id=thread_id, user_id=USER, **more)
        return (await self.runtime.submissions.submit(request, options)).run

    async def finish(self, task: str, thread_id: str = "t", **more: Any) -> RunRow:
        run = await self.submit(task, thread_id, **more)
        return await self.runtime.submissions.wait(run.thread_key, run.run_id)

    async def thread(self, thread_id: str = "t") -> ThreadRow:
        found = await self.storage.threads.get(USER, thread_id)
        assert found is not None
        return found

    async def log(self, thread_id: str = "t") -> list[Event]:
        return await self.storage.events.read((await self.thread(thread_id)).thread_key)

    async def said(self, thread_id: str = "t") -> list[str]:
        """Texts of the newest state."""
        found = await self.runtime.histories.state(await self.thread(thread_id))
        return [str(m.text) for m in found.values["messages"]] if found is not None else []


@asynccontextmanager
async def opened_runtime(
    script: Any,
    home: Path,
    *,
    tools: Sequence[BaseTool] = (),
    execute: bool = True,
    durable: bool = False,
    **config: Any,
) -> AsyncGenerator[Service]:
    """An open service that plays the script; `database` chooses another store than memory."""
    whole = loaded(scripted_config(script, **config), home)
    given = Given(tools=tools)
    opened = open_runtime(whole, {}, execute=execute, given=given, durable=durable)
    async with opened as runtime:
        yield Service(runtime)
        check_events(runtime.harness)
