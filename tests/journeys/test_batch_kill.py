"""A batch survives kill -9: each item is worked on once, those under way at the kill go on."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

import pytest

from deerflow.runtime.request import RunResult
from deerflow.wiring.harness import Harness
from fakes.batches import THREAD, Outside, batch_harness, dies, request

CONCURRENCY = 4


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


async def test_a_batch_killed_in_the_middle_is_continued(tmp_path: Path, scale: Scale) -> None:
    total, die_at = scale(60, 500), scale(25, 200)
    names = [f"n{number}" for number in range(total)]
    _write_items(tmp_path, names)
    assert await dies(tmp_path, die_at)
    outside = Outside(tmp_path)
    marked_before = len(outside.read("marks"))
    async with batch_harness(outside, sandbox={"use": "local"}) as harness:
        result = await (await harness.runs.start(request(tmp_path, resume=True))).result()
        assert (result.status, result.text) == ("success", "All items are done.")
        attempts = await _attempts(harness)
        progress = await _progress(harness)

    assert marked_before == die_at
    under_way = {name for name, count in zip(names, attempts, strict=True) if count > 1}
    assert set(attempts) <= {1, 2}
    assert 1 <= len(under_way) <= CONCURRENCY

    marks = Counter(line["place"] for line in outside.read("marks"))
    assert set(marks.values()) == {1}, "no effect twice"
    assert set(names) - set(marks) <= under_way, "at most its outcome is unknown"
    asked = Counter((line["item"], line["turn"]) for line in outside.read("requests"))
    assert set(asked) == {(name, turn) for name in names for turn in (1, 2)}
    again = {item for (item, _), count in asked.items() if count > 1}
    assert again <= under_way, "no finished reply is paid for twice"

    _check_results(tmp_path, names)
    _check_usage(result, total)
    assert progress[-1] == {"done": total, "failed": 0, "waiting": 0, "total": total}
    assert len(progress) <= 20 + 3
    assert _rows(tmp_path, "checkpoints") < 20, "checkpoints do not grow with the items"
    print(
        f"{total} items, killed at mark {die_at}: {len(under_way)} under way, {len(again)} asked "
        f"again, {total - len(marks)} effects of unknown outcome, "
        f"{_rows(tmp_path, 'checkpoints')} checkpoints, {_rows(tmp_path, 'run_events')} events"
    )


@pytest.mark.soak
async def test_many_kills_repeat_no_effect_and_lose_no_item(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(60)]
    _write_items(tmp_path, names)
    dice = random.Random(3)
    assert await dies(tmp_path, 1)
    kills = 1
    while await dies(tmp_path, dice.randint(5, 9), resume=True):
        kills += 1
    outside = Outside(tmp_path)
    marks = Counter(line["place"] for line in outside.read("marks"))
    assert set(marks.values()) == {1}
    assert len(set(names) - set(marks)) <= kills * CONCURRENCY
    _check_results(tmp_path, names)
    assert kills >= 5
    print(f"{kills} kills, {len(names) - len(marks)} effects of unknown outcome")


def _write_items(home: Path, names: list[str]) -> None:
    lines = "".join(json.dumps({"name": name}) + "\n" for name in names)
    (home / "items.jsonl").write_text(lines, encoding="utf-8")


def _check_results(home: Path, names: list[str]) -> None:
    [file] = home.glob("users/*/threads/*/user-data/workspace/batches/items-*.jsonl")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {
            "index": index,
            "item": {"name": name},
            "status": "done",
            "result": f"Answer for {name}",
            "error": None,
        }
        for index, name in enumerate(names)
    ]
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no partial file stays"


def _check_usage(result: RunResult, total: int) -> None:
    callers = result.usage["by_caller"]
    assert callers["general-purpose"]["calls"] == 2 * total, "that of the dead process is not lost"
    assert callers["lead"]["calls"] == 2
    assert result.usage["total"]["input"] == 2 * 100 + 2 * total * 10


async def _attempts(harness: Harness) -> list[int]:
    [row] = await _batch_rows(harness)
    items = await harness.storage.batches.items(row["batch_id"])
    return [item.attempts for item in items]


async def _progress(harness: Harness) -> list[dict[str, Any]]:
    return [
        {key: row[key] for key in ("done", "failed", "waiting", "total")}
        for row in await _events(harness, "batch_progress")
    ]


async def _batch_rows(harness: Harness) -> list[dict[str, Any]]:
    return (await _events(harness, "batch_progress"))[-1:]


async def _events(harness: Harness, type: str) -> list[dict[str, Any]]:
    thread = await harness.storage.threads.ensure("local", THREAD)
    found: list[Any] = []
    while page := await harness.storage.events.read(
        thread.thread_key, after=found[-1].seq if found else 0
    ):
        found += page
    return [event.payload for event in found if event.type == type]


def _rows(home: Path, table: str) -> int:
    [file] = home.glob("**/deerflow.db")
    with sqlite3.connect(file) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()
    return count
