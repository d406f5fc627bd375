"""What several processes do to the same rows at once comes out as if one had come first."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.storage import PostgresStorage
from deerflow.storage.protocol import ApprovalRow, Decision, QueuedExchange

Two = tuple[PostgresStorage, PostgresStorage]
ROUNDS = 40


@pytest.fixture
async def two(place: Place) -> AsyncIterator[Two]:
    """Two processes on one database."""
    found = PostgresStorage(place), PostgresStorage(place)
    yield found
    for storage in found:
        await storage.close()


async def test_a_blob_that_is_put_while_its_last_reference_goes_is_there(two: Two) -> None:
    one, other = two
    first = (await one.threads.ensure("ann", "t1")).thread_key
    second = (await one.threads.ensure("ann", "t2")).thread_key
    for number in range(ROUNDS):
        data = b"picture %d" % number
        sha = await one.blobs.put("ann", first, data, "image/png")
        await asyncio.gather(
            one.blobs.release("ann", first, sha), other.blobs.put("ann", second, data, "image/png")
        )
        assert await one.blobs.get("ann", sha) == (data, "image/png")
        await other.blobs.release("ann", second, sha)
        assert await one.blobs.get("ann", sha) is None


async def test_the_first_decision_counts(two: Two) -> None:
    one, other = two
    key = (await one.threads.ensure("ann", "t1")).thread_key
    for number in range(ROUNDS):
        name = f"a{number}"
        await one.approvals.request(approval(name, key))
        (row, mine), replaced = await asyncio.gather(
            one.approvals.decide("ann", name, Decision("approved", "ann", 1.0)),
            other.approvals.supersede(key, at=2.0),
        )
        stored = await one.approvals.get("ann", name)
        assert stored is not None
        assert mine != bool(replaced)
        assert stored.status == row.status == ("approved" if mine else "superseded")


async def test_an_item_is_claimed_once(two: Two) -> None:
    one, other = two
    key = (await one.threads.ensure("ann", "t1")).thread_key
    for number in range(ROUNDS):
        await one.memory_queue.enqueue(
            QueuedExchange(f"e{number}", "ann", "t1", key, {}, float(number)),
            debounce=0.0,
            ceiling=0.0,
        )
        claims = await asyncio.gather(
            *(storage.memory_queue.claim(now=1e9) for storage in (one, other))
        )
        found = [entry.entry_id for claim in claims for entry in claim]
        assert found == [f"e{number}"]
        await one.memory_queue.complete(found)


async def test_what_is_spent_is_summed_once(two: Two) -> None:
    await asyncio.gather(
        *(s.spending.add("ann", "2030-01-01", 1, {"USD": 0.5}) for s in two for _ in range(ROUNDS))
    )

    spent = await two[0].spending.of("ann", "2030-01-01")
    assert (spent.tokens, spent.money) == (2 * ROUNDS, {"USD": float(ROUNDS)})


def approval(name: str, key: str) -> ApprovalRow:
    """A call that waits for a human."""
    return ApprovalRow(
        approval_id=name,
        user_id="ann",
        thread_key=key,
        thread_id="t1",
        run_id="r1",
        namespace="",
        message_id="m1",
        index=0,
        tool="bash",
        args={},
        reason="",
        created_at=0.0,
    )
