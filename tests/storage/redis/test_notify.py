"""Redis alone tells; when it goes away the database is looked at, said once, until it is back."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from deerflow.storage.redis.notify import RedisNotifier
from deerflow.storage.sql.driver import Connection, SqliteFile
from deerflow.storage.sql.notifier import Polling
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqlStorage
from fakes.wire import Wire


class Blind(Polling):
    """Never sees anything in the database."""

    def poll(self, connection: Connection) -> bool:
        """See Notifier."""
        return False


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A way to Redis."""
    try:
        redis.Redis().ping()
    except redis.RedisError:
        pytest.skip("no Redis on 127.0.0.1:6379")
    found = Wire(6379)
    yield found
    found.close()


class Pair:
    """Two processes on one file, and what the second one is told by."""

    def __init__(self, path: Path, port: int) -> None:
        prepare(path)
        file, channel = SqliteFile(path), f"test:{secrets.token_hex(6)}"
        notifiers = [
            RedisNotifier(f"redis://127.0.0.1:{port}", file, Blind(), channel) for _ in range(2)
        ]
        self.writer, self.reader = (SqlStorage("sqlite", file, notifier) for notifier in notifiers)
        self.told = notifiers[1]

    async def until(self, *, up: bool) -> None:
        """Wait until the second one listens to Redis, or knows that it is away."""
        for _ in range(1000):
            if ((self.told.poll_seconds or 0) > 1) == up:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("Redis is not noticed")


@pytest.fixture
async def pair(tmp_path: Path, wire: Wire) -> AsyncIterator[Pair]:
    """Two processes that share nothing but the file and Redis."""
    found = Pair(tmp_path / "test.db", wire.port)
    yield found
    wire.mend()
    await found.reader.close()
    await found.writer.close()


async def test_redis_alone_tells(pair: Pair) -> None:
    key = (await pair.writer.threads.ensure("ann", "t1")).thread_key
    follower = pair.reader.events.follow(key)
    first = asyncio.create_task(anext(follower))
    await asyncio.wait_for(pair.until(up=True), 10)
    await pair.writer.events.append(key, "r1", "x", {})

    assert (await asyncio.wait_for(first, 5)).seq == 1


async def test_an_outage_is_said_once_and_ends(
    pair: Pair, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    key = (await pair.writer.threads.ensure("ann", "t1")).thread_key
    follower = pair.reader.events.follow(key)
    first = asyncio.create_task(anext(follower))
    await asyncio.wait_for(pair.until(up=True), 10)
    with caplog.at_level(logging.WARNING):
        wire.cut(stay=True)
        await asyncio.wait_for(pair.until(up=False), 10)
        await pair.writer.events.append(key, "r1", "x", {})
        wire.mend()
        found = await asyncio.wait_for(first, 15)  # heard when the listener is back
        await asyncio.wait_for(pair.until(up=True), 10)

    assert found.seq == 1
    assert len([r for r in caplog.records if "read from the database" in r.message]) == 1


async def test_what_was_committed_is_told_before_the_end(tmp_path: Path, wire: Wire) -> None:
    pair = Pair(tmp_path / "other.db", wire.port)
    key = (await pair.writer.threads.ensure("ann", "t1")).thread_key
    follower = pair.reader.events.follow(key)
    first = asyncio.create_task(anext(follower))
    await asyncio.wait_for(pair.until(up=True), 10)
    await pair.writer.events.append(key, "r1", "x", {})
    await pair.writer.close()

    assert (await asyncio.wait_for(first, 5)).seq == 1
    await pair.reader.close()
