"""Threads and runs of users."""

from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.protocol import Storage


async def start(storage: Storage, key: str, run: str) -> None:
    """Start a run with nothing in it."""
    await storage.threads.start_run(key, run, input={}, config={})


async def test_ensure_makes_a_thread_once(storage: Storage) -> None:
    first = await storage.threads.ensure("ann", "t1", {"graph": "lead"})
    again = await storage.threads.ensure("ann", "t1", {"graph": "other"})

    assert again == first
    assert (first.status, first.title, first.metadata) == ("idle", "", {"graph": "lead"})
    assert first.thread_key not in ("t1", "")


async def test_two_users_may_choose_the_same_id(storage: Storage) -> None:
    ann = await storage.threads.ensure("ann", "t1")
    bob = await storage.threads.ensure("bob", "t1")

    assert ann.thread_key != bob.thread_key
    assert await storage.threads.get("eve", "t1") is None
    assert await storage.threads.get("bob", "t1") == bob


async def test_paging_reaches_every_thread_once_newest_first(storage: Storage) -> None:
    for number in range(25):
        await storage.threads.ensure("ann", f"t{number}")
    await storage.threads.ensure("bob", "other")

    seen: list[str] = []
    before = None
    while page := await storage.threads.list("ann", limit=10, before=before):
        seen += [row.thread_id for row in page]
        before = (page[-1].updated_at, page[-1].thread_key)

    assert sorted(seen) == sorted(f"t{number}" for number in range(25))
    assert seen[0] == "t24"


async def test_update_changes_what_is_given(storage: Storage, key: str) -> None:
    storage.threads.update(key, title="Report \udc80")
    await storage.threads.update(key, status="interrupted")

    row = await storage.threads.get("ann", "t1")

    assert row is not None
    assert (row.title, row.status) == ("Report ?", "interrupted")


async def test_a_run_from_start_to_end(storage: Storage, key: str) -> None:
    run = await storage.threads.start_run(
        key, "r1", input={"task": "x"}, config={"model": "m"}, event=("run_started", {"input": "x"})
    )
    busy = await storage.threads.get("ann", "t1")
    storage.threads.end_run(
        "r1", status="success", outcome={"kind": "answered"}, usage={"total_tokens": 3}
    )
    ended = await storage.threads.run("r1")
    idle = await storage.threads.get("ann", "t1")

    assert (run.status, run.input, run.config) == ("running", {"task": "x"}, {"model": "m"})
    assert busy is not None
    assert (busy.status, busy.last_seq) == ("busy", 1)
    assert [event.type for event in await storage.events.read(key)] == ["run_started"]
    assert ended is not None
    assert ended.ended_at is not None
    assert (ended.status, ended.outcome) == ("success", {"kind": "answered"})
    assert (ended.usage, ended.error) == ({"total_tokens": 3}, None)
    assert idle is not None
    assert idle.status == "idle"
    assert idle.updated_at >= busy.updated_at


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("cancelled", "idle"),
        ("interrupted", "interrupted"),
        ("error", "error"),
        ("timeout", "error"),
    ],
)
async def test_how_an_end_shows_on_the_thread(
    storage: Storage, key: str, status: str, shown: str
) -> None:
    await start(storage, key, "r1")
    await storage.threads.end_run("r1", status=status, outcome=None)

    row = await storage.threads.get("ann", "t1")

    assert row is not None
    assert row.status == shown


async def test_the_first_end_counts(storage: Storage, key: str) -> None:
    await start(storage, key, "r1")
    await storage.threads.end_run("r1", status="cancelled", outcome=None)
    await storage.threads.end_run("r1", status="error", outcome=None)

    run = await storage.threads.run("r1")

    assert run is not None
    assert run.status == "cancelled"


class Notes(TypedDict):
    """What the lead and its child write down."""

    notes: Annotated[list[str], DeltaChannel(lambda old, new: [*(old or []), *sum(new, [])], list)]


@pytest.mark.parametrize(("status", "stay"), [("success", False), ("error", True)])
async def test_childrens_checkpoints_stay_until_the_run_succeeds(
    storage: Storage, key: str, status: str, stay: bool
) -> None:
    async def note(state: Any) -> Any:
        return {"notes": ["x"]}

    inner = StateGraph(Notes).add_node("note", note).add_edge(START, "note").compile()

    async def delegate(state: Any) -> Any:
        return {"notes": (await inner.ainvoke({"notes": ["for the child"]}))["notes"]}

    outer: Any = StateGraph(Notes).add_node("delegate", delegate).add_edge(START, "delegate")
    graph = outer.compile(checkpointer=storage.saver)
    config: Any = {"configurable": {"thread_id": key}}
    await start(storage, key, "r1")
    await graph.ainvoke({"notes": ["for the lead"]}, config, durability="sync")

    await storage.threads.end_run("r1", status=status, outcome=None)

    found = [c.config["configurable"]["checkpoint_ns"] async for c in storage.saver.alist(config)]
    assert any(found) is stay
    assert "" in found
    state = await graph.aget_state(config)
    assert state.values["notes"] == ["for the lead", "for the child", "x"]


async def test_one_run_at_a_time(storage: Storage, key: str) -> None:
    await start(storage, key, "r1")
    with pytest.raises(ConflictError, match="active"):
        await start(storage, key, "r2")
    await storage.threads.end_run("r1", status="success", outcome=None)
    with pytest.raises(ConflictError, match="exists"):
        await start(storage, key, "r1")
    await start(storage, key, "r2")

    assert [run.run_id for run in await storage.threads.runs(key)] == ["r2", "r1"]
    active = await storage.threads.active_run(key)
    assert active is not None
    assert active.run_id == "r2"


async def test_a_refused_start_writes_nothing(storage: Storage, key: str) -> None:
    await start(storage, key, "r1")
    with pytest.raises(ConflictError):
        await storage.threads.start_run(
            key, "r2", input={}, config={}, event=("run_started", {"input": "x"})
        )
    with pytest.raises(NotFoundError):
        await start(storage, "no such key", "r3")

    assert await storage.events.read(key) == []
    assert await storage.threads.run("r2") is None


async def test_only_an_unfinished_run_is_taken_over(storage: Storage, key: str) -> None:
    await start(storage, key, "r1")
    with pytest.raises(ConflictError, match="active"):
        await storage.threads.reopen_run(key, "r1")
    await storage.threads.end_run("r1", status="cancelled", outcome=None, error={"code": "x"})

    run = await storage.threads.reopen_run(key, "r1")
    row = await storage.threads.get("ann", "t1")

    assert (run.status, run.ended_at, run.error) == ("running", None, None)
    assert await storage.threads.run("r1") == run
    assert row is not None
    assert row.status == "busy"
    await storage.threads.end_run("r1", status="success", outcome=None)
    for key_, id in ((key, "r1"), (key, "unknown"), ("other", "r1")):
        with pytest.raises((NotFoundError, ThreadGoneError)):
            await storage.threads.reopen_run(key_, id)


async def test_the_run_of_a_dead_process_stands_in_nobodys_way(dead: Storage) -> None:
    key = (await dead.threads.ensure("ann", "t1")).thread_key
    await start(dead, key, "r1")
    await start(dead, key, "r2")
    first = await dead.threads.run("r1")
    reopened = await dead.threads.reopen_run(key, "r2")

    assert first is not None
    assert (first.status, (first.error or {})["code"]) == ("error", "process_died")
    assert reopened.status == "running"
    active = await dead.threads.active_run(key)
    assert active is not None
    assert active.run_id == "r2"


async def test_abandoning_closes_once(storage: Storage, key: str) -> None:
    await start(storage, key, "r1")
    await storage.threads.abandon_run("r1")
    await storage.threads.abandon_run("r1")
    await storage.threads.abandon_run("unknown")

    run = await storage.threads.run("r1")

    assert run is not None
    assert (run.status, (run.error or {})["code"]) == ("error", "process_died")
    assert await storage.threads.active_run(key) is None


async def test_delete_retires_the_key_for_ever(storage: Storage, key: str) -> None:
    await start(storage, key, "r1")
    assert await storage.threads.delete("bob", "t1") is None
    assert await storage.threads.delete("ann", "t1") == key
    assert await storage.threads.delete("ann", "t1") is None

    assert await storage.threads.get("ann", "t1") is None
    assert await storage.threads.run("r1") is None
    assert await storage.threads.runs(key) == []
    for late in (
        storage.threads.end_run("r1", status="success", outcome=None),
        storage.threads.update(key, title="late"),
        start(storage, key, "r2"),
    ):
        with pytest.raises(ThreadGoneError):
            await late
    again = await storage.threads.ensure("ann", "t1")
    assert again.thread_key != key
    assert again.last_seq == 0
