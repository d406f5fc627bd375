from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deerflow.events import Event
from deerflow.gateway.frames.places import SKEW_SECONDS, beginning
from deerflow.storage.protocol import ThreadRow

STEP = 10 * SKEW_SECONDS


class Written:
    """A log with an event every STEP seconds, without those that were removed."""

    def __init__(self, last: int, removed: frozenset[int] = frozenset()) -> None:
        self.events = self
        self.looks = 0
        self._events = [
            Event(seq, "message", "r", "t", seq * STEP, {})
            for seq in range(1, last + 1)
            if seq not in removed
        ]
        self.thread: Any = SimpleNamespace(thread_key="k", last_seq=last)

    async def read(self, thread_key: str, *, after: int, limit: int) -> list[Event]:
        self.looks += 1
        return [event for event in self._events if event.seq > after][:limit]


async def found(log: Written, created_at: float) -> int:
    storage: Any = log
    thread: ThreadRow = log.thread
    return await beginning(storage, thread, created_at)


@pytest.mark.parametrize("removed", [(), (1, 2), (4,), (8, 9), (3, 4, 5, 6, 7)])
@pytest.mark.parametrize("first", range(1, 11))
async def test_a_run_s_first_event_is_behind_the_place_and_no_older_one(
    first: int, removed: tuple[int, ...]
) -> None:
    log = Written(9, frozenset(removed))
    place = await found(log, first * STEP)
    behind = [event.seq for event in await log.read("k", after=place, limit=99)]
    assert behind == [seq for seq in range(first, 10) if seq not in removed]


async def test_the_first_run_of_a_thread_is_found_with_one_look() -> None:
    log = Written(1_000)
    assert await found(log, STEP) == 0
    assert log.looks == 1


async def test_an_empty_log_begins_at_its_beginning() -> None:
    assert await found(Written(0), STEP) == 0
