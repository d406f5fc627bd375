"""The client: chat, threads, files, memory, approvals, goals and models of one user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deerflow import DeerFlowClient
from deerflow.errors import NotFoundError, UsageError
from deerflow.runtime.request import RunRequest
from fakes.harness import scripted_config, scripted_harness

WRITE = {
    "calls": [
        {
            "name": "write_file",
            "args": {"path": "/mnt/user-data/outputs/out.md", "content": "hi"},
        }
    ]
}
OFF: dict[str, Any] = {"memory": {"enabled": False}}


@asynccontextmanager
async def client(home: Path, *turns: Any, **sections: Any) -> AsyncGenerator[DeerFlowClient]:
    config = scripted_config(list(turns), **{**OFF, **sections})
    async with DeerFlowClient(config, home=home) as opened:
        yield opened


async def test_chat_and_what_is_left_of_it(tmp_path: Path) -> None:
    async with client(tmp_path, "Hi.", "Again.") as opened:
        assert (await opened.chat("Hello", thread_id="t")).text == "Hi."
        assert (await opened.chat("Hello?", thread_id="t")).text == "Again."
        [thread] = await opened.threads.list()
        messages = await opened.threads.messages("t")
        events = await opened.threads.events("t", after=2, limit=3)
    assert (thread.thread_id, thread.title) == ("t", "Hello")
    assert [m["content"] for m in messages] == ["Hello", "Hi.", "Hello?", "Again."]
    assert [event.seq for event in events] == [3, 4, 5]


async def test_a_stream_ends_with_the_run(tmp_path: Path) -> None:
    async with client(tmp_path, "Hi.") as opened:
        types = [event.type async for event in opened.stream("Hello")]
    assert types[-1] == "run_ended"


async def test_threads_are_made_renamed_and_deleted(tmp_path: Path) -> None:
    async with client(tmp_path, "Hi.") as opened:
        await opened.threads.create("new", {"colour": "red"})
        assert (await opened.threads.get("new")).metadata == {"colour": "red"}
        assert (await opened.threads.rename("new", "Deer")).title == "Deer"
        await opened.threads.delete("new")
        for work in (opened.threads.get("new"), opened.threads.delete("new")):
            with pytest.raises(NotFoundError, match="no thread 'new'"):
                await work


async def test_files_in_and_out(tmp_path: Path) -> None:
    note = tmp_path / "my note.txt"
    note.write_text("hello")
    async with client(tmp_path / "home", WRITE, "Done.", sandbox={"use": "host"}) as opened:
        [path] = await opened.uploads.add("t", [note])
        await opened.chat("Write out.md", thread_id="t")
        uploads = await opened.uploads.list("t")
        artifacts = await opened.artifacts.list("t")
        data = await opened.artifacts.read("t", "out.md")
        same = await opened.artifacts.read("t", artifacts[0].path)
        for name in ("no.md", "../uploads/my note.txt", "/etc/passwd"):
            with pytest.raises(NotFoundError):
                await opened.artifacts.read("t", name)
        with pytest.raises(UsageError):
            await opened.uploads.add("t", [tmp_path / "missing"])
    assert [upload.path for upload in uploads] == [path]
    assert (data, same) == (b"hi", b"hi")


async def test_a_link_in_outputs_is_no_artifact(tmp_path: Path) -> None:
    async with client(tmp_path, WRITE, "Done.", sandbox={"use": "host"}) as opened:
        await opened.chat("Write out.md", thread_id="t")
        [artifact] = await opened.artifacts.list("t")
        (artifact.host.parent / "link.md").symlink_to("/etc/passwd")
        assert await opened.artifacts.list("t") == [artifact]
        with pytest.raises(NotFoundError):
            await opened.artifacts.read("t", "link.md")


async def test_the_models(tmp_path: Path) -> None:
    async with client(tmp_path) as opened:
        assert [spec.name for spec in opened.models.list()] == ["scripted"]


async def test_memory_off_says_so(tmp_path: Path) -> None:
    async with client(tmp_path) as opened:
        with pytest.raises(UsageError, match=r"Memory is off.*memory\.enabled"):
            await opened.memory.show()


async def test_memory_through_the_client(tmp_path: Path) -> None:
    async with client(tmp_path, memory={"enabled": True}) as opened:
        fact = await opened.memory.add("Likes red deer.", category="preference")
        await opened.memory.change(fact.id, content="Likes roe deer.")
        [found] = await opened.memory.search("roe")
        exported = await opened.memory.export()
        await opened.memory.forget(found.id)
        assert await opened.memory.search("roe") == []
        await opened.memory.undo()
        assert [f.content for f in await opened.memory.search("roe")] == ["Likes roe deer."]
        assert await opened.memory.clear()
        assert (await opened.memory.show()).current == ()
        report = await opened.memory.take_in(exported)
    assert report.facts >= 1


async def test_goals_are_set_and_cleared(tmp_path: Path) -> None:
    async with client(tmp_path, "Hi.") as opened:
        await opened.threads.create("t")
        assert await opened.goals.get("t") is None
        await opened.goals.set("t", "Find all deer.")
        goal = await opened.goals.get("t")
        assert goal is not None
        assert (goal["objective"], goal["status"]) == ("Find all deer.", "active")
        await opened.goals.clear("t")
        cleared = await opened.goals.get("t")
        assert cleared is None or cleared["status"] != "active"
        with pytest.raises(UsageError, match="goal is empty"):
            await opened.goals.set("t", " ")


async def test_a_closed_client_says_so(tmp_path: Path) -> None:
    closed = DeerFlowClient(scripted_config(["x"]), home=tmp_path)
    with pytest.raises(UsageError, match="async with DeerFlowClient"):
        await closed.chat("Hi")


async def test_two_clients_over_one_harness_never_meet(tmp_path: Path) -> None:
    async with scripted_harness(["Hi."], tmp_path, **OFF) as harness:
        ann, bob = (DeerFlowClient.over(harness, user) for user in ("ann", "bob"))
        await (await harness.runs.start(RunRequest("Hi", thread_id="t", user_id="ann"))).result()
        assert [row.thread_id for row in await ann.threads.list()] == ["t"]
        assert await bob.threads.list() == []
        for work in (bob.threads.messages("t"), bob.artifacts.list("t"), bob.resume("t")):
            with pytest.raises(NotFoundError, match="no thread 't'"):
                await work


async def test_an_open_client_is_not_opened_again(tmp_path: Path) -> None:
    async with client(tmp_path, "Hi.") as opened:
        with pytest.raises(UsageError, match="open already"):
            await opened.__aenter__()
        assert (await opened.chat("Hello")).text == "Hi."


async def test_all_that_waits_is_listed(tmp_path: Path) -> None:
    asked = {"calls": [{"name": "ls", "args": {"path": f"/mnt/user-data/{n}"}} for n in range(101)]}
    rules = {"rules": [{"tools": "ls", "decision": "ask"}]}
    guard = {"enabled": True, "provider": {"use": "allowlist", "config": rules}}
    async with client(tmp_path, asked, guardrails=guard) as opened:
        await opened.chat("Look.", thread_id="t")
        assert len(await opened.approvals.list()) == 101


async def test_a_waiter_of_a_resume_that_is_cancelled_stops_it(tmp_path: Path) -> None:
    slow = {"text": "word " * 400, "gap_ms": 20}
    async with client(tmp_path, slow, slow) as opened:
        thread = await opened.threads.create("t")
        stores = opened._desk.harness.storage  # pyright: ignore[reportPrivateUsage]
        asked = aiter(stores.events.follow(thread.thread_key, after=0))
        for start in (opened.chat("Speak.", thread_id="t"), opened.resume("t")):
            task = asyncio.create_task(start)
            while (await anext(asked)).type != "model_started":
                pass
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        ended = [e for e in await opened.threads.events("t") if e.type == "run_ended"]
        assert [e.payload["status"] for e in ended] == ["cancelled", "cancelled"]
