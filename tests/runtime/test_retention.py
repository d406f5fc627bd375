"""Threads go with their time, and take everything along; what is kept can be gone on with."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from pathlib import Path
from typing import Any

from deerflow.runtime.retention import DAY, Retention
from fakes.gateway import until
from fakes.opened import USER, Service, opened_runtime

FILE: dict[str, Any] = {"backend": "sqlite"}
KEPT: dict[str, Any] = {"retention_days": 30}


def in_days(here: Service, days: float) -> Retention:
    return Retention(here.parts, clock=lambda: time.time() + days * DAY)


async def test_a_thread_goes_with_its_files_when_its_time_is_over(tmp_path: Path) -> None:
    script = [{"text": "a"}, {"text": "b"}]
    async with opened_runtime(script, tmp_path, database=FILE, runtime=KEPT) as here:
        run = await here.finish("1")
        pinned = await here.finish("2", "kept")
        await here.storage.threads.describe(pinned.thread_key, {"deerflow_pinned": True})
        folders = [here.parts.folders(USER, r.thread_key).root for r in (run, pinned)]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)

        assert await in_days(here, 29).sweep() == 0
        assert sum(await asyncio.gather(*(in_days(here, 31).sweep() for _ in range(3)))) == 1
        assert await here.storage.threads.get(USER, "t") is None
        assert [folder.parent.exists() for folder in folders] == [False, True]
        assert await here.said("kept") == ["2", "b"]


async def test_without_a_time_everything_stays(tmp_path: Path) -> None:
    async with opened_runtime([{"text": "a"}], tmp_path) as here:
        await here.finish("1")
        assert await in_days(here, 40_000).sweep() == 0
        assert await here.said() == ["1", "a"]


async def test_what_is_kept_is_branched_and_run_again(tmp_path: Path) -> None:
    """A failed run that others came after gives its journal up; states and log stay whole."""
    script = [{"text": "one"}, {"error": "auth"}, {"text": "three"}, {"text": "again"}]
    async with opened_runtime(script, tmp_path, database=FILE, runtime=KEPT) as here:
        await here.finish("1")
        assert (await here.finish("2")).status == "error"
        await here.finish("3")
        thread = await here.thread()
        assert (await here.said())[-2:] == ["3", "three"]
        await here.storage.threads.describe(thread.thread_key, {"deerflow_pinned": True})
        before = await here.said()
        assert await in_days(here, 31).sweep() == 0

        assert await here.said() == before
        state = await here.runtime.histories.state(thread)
        assert state is not None
        first, last = state.values["messages"][1], state.values["messages"][-1]
        branch = await here.branches.branch(thread, first.id)
        assert await here.said(branch.thread_id) == ["1", "one"]
        rerun = await here.branches.regenerate(thread, last.id)
        assert rerun.input["messages"][0]["content"] == "3"


def age(home: Path) -> None:
    """Make everything 31 days older."""
    (file,) = home.rglob("deerflow.db")
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE threads SET updated_at = updated_at - ?", (31 * DAY,))
        connection.execute("UPDATE run_events SET created_at = created_at - ?", (31 * DAY,))


async def test_workers_do_it(tmp_path: Path) -> None:
    async with opened_runtime([{"text": "a"}], tmp_path, database=FILE) as here:
        await here.finish("1")
    age(tmp_path)
    async with opened_runtime([], tmp_path, database=FILE, runtime=KEPT) as here:

        async def gone() -> bool:
            return await here.storage.threads.get(USER, "t") is None

        await until(gone, seconds=20)
