"""Prints how long a batch takes: 16 items, 4 at once, a model that answers after 300 ms.

    python bench/task_batch.py [times]      # batches to measure, 5 by default

The children ask the mock model server of the folder beside the project (`--peers` of run.py);
without that folder a scripted model waits as long. SQLite, every row of the list, the isolated
sandbox. The figure is the wall time of the tool call, by the times of its two events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from deerflow.config.load import LoadedConfig
from deerflow.config.schema import AppConfig
from deerflow.runtime.request import RunRequest
from deerflow.wiring.harness import Harness, open_harness

ITEMS, AT_ONCE, LATENCY_MS = 16, 4, 300
IDEAL = ITEMS / AT_ONCE * LATENCY_MS / 1000
TARGET = 1.15 * IDEAL
SERVER = Path(__file__).resolve().parent.parent.parent / "shared" / "bench" / "server.py"
SCRIPTED = "deerflow.models.scripted:ScriptedChatModel"


def stories(items: int) -> dict[str, Any]:
    """The lead calls the tool once; a child answers at once (after the latency)."""
    args = {
        "items": [f"number {n}" for n in range(items)],
        "prompt_template": "script:child TEXT 20 about {item}",
    }
    answer = {"text": "lorem " * 20, "delay_ms": LATENCY_MS}
    return {"lead": [{"calls": [{"name": "task_batch", "args": args}]}, "Done."], "child": [answer]}


@contextlib.asynccontextmanager
async def mock() -> AsyncGenerator[dict[str, Any] | None]:
    """The model of the children at the mock server, None where there is no server."""
    server = Path(os.environ.get("BENCH_SERVER", SERVER))
    if not await asyncio.to_thread(server.exists):
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(server), "--port", str(port), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        base = f"http://127.0.0.1:{port}/lat/{LATENCY_MS}/v1"
        use = "deerflow.models.openai:OpenAIChatModel"
        yield {"name": "child", "use": use, "model": "m", "base_url": base, "api_key": "x"}
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def opened(home: Path, child: dict[str, Any] | None) -> AsyncGenerator[Harness]:
    """A harness whose lead is scripted."""
    script = {"use": SCRIPTED, "script": stories(ITEMS), "follow": "transcript"}
    kind = {"general-purpose": {"model": "child"}}
    config = AppConfig.model_validate(
        {
            "models": [{"name": "lead", **script}, child or {"name": "child", **script}],
            "subagents": {"agents": kind},
            "batch": {"concurrency": AT_ONCE},
            "memory": {"enabled": False},
        }
    )
    loaded = LoadedConfig(
        config=config, path=None, warnings=(), source_sha256="", home=home, cwd=home
    )
    async with open_harness(loaded, dict(os.environ)) as harness:
        yield harness


async def one(harness: Harness, number: int) -> tuple[float, float]:
    """Wall and CPU seconds of one batch."""
    cpu = time.process_time()
    request = RunRequest(task="script:lead go", thread_id=f"t{number}")
    handle = await harness.runs.start(request)
    at: dict[str, float] = {}
    text = ""
    async for event in handle.events():
        if event.type in ("tool_started", "tool_completed"):
            at[event.type] = event.created_at
        if event.type == "message" and event.payload["message"]["type"] == "tool":
            text = event.payload["message"]["content"]
    assert text.startswith(f"{ITEMS} items: {ITEMS} done, 0 failed"), text
    return at["tool_completed"] - at["tool_started"], time.process_time() - cpu


async def main(times: int = 5) -> dict[str, Any]:
    """Measure, print and store."""
    with tempfile.TemporaryDirectory(prefix="deerflow-bench-") as home:
        async with mock() as child, opened(Path(home), child) as harness:
            first, _ = await one(harness, 0)
            found = [await one(harness, number) for number in range(1, times + 1)]
    walls = [wall for wall, _ in found]
    result = {
        "model": "mock server" if child else "scripted",
        "wall_s": round(statistics.median(walls), 3),
        "best_s": round(min(walls), 3),
        "first_s": round(first, 3),
        "cpu_ms_per_item": round(statistics.median(cpu for _, cpu in found) / ITEMS * 1000, 1),
        "target_s": round(TARGET, 3),
    }
    print(
        f"task_batch, {ITEMS} items of {LATENCY_MS} ms, {AT_ONCE} at once ({result['model']}): "
        f"{result['wall_s']:.3f} s (target {TARGET:.2f}, ideal {IDEAL:.2f}), best "
        f"{result['best_s']:.3f}, first of a process {result['first_s']:.3f} · "
        f"CPU {result['cpu_ms_per_item']:.1f} ms an item"
    )
    target = Path(__file__).parent / "results"
    target.mkdir(exist_ok=True)
    text = json.dumps(result)
    await asyncio.to_thread((target / "task_batch.json").write_text, text, encoding="utf-8")
    return result


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
