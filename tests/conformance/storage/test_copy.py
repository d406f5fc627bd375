"""A thread is copied whole or up to a state and an event; the two share nothing but blobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.protocol import Storage, ThreadRow


def _add(old: list[str], writes: list[list[str]]) -> list[str]:
    return [*(old or []), *(item for write in writes for item in write)]


class State(TypedDict):
    said: Annotated[list[str], DeltaChannel(_add, snapshot_frequency=3)]


def graph(storage: Storage) -> Any:
    made: Any = StateGraph(State)
    made.add_node("answer", lambda state: {"said": [f"re: {state['said'][-1]}"]})
    made.add_edge(START, "answer")
    return made.compile(checkpointer=storage.saver)


def at(key: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": key}}


async def spoken(storage: Storage, key: str) -> list[str]:
    return (await graph(storage).aget_state(at(key))).values.get("said", [])


async def told(storage: Storage) -> tuple[ThreadRow, list[str]]:
    """A thread of four turns; the ids of the states at their ends."""
    thread = await storage.threads.ensure("ann", "t", {"k": 1})
    heads: list[str] = []
    for number in range(4):
        await graph(storage).ainvoke(
            {"said": [str(number)]}, at(thread.thread_key), durability="sync"
        )
        await storage.events.append(thread.thread_key, "r", "notice", {"message": str(number)})
        state = await graph(storage).aget_state(at(thread.thread_key))
        heads.append(state.config["configurable"]["checkpoint_id"])
    found = await storage.threads.by_key(thread.thread_key)
    assert found is not None
    return found, heads


async def test_all_of_a_thread_is_copied(storage: Storage) -> None:
    thread, _ = await told(storage)
    sha = await storage.blobs.put("ann", thread.thread_key, b"bytes", "text/plain")
    target = replace(ThreadRow.new("ann", "copy", {"c": 2}), title="Copy")
    made = await storage.threads.copy(thread.thread_key, target)
    assert made is not None
    assert (made.title, made.metadata, made.last_seq) == ("Copy", {"c": 2}, 4)
    assert await spoken(storage, made.thread_key) == await spoken(storage, thread.thread_key)
    events = await storage.events.read(made.thread_key)
    before = await storage.events.read(thread.thread_key)
    assert events == [replace(event, thread_id="copy") for event in before]
    await storage.threads.delete("ann", "t")
    assert await storage.blobs.get("ann", sha) == (b"bytes", "text/plain")
    assert len(await spoken(storage, made.thread_key)) == 8
    await storage.threads.delete("ann", "copy")
    assert await storage.blobs.get("ann", sha) is None


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
async def test_a_copy_ends_where_it_is_told(storage: Storage, turns: int) -> None:
    thread, heads = await told(storage)
    target = ThreadRow.new("ann", "copy")
    made = await storage.threads.copy(
        thread.thread_key, target, seq=turns, checkpoint_id=heads[turns - 1]
    )
    assert made is not None
    assert made.last_seq == turns
    expected = [text for n in range(turns) for text in (str(n), f"re: {n}")]
    assert await spoken(storage, made.thread_key) == expected
    assert (await graph(storage).aget_state(at(made.thread_key))).next == ()
    await graph(storage).ainvoke({"said": ["on"]}, at(made.thread_key), durability="sync")
    assert await spoken(storage, made.thread_key) == [*expected, "on", "re: on"]
    event = await storage.events.append(made.thread_key, "r", "notice", {"message": "on"})
    assert event.seq == turns + 1
    assert len(await spoken(storage, thread.thread_key)) == 8


async def test_what_cannot_be_copied(storage: Storage) -> None:
    thread, _ = await told(storage)
    await storage.threads.ensure("ann", "taken")
    assert await storage.threads.copy(thread.thread_key, ThreadRow.new("ann", "taken")) is None
    with pytest.raises(NotFoundError):
        await storage.threads.copy("unknown", ThreadRow.new("ann", "copy"))
    key_of_another = replace(ThreadRow.new("ann", "copy"), thread_key=thread.thread_key)
    with pytest.raises(ConflictError):
        await storage.threads.copy(thread.thread_key, key_of_another)
    await storage.threads.delete("ann", "t")
    with pytest.raises((NotFoundError, ThreadGoneError)):
        await storage.threads.copy(thread.thread_key, ThreadRow.new("ann", "copy"))
    assert await storage.threads.get("ann", "copy") is None
