"""A server that is stopped under load: every write once, followers gapless."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.schema import prepare
from deerflow.storage.postgres.storage import PostgresStorage
from fakes.servers import PrivateServer, private_server

WRITERS = 4


@pytest.fixture
def server() -> Iterator[PrivateServer]:
    """A server of the test's own."""
    with private_server() as found:
        yield found


async def written(storage: PostgresStorage, key: str, name: str, count: int) -> list[Any]:
    """Append one event after the other."""
    return [await storage.events.append(key, name, "x", {"n": n}) for n in range(count)]


async def followed(storage: PostgresStorage, key: str, count: int) -> list[int]:
    """Seqs that a follower sees."""
    seen: list[int] = []
    async for event in storage.events.follow(key):
        seen.append(event.seq)
        if len(seen) == count:
            break
    return seen


async def test_a_restart_loses_nothing_and_doubles_nothing(
    server: PrivateServer, scale: Any
) -> None:
    place, each = Place(server.url), scale(60, 2000)
    await asyncio.to_thread(prepare, place)
    storages = [PostgresStorage(place) for _ in range(2)]
    key = (await storages[0].threads.ensure("ann", "t1")).thread_key
    writers = [
        asyncio.create_task(written(storage, key, f"r{number}{at}", each))
        for number, storage in enumerate(storages)
        for at in range(WRITERS)
    ]
    total = each * len(writers)
    following = asyncio.create_task(followed(storages[1], key, total))
    for _ in range(scale(1, 5)):
        await storages[0].events.append(key, "restarts", "x", {})
        total += 1
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
    acknowledged = [event for writer in writers for event in await writer]
    seen = await asyncio.wait_for(following, 60)
    events = [page async for page in _log(storages[0], key)]
    for storage in storages:
        await storage.close()

    assert [event.seq for event in events] == list(range(1, total + 1))
    assert {(e.seq, e.run_id, e.payload["n"]) for e in acknowledged} == {
        (e.seq, e.run_id, e.payload["n"]) for e in events if e.run_id != "restarts"
    }
    assert seen == list(range(1, len(seen) + 1))


async def _log(storage: PostgresStorage, key: str) -> Any:
    after = 0
    while page := await storage.events.read(key, after=after):
        for event in page:
            yield event
        after = page[-1].seq
