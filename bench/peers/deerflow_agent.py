# peer: deerflow venv=.venv
"""Ours as a library: every row of the list, SQLite, durability sync, the lean model."""

import asyncio
import contextlib
import os
import tempfile
import uuid
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from common import Peer, call, count_tool, main, newconv, prompt, rid_

EVERYTHING = {
    "token_budget": {"enabled": True, "max_tokens": 10**9, "user_day": 10**12},
    "tool_search": {"enabled": True},
    "guardrails": {
        "enabled": True,
        "provider": {
            "use": "allowlist",
            "config": {
                "rules": [{"tools": ["bash"], "args": {"command": "rm *"}, "decision": "ask"}]
            },
        },
    },
}
"""Switches on what is off by default, so that all 26 rows have something to do."""


class P(Peer):
    name = os.environ.get("BENCH_PEER", "deerflow")
    use = os.environ.get("BENCH_USE", "deerflow.models.openai:OpenAIChatModel")

    def imports(self):
        """Timed: what a program imports before it can open a harness."""
        self.load = import_module("deerflow.config.load")
        self.schema = import_module("deerflow.config.schema")
        self.request = import_module("deerflow.runtime.request")
        self.wiring = import_module("deerflow.wiring.harness")
        self.make_tool = import_module("langchain_core.tools").tool

    def versions(self):
        return {k: version(k) for k in ("deerflow", "langchain", "langchain-core", "langgraph")}

    async def build(self, base):
        @self.make_tool
        async def bench_add(a: int, b: int) -> str:
            """Add two integers."""
            count_tool()
            return str(a + b)

        self.home = Path(tempfile.mkdtemp())
        extra = {"use_responses_api": False} if "langchain_openai" in self.use else {}
        model = {"name": "mock", "use": self.use, "model": self.model, "base_url": base}
        config = self.schema.AppConfig.model_validate(
            {"models": [{**model, "api_key": "x", **extra}], **EVERYTHING}
        )
        skill = self.home / "skills" / "public" / "count-deer" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: count-deer\ndescription: Counts deer.\n---\nLook twice.\n")
        loaded = self.load.LoadedConfig(
            config=config, path=None, warnings=(), source_sha256="", home=self.home, cwd=self.home
        )
        self.stack = contextlib.AsyncExitStack()
        harness = await self.stack.enter_async_context(
            self.wiring.open_harness(loaded, dict(os.environ), tools=[bench_add])
        )
        await harness.agents.graph("mock")
        return harness

    def conv(self, agent):
        return uuid.uuid4().hex

    async def run(self, agent, conv, prompt):
        handle = await agent.runs.start(self.request.RunRequest(task=prompt, thread_id=conv))
        return (await handle.result()).text

    async def stream(self, agent, conv, prompt, on):
        handle = await agent.runs.start(self.request.RunRequest(task=prompt, thread_id=conv))

        async def follow():
            async for delta in handle.deltas():
                on(delta.text)

        reader = asyncio.create_task(follow())
        await handle.result()
        reader.cancel()

    async def close(self, agent):
        await self.stack.aclose()

    async def grow(self, base, turns):
        def size():
            for f in self.home.rglob("*.db"):
                c = import_module("pysqlite3").connect(f)
                c.execute("pragma wal_checkpoint(truncate)")
                c.close()
            return sum(f.stat().st_size for f in (self.home / "data").rglob("*") if f.is_file())

        agent = await self.build(base)
        await call(self, agent, await newconv(self, agent), prompt(self, "TEXT 5", rid_()))
        before, conv = size(), await newconv(self, agent)
        for _ in range(turns):
            await call(self, agent, conv, prompt(self, "TOOLS 1 100", rid_()))
        return {"bytes": size() - before, "turns": turns}


main(P())
