"""The writer: order, groups, and what a failure does to neighbours and checkpoints."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ConflictError, StorageError
from deerflow.storage.follow import Hub
from deerflow.storage.protocol import CallKey
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import SqliteFile, connect
from deerflow.storage.sql.notifier import Polling
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage
from deerflow.storage.sql.writer import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A prepared file with a table of notes."""
    prepare(tmp_path / "test.db")
    connection = connect(tmp_path / "test.db")
    connection.execute("CREATE TABLE notes (n INTEGER PRIMARY KEY, batch INTEGER)")
    connection.close()
    return tmp_path / "test.db"


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    """A writer on the file."""
    found = Writer(SqliteFile(path), Hub(), Polling())
    yield found
    await found.close()


def note(n: int) -> Any:
    """An operation that writes n."""

    def work(batch: Batch) -> int:
        batch.connection.execute("INSERT INTO notes VALUES (?, ?)", (n, id(batch)))
        return n

    return work


def refuse(batch: Batch) -> None:
    """An operation that writes and then fails."""
    batch.connection.execute("INSERT INTO notes VALUES (1000, 0)")
    raise ConflictError("no")


def pragma(text: str) -> Any:
    """An operation that changes a setting of the connection."""

    def work(batch: Batch) -> None:
        batch.connection.execute(f"PRAGMA {text}").fetchall()

    return work


def stored(path: Path) -> list[int]:
    """The notes."""
    connection = connect(path)
    found = [row[0] for row in connection.execute("SELECT n FROM notes ORDER BY n").fetchall()]
    connection.close()
    return found


async def test_parallel_callers_share_a_commit(writer: Writer, path: Path) -> None:
    await asyncio.gather(*(writer.submit(note(n)) for n in range(100)))

    connection = connect(path)
    batches = connection.execute("SELECT count(DISTINCT batch) FROM notes").fetchone()[0]
    connection.close()
    assert batches == 1


async def test_a_failure_takes_no_neighbour_along(writer: Writer, path: Path) -> None:
    tickets = [writer.submit(work) for work in (note(1), refuse, note(2), note(1), note(3))]
    results = await asyncio.gather(*tickets, return_exceptions=True)

    assert [type(result) for result in results] == [
        int, ConflictError, int, StorageError, int,
    ]  # fmt: skip
    assert stored(path) == [1, 2, 3]


async def test_a_broken_operation_fails_alone_and_the_writer_lives(
    writer: Writer, path: Path
) -> None:
    def broken(batch: Batch) -> None:
        batch.connection.execute("INSERT INTO notes VALUES (?, 0)", (2**70,))

    def typed(batch: Batch) -> None:
        batch.connection.execute("INSERT INTO notes VALUES (?, ?)", (7, "\udc80"))

    tickets = [writer.submit(work) for work in (note(1), broken, typed, note(2))]
    results = await asyncio.gather(*tickets, return_exceptions=True)

    assert [type(result) for result in results] == [int, StorageError, StorageError, int]
    assert "cannot be stored: OverflowError" in str(results[1])
    assert stored(path) == [1, 2]


async def test_unawaited_work_is_committed_all_the_same(writer: Writer, path: Path) -> None:
    ticket = writer.submit(note(1))
    await ticket.settled()

    assert stored(path) == [1]


async def test_close_commits_what_waits(path: Path) -> None:
    writer = Writer(SqliteFile(path), Hub(), Polling())
    for n in range(10):
        writer.submit(note(n))
    await writer.finish()
    await writer.close()

    assert stored(path) == list(range(10))
    with pytest.raises(StorageError, match="closed"):
        await writer.submit(note(11))


async def test_an_unawaited_failure_warns_nobody_and_is_raised_by_the_next_flush(
    writer: Writer,
) -> None:
    writer.submit(refuse, scope="thread")
    with pytest.raises(ConflictError):
        await writer.flush()
    await writer.flush()  # told once
    gc.collect()


async def test_an_unawaited_failure_stops_the_next_guarded_work_of_its_thread_alone(
    writer: Writer, path: Path
) -> None:
    writer.submit(refuse, scope="a")
    other = writer.submit(note(1), scope="b", guarded=True)
    guarded = writer.submit(note(2), scope="a", guarded=True)
    with pytest.raises(ConflictError):
        await guarded
    await other
    await writer.submit(note(3), scope="a", guarded=True)
    await writer.flush()

    assert stored(path) == [1, 3]


async def test_a_failure_that_was_awaited_late_is_owed_to_nobody_else(writer: Writer) -> None:
    ticket = writer.submit(refuse, scope="a")
    await ticket.settled()
    with pytest.raises(ConflictError):
        await ticket
    await writer.submit(note(1), scope="a", guarded=True)
    await writer.flush()


async def test_a_ticket_may_be_awaited_again_and_from_another_loop(writer: Writer) -> None:
    ticket = writer.submit(note(1))
    assert await ticket == 1
    assert await ticket == 1
    seen: list[int] = []

    async def elsewhere() -> None:
        seen.append(await ticket)
        seen.append(await writer.submit(note(2)))

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await asyncio.to_thread(thread.join)

    assert seen == [1, 2]


async def test_a_cancelled_waiter_does_not_undo_the_work(writer: Writer, path: Path) -> None:
    async def wait() -> None:
        await writer.submit(note(1))

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await writer.flush()

    assert stored(path) == [1]


@pytest.mark.parametrize(
    ("setting", "undo", "message"),
    [
        ("max_page_count=1", "max_page_count=1000000", "disk is full"),
        ("query_only=1", "query_only=0", "read-only"),
    ],
)
async def test_a_full_or_read_only_disk_fails_every_waiter_and_half_writes_nothing(
    path: Path, setting: str, undo: str, message: str
) -> None:
    storage = SqliteStorage(path)
    writer = storage._writer  # pyright: ignore[reportPrivateUsage]
    thread = await storage.threads.ensure("ann", "t1")
    key = thread.thread_key
    await writer.submit(pragma(setting))
    big = {"text": "".join(chr(300 + n * 7919 % 5000) for n in range(50_000))}

    results = await asyncio.gather(
        storage.events.append(key, "r1", "notice", big),
        storage.journal.tool_started(CallKey(key, "r1", "", "m1", 0), "bash"),
        storage.events.append(key, "r1", "notice", big),
        return_exceptions=True,
    )
    storage.events.append(key, "r1", "notice", big)
    with pytest.raises(StorageError, match=message):
        await storage.flush()
    writer._connection.execute(f"PRAGMA {undo}")  # pyright: ignore[reportPrivateUsage]

    failed = [result for result in results if isinstance(result, StorageError)]
    assert any(message in str(error) for error in failed)
    assert all(error.code == "storage_error" for error in failed)
    event = await storage.events.append(key, "r1", "notice", {"after": True})
    events = await storage.events.read(key)
    assert [e.seq for e in events] == list(range(1, event.seq + 1))
    await storage.close()


async def test_a_damaged_file_is_told_in_clear_words(path: Path) -> None:
    storage = SqliteStorage(path)
    await storage.threads.ensure("ann", "t1")
    await storage.close()
    with path.open("r+b") as file:  # a small file of the test
        file.seek(100)
        file.write(b"\xff" * 1900)

    with pytest.raises(StorageError, match="damaged|not an SQLite"):
        prepare(path)
