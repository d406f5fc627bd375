"""Followers: gaps are filled from the database, slow readers cost nothing and lose nothing."""

import asyncio
import gc

import pytest

from deerflow.events import Event
from deerflow.storage.follow import PIECES, QUEUE, DeltaFollower, Dropped, EventFollower, Hub
from deerflow.storage.protocol import Delta


def event(seq: int) -> Event:
    """An event with nothing in it."""
    return Event(seq, "notice", "r", "t", 0.0, {})


class Log:
    """A log that counts how often it is read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.reads = 0

    async def page(self, after: int) -> list[Event]:
        """Up to 500 events."""
        self.reads += 1
        return self.events[after : after + 500]


async def test_live_events_are_not_read_again() -> None:
    log = Log()
    follower = EventFollower(log.page, 0)
    waiting = asyncio.create_task(anext(follower))
    await asyncio.sleep(0)
    follower.push([event(1), event(2)])

    assert (await waiting).seq == 1
    assert (await anext(follower)).seq == 2
    assert log.reads == 1


async def test_a_gap_is_filled_and_repeats_are_skipped() -> None:
    log = Log()
    follower = EventFollower(log.page, 0)
    log.events = [event(n) for n in range(1, 6)]
    follower.push([event(1), event(1), event(4)])

    assert [(await anext(follower)).seq for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_a_queue_that_is_too_long_is_given_up_for_the_database() -> None:
    log = Log()
    follower = EventFollower(log.page, 0)
    for seq in range(1, 3 * QUEUE):
        log.events.append(event(seq))
        follower.push([event(seq)])

    seen = [(await anext(follower)).seq for _ in range(3 * QUEUE - 1)]

    assert seen == list(range(1, 3 * QUEUE))


async def test_a_read_that_fails_is_repeated() -> None:
    log = Log()
    log.events = [event(1)]

    async def broken(after: int) -> list[Event]:
        if log.reads == 0:
            log.reads += 1
            raise OSError
        return await log.page(after)

    follower = EventFollower(broken, 0)
    with pytest.raises(OSError):
        await anext(follower)

    assert (await anext(follower)).seq == 1


async def test_deltas_join_when_nobody_reads() -> None:
    follower = DeltaFollower()
    for n in range(PIECES + 1000):
        follower.push([Delta("r", "m", n, "x")])
    follower.end()

    got = [delta async for delta in follower]

    assert len(got) == PIECES
    assert "".join(delta.text for delta in got) == "x" * (PIECES + 1000)


async def test_text_that_was_given_is_not_given_again() -> None:
    follower = DeltaFollower()
    follower.push([Delta("r", "m", 0, "abc"), Delta("r", "m", 0, "abcde"), Delta("r", "m", 1, "b")])
    follower.push([Dropped("r", "m"), Delta("r", "m", 0, "new")])
    follower.end()

    got = [(delta.offset, delta.text) async for delta in follower]

    assert got == [(0, "abc"), (3, "de"), (0, "new")]


async def test_a_follower_that_is_dropped_is_forgotten() -> None:
    hub, log = Hub(), Log()
    follower = hub.follow_events("key", EventFollower(log.page, 0))
    assert hub.watched
    assert hub.event_followers("key") == [follower]
    del follower
    gc.collect()

    assert not hub.watched


async def test_end_reaches_every_follower() -> None:
    hub, log = Hub(), Log()
    events = hub.follow_events("a", EventFollower(log.page, 0))
    deltas = hub.follow_deltas("b", DeltaFollower())
    hub.end()

    assert [found async for found in events] == []
    assert [found async for found in deltas] == []
