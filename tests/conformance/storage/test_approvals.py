"""Approvals: asked once, decided once, seen by their user alone."""

import asyncio
from dataclasses import replace

import pytest

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.protocol import ApprovalRow, Decision, Storage

YES = Decision("approved", "ann", 20.0)
NO = Decision("rejected", "phone", 21.0, note="not today")


def asked(key: str, id: str = "a1", **changes: object) -> ApprovalRow:
    """A call of user ann that waits."""
    row = ApprovalRow(
        approval_id=id,
        user_id="ann",
        thread_id="t1",
        thread_key=key,
        run_id="r1",
        namespace="researcher",
        message_id="m1",
        index=2,
        tool="bash",
        args={"command": "rm x", "deep": [1, {"a": None}]},
        reason="it deletes",
        default="allow",
        created_at=10.5,
        expires_at=100.25,
    )
    return replace(row, **changes)  # type: ignore[arg-type]


async def test_a_row_comes_back_as_it_was(storage: Storage, key: str) -> None:
    row = asked(key)

    assert await storage.approvals.request(row) == row
    assert await storage.approvals.get("ann", "a1") == row
    assert await storage.approvals.list("ann") == [row]


async def test_asking_twice_is_asking_once(storage: Storage, key: str) -> None:
    row = await storage.approvals.request(asked(key))
    decided, _ = await storage.approvals.decide("ann", "a1", YES)

    again = await storage.approvals.request(asked(key, created_at=50.0, args={}))

    assert again == decided == replace(row, status="approved", decided_at=20.0, decided_by="ann")
    assert await storage.approvals.list("ann", status=None) == [decided]


async def test_an_id_of_another_thread_is_refused(storage: Storage, key: str) -> None:
    await storage.approvals.request(asked(key))
    other = (await storage.threads.ensure("ann", "t2")).thread_key

    with pytest.raises(ConflictError, match="another thread"):
        await storage.approvals.request(asked(other))


async def test_text_that_no_encoding_has(storage: Storage, key: str) -> None:
    dirty = "a\x00b \ud800 \U0001f98c"
    row = asked(key, tool=dirty, reason=dirty, args={dirty: [dirty]}, message_id=dirty)
    stored = await storage.approvals.request(row)
    decision = Decision("approved", dirty, 20.0, edited={"x": dirty}, note=dirty)
    decided, counts = await storage.approvals.decide("ann", "a1", decision)

    clean = "a\x00b ? \U0001f98c"
    assert stored.args == {clean: [clean]}
    assert (stored.tool, stored.reason, stored.message_id) == (clean, clean, clean)
    assert counts
    assert await storage.approvals.get("ann", "a1") == replace(
        stored,
        status="approved",
        decided_at=20.0,
        decided_by=clean,
        edited={"x": clean},
        note=clean,
    )


async def test_the_first_decision_counts(storage: Storage, key: str) -> None:
    await storage.approvals.request(asked(key))

    first, won = await storage.approvals.decide("ann", "a1", NO)
    second, lost = await storage.approvals.decide("ann", "a1", YES)

    assert (won, lost) == (True, False)
    assert first == second
    assert (first.status, first.decided_at, first.decided_by) == ("rejected", 21.0, "phone")
    assert (first.note, first.edited) == ("not today", None)
    assert await storage.approvals.list("ann") == []


async def test_of_many_decisions_at_once_one_counts(storage: Storage, key: str) -> None:
    await storage.approvals.request(asked(key))

    outcomes = await asyncio.gather(
        *(storage.approvals.decide("ann", "a1", [YES, NO][n % 2]) for n in range(20))
    )

    assert [counts for _, counts in outcomes].count(True) == 1
    assert len({row.status for row, _ in outcomes}) == 1


async def test_unknown_and_someone_elses(storage: Storage, key: str) -> None:
    await storage.approvals.request(asked(key))

    assert await storage.approvals.get("bob", "a1") is None
    assert await storage.approvals.list("bob", status=None) == []
    assert await storage.approvals.list("bob", thread_key=key, status=None) == []
    for user, id in (("bob", "a1"), ("ann", "a2")):
        with pytest.raises(NotFoundError):
            await storage.approvals.decide(user, id, YES)
    found = await storage.approvals.get("ann", "a1")
    assert found is not None
    assert found.status == "pending"


async def test_two_users_with_the_same_id(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("bob", "t1")).thread_key
    await storage.approvals.request(asked(key))
    await storage.approvals.request(asked(other, user_id="bob", tool="python"))

    await storage.approvals.decide("bob", "a1", NO)

    assert [row.tool for row in await storage.approvals.list("ann")] == ["bash"]
    assert await storage.approvals.list("bob") == []


async def test_lists_are_oldest_first_and_narrow(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    for id, at, where in (("c", 3.0, key), ("b", 1.0, other), ("a", 3.0, key), ("d", 2.0, key)):
        await storage.approvals.request(asked(where, id, created_at=at))
    await storage.approvals.decide("ann", "d", YES)

    async def ids(**how: object) -> list[str]:
        rows = await storage.approvals.list("ann", **how)  # type: ignore[arg-type]
        return [row.approval_id for row in rows]

    assert await ids() == ["b", "a", "c"]
    assert await ids(limit=2) == ["b", "a"]
    assert await ids(thread_key=key) == ["a", "c"]
    assert await ids(status=None) == ["b", "d", "a", "c"]
    assert await ids(status="approved", thread_key=key) == ["d"]
    assert await ids(status="approved", thread_key=other) == []


async def test_expiry(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    await storage.approvals.request(asked(key, "never", expires_at=None))
    await storage.approvals.request(asked(key, "later", expires_at=200.0))
    await storage.approvals.request(asked(key, "now", expires_at=100.0))
    await storage.approvals.request(asked(other, "elsewhere", expires_at=50.0))

    assert await storage.approvals.expire(99.0, thread_key=key) == []
    mine = await storage.approvals.expire(100.0, thread_key=key)
    assert [(row.approval_id, row.status, row.decided_at) for row in mine] == [
        ("now", "expired", 100.0)
    ]
    assert [row.approval_id for row in await storage.approvals.expire(100.0)] == ["elsewhere"]
    assert await storage.approvals.expire(100.0) == []
    assert [r.approval_id for r in await storage.approvals.list("ann")] == ["later", "never"]


@pytest.mark.parametrize("late", [YES, NO])
async def test_a_human_that_comes_too_late_finds_it_expired(
    storage: Storage, key: str, late: Decision
) -> None:
    await storage.approvals.request(asked(key, expires_at=late.at))

    row, counts = await storage.approvals.decide("ann", "a1", late)

    assert (row.status, row.decided_by, row.note, counts) == ("expired", "expiry", "", False)
    assert await storage.approvals.get("ann", "a1") == row


async def test_a_new_message_supersedes_what_waits_in_its_thread(
    storage: Storage, key: str
) -> None:
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    await storage.approvals.request(asked(key, "b"))
    await storage.approvals.request(asked(key, "a"))
    await storage.approvals.request(asked(key, "decided"))
    await storage.approvals.request(asked(other, "elsewhere"))
    await storage.approvals.decide("ann", "decided", YES)

    rows = await storage.approvals.supersede(key, at=30.0)

    assert [(r.approval_id, r.status, r.decided_at) for r in rows] == [
        ("a", "superseded", 30.0),
        ("b", "superseded", 30.0),
    ]
    assert await storage.approvals.supersede(key, at=31.0) == []
    assert [r.approval_id for r in await storage.approvals.list("ann")] == ["elsewhere"]
    _, counts = await storage.approvals.decide("ann", "a", YES)
    assert not counts


async def test_they_go_with_their_thread(storage: Storage, key: str) -> None:
    await storage.approvals.request(asked(key))
    await storage.threads.delete("ann", "t1")

    assert await storage.approvals.list("ann", status=None) == []
    assert await storage.approvals.supersede(key, at=1.0) == []
    with pytest.raises(NotFoundError):
        await storage.approvals.decide("ann", "a1", YES)
    with pytest.raises(ThreadGoneError):
        await storage.approvals.request(asked(key))
