"""kill -9 at any moment, and two processes at once: the log is gapless, no step is torn."""

import asyncio
import os
import random
import signal
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from deerflow.storage.protocol import Delta
from deerflow.storage.sql.driver import connect
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage
from fakes.storage_writers import call_key, write_events, write_steps


async def check(path: Path, key: str, started: int) -> int:
    """What a new process finds after a kill; gives the number of whole steps."""
    prepare(path)
    storage = SqliteStorage(path)
    events = [event async for event in page_through(storage, key)]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    found = await storage.saver.aget_tuple({"configurable": {"thread_id": key}})
    last = -1 if found is None else found.checkpoint["channel_values"]["step"]
    assert last >= started - 1, "a step whose successor has begun is whole"

    by_type: dict[str, list[int]] = {}
    for event in events:
        by_type.setdefault(event.type, []).append(event.payload["step"])
    for steps in by_type.values():
        assert steps == list(range(len(steps)))
        assert len(steps) > last
    for step in range(last + 1):
        record = await storage.journal.tool_lookup(call_key(key, step))
        assert record is not None
        assert record.result == f'"result {step}"'
    begun = await storage.journal.tool_lookup(call_key(key, started))
    assert begun is not None, "an effect happened that the journal does not know"
    assert begun.started
    checkpoints = [c async for c in storage.saver.alist({"configurable": {"thread_id": key}})]
    assert [c.checkpoint["channel_values"]["step"] for c in checkpoints] == list(
        range(last, -1, -1)
    )
    assert all(len(c.pending_writes or ()) == 1 for c in checkpoints[1:])
    event = await storage.events.append(key, "r2", "notice", {})
    assert event.seq == len(events) + 1
    await storage.close()
    return last + 1


async def page_through(storage: SqliteStorage, key: str) -> Any:
    """Every event of a thread."""
    after = 0
    while events := await storage.events.read(key, after=after, limit=200):
        for event in events:
            yield event
        after = events[-1].seq


def test_kill_at_random_leaves_whole_steps_and_a_gapless_log(
    processes: ForkServerContext, tmp_path: Path, scale: Any
) -> None:
    chance = random.Random(os.urandom(8))
    whole = 0
    for number in range(scale(20, 200)):
        path = tmp_path / f"{number}.db"
        prepare(path)
        ours, theirs = processes.Pipe(duplex=False)
        child = processes.Process(target=write_steps, args=(path, "key", theirs), daemon=True)
        child.start()
        theirs.close()
        started = -1
        for _ in range(chance.randrange(1, 60)):
            started = ours.recv()
        time.sleep(chance.random() / 500)  # the moment of the kill, not a synchronisation
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        while ours.poll():
            try:
                started = ours.recv()
            except EOFError:
                break
        ours.close()
        whole += asyncio.run(check(path, "key", started))
        connection = connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        connection.close()
    assert whole > 0


async def test_two_processes_on_one_file_lose_and_repeat_nothing(
    processes: ForkServerContext, tmp_path: Path
) -> None:
    path, count = tmp_path / "test.db", 200
    prepare(path)
    storage = SqliteStorage(path)
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    follower, listener = storage.events.follow(key), storage.deltas.follow(key)
    children = [
        processes.Process(target=write_events, args=(path, key, name, count), daemon=True)
        for name in ("a", "b")
    ]
    for child in children:
        child.start()
    for number in range(count):
        storage.events.append(key, "c", "notice", {"n": number})
    seen = [await asyncio.wait_for(anext(follower), 30) for _ in range(3 * count)]
    texts = {"a": "", "b": ""}
    wanted = {name: "".join(f"{name}{n} " for n in range(count)) for name in texts}
    while texts != wanted:
        delta: Delta = await asyncio.wait_for(anext(listener), 30)
        assert delta.offset == len(texts[delta.run_id])
        texts[delta.run_id] += delta.text
    for child in children:
        await asyncio.to_thread(child.join)
        assert child.exitcode == 0

    assert [event.seq for event in seen] == list(range(1, 3 * count + 1))
    for name in ("a", "b", "c"):
        mine = [event.payload["n"] for event in seen if event.run_id == name]
        assert mine == list(range(count))
    await storage.close()
