"""The cache spares transfers and is never believed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from deerflow.storage.checkpoints.hybrid import CACHED_ABOVE
from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.storage import PostgresStorage
from fakes.redis import CountedValues, cache, need_redis

__all__ = ["cache"]


class Bench:
    """Processes that share database and cache."""

    def __init__(self, place: Place, cache: CountedValues) -> None:
        self._place, self.cache = place, cache
        self.redis = need_redis()
        self._open: list[PostgresStorage] = []

    async def put(self, key: str, text: str, parent: str = "") -> str:
        """Store a checkpoint with a value; its id."""
        storage = self.process()
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"notes": text}
        checkpoint["channel_versions"] = {"notes": 1}
        config: Any = {
            "configurable": {"thread_id": key, "checkpoint_ns": "", "checkpoint_id": parent}
        }
        metadata: Any = {"source": "loop", "step": 1, "parents": {}}
        await storage.saver.aput(config, checkpoint, metadata, {"notes": 1})
        return checkpoint["id"]

    async def look(self, key: str, checkpoint_id: str = "") -> str | None:
        """The value as a new process reads it."""
        config: Any = {"configurable": {"thread_id": key, "checkpoint_id": checkpoint_id}}
        found = await self.process().saver.aget_tuple(config)
        return found and found.checkpoint["channel_values"].get("notes")

    def process(self, cache: CountedValues | None = None) -> PostgresStorage:
        """A new process."""
        self._open.append(PostgresStorage(self._place, cache=cache or self.cache))
        return self._open[-1]

    def fields(self, key: str) -> dict[bytes, bytes]:
        """What Redis holds of a thread."""
        return self.redis.hgetall(f"{self.cache.prefix}:{key}")  # type: ignore[return-value]

    async def close(self) -> None:
        """Release all."""
        for storage in self._open:
            await storage.close()
        self.redis.close()


@pytest.fixture
async def bench(place: Place, cache: CountedValues) -> AsyncIterator[Bench]:
    """An empty database and an empty cache."""
    found = Bench(place, cache)
    yield found
    await found.close()


BIG = "".join(chr(97 + n * n % 23) + str(n * 7919) for n in range(CACHED_ABOVE))


async def test_the_second_reader_gets_it_from_the_cache(bench: Bench) -> None:
    await bench.put("k", BIG)

    assert await bench.look("k") == BIG
    assert bench.cache.hits == 0
    assert await bench.look("k") == BIG
    assert bench.cache.hits == 1


async def test_small_values_never_enter_the_cache(bench: Bench) -> None:
    await bench.put("k", "x" * 1000)

    assert await bench.look("k") == "x" * 1000
    assert bench.fields("k") == {}


async def test_a_newer_checkpoint_is_seen_and_the_older_one_still_read(bench: Bench) -> None:
    first = await bench.put("k", BIG)
    assert await bench.look("k") == BIG
    await bench.put("k", BIG[::-1], first)

    assert await bench.look("k") == BIG[::-1]
    assert await bench.look("k", first) == BIG
    assert await bench.look("k") == BIG[::-1]


@pytest.mark.parametrize("poison", [b"", b"\x80\x04garbage", b"x" * 100_000])
async def test_a_poisoned_entry_is_replaced(bench: Bench, poison: bytes) -> None:
    await bench.put("k", BIG)
    assert await bench.look("k") == BIG
    (field,) = bench.fields("k")
    bench.redis.hset(f"{bench.cache.prefix}:k", field, poison)

    assert await bench.look("k") == BIG
    assert bench.fields("k")[field] != poison


async def test_an_entry_of_a_deleted_thread_is_gone_and_would_not_be_served(bench: Bench) -> None:
    storage = bench.process()
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    await bench.put(key, BIG)
    assert await bench.look(key) == BIG
    kept = bench.fields(key)
    await storage.threads.delete("ann", "t1")
    assert bench.fields(key) == {}
    bench.redis.hset(f"{bench.cache.prefix}:{key}", mapping=kept)  # type: ignore[arg-type]

    assert await bench.look(key) is None


async def test_without_redis_it_is_plain_postgres(bench: Bench) -> None:
    first = await bench.put("k", BIG)
    away = CountedValues("test:away", url="redis://127.0.0.1:1")
    storage = bench.process(away)
    found = await storage.saver.aget_tuple({"configurable": {"thread_id": "k"}})

    assert found is not None
    assert found.checkpoint["id"] == first
    assert found.checkpoint["channel_values"] == {"notes": BIG}
    await storage.saver.adelete_thread("k")
    assert await bench.look("k") is None


async def test_the_oldest_threads_are_forgotten(bench: Bench) -> None:
    few = CountedValues(bench.cache.prefix, most=2)
    for key in ("a", "b", "c"):
        few.put(key, "f", b"data")

    assert [few.get(key, "f") for key in ("a", "b", "c")] == [None, b"data", b"data"]
    assert bench.redis.ttl(f"{bench.cache.prefix}:c") > 0  # type: ignore[operator]
    few.close()
