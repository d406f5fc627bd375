"""A server that goes away: nothing is lost, nothing is written twice, and errors are clear."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import psycopg
import pytest

from deerflow.errors import RecordError, StorageError
from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.storage import PostgresStorage
from fakes.wire import Rule, Wire


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A way to the server that can be broken."""
    found = Wire(5432)
    yield found
    found.close()


@pytest.fixture
async def storage(place: Place, wire: Wire) -> AsyncIterator[PostgresStorage]:
    """A storage whose way to the server can be broken."""
    url = place.url.replace(":5432", f":{wire.port}")
    found = PostgresStorage(replace(place, url=url, timeout=5.0))
    yield found
    wire.rule = lambda data: "pass"
    wire.mend()
    await found.close()


async def seqs(storage: PostgresStorage, key: str) -> list[tuple[int, int]]:
    """Seq and number of every event."""
    return [(e.seq, e.payload["n"]) for e in await storage.events.read(key)]


def once(word: bytes, verdict: str) -> Rule:
    """A rule for the first piece that holds a word."""
    done: list[bool] = []

    def rule(data: bytes) -> str:
        if done or word not in data:
            return "pass"
        done.append(True)
        return verdict

    return rule


@pytest.mark.parametrize("verdict", ["cut", "deafen"])
@pytest.mark.parametrize("word", [b"COMMIT", b"run_events", b"BEGIN"])
async def test_a_write_is_made_once_wherever_the_connection_breaks(
    storage: PostgresStorage, wire: Wire, word: bytes, verdict: str
) -> None:
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    await storage.events.append(key, "r1", "x", {"n": 0})
    wire.rule = once(word, verdict)

    event = await storage.events.append(key, "r1", "x", {"n": 1})

    assert event.seq == 2
    assert await seqs(storage, key) == [(1, 0), (2, 1)]


async def test_writes_and_reads_wait_for_a_server_that_restarts(
    storage: PostgresStorage, wire: Wire
) -> None:
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    wire.cut(stay=True)
    writes = [storage.events.append(key, "r1", "x", {"n": n}) for n in range(3)]
    reading = asyncio.create_task(storage.threads.run("r1"))
    asyncio.get_running_loop().call_later(0.3, wire.mend)

    assert [(await event).seq for event in writes] == [1, 2, 3]
    assert await reading is None
    assert await seqs(storage, key) == [(1, 0), (2, 1), (3, 2)]


async def test_a_server_that_stays_away_fails_every_write_and_the_storage_recovers(
    place: Place, wire: Wire
) -> None:
    url = place.url.replace(":5432", f":{wire.port}")
    storage = PostgresStorage(replace(place, url=url, timeout=0.2))
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    wire.cut(stay=True)

    with pytest.raises(StorageError, match="cannot be reached|lost") as caught:
        await storage.events.append(key, "r1", "x", {"n": 1})
    assert caught.value.retryable
    with pytest.raises(StorageError):
        await storage.threads.run("r1")
    wire.mend()
    await storage.events.append(key, "r1", "x", {"n": 2})

    assert await seqs(storage, key) == [(1, 2)]
    await storage.close()


async def test_a_terminated_backend_is_replaced(storage: PostgresStorage, place: Place) -> None:
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    for n in range(5):
        with psycopg.connect(place.url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'deerflow' AND query LIKE %s",
                (f"%{key}%",),
            )
        await storage.events.append(key, "r1", "x", {"n": n})

    assert await seqs(storage, key) == [(n + 1, n) for n in range(5)]


async def test_an_unknown_outcome_is_told_as_such(place: Place, wire: Wire) -> None:
    url = place.url.replace(":5432", f":{wire.port}")
    storage = PostgresStorage(replace(place, url=url, timeout=0.2))
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    await storage.events.append(key, "r1", "x", {"n": 0})

    def rule(data: bytes) -> str:
        if b"COMMIT" not in data:
            return "pass"
        wire.accepting = False
        return "deafen"

    wire.rule = rule
    with pytest.raises(StorageError, match="unknown"):
        await storage.events.append(key, "r1", "x", {"n": 1})
    wire.rule = lambda data: "pass"
    wire.mend()

    assert await seqs(storage, key) == [(1, 0), (2, 1)]
    await storage.close()


async def test_two_processes_append_to_one_thread_without_gap_and_without_deadlock(
    place: Place,
) -> None:
    storages = [PostgresStorage(place), PostgresStorage(place)]
    keys = [(await storages[0].threads.ensure("ann", f"t{n}")).thread_key for n in range(4)]

    async def write(storage: PostgresStorage, order: list[str]) -> None:
        for n in range(25):
            await asyncio.gather(*(storage.events.append(key, "r", "x", {"n": n}) for key in order))
            await storage.spending.add("ann", "2030-01-01", 1, {})

    await asyncio.gather(write(storages[0], keys), write(storages[1], keys[::-1]))

    for key in keys:
        assert [e.seq for e in await storages[0].events.read(key)] == list(range(1, 51))
    assert (await storages[1].spending.of("ann", "2030-01-01")).tokens == 50
    for storage in storages:
        await storage.close()


async def test_threads_are_made_once_by_whoever_is_first(place: Place) -> None:
    storages = [PostgresStorage(place) for _ in range(4)]
    rows = await asyncio.gather(
        *(storage.threads.ensure("ann", f"t{n}") for n in range(10) for storage in storages)
    )

    assert len({row.thread_key for row in rows}) == 10
    for storage in storages:
        await storage.close()


async def test_a_character_that_text_cannot_hold_fails_alone(storage: PostgresStorage) -> None:
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    results = await asyncio.gather(
        storage.events.append(key, "r1", "x", {"n": 1, "text": "a\x00b"}),
        storage.threads.ensure("ann", "t\x00"),
        storage.events.append(key, "r1", "x", {"n": 2}),
        return_exceptions=True,
    )

    assert isinstance(results[1], RecordError)
    assert "character 0" in str(results[1])
    assert await seqs(storage, key) == [(1, 1), (2, 2)]
