"""DeltaSaver gives the same states as a saver that stores everything, whatever happens."""

import random
import uuid
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from deerflow.errors import StorageError, ThreadGoneError
from deerflow.storage.checkpoints.address import unpack_id
from deerflow.storage.sql.driver import connect
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage
from fakes.twin_threads import Deltas, Pair, build, plain


async def test_a_long_straight_thread(pair: Pair) -> None:
    for _ in range(30):
        await pair.say("")
    await pair.compare()
    await pair.reopen()
    await pair.compare()


@pytest.mark.parametrize("seed", range(4))
async def test_any_life_of_a_thread_gives_the_same_states(
    pair: Pair, seed: int, scale: Any
) -> None:
    chance = random.Random(seed)
    for step in range(scale(25, 120)):
        if await pair.waits() and chance.random() < 0.8:
            await pair.answer()
            continue
        deed = chance.choice(
            [
                "say",
                "say",
                "say",
                "parallel",
                "overwrite",
                "remove",
                "ask",
                "branch",
                "edit",
                "reopen",
            ]
        )
        if deed == "branch" and step > 2:
            await pair.say("", at=chance.randrange(1, 6))
        elif deed == "edit" and step > 0:
            await pair.edit()
        elif deed == "reopen":
            await pair.reopen()
        else:
            await pair.say(deed)
        await pair.compare()
    await pair.reopen()
    await pair.compare()


async def test_p07_snapshots_are_thinned_to_powers_of_two(pair: Pair) -> None:
    for _ in range(40):
        await pair.say("")
    found = await pair.rows(
        "SELECT thin FROM checkpoint_values WHERE channel = 'messages' AND thin > 0 ORDER BY thin"
    )
    kept = [row[0] for row in found]

    newest = kept.pop()
    assert newest > 20
    assert kept == [n for n in (1, 2, 4, 8, 16, 32) if n < newest]


async def test_a_large_value_is_stored_once(pair: Pair) -> None:
    for _ in range(5):
        await pair.say("")
    text = "x" * 100_000
    await pair.ours.aupdate_state(pair.config(), {"script": text}, as_node="work")
    for _ in range(3):
        given = {"messages": [HumanMessage("go on")]}
        await pair.ours.ainvoke(given, pair.config(), durability="sync")
    await pair.storage.flush()
    found = await pair.rows("SELECT count(*) FROM checkpoint_values WHERE channel = 'script'")

    assert found == [(1,)]
    assert (await pair.ours.aget_state(pair.config())).values["script"] == text


async def test_another_process_in_between_is_noticed(pair: Pair) -> None:
    await pair.say("")
    other = pair.open()
    theirs = build(Deltas, other.saver)
    await theirs.ainvoke(
        {"messages": [HumanMessage("from elsewhere", id="e")]}, pair.config(), durability="sync"
    )
    await pair.ours.ainvoke(
        {"messages": [HumanMessage("and here", id="h")]}, pair.config(), durability="sync"
    )
    head = await theirs.aget_state(pair.config())
    await other.close()

    ids = [m.id for m in head.values["messages"]]
    assert ids.index("e") < ids.index("h")
    assert len(ids) == 6


async def test_deleting_a_run_keeps_what_later_runs_stand_on(pair: Pair) -> None:
    for run in ("r1", "r2"):
        config = {"configurable": {"thread_id": pair.key, "run_id": run}}
        await pair.ours.ainvoke({"messages": [HumanMessage(run)], "script": ""}, config)
    before = plain((await pair.ours.aget_state(pair.config())).values)

    await pair.storage.saver.adelete_for_runs(["r1"])

    await pair.reopen()
    assert plain((await pair.ours.aget_state(pair.config())).values) == before


async def test_a_copy_lives_on_its_own(pair: Pair) -> None:
    for _ in range(8):
        await pair.say("parallel")
    await pair.storage.saver.acopy_thread(pair.key, "copy")
    copy = {"configurable": {"thread_id": "copy"}}
    before = plain((await pair.ours.aget_state(pair.config())).values)
    assert plain((await pair.ours.aget_state(copy)).values) == before

    await pair.ours.ainvoke({"messages": [HumanMessage("more")]}, copy)

    assert plain((await pair.ours.aget_state(pair.config())).values) == before
    assert len((await pair.ours.aget_state(copy)).values["messages"]) > len(before["messages"])


async def test_durability_exit_and_async_keep_the_state_too(pair: Pair) -> None:
    for durability in ("exit", "async", "exit", "sync"):
        text = uuid.uuid4().hex
        for graph in (pair.whole, pair.ours):
            given = {"messages": [HumanMessage(text, id=text)], "script": "parallel"}
            await graph.ainvoke(given, pair.config(), durability=durability)
        head = await pair.ours.aget_state(pair.config())
        assert plain(head.values) == plain((await pair.whole.aget_state(pair.config())).values)
        await pair.reopen()


async def test_metadata_holds_the_run_and_no_other_part_of_the_config(pair: Pair) -> None:
    config = {
        "configurable": {"thread_id": pair.key, "run_id": "r1", "secret": "s"},
        "metadata": {"user": "ann"},
    }
    await pair.ours.ainvoke({"messages": [HumanMessage("x")], "script": ""}, config)

    found = await pair.storage.saver.aget_tuple({"configurable": {"thread_id": pair.key}})

    assert found is not None
    assert set(found.metadata) <= {
        "source", "step", "parents", "run_id", "counters_since_delta_snapshot",
    }  # fmt: skip
    assert found.metadata.get("run_id") == "r1"


async def test_the_sync_doors_name_the_cure(pair: Pair) -> None:
    with pytest.raises(NotImplementedError, match="ainvoke"):
        pair.ours.invoke({"messages": [HumanMessage("x")]}, pair.config())


async def test_a_late_step_of_a_deleted_thread_is_refused(tmp_path: Path) -> None:
    prepare(tmp_path / "test.db")
    storage = SqliteStorage(tmp_path / "test.db")
    thread = await storage.threads.ensure("ann", "t1")
    graph = build(Deltas, storage.saver)
    config = {"configurable": {"thread_id": thread.thread_key}}
    await graph.ainvoke({"messages": [HumanMessage("x")], "script": ""}, config)
    await storage.threads.delete("ann", "t1")

    assert (await graph.aget_state(config)).values == {}
    with pytest.raises(ThreadGoneError):
        await graph.ainvoke({"messages": [HumanMessage("x")], "script": ""}, config)
    await storage.close()


async def test_an_interrupt_is_durable_when_its_writes_return(tmp_path: Path) -> None:
    prepare(tmp_path / "test.db")
    storage = SqliteStorage(tmp_path / "test.db")
    config: Any = {"configurable": {"thread_id": "key", "checkpoint_ns": "", "checkpoint_id": "c"}}
    await storage.saver.aput_writes(config, [("messages", [])], "task-1")
    await storage.saver.aput_writes(config, [("__interrupt__", ["question"])], "task-2")
    connection = connect(tmp_path / "test.db")
    tasks = connection.execute("SELECT task FROM checkpoint_writes ORDER BY task").fetchall()
    connection.close()
    await storage.close()

    assert [unpack_id(task) for (task,) in tasks] == ["task-1", "task-2"]


async def test_a_message_that_cannot_be_stored_fails_its_step_and_nothing_else(
    tmp_path: Path,
) -> None:
    prepare(tmp_path / "test.db")
    storage = SqliteStorage(tmp_path / "test.db")
    graph = build(Deltas, storage.saver)
    config: Any = {"configurable": {"thread_id": "key"}}
    given = {"messages": [HumanMessage("x", hidden=lambda: None)], "script": ""}
    with pytest.raises((StorageError, TypeError)):
        await graph.ainvoke(given, config, durability="sync")

    await graph.ainvoke({"messages": [HumanMessage("y")], "script": ""}, config)
    head = await graph.aget_state(config)
    await storage.close()

    assert [message.content for message in head.values["messages"]][0] == "y"
