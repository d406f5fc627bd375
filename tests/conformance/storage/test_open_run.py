"""A thread that is made together with its first run."""

from dataclasses import replace
from typing import Any

import pytest

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.storage.protocol import RunRow, Storage, ThreadRow

EVENT: tuple[str, dict[str, Any]] = ("run_started", {"input": "x"})


async def open_run(storage: Storage, thread: ThreadRow, run_id: str) -> RunRow | None:
    """Open a run with its first event."""
    return await storage.threads.open_run(
        thread, run_id, input={"task": "x"}, config={"model": "m"}, event=EVENT
    )


async def written(storage: Storage, thread: ThreadRow, run_id: str) -> bool:
    """Whether anything of an attempt is there."""
    run = await storage.threads.run(run_id)
    return run is not None or bool(await storage.events.read(thread.thread_key))


async def test_thread_run_and_event_are_there_at_once(storage: Storage) -> None:
    thread = ThreadRow.new("ann", "t1", {"graph": "lead"})
    run = await open_run(storage, thread, "r1")

    assert run is not None
    assert (run.status, run.input, run.config) == ("running", {"task": "x"}, {"model": "m"})
    assert await storage.threads.run("r1") == run
    assert await storage.threads.active_run(thread.thread_key) == run
    found = await storage.threads.get("ann", "t1")
    busy = replace(thread, status="busy", updated_at=run.created_at, last_seq=1)
    assert found == busy
    events = await storage.events.read(thread.thread_key)
    assert [(e.seq, e.type, e.payload, e.thread_id) for e in events] == [(1, *EVENT, "t1")]


async def test_the_thread_goes_on_like_any_other(storage: Storage) -> None:
    thread = ThreadRow.new("ann", "t1")
    await open_run(storage, thread, "r1")
    with pytest.raises(ConflictError, match="active"):
        await storage.threads.start_run(thread.thread_key, "r2", input={}, config={})
    await storage.threads.end_run("r1", status="success", outcome=None)
    await storage.threads.start_run(thread.thread_key, "r2", input={}, config={})

    assert [run.run_id for run in await storage.threads.runs(thread.thread_key)] == ["r2", "r1"]


@pytest.mark.parametrize("active", [False, True])
async def test_a_thread_that_exists_is_left_alone(storage: Storage, key: str, active: bool) -> None:
    if active:
        await storage.threads.start_run(key, "r1", input={}, config={})
    before = await storage.threads.get("ann", "t1")
    thread = ThreadRow.new("ann", "t1")

    assert await open_run(storage, thread, "r2") is None
    assert await storage.threads.list("ann") == [before]
    assert not await written(storage, thread, "r2")
    assert await storage.events.read(key) == []


async def test_another_user_may_have_a_thread_of_this_id(storage: Storage, key: str) -> None:
    thread = ThreadRow.new("bob", "t1")
    assert await open_run(storage, thread, "r1") is not None

    (ann,), (bob,) = [await storage.threads.list(user) for user in ("ann", "bob")]
    assert (ann.thread_key, ann.status) == (key, "idle")
    assert (bob.thread_key, bob.status) == (thread.thread_key, "busy")


async def test_a_thread_is_made_again_after_its_deletion(storage: Storage, key: str) -> None:
    await storage.threads.delete("ann", "t1")
    again = ThreadRow.new("ann", "t1")
    with pytest.raises(ConflictError, match="key"):
        await open_run(storage, replace(again, thread_key=key), "r1")
    assert await storage.threads.get("ann", "t1") is None
    assert await storage.threads.run("r1") is None

    assert await open_run(storage, again, "r1") is not None
    assert again.thread_key != key
    with pytest.raises(ThreadGoneError):
        await storage.threads.start_run(key, "r2", input={}, config={})


async def test_a_refused_run_makes_no_thread(storage: Storage, key: str) -> None:
    await storage.threads.start_run(key, "r1", input={}, config={})
    thread = ThreadRow.new("ann", "t2")
    with pytest.raises(ConflictError, match="exists"):
        await open_run(storage, thread, "r1")
    with pytest.raises(ConflictError, match="key"):
        await open_run(storage, replace(thread, thread_key=key), "r2")

    assert [row.thread_key for row in await storage.threads.list("ann")] == [key]
    assert not await written(storage, thread, "r2")
    assert await storage.events.read(key) == []
    assert await open_run(storage, thread, "r2") is not None
