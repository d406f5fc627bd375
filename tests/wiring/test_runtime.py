"""The runtime of a serving process: which engine it gets, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ConflictError
from deerflow.runtime.durable import DbosEngine
from deerflow.runtime.engine import Engine, InProcessEngine
from fakes.opened import opened_runtime

SQLITE: dict[str, Any] = {"backend": "sqlite"}


async def test_a_database_in_memory_has_no_ledger(tmp_path: Path) -> None:
    async with opened_runtime([{"text": "Hi."}], tmp_path, durable=True) as one:
        assert isinstance(one.runtime.engine, InProcessEngine)
        assert isinstance(one.runtime.engine, Engine)
        assert (await one.finish("Hello")).status == "success"
    assert not (tmp_path / "data").exists()


async def test_a_process_that_executes_nothing_leaves_the_run_to_the_next(tmp_path: Path) -> None:
    script = [{"text": "Hi."}]
    async with opened_runtime(script, tmp_path, execute=False, database=SQLITE) as one:
        run = await one.submit("Hello")
        assert (one.runtime.engine.worker_id, one.runtime.supervisor) == ("", None)
        assert await one.storage.workers.living() == []
    async with opened_runtime(script, tmp_path, database=SQLITE) as two:
        found = await two.runtime.submissions.wait(run.thread_key, run.run_id)
        (worker,) = await two.storage.workers.living()
        assert worker.worker_id == two.runtime.engine.worker_id
    assert found.status == "success"


async def test_the_ledger_lies_beside_the_database_and_is_there_once(tmp_path: Path) -> None:
    script = [{"text": "Hi."}] * 2
    async with opened_runtime(script, tmp_path, durable=True, database=SQLITE) as one:
        assert isinstance(one.runtime.engine, DbosEngine)
        assert (await one.finish("Hello")).status == "success"
        with pytest.raises(ConflictError, match="has a ledger"):
            async with opened_runtime(script, tmp_path, durable=True, database=SQLITE):
                pass
        # who only hands runs on may be there as well
        more: dict[str, Any] = {"durable": True, "execute": False, "database": SQLITE}
        async with opened_runtime(script, tmp_path, **more) as hand:
            run = await hand.submit("Hello", "other")
            found = await one.runtime.submissions.wait(run.thread_key, run.run_id)
        assert found.status == "success"
    assert {file.name for file in (tmp_path / "data").glob("*.db")} == {"deerflow.db", "dbos.db"}
