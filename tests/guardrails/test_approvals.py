"""Rules of decisions: what is taken, which one counts, whose it is, how it is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deerflow.errors import NotFoundError, UsageError
from deerflow.guardrails import approvals
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import ApprovalRow, CallKey, Decision

ROW = ApprovalRow(
    approval_id="aaaa1111",
    user_id="ann",
    thread_id="t",
    thread_key="key",
    run_id="r1",
    namespace="",
    message_id="m",
    index=0,
    tool="delete",
    args={"what": "x"},
    created_at=100.0,
    expires_at=160.0,
)
YES = Decision("approved", "ann", 110.0)


async def store(*rows: ApprovalRow) -> InMemoryStorage:
    storage = InMemoryStorage()
    for row in rows or (ROW,):
        await storage.approvals.request(row)
    return storage


async def told(storage: InMemoryStorage) -> list[dict[str, Any]]:
    events = await storage.events.read("key")
    return [event.payload for event in events if event.type == "approval_decided"]


def test_an_id_belongs_to_a_place() -> None:
    key = CallKey("k", "r", "", "m", 0)
    others = [
        replace(key, **change)
        for change in (
            {"thread_key": "l"}, {"run_id": "s"}, {"namespace": "c"},
            {"message_id": "n"}, {"index": 1}, {"run_id": "", "namespace": "r"},
        )
    ]  # fmt: skip
    ids = {approvals.approval_id(each) for each in (key, *others)}
    assert len(ids) == 7
    assert approvals.approval_id(replace(key)) in ids


async def test_the_first_decision_counts_and_is_in_the_log_once() -> None:
    storage = await store()
    first = await approvals.decide(storage, "ann", "aaaa1111", replace(YES, edited={"what": "y"}))
    second = await approvals.decide(storage, "ann", "aaaa1111", replace(YES, by="phone"))
    third = await approvals.decide(storage, "ann", "aaaa1111", Decision("rejected", "tv", 111.0))
    assert [first.counts, second.counts, third.counts] == [True, False, False]
    assert first.row == second.row == third.row
    assert "already by ann" in third.text
    assert await told(storage) == [
        {
            "approval_id": "aaaa1111",
            "tool": "delete",
            "status": "approved",
            "by": "ann",
            "note": "",
            "edited": {"what": "y"},
        }
    ]


@pytest.mark.parametrize(("at", "status"), [(159.9, "approved"), (160.0, "expired")])
async def test_expiry_comes_before_a_late_decision(at: float, status: str) -> None:
    storage = await store()
    made = await approvals.decide(storage, "ann", "aaaa1111", replace(YES, at=at))
    assert (made.row.status, made.counts) == (status, status == "approved")
    assert [event["status"] for event in await told(storage)] == [status]
    assert approvals.allows(made.row) == (status == "approved")


async def test_somebody_elses_is_like_none() -> None:
    storage = await store()
    for user, ident in (("bob", "aaaa1111"), ("ann", "aaaa2222"), ("bob", "aaaa2222")):
        with pytest.raises(NotFoundError) as caught:
            await approvals.decide(storage, user, ident, YES)
        assert str(caught.value) == str(approvals.no_approval(ident))
    with pytest.raises(NotFoundError):
        await approvals.find(storage.approvals, "bob", "aaaa")


@pytest.mark.parametrize(
    "decision",
    [
        Decision("expired", "ann", 1.0),
        Decision("superseded", "ann", 1.0),
        Decision("rejected", "ann", 1.0, note="x" * (approvals.NOTE_LIMIT + 1)),
        Decision("rejected", "ann", 1.0, edited={"what": "y"}),
        Decision("approved", "ann", 1.0, edited={"what": {1, 2}}),
        Decision("approved", "ann", 1.0, edited={"what": 2**70}),
        Decision("approved", "ann", 1.0, edited={"what": "\ud800"}),
        Decision("approved", "ann", 1.0, edited={"what": "x" * approvals.ARGS_LIMIT}),
    ],
)
async def test_what_is_no_decision_is_refused_and_changes_nothing(decision: Decision) -> None:
    storage = await store()
    with pytest.raises(UsageError):
        await approvals.decide(storage, "ann", "aaaa1111", decision)
    [row] = await storage.approvals.list("ann")
    assert row == ROW


async def test_the_beginning_of_an_id_is_enough_when_it_fits_one() -> None:
    two = replace(ROW, approval_id="aaaa2222", index=1)
    old = replace(ROW, approval_id="bbbb1111", index=2)
    storage = await store(ROW, two, old)
    await approvals.decide(storage, "ann", "bbbb1111", YES)
    twin = replace(ROW, approval_id="bbbb2222", index=3)
    await storage.approvals.request(twin)

    async def found(prefix: str) -> str:
        return (await approvals.find(storage.approvals, "ann", prefix)).approval_id

    assert await found("aaaa1") == "aaaa1111"
    assert await found("bbbb") == "bbbb2222"  # what waits comes first
    assert await found("bbbb1") == "bbbb1111"
    for prefix in ("aaaa", "aaa", ""):
        with pytest.raises(UsageError):
            await found(prefix)
    with pytest.raises(NotFoundError):
        await found("cccc")


async def test_superseding_says_what_had_expired_before() -> None:
    late = replace(ROW, approval_id="bbbb1111", index=1, expires_at=None, namespace="c1")
    storage = await store(ROW, late)
    rows = await approvals.supersede(storage, 200.0, "key")
    assert [row.approval_id for row in rows] == ["bbbb1111"]
    events = await told(storage)
    assert [event["status"] for event in events] == ["expired", "superseded"]
    assert [event.get("task_id") for event in events] == [None, "c1"]


async def test_decided_meanwhile_looks_at_these_pauses_alone() -> None:
    storage = await store(replace(ROW, expires_at=None))
    mine = approvals.waiting(ROW)

    async def decided(*pauses: Any) -> bool:
        return await approvals.decided_meanwhile(storage, "ann", "key", pauses)

    assert not await decided()
    assert not await decided("a stranger's", {"question": 1})
    assert not await decided(mine)
    await approvals.decide(storage, "ann", "aaaa1111", YES)
    assert await decided("a stranger's", mine)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"x"', "{'a': 1}", '{"a": NaN}'])
def test_arguments_are_a_json_object(text: str) -> None:
    with pytest.raises(UsageError, match="no JSON"):
        approvals.read_args(text)


def test_long_texts_are_cut_wherever_they_are() -> None:
    long = "x" * (approvals.SHOWN + 1)
    args = {"a": [long, {"b": long}], "c": 1, "d": "x" * approvals.SHOWN}
    shown = approvals.shown(args)
    assert shown["c"] == 1
    assert shown["d"] == args["d"]
    for text in (shown["a"][0], shown["a"][1]["b"]):
        assert text.endswith(f"… ({approvals.SHOWN + 1} characters in all)")
    assert args["a"][0] == long


@pytest.mark.parametrize("args", [[1, 2], "x", {"n": float("nan")}, {"n": float("inf")}, {1: 2}])
async def test_arguments_that_would_not_arrive_as_they_are_are_refused(args: Any) -> None:
    storage = await store()
    with pytest.raises(UsageError, match="The arguments are no JSON object"):
        await approvals.decide(storage, "ann", "aaaa1111", replace(YES, edited=args))
    row = await storage.approvals.get("ann", "aaaa1111")
    assert row is not None
    assert row.status == "pending"
