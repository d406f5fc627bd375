"""Nothing of a served conversation blocks the event loop: files, locks, waits go to threads."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from blockbuster import BlockingError, blockbuster_ctx

from deerflow.config.load import load_config
from fakes.gateway import gateway, listening, until
from fakes.harness import SCRIPTED
from fakes.papers import pdf
from fakes.sandboxes import SMALL

OUT = "/mnt/user-data/outputs"
FACTS = {"text": json.dumps({"facts": [{"content": "Lives in Oslo.", "confidence": 0.9}]})}
KERNEL = {"io.TextIOWrapper.read": ("sandbox/cgroup.py", "_count")}
"""Counters of the kernel: they are in memory."""
LONG = "Thank you, that was good to read. Tell me more of it please. " * 40
SKILL = """---
name: survey
description: How a survey is made.
---
Ask ten people.
"""
WORK: list[dict[str, Any]] = [
    {"calls": [{"name": "load_skill", "args": {"name": "survey"}}]},
    {
        "calls": [
            {"name": "bash", "args": {"command": f"ls /mnt/user-data/uploads > {OUT}/list.txt"}},
            {"name": "ls", "args": {"path": "/mnt/user-data/uploads"}},
            {"name": "calculator", "args": {"expression": "6*7"}},
        ]
    },
    {"calls": [{"name": "write_file", "args": {"path": f"{OUT}/a.md", "content": "# A\n"}}]},
    {"calls": [{"name": "read_file", "args": {"path": f"{OUT}/a.md"}}]},
    {
        "calls": [
            {
                "name": "str_replace",
                "args": {"path": f"{OUT}/a.md", "old_str": "# A", "new_str": "# B"},
            },
            {"name": "write_todos", "args": {"todos": [{"content": "x", "status": "completed"}]}},
        ]
    },
    {"calls": [{"name": "bash", "args": {"command": "seq 1 20000; sleep 2 & sleep 0.1"}}]},
    {"calls": [{"name": "present_files", "args": {"filepaths": [f"{OUT}/a.md"]}}]},
    {"text": "All done."},
]


def sections() -> dict[str, Any]:
    return {
        "models": [
            {
                "name": "lead",
                "use": SCRIPTED,
                "context_window": 8000,
                "script": [*WORK, *[{"text": LONG}] * 9],
            },
            {
                "name": "writer",
                "use": SCRIPTED,
                "script": [{"text": "**State**: on.", "times": 99}],
            },
            {"name": "extractor", "use": SCRIPTED, "script": [{**FACTS, "times": 99}]},
        ],
        "database": {"backend": "sqlite"},
        "sandbox": {"use": "local", "limits": SMALL},
        "summarization": {"model_name": "writer"},
        "memory": {"backend_config": {"model_name": "extractor", "debounce_seconds": 0}},
        "uploads": {"auto_convert_documents": True},
    }


async def stream(client: httpx.AsyncClient, text: str) -> str:
    """A run from its request to the end of its stream."""
    body = {
        "assistant_id": "lead_agent",
        "input": {"messages": [{"role": "user", "content": text}]},
        "stream_mode": ["values", "messages-tuple", "updates"],
    }
    async with client.stream("POST", "/api/threads/t/runs/stream", json=body) as answer:
        assert answer.status_code == 200
        return "".join([piece async for piece in answer.aiter_text()])


async def journey(client: httpx.AsyncClient) -> None:
    """What a person does: sends files, asks, reads along, looks around, asks on, deletes."""
    await client.post("/api/threads", json={"thread_id": "t"})
    files = [("files", ("notes.txt", b"hello")), ("files", ("paper.pdf", pdf("One page")))]
    assert (await client.post("/api/threads/t/uploads", files=files)).status_code == 200
    said = await stream(client, "Make a survey of my files.")
    assert "All done." in said
    for number in range(6):
        await stream(client, f"Part {number}. I live in Oslo. {LONG}")
    paths = (
        "/api/threads/t",
        "/api/threads/t/state",
        "/api/threads/t/messages",
        "/api/threads/t/runs",
        "/api/threads/t/artifacts/mnt/user-data/outputs/a.md",
        "/api/threads/t/uploads/limits",
        "/api/threads/t/token-usage",
        "/api/memory",
        "/api/models",
        "/api/skills",
        "/api/features",
        "/api/console/stats",
        "/health",
        "/ready",
        "/metrics",
    )
    for path in paths:
        answer = await client.get(path)
        assert answer.status_code == 200, (path, answer.text)

    async def remembered() -> bool:
        return "Oslo" in (await client.get("/api/memory")).text

    await until(remembered)
    assert (await client.delete("/api/threads/t")).status_code < 300


@contextmanager
def watched() -> Iterator[None]:
    """Every call of ours that can block the loop fails; so does what it belongs to."""
    with blockbuster_ctx("deerflow") as watch:
        for name in ("os.stat", "os.path.abspath"):
            watch.functions[name].deactivate()  # 2 us in our own home, a thread costs 60
        for name, (file, function) in KERNEL.items():
            watch.functions[name].can_block_in(file, {function})
        yield


async def test_nothing_blocks_the_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "private"
    home.mkdir(mode=0o700)
    skill = home / "skills" / "public" / "survey"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    seen: Counter[str] = Counter()
    with caplog.at_level(logging.WARNING):
        async with gateway(home, durable=True, **sections()) as served:
            storage = served.harness.storage
            storage.listen(lambda events, _: seen.update(event.type for event in events))
            async with (
                listening(served.app) as url,
                httpx.AsyncClient(base_url=url, timeout=60) as client,
            ):
                with watched():
                    await journey(client)
    assert [record.getMessage() for record in caplog.records] == []
    assert seen["tool_completed"] >= 10
    assert seen["compacted"] > 0
    assert seen["memory_queued"] > 0
    assert seen["run_ended"] == 7


async def test_the_watch_sees_what_blocks(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("models: []\n")
    with watched(), pytest.raises(BlockingError):
        load_config(file, environ={}, cwd=tmp_path)
