"""A service looks at its schedules when something is due, not only when it polls."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

from deerflow.runtime.planning import Task
from deerflow.runtime.request import RunRequest
from deerflow.runtime.schedules import Scheduler
from deerflow.storage.inmemory import InMemoryStorage
from fakes.opened import USER, opened_runtime
from fakes.schedulers import ON, Rows, scheduler


async def test_a_new_task_wakes_who_waits_for_the_next() -> None:
    storage = InMemoryStorage()
    config = ON.model_copy(update={"poll_interval_seconds": 600})
    found, rows = scheduler(storage, config)
    looking = asyncio.create_task(look_until(found, rows, 1))
    while not looking.done():
        at = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
        await found.create("ann", Task(RunRequest("Go."), at=at))
        await asyncio.wait({looking}, timeout=2.5)
    assert rows.asked[0].priority == 0
    assert looking.done()


async def look_until(found: Scheduler, rows: Rows, count: int) -> None:
    while len(rows.asked) < count:
        await found.look()


async def test_the_service_runs_a_task_at_its_time(tmp_path: Path) -> None:
    on = {"enabled": True, "min_once_delay_seconds": 0, "poll_interval_seconds": 1}
    async with opened_runtime([{"text": "Done."}], tmp_path, scheduler=on) as here:
        schedules = here.runtime.schedules
        soon = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
        row = await schedules.create(USER, Task(RunRequest("Report."), at=soon))
        async with asyncio.timeout(20):
            while (await schedules.get(USER, row.schedule_id)).status == "active":
                await schedules.look()
            await schedules.look()  # whoever entered it has started it by now, or this does
        history = await schedules.history(USER, row.schedule_id)
        [(entry, run)] = history
        assert run is not None
        ended = await here.runtime.submissions.wait(run.thread_key, run.run_id)
        assert ended.status == "success"
        assert await here.said(entry.thread_id) == ["Report.", "Done."]
        assert (await schedules.get(USER, row.schedule_id)).status == "done"
