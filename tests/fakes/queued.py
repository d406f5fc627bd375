"""Runs in the queue: submitted and claimed with the ordinary values."""

from __future__ import annotations

from typing import Any

from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import NewRun, RunRow, Storage, Submitted

DEAD = "999999999:1:no-such-boot"
"""Owner string of a process that does not exist."""
EXPIRED = -1.0
"""Seconds of a lease that is over when it begins."""


async def queue(storage: Storage, key: str, run_id: str, **more: Any) -> Submitted:
    """Submit a run into a thread that exists; `more` are fields of NewRun."""
    thread = await storage.threads.by_key(key)
    assert thread is not None
    event = ("run_queued", {"input": run_id})
    new = NewRun(run_id, {"task": run_id}, {"model": "m"}, event=event, **more)
    found = await storage.queue.submit(thread, new, new=False)
    assert found is not None
    return found


async def begin(
    storage: Storage, key: str, run_id: str, worker_id: str = "w-1", seconds: float = 30.0
) -> RunRow:
    """Submit a run and let a new worker claim it."""
    process = this_owner() if seconds > 0 else "1:1:elsewhere"
    await storage.workers.register(worker_id, process, seconds=seconds)
    await queue(storage, key, run_id)
    run = await storage.queue.claim(run_id, worker_id)
    assert run is not None
    return run


async def ready(storage: Storage, **how: Any) -> list[str]:
    """Ids of what may start."""
    return [run.run_id for run in await storage.queue.ready(**how)]


async def status(storage: Storage, key: str) -> str:
    """How the thread shows."""
    row = await storage.threads.by_key(key)
    assert row is not None
    return row.status


async def stored(storage: Storage, run_id: str) -> RunRow:
    """A run that exists."""
    run = await storage.threads.run(run_id)
    assert run is not None
    return run


async def types(storage: Storage, key: str) -> list[tuple[str, str]]:
    """Run and type of every event."""
    return [(event.run_id, event.type) for event in await storage.events.read(key)]
