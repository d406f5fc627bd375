"""The last checkpoint of a run is stored with the run's end, and never lost without a word."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from deerflow.runtime.request import RunRequest
from deerflow.storage.checkpoints.chain import RESTING, Chain, Chains
from deerflow.storage.checkpoints.closings import closes
from deerflow.storage.protocol import CLOSING
from deerflow.storage.sql.open import database_file
from fakes.harness import scripted_harness

PLACE: dict[str, Any] = {"thread_id": "t", CLOSING: True}


def checkpoint(*updated: str) -> Any:
    return {"id": "1", "updated_channels": list(updated)}


@pytest.mark.parametrize("follows", ["branch:to:model", "join:a+b:c", "__pregel_tasks"])
def test_a_checkpoint_that_a_step_follows_closes_nothing(follows: str) -> None:
    assert not closes({"configurable": PLACE}, checkpoint("messages", follows))


def test_the_last_checkpoint_closes_a_run_whose_end_is_announced() -> None:
    assert closes({"configurable": PLACE}, checkpoint("messages"))
    assert not closes({"configurable": {"thread_id": "t"}}, checkpoint("messages"))
    assert not closes({"configurable": PLACE}, {"id": "1"})  # of a LangGraph that does not tell


async def test_a_last_state_that_cannot_be_stored_is_an_error(tmp_path: Path) -> None:
    """The disk is full, say, at the very last write: the run is no success."""
    database: dict[str, Any] = {"backend": "sqlite"}
    async with scripted_harness(["one", "two", "three"], tmp_path, database=database) as harness:
        first = await (await harness.runs.start(RunRequest("Count", thread_id="t"))).result()
        assert (first.status, first.text) == ("success", "one")
        file = database_file(harness.loaded.config.database, tmp_path)
        with sqlite3.connect(file) as connection:
            connection.execute(
                "CREATE TRIGGER no BEFORE INSERT ON checkpoints"
                " WHEN (SELECT count(*) FROM checkpoints WHERE run_id = NEW.run_id) >= 2"
                " BEGIN SELECT RAISE(FAIL, 'no more'); END"
            )
        second = await (await harness.runs.start(RunRequest("Count", thread_id="t"))).result()
        assert second.status == "error"
        assert second.error is not None
        assert second.error["code"] == "storage_error"
        rows = await harness.storage.threads.runs(first_key := (await _key(harness)))
        assert [row.status for row in rows] == ["error", "success"]
        events = await harness.storage.events.read(first_key)
        assert [e.payload["status"] for e in events if e.type == "run_ended"] == [
            "success",
            "error",
        ]
        with sqlite3.connect(file) as connection:
            connection.execute("DROP TRIGGER no")
        third = await (await harness.runs.start(RunRequest("Count", thread_id="t"))).result()
        assert (third.status, third.text) == ("success", "three")


async def _key(harness: Any) -> str:
    thread = await harness.storage.threads.get("local", "t")
    return thread.thread_key


def test_of_threads_whose_run_has_ended_the_newest_are_kept() -> None:
    chains = Chains()
    for number in range(RESTING + 3):
        chains.put(f"t{number}", "", Chain("head"))
        chains.rest(f"t{number}", "")
    kept = [number for number in range(RESTING + 3) if chains.peek(f"t{number}", "", "head")]
    assert kept == list(range(3, RESTING + 3))


def test_a_thread_that_goes_on_rests_no_more() -> None:
    chains = Chains()
    chains.put("first", "", Chain("head"))
    chains.rest("first", "")
    assert chains.get("first", "", "head") is not None
    for number in range(RESTING + 3):
        chains.put(f"t{number}", "", Chain("head"))
        chains.rest(f"t{number}", "")
    assert chains.peek("first", "", "head") is not None
