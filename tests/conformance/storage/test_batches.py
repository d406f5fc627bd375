"""Batches: created once, each item claimed by one, free again when its owner is dead."""

import asyncio
from dataclasses import replace

import pytest

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import BatchRow, Storage


def batch(key: str, total: int = 3) -> BatchRow:
    """A batch of ann's thread t1."""
    return BatchRow("b1", "ann", key, "r1", total, 5.5, {"template": "do {item}", "n": [1]})


async def made(storage: Storage, key: str, count: int = 3) -> None:
    """A batch of so many items."""
    await storage.batches.create(batch(key, count), [f'"{n}"' for n in range(count)])


async def states(storage: Storage) -> list[tuple[str, int]]:
    """Status and attempts of each item."""
    return [(item.status, item.attempts) for item in await storage.batches.items("b1")]


async def test_a_batch_comes_back_as_it_was(storage: Storage, key: str) -> None:
    row = batch(key, 2)

    assert await storage.batches.create(row, ['"a"', '{"x": 1}']) == row
    assert await storage.batches.get("b1") == row
    assert await storage.batches.get("b2") is None
    found = await storage.batches.items("b1")
    assert [(i.batch_id, i.index, i.item, i.status, i.attempts) for i in found] == [
        ("b1", 0, '"a"', "pending", 0),
        ("b1", 1, '{"x": 1}', "pending", 0),
    ]
    assert {(item.result, item.owner) for item in found} == {(None, "")}


async def test_creating_twice_is_creating_once(storage: Storage, key: str) -> None:
    await made(storage, key)
    await storage.batches.settle("b1", 0, "done", "1")

    again = await storage.batches.create(replace(batch(key), total=9), ["x"] * 9)

    assert again == batch(key)
    assert await storage.batches.counts("b1") == {"done": 1, "pending": 2}


async def test_creating_at_once_is_creating_once(storage: Storage, key: str) -> None:
    await asyncio.gather(*(made(storage, key) for _ in range(5)))

    assert await storage.batches.counts("b1") == {"pending": 3}


async def test_an_id_of_another_thread_is_refused(storage: Storage, key: str) -> None:
    await made(storage, key)
    other = (await storage.threads.ensure("bob", "t1")).thread_key

    with pytest.raises(ConflictError, match="another thread"):
        await storage.batches.create(replace(batch(other), user_id="bob"), ["x"])


async def test_claims_are_in_order_and_counted(storage: Storage, key: str) -> None:
    await made(storage, key, 5)

    first = await storage.batches.claim("b1", 2)
    second = await storage.batches.claim("b1", 9)

    assert [item.index for item in first] == [0, 1]
    assert [item.index for item in second] == [2, 3, 4]
    assert {(i.status, i.attempts, i.owner) for i in first + second} == {
        ("running", 1, this_owner())
    }
    assert await storage.batches.items("b1") == first + second
    assert await storage.batches.claim("b1", 9) == []
    assert await storage.batches.claim("unknown", 9) == []


async def test_claims_at_once_share_nothing(storage: Storage, key: str) -> None:
    await made(storage, key, 40)

    claims = await asyncio.gather(*(storage.batches.claim("b1", 3) for _ in range(10)))

    taken = [item.index for claim in claims for item in claim]
    assert len(taken) == len(set(taken)) == 30


async def test_settling(storage: Storage, key: str) -> None:
    await made(storage, key, 4)
    await storage.batches.claim("b1", 4)
    storage.batches.settle("b1", 0, "done", '"fine"')
    storage.batches.settle("b1", 1, "failed", '"why"')
    storage.batches.settle("b1", 2, "waiting")
    await storage.batches.settle("b1", 3, "pending")

    found = await storage.batches.items("b1")
    assert [(item.status, item.result, item.owner) for item in found] == [
        ("done", '"fine"', ""),
        ("failed", '"why"', ""),
        ("waiting", None, ""),
        ("pending", None, ""),
    ]
    assert await storage.batches.counts("b1") == {
        "done": 1,
        "failed": 1,
        "waiting": 1,
        "pending": 1,
    }
    again = await storage.batches.claim("b1", 4)
    assert [(item.index, item.attempts) for item in again] == [(3, 2)]


async def test_a_done_item_stays_done_and_a_failed_one_may_be_tried_again(
    storage: Storage, key: str
) -> None:
    await made(storage, key, 2)
    storage.batches.settle("b1", 0, "done", "1")
    storage.batches.settle("b1", 1, "failed", "2")
    for index in (0, 1):
        await storage.batches.settle("b1", index, "pending", "late")

    first, second = await storage.batches.items("b1")
    assert (first.status, first.result) == ("done", "1")
    assert second.status == "pending"


async def test_what_is_settled_unawaited_is_seen_at_once(storage: Storage, key: str) -> None:
    await made(storage, key, 2)
    storage.batches.settle("b1", 1, "done", "1")

    assert await storage.batches.counts("b1") == {"done": 1, "pending": 1}


async def test_settling_what_is_not_there(storage: Storage, key: str) -> None:
    await made(storage, key, 2)

    for index in (-1, 2):
        with pytest.raises(NotFoundError, match="no item"):
            await storage.batches.settle("b1", index, "done", "1")
    with pytest.raises(ThreadGoneError):
        await storage.batches.settle("unknown", 0, "done", "1")


@pytest.mark.parametrize("text", ["", "x" * 50_000, "a\x00b", "\U0001f98c" * 5000])
async def test_texts_come_back_as_they_were(storage: Storage, key: str, text: str) -> None:
    await storage.batches.create(batch(key, 1), [text])
    await storage.batches.settle("b1", 0, "done", text)

    (item,) = await storage.batches.items("b1")
    assert (item.item, item.result) == (text, text)


async def test_lone_surrogates_do_not_stop_a_batch(storage: Storage, key: str) -> None:
    await storage.batches.create(batch(key, 2), ["\ud800", "b"])
    await storage.batches.settle("b1", 0, "done", "\udfff")

    found = await storage.batches.items("b1")
    assert [(item.item, item.result) for item in found] == [("?", "?"), ("b", None)]


async def test_pages_of_items(storage: Storage, key: str) -> None:
    await made(storage, key, 7)

    async def page(after: int, limit: int) -> list[int]:
        found = await storage.batches.items("b1", after=after, limit=limit)
        return [item.index for item in found]

    assert await page(-1, 3) == [0, 1, 2]
    assert await page(2, 3) == [3, 4, 5]
    assert await page(5, 3) == [6]
    assert await page(6, 3) == []
    assert await storage.batches.items("unknown") == []
    assert await storage.batches.counts("unknown") == {}


async def test_reopening_frees_my_own_and_the_waiting(storage: Storage, key: str) -> None:
    await made(storage, key, 5)
    await storage.batches.claim("b1", 4)
    await storage.batches.settle("b1", 0, "done", "1")
    await storage.batches.settle("b1", 1, "failed", "1")
    await storage.batches.settle("b1", 2, "waiting")

    assert await storage.batches.reopen("b1") == 2
    assert await states(storage) == [
        ("done", 1), ("failed", 1), ("pending", 1), ("pending", 1), ("pending", 0)
    ]  # fmt: skip
    assert await storage.batches.reopen("b1") == 0
    assert await storage.batches.reopen("unknown") == 0


async def test_the_items_of_a_dead_process_are_free_again(dead: Storage) -> None:
    key = (await dead.threads.ensure("ann", "t1")).thread_key
    await made(dead, key)
    await dead.batches.claim("b1", 2)

    assert await dead.batches.reopen("b1") == 2
    assert await states(dead) == [("pending", 1), ("pending", 1), ("pending", 0)]


async def test_they_go_with_their_thread(storage: Storage, key: str) -> None:
    await made(storage, key)
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    await storage.batches.create(replace(batch(other, 1), batch_id="b2"), ["x"])
    await storage.batches.claim("b1", 1)
    await storage.threads.delete("ann", "t1")

    assert await storage.batches.get("b1") is None
    assert await storage.batches.items("b1") == []
    assert await storage.batches.claim("b1", 3) == []
    assert await storage.batches.reopen("b1") == 0
    with pytest.raises(ThreadGoneError):
        await storage.batches.settle("b1", 0, "done", "1")
    with pytest.raises(ThreadGoneError):
        await storage.batches.create(batch(key), ["x"])
    assert await storage.batches.counts("b2") == {"pending": 1}


async def test_a_large_batch(storage: Storage, key: str) -> None:
    items = [f"{number} " * 400 for number in range(10_000)]
    await storage.batches.create(batch(key, len(items)), items)

    found = await storage.batches.items("b1", after=9_997)
    assert [item.item for item in found] == items[9_998:]
    assert [item.index for item in await storage.batches.claim("b1", 4)] == [0, 1, 2, 3]
    assert await storage.batches.counts("b1") == {"running": 4, "pending": 9_996}
