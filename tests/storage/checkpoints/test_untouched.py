"""A thread that was made a moment ago is not read, and never longer than that is exact."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.storage.checkpoints.saver import DeltaSaver
from deerflow.storage.checkpoints.untouched import MOST, Untouched
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import ThreadRow
from deerflow.storage.sql.driver import SqliteFile
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage
from deerflow.storage.sql.threads import SqlThreads


class CountedReaders(Readers):
    """Readers that count."""

    reads = 0

    async def read(self, query: Any, *, scope: str | None = None) -> Any:
        """See Readers."""
        self.reads += 1
        return await super().read(query, scope=scope)


def config(key: str, ns: str = "", checkpoint_id: str = "") -> Any:
    """The place of a checkpoint."""
    return {"configurable": {"thread_id": key, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


class Bench:
    """Threads and saver of one process, and the storage of another one on the same file."""

    def __init__(self, path: Path) -> None:
        self.storage = SqliteStorage(path)
        self.other = SqliteStorage(path)
        writer = self.storage._writer
        self.readers = CountedReaders(SqliteFile(path), writer)
        self.untouched = Untouched()
        self.threads = SqlThreads(writer, self.readers, this_owner(), self.untouched)
        self.saver: Any = DeltaSaver(writer, self.readers, self.untouched)

    async def open(self, number: int = 1) -> str:
        """A new thread with its first run; its key."""
        thread = ThreadRow.new("ann", f"t{number}")
        await self.threads.open_run(thread, f"r{number}", input={}, config={})
        return thread.thread_key

    async def put(self, key: str, ns: str = "", saver: Any = None) -> str:
        """Store a checkpoint; its id."""
        checkpoint = empty_checkpoint()
        metadata: Any = {"source": "input", "step": -1, "parents": {}}
        await (saver or self.saver).aput(config(key, ns), checkpoint, metadata, {})
        return checkpoint["id"]

    async def look(self, *place: str) -> tuple[str | None, int]:
        """Id of the checkpoint that is found, and how many reads that took."""
        before = self.readers.reads
        found = await self.saver.aget_tuple(config(*place))
        return found and found.checkpoint["id"], self.readers.reads - before

    async def close(self) -> None:
        """Release all."""
        await self.readers.close()
        await self.other.close()
        await self.storage.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """On an empty file."""
    prepare(tmp_path / "test.db")
    found = Bench(tmp_path / "test.db")
    yield found
    await found.close()


async def test_a_new_thread_is_not_read(bench: Bench) -> None:
    key = await bench.open()

    for place in ((key,), (key, "child:1"), (key, "", "some-id")):
        assert await bench.look(*place) == (None, 0)


async def test_a_thread_that_was_only_ensured_is_read(bench: Bench) -> None:
    row: ThreadRow = await bench.threads.ensure("ann", "t1")
    await bench.threads.start_run(row.thread_key, "r1", input={}, config={})

    assert await bench.look(row.thread_key) == (None, 1)


@pytest.mark.parametrize("ns", ["", "child:1"])
async def test_the_first_checkpoint_is_seen_at_once(bench: Bench, ns: str) -> None:
    key = await bench.open()
    stored = await bench.put(key, ns)  # an input: queued and not yet durable

    assert await bench.look(key, ns) == (stored, 1)
    assert await bench.look(key, "child:2") == (None, 1)


async def test_a_branch_goes_off_from_what_is_stored(bench: Bench) -> None:
    key = await bench.open()
    first = await bench.put(key)
    checkpoint = empty_checkpoint()
    await bench.saver.aput(
        config(key, "", first), checkpoint, {"source": "fork", "step": 0, "parents": {}}, {}
    )

    assert await bench.look(key) == (checkpoint["id"], 1)
    assert await bench.look(key, "", first) == (first, 1)


async def test_writes_alone_make_the_thread_read(bench: Bench) -> None:
    key = await bench.open()
    await bench.saver.aput_writes(config(key, "", "c"), [("messages", [])], "task-1")

    assert await bench.look(key) == (None, 1)


async def test_a_copy_into_the_thread_is_seen(bench: Bench) -> None:
    source, target = await bench.open(1), await bench.open(2)
    stored = await bench.put(source)
    await bench.saver.acopy_thread(source, target)

    assert await bench.look(target) == (stored, 1)


async def test_a_deleted_thread_is_read(bench: Bench) -> None:
    key, emptied = await bench.open(1), await bench.open(2)
    await bench.threads.delete("ann", "t1")
    await bench.saver.adelete_thread(emptied)

    assert await bench.look(key) == (None, 1)
    assert await bench.look(emptied) == (None, 1)


async def test_a_thread_that_another_process_deleted_stays_empty(bench: Bench) -> None:
    key = await bench.open()
    await bench.other.threads.delete("ann", "t1")

    assert await bench.look(key) == (None, 0)
    for saver in (bench.saver, bench.other.saver):
        await bench.put(key, saver=saver)
    for writer in (bench.storage, bench.other):
        with pytest.raises(ThreadGoneError):
            await writer.events.append(key, "r1", "x", {})
    assert await bench.look(key) == (None, 1)


async def test_what_another_process_puts_after_the_run_is_seen(bench: Bench) -> None:
    key = await bench.open()
    with pytest.raises(ConflictError, match="active"):
        await bench.other.threads.start_run(key, "r2", input={}, config={})
    with pytest.raises(ConflictError, match="active"):
        await bench.other.threads.reopen_run(key, "r1")
    assert await bench.look(key) == (None, 0)

    await bench.threads.end_run("r1", status="error", outcome=None)
    await bench.other.threads.start_run(key, "r2", input={}, config={})
    stored = await bench.put(key, saver=bench.other.saver)
    await bench.other.flush()

    assert await bench.look(key) == (stored, 1)


async def test_the_end_of_another_run_changes_nothing(bench: Bench) -> None:
    first, second = await bench.open(1), await bench.open(2)
    ended = bench.threads.end_run("r1", status="cancelled", outcome=None)

    assert await bench.look(first) == (None, 1)  # before the end is durable
    assert await bench.look(second) == (None, 0)
    await ended


async def test_a_refused_opening_leaves_nothing_behind(bench: Bench) -> None:
    key = await bench.open()
    late = ThreadRow.new("ann", "t1")
    assert await bench.threads.open_run(late, "r2", input={}, config={}) is None
    taken = ThreadRow.new("ann", "t2")
    with pytest.raises(ConflictError):
        await bench.threads.open_run(taken, "r1", input={}, config={})
    lost = ThreadRow.new("ann", "t3")
    task = asyncio.create_task(bench.threads.open_run(lost, "r3", input={}, config={}))
    await asyncio.sleep(0)  # it runs up to where it waits for the writer
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    for thread in (late, taken, lost):
        assert await bench.look(thread.thread_key) == (None, 1)
    assert await bench.look(key) == (None, 0)


async def test_the_oldest_are_forgotten(bench: Bench) -> None:
    keys = [await bench.open(number) for number in range(MOST + 1)]

    assert await bench.look(keys[0]) == (None, 1)
    for key in keys[1:]:
        assert await bench.look(key) == (None, 0)
