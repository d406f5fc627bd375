"""The queue of memories: coalesced per thread, one claim per user, nothing lost."""

import asyncio
from dataclasses import replace

import pytest

from deerflow.errors import StorageError, ThreadGoneError
from deerflow.storage.protocol import QueuedExchange, Storage


def entry(key: str, id: str, at: float = 100.0, user: str = "ann") -> QueuedExchange:
    """An exchange of thread t1."""
    return QueuedExchange(id, user, "t1", key, {"user": f"words of {id}"}, at)


async def put(storage: Storage, *entries: QueuedExchange) -> None:
    """Queue with the ordinary times."""
    for each in entries:
        await storage.memory_queue.enqueue(each, debounce=30.0, ceiling=120.0)


async def claim(storage: Storage, now: float = 0.0, user: str | None = None) -> list[str]:
    """Ids of a claim; without a time whatever there is."""
    found = await storage.memory_queue.claim(now=now, user_id=user, force=not now)
    return [each.entry_id for each in found]


async def test_an_entry_comes_back_as_it_was(storage: Storage, key: str) -> None:
    one = replace(entry(key, "e1", 100.25), payload={"user": "hi", "deep": [1, None, {"a": "b"}]})
    await put(storage, one)

    assert await storage.memory_queue.claim(now=131.0) == [replace(one, attempts=1)]


async def test_it_is_due_after_the_debounce(storage: Storage, key: str) -> None:
    await put(storage, entry(key, "e1"))

    assert await storage.memory_queue.next_due() == 130.0
    assert await claim(storage, 129.9) == []
    assert await claim(storage, 130.0) == ["e1"]


async def test_each_entry_moves_its_whole_thread_up_to_the_ceiling(
    storage: Storage, key: str
) -> None:
    due = list[float | None]()
    for number in range(7):
        await put(storage, entry(key, f"e{number}", 100.0 + 20 * number))
        due.append(await storage.memory_queue.next_due())

    assert due == [130.0, 150.0, 170.0, 190.0, 210.0, 220.0, 220.0]
    assert await claim(storage, 219.0) == []
    assert await claim(storage, 220.0) == [f"e{number}" for number in range(7)]


async def test_entries_that_come_in_the_wrong_order(storage: Storage, key: str) -> None:
    await put(storage, entry(key, "new", 200.0), entry(key, "old", 150.0))

    assert await storage.memory_queue.next_due() == 230.0
    assert await claim(storage, 230.0) == ["old", "new"]


async def test_claimed_entries_do_not_count_for_new_ones(storage: Storage, key: str) -> None:
    await put(storage, entry(key, "e1"))
    assert await claim(storage) == ["e1"]
    await put(storage, entry(key, "e2", 300.0))

    assert await storage.memory_queue.next_due() == 330.0
    await storage.memory_queue.complete(["e1"])
    assert await claim(storage, 330.0) == ["e2"]


async def test_the_same_id_is_queued_once(storage: Storage, key: str) -> None:
    await put(storage, entry(key, "e1"), replace(entry(key, "e1", 200.0), payload={}))

    assert await storage.memory_queue.pending() == 1
    assert await storage.memory_queue.next_due() == 130.0
    (found,) = await storage.memory_queue.claim(now=130.0)
    assert found.payload == {"user": "words of e1"}


async def test_one_group_of_a_user_at_a_time(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    bobs = (await storage.threads.ensure("bob", "t1")).thread_key
    await put(
        storage,
        entry(key, "e1", 100.0),
        entry(other, "e2", 101.0),
        entry(bobs, "e3", 102.0, "bob"),
        entry(key, "e4", 103.0),
    )

    assert await claim(storage, 500.0) == ["e2"]
    assert await claim(storage, 500.0) == ["e3"]
    assert await claim(storage) == []
    await storage.memory_queue.complete(["e2"])
    assert await claim(storage, 500.0) == ["e1", "e4"]
    assert await storage.memory_queue.pending() == 3


async def test_claims_at_once_share_no_user(storage: Storage) -> None:
    for user in "abcde":
        for thread in ("t1", "t2"):
            key = (await storage.threads.ensure(user, thread)).thread_key
            await put(storage, entry(key, f"{user}-{thread}", user=user))

    claims = await asyncio.gather(*(claim(storage) for _ in range(20)))

    assert sorted(found[0][0] for found in claims if found) == list("abcde")


async def test_narrowed_to_a_user(storage: Storage, key: str) -> None:
    bobs = (await storage.threads.ensure("bob", "t1")).thread_key
    await put(storage, entry(key, "e1", 100.0), entry(bobs, "e2", 200.0, "bob"))

    assert await storage.memory_queue.pending() == 2
    assert await storage.memory_queue.pending("bob") == 1
    assert await storage.memory_queue.pending("eve") == 0
    assert await storage.memory_queue.next_due() == 130.0
    assert await storage.memory_queue.next_due("bob") == 230.0
    assert await storage.memory_queue.next_due("eve") is None
    assert await claim(storage, 200.0, "bob") == []
    assert await claim(storage, user="eve") == []
    assert await claim(storage, user="bob") == ["e2"]
    assert await storage.memory_queue.next_due("bob") is None


async def test_what_is_given_back_is_due_again(storage: Storage, key: str) -> None:
    await put(storage, entry(key, "e1"), entry(key, "e2"))
    assert await claim(storage) == ["e1", "e2"]
    await storage.memory_queue.release(["e1", "e2"], due_at=900.0)

    assert await storage.memory_queue.next_due() == 900.0
    assert await claim(storage, 899.0) == []
    again = await storage.memory_queue.claim(now=900.0)
    assert [(each.entry_id, each.attempts) for each in again] == [("e1", 2), ("e2", 2)]


async def test_completing_and_releasing_what_is_not_there(storage: Storage, key: str) -> None:
    await put(storage, entry(key, "e1"))
    await storage.memory_queue.complete(["nothing"])
    await storage.memory_queue.complete([])
    await storage.memory_queue.release(["nothing"], due_at=1.0)
    await storage.memory_queue.release([], due_at=1.0)

    assert await storage.memory_queue.pending() == 1


async def test_the_claims_of_a_dead_process_are_free_again(dead: Storage) -> None:
    key = (await dead.threads.ensure("ann", "t1")).thread_key
    await put(dead, entry(key, "e1"))

    for attempts in (1, 2, 3):
        (found,) = await dead.memory_queue.claim(now=500.0)
        assert (found.entry_id, found.attempts) == ("e1", attempts)


async def test_text_that_no_encoding_has(storage: Storage, key: str) -> None:
    await put(storage, replace(entry(key, "e1"), payload={"user": "a\x00b \ud800"}))

    (found,) = await storage.memory_queue.claim(now=0.0, force=True)
    assert found.payload == {"user": "a\x00b ?"}


async def test_a_payload_that_is_no_json_is_refused_at_once(storage: Storage, key: str) -> None:
    with pytest.raises(StorageError, match="not JSON"):
        storage.memory_queue.enqueue(
            replace(entry(key, "e1"), payload={"user": object()}), debounce=1.0, ceiling=2.0
        )


async def test_they_go_with_their_thread(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    await put(storage, entry(key, "e1"), entry(other, "e2", 200.0))
    assert await claim(storage) == ["e1"]
    await storage.threads.delete("ann", "t1")

    assert await storage.memory_queue.pending() == 1
    await storage.memory_queue.release(["e1"], due_at=1.0)
    with pytest.raises(ThreadGoneError):
        await put(storage, entry(key, "e3"))
    assert await claim(storage) == ["e2"], "the deleted claim blocks its user no more"
