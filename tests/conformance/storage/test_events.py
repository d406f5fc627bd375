"""EventLog: gapless, in order, followed without loss."""

import asyncio

import pytest

from deerflow.errors import StorageError, ThreadGoneError
from deerflow.storage.protocol import Storage


async def test_an_awaited_append_gives_the_committed_event(storage: Storage, key: str) -> None:
    event = await storage.events.append(key, "r1", "notice", {"message": "hello"})

    assert (event.seq, event.type, event.run_id, event.thread_id) == (1, "notice", "r1", "t1")
    assert event.payload == {"message": "hello"}
    assert await storage.events.read(key) == [event]


async def test_unawaited_appends_keep_their_order_and_leave_no_gap(
    storage: Storage, key: str
) -> None:
    for number in range(50):
        storage.events.append(key, "r1", "notice", {"n": number})
    await storage.flush()

    events = await storage.events.read(key)

    assert [event.seq for event in events] == list(range(1, 51))
    assert [event.payload["n"] for event in events] == list(range(50))


async def test_every_thread_counts_for_itself(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("bob", "t1")).thread_key
    await storage.events.append(key, "r1", "notice", {})
    first = await storage.events.append(other, "r2", "notice", {})

    assert first.seq == 1


async def test_a_payload_is_kept_as_it_was_when_it_was_appended(storage: Storage, key: str) -> None:
    payload = {"todos": ["a"]}
    ticket = storage.events.append(key, "r1", "todos", payload)
    payload["todos"].append("b")

    assert (await ticket).payload == {"todos": ["a"]}


async def test_any_text_survives_and_a_lone_surrogate_stops_nothing(
    storage: Storage, key: str
) -> None:
    text = "范围 — 結論 \U0001f98c \x00 x" + "long " * 500
    await storage.events.append(key, "r1", "notice", {"text": text, "bad": "a\udc80b"})

    (event,) = await storage.events.read(key)

    assert event.payload == {"text": text, "bad": "a?b"}


async def test_a_payload_that_is_not_json_is_refused_at_once(storage: Storage, key: str) -> None:
    with pytest.raises(StorageError, match="not JSON"):
        storage.events.append(key, "r1", "notice", {"set": {1, 2}})


async def test_pages_of_read(storage: Storage, key: str) -> None:
    for number in range(10):
        storage.events.append(key, "r1", "notice", {"n": number})

    page = await storage.events.read(key, after=4, limit=3)

    assert [event.seq for event in page] == [5, 6, 7]


async def test_follow_gives_the_past_then_the_present(storage: Storage, key: str) -> None:
    for number in range(1200):
        storage.events.append(key, "r1", "notice", {"n": number})
    follower = storage.events.follow(key, after=3)
    seen = [(await anext(follower)).seq for _ in range(1197)]

    waiting = asyncio.create_task(anext(follower))
    event = await storage.events.append(key, "r1", "notice", {"n": "live"})

    assert seen == list(range(4, 1201))
    assert await asyncio.wait_for(waiting, 5) == event


async def test_a_follower_that_reads_late_misses_nothing(storage: Storage, key: str) -> None:
    follower = storage.events.follow(key)
    for number in range(2500):
        storage.events.append(key, "r1", "notice", {"n": number})
    await storage.flush()

    seen = [(await asyncio.wait_for(anext(follower), 5)).seq for _ in range(2500)]

    assert seen == list(range(1, 2501))


async def test_a_follower_that_was_cancelled_goes_on(storage: Storage, key: str) -> None:
    follower = storage.events.follow(key)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(follower), 0.05)
    event = await storage.events.append(key, "r1", "notice", {})

    assert await asyncio.wait_for(anext(follower), 5) == event


async def test_followers_end_with_the_thread(storage: Storage, key: str) -> None:
    await storage.events.append(key, "r1", "notice", {})
    follower = storage.events.follow(key)
    await anext(follower)
    await storage.threads.delete("ann", "t1")

    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(follower), 5)


async def test_late_appends_to_a_deleted_thread_are_refused(storage: Storage, key: str) -> None:
    await storage.threads.delete("ann", "t1")

    with pytest.raises(ThreadGoneError):
        await storage.events.append(key, "r1", "notice", {})
    assert await storage.events.read(key) == []
