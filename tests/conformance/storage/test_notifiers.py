"""Followers in another process see everything once and in order, whatever tells them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from deerflow.storage.postgres.storage import PostgresStorage
from deerflow.storage.protocol import Delta
from deerflow.storage.redis.notify import redis_bridge
from deerflow.storage.sql.notifier import Bridge
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage, SqlStorage
from fakes.postgres import emptied
from fakes.wire import Wire

REDIS = 6379
KINDS = ("sqlite", "postgres", "sqlite+redis", "postgres+redis")
Opened = Callable[[], SqlStorage]


class Bench:
    """Storages of several processes on one database, and the way that can be broken."""

    def __init__(self, open_one: Opened, wires: list[Wire]) -> None:
        self._open = open_one
        self._wires = wires
        self.storages: list[SqlStorage] = []

    def storage(self) -> SqlStorage:
        """One more process."""
        found = self._open()
        self.storages.append(found)
        return found

    def break_ways(self) -> None:
        """Cut what tells; nothing comes through until `mend`."""
        for wire in self._wires:
            wire.cut(stay=True)

    def mend(self) -> None:
        """Let it through again."""
        for wire in self._wires:
            wire.mend()


@pytest.fixture(params=KINDS)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A database with each notifier in turn."""
    wires: list[Wire] = []
    found = Bench(_opener(request, wires), wires)
    yield found
    found.mend()
    for storage in found.storages:
        await storage.close()
    for wire in wires:
        wire.close()


def _opener(request: pytest.FixtureRequest, wires: list[Wire]) -> Opened:
    backend, _, told = request.param.partition("+")
    bridge: Bridge | None = None
    if told:
        wires.append(_redis_wire())
        url, channel = f"redis://127.0.0.1:{wires[0].port}", f"test:{secrets.token_hex(6)}"
        bridge = redis_bridge(url, None, channel)
    if backend == "sqlite":
        path: Path = request.getfixturevalue("tmp_path") / "test.db"
        prepare(path)
        return lambda: SqliteStorage(path, bridge=bridge)
    place = emptied(request.getfixturevalue("shared_schema"))
    if not told:
        wires.append(Wire(5432))
        place = replace(place, url=place.url.replace(":5432", f":{wires[0].port}"))
    return lambda: PostgresStorage(place, bridge=bridge)


def _redis_wire() -> Wire:
    try:
        redis.Redis(port=REDIS).ping()
    except redis.RedisError:
        pytest.skip("no Redis on 127.0.0.1:6379")
    return Wire(REDIS)


async def collect(storage: SqlStorage, key: str, count: int) -> list[int]:
    """Seqs that a follower sees."""
    seen: list[int] = []
    async for event in storage.events.follow(key):
        seen.append(event.seq)
        if len(seen) == count:
            return seen
    return seen


async def test_events_of_another_process_come_once_and_in_order(bench: Bench) -> None:
    writer, reader = bench.storage(), bench.storage()
    key = (await writer.threads.ensure("ann", "t1")).thread_key
    following = asyncio.create_task(collect(reader, key, 60))
    for _ in range(30):
        await writer.events.append(key, "r1", "x", {})
        await reader.events.append(key, "r1", "x", {})

    assert await asyncio.wait_for(following, 10) == list(range(1, 61))


async def test_events_across_an_outage_come_once_and_in_order(bench: Bench) -> None:
    writer, reader = bench.storage(), bench.storage()
    key = (await writer.threads.ensure("ann", "t1")).thread_key
    following = asyncio.create_task(collect(reader, key, 15))
    for _ in range(5):
        await writer.events.append(key, "r1", "x", {})
    bench.break_ways()
    writes = [writer.events.append(key, "r1", "x", {}) for _ in range(5)]
    asyncio.get_running_loop().call_later(0.2, bench.mend)
    for written in writes:
        await written
    for _ in range(5):
        await writer.events.append(key, "r1", "x", {})

    assert await asyncio.wait_for(following, 20) == list(range(1, 16))


async def test_deltas_of_another_process_come_whole_and_anew_when_dropped(bench: Bench) -> None:
    writer, reader = bench.storage(), bench.storage()
    key = (await writer.threads.ensure("ann", "t1")).thread_key
    follower = reader.deltas.follow(key)

    async def text(length: int) -> str:
        found = ""
        while len(found) < length:
            delta = await asyncio.wait_for(anext(follower), 10)
            assert delta.offset == len(found)
            found += delta.text
        return found

    for n in range(20):
        await writer.deltas.append(key, Delta("r1", "m1", n, chr(97 + n)))
    assert await text(20) == "abcdefghijklmnopqrst"
    await writer.deltas.finish("r1", "m1")
    await writer.deltas.append(key, Delta("r1", "m2", 0, "xyz"))
    assert await text(3) == "xyz"


async def test_the_end_of_a_thread_ends_followers_in_other_processes(bench: Bench) -> None:
    writer, reader = bench.storage(), bench.storage()
    key = (await writer.threads.ensure("ann", "t1")).thread_key
    await writer.events.append(key, "r1", "x", {})
    follower = reader.events.follow(key)
    assert (await anext(follower)).seq == 1
    await writer.threads.delete("ann", "t1")

    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(follower), 10)
