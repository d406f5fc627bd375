from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from deerflow.errors import StorageError
from deerflow.gateway.frames.encode import frame
from deerflow.gateway.frames.sharing import ALTOGETHER, EARLY, RETAINED, Same, Sharing, last_id
from fakes.streams import FOUR, Log, frames_of, log

CHUNK = 64 * 1024


@dataclass
class Numbers:
    """A log of numbered frames, two a chunk; each reading of it is written down.

    Attributes:
        last: number of its last frame; what is behind `written` waits for `more`.
        size: bytes of a frame's payload.
        begun: where each reading began.
        given: numbers that were read, of all readings together.
    """

    last: int
    size: int = 1
    written: int = 10**9
    more: asyncio.Event = field(default_factory=asyncio.Event)
    begun: list[str] = field(default_factory=list[str])
    given: list[int] = field(default_factory=list[int])
    open: int = 0
    fails_at: int = 0

    async def read(self, after: str) -> AsyncGenerator[bytes]:
        self.begun.append(after)
        self.open += 1
        try:
            for number in range(int(after or 0) + 1, self.last + 1, 2):
                if number > self.written:
                    await self.more.wait()
                if self.fails_at and number >= self.fails_at:
                    raise StorageError("The database is away.")
                both = range(number, min(number + 2, self.last + 1))
                self.given += both
                yield b"".join(frame("n", b"x" * self.size, str(n)) for n in both)
        finally:
            self.open -= 1


def numbers_in(*chunks: bytes) -> list[int]:
    """Ids of the frames."""
    lines = b"".join(chunks).split(b"\n")
    return [int(line[4:]) for line in lines if line.startswith(b"id: ")]


async def rest(chunks: AsyncGenerator[bytes]) -> list[int]:
    """Numbers of everything that comes."""
    async with asyncio.timeout(20):
        return numbers_in(*[chunk async for chunk in chunks])


@dataclass
class Shared:
    """Readers of a log of numbers in one `Sharing`, all closed in the end."""

    found: Log
    sharing: Sharing
    stack: AsyncExitStack

    async def reader(
        self, read: Callable[[str], AsyncGenerator[bytes]], after: str = "", *, over: bool = True
    ) -> AsyncGenerator[bytes]:
        same = Same(self.found.thread.thread_key, over, "wish")
        chunks = self.sharing.follow(same, after, read)
        return await self.stack.enter_async_context(aclosing(chunks))


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncGenerator[Shared]:
    async with log(tmp_path) as found, AsyncExitStack() as stack:
        yield Shared(found, Sharing(found.storage), stack)


async def test_readers_of_the_same_share_one_reading_and_its_bytes(shared: Shared) -> None:
    numbers = Numbers(9)
    readers = [await shared.reader(numbers.read) for _ in range(3)]
    firsts = [await anext(reader) for reader in readers]
    assert firsts[0] is firsts[1] is firsts[2]
    for reader in readers:
        assert await rest(reader) == [3, 4, 5, 6, 7, 8, 9]
    assert numbers.begun == [""]
    assert numbers.given == list(range(1, 10))


async def test_a_reader_in_the_middle_of_a_chunk_gets_what_is_behind_its_place(
    shared: Shared,
) -> None:
    numbers = Numbers(9)
    first = await shared.reader(numbers.read)
    await anext(first), await anext(first)
    others = [await shared.reader(numbers.read, after) for after in ("1", "2", "3", "4")]
    found = [await rest(other) for other in others]
    assert found == [list(range(n, 10)) for n in (2, 3, 4, 5)]
    assert await rest(first) == [5, 6, 7, 8, 9]
    assert numbers.begun == [""]


async def test_a_reader_whose_place_is_not_there_begins_its_own(shared: Shared) -> None:
    numbers = Numbers(9)
    first = await shared.reader(numbers.read)
    assert numbers_in(await anext(first)) == [1, 2]
    ahead = await shared.reader(numbers.read, "5")
    assert await rest(ahead) == [6, 7, 8, 9]
    assert await rest(first) == [3, 4, 5, 6, 7, 8, 9]
    assert numbers.begun == ["", "5"]


async def test_nothing_is_read_before_a_reader_has_room_for_it(shared: Shared) -> None:
    numbers = Numbers(99)
    readers = [await shared.reader(numbers.read) for _ in range(2)]
    await anext(readers[0])
    await anext(readers[1])
    for _ in range(50):
        await asyncio.sleep(0)
    assert numbers.given == [1, 2]


async def test_a_slow_reader_costs_bounded_memory_and_misses_nothing(shared: Shared) -> None:
    numbers = Numbers(200, size=CHUNK // 2)
    fast, slow, slower = [await shared.reader(numbers.read) for _ in range(3)]
    begun = [await anext(slow), await anext(slower)]
    seen = []
    async for chunk in fast:
        seen.append(chunk)
        assert shared.sharing.held <= RETAINED + 2 * CHUNK
    assert numbers_in(*seen) == list(range(1, 201))
    assert numbers_in(*begun) == [1, 2, 1, 2]
    assert await rest(slow) == list(range(3, 201))
    assert await rest(slower) == list(range(3, 201))
    assert numbers.begun[:2] == ["", "2"]
    assert shared.sharing.held == 0


async def test_all_readings_together_keep_a_bounded_number_of_bytes(shared: Shared) -> None:
    sharing, key = shared.sharing, shared.found.thread.thread_key
    most = 40
    for wish in range(most):
        numbers = Numbers(32, size=CHUNK // 2)
        chunks = sharing.follow(Same(key, True, wish), "", numbers.read)
        reader = await shared.stack.enter_async_context(aclosing(chunks))
        for _ in range(16):
            await anext(reader)
        assert sharing.held <= ALTOGETHER + most * 2 * CHUNK
    assert sharing.held > ALTOGETHER // 2


async def test_what_nobody_reads_any_more_is_closed_and_forgotten(shared: Shared) -> None:
    numbers = Numbers(9)
    readers = [await shared.reader(numbers.read) for _ in range(2)]
    for reader in readers:
        await anext(reader)
    await readers[0].aclose()
    assert (numbers.open, shared.sharing.held > 0) == (1, True)
    await readers[1].aclose()
    assert (numbers.open, shared.sharing.held) == (0, 0)
    assert await rest(await shared.reader(numbers.read)) == list(range(1, 10))
    assert numbers.begun == ["", ""]


async def test_a_reader_that_leaves_while_it_waits_takes_nobody_along(shared: Shared) -> None:
    numbers = Numbers(4, written=2)
    readers = [await shared.reader(numbers.read, over=False) for _ in range(3)]
    for reader in readers:
        assert numbers_in(await anext(reader)) == [1, 2]
    waiting = [asyncio.create_task(rest(reader)) for reader in readers]
    for _ in range(5):
        await asyncio.sleep(0)
    waiting[0].cancel()  # it was the first to wait
    await asyncio.wait({waiting[0]})
    numbers.more.set()
    assert [await task for task in waiting[1:]] == [[3, 4], [3, 4]]
    assert numbers.begun == [""]


async def test_every_reader_is_told_that_the_log_cannot_be_read(shared: Shared) -> None:
    numbers = Numbers(9, fails_at=3)
    readers = [await shared.reader(numbers.read) for _ in range(3)]
    for reader in readers:
        assert numbers_in(await anext(reader)) == [1, 2]
    for reader in readers:
        with pytest.raises(StorageError, match="away"):
            await anext(reader)
    assert numbers.open == 0


async def test_late_readers_of_a_run_that_goes_on_are_spared_its_pieces(shared: Shared) -> None:
    numbers = Numbers(20, size=EARLY // 4)
    first = await shared.reader(numbers.read, over=False)
    await anext(first)
    early = await shared.reader(numbers.read, over=False)
    await anext(early)
    assert numbers.begun == [""]
    await anext(first), await anext(first)
    late = await shared.reader(numbers.read, over=False)
    back = await shared.reader(numbers.read, "6", over=False)  # where the first is
    assert await rest(late) == list(range(1, 21))
    assert await rest(back) == list(range(7, 21))
    assert numbers.begun == ["", ""]


async def test_who_has_everything_of_an_ended_reading_reads_the_log_again(shared: Shared) -> None:
    numbers = Numbers(4)
    slow, fast = [await shared.reader(numbers.read) for _ in range(2)]
    await anext(slow)
    assert await rest(fast) == [1, 2, 3, 4]
    assert await rest(await shared.reader(numbers.read, "4")) == []
    assert numbers.begun == ["", "4"]  # the log tells the end once more
    assert await rest(slow) == [3, 4]


async def test_an_ended_reading_of_a_run_that_may_go_on_takes_nobody(shared: Shared) -> None:
    numbers = Numbers(4)
    slow, fast = [await shared.reader(numbers.read, over=False) for _ in range(2)]
    await anext(slow)
    await rest(fast)
    numbers.last = 6
    assert await rest(await shared.reader(numbers.read, over=False)) == [1, 2, 3, 4, 5, 6]


async def test_what_is_kept_of_a_deleted_thread_is_told_to_nobody(shared: Shared) -> None:
    numbers = Numbers(9)
    slow, fast = [await shared.reader(numbers.read) for _ in range(2)]
    assert numbers_in(await anext(slow)) == [1, 2]
    assert await rest(fast) == list(range(1, 10))
    assert shared.sharing.held > 0
    assert await shared.found.storage.threads.delete("local", "t") is not None
    async with asyncio.timeout(20):
        while shared.sharing.held:  # noqa: ASYNC110  (nothing tells that it has heard)
            await asyncio.sleep(0)
    assert await rest(slow) == []
    assert numbers.begun == [""]  # and nobody reads the log for it either


def test_the_last_id_of_a_chunk() -> None:
    assert last_id(frame("a", b"1", "7:m:3") + frame("values", b"{}")) == "7:m:3"
    assert last_id(b": heartbeat\n\n") == ""


# --- the log itself ---


async def long_run(found: Log, messages: int = 40) -> Log:
    """An ended run whose frames are several chunks."""
    await found.begin()
    for number in range(messages):
        await found.say(f"m{number}", f"{number} " + "long " * 2_000)
    await found.end()
    row = await found.storage.threads.run(found.run.run_id)
    thread = await found.storage.threads.by_key(found.thread.thread_key)
    assert row is not None
    assert thread is not None
    return replace(found, run=row, thread=thread)


async def test_readers_of_a_log_at_different_places_get_every_frame_once(tmp_path: Path) -> None:
    async with log(tmp_path) as found:
        done = await long_run(found)
        alone = await done.read(FOUR)
        frames, ids = done.frames(), [sent.id for sent in alone if sent.id]
        places = ["", ids[0], ids[7], ids[len(ids) // 2], ids[-2], ids[-1]]

        async def raw(after: str) -> bytes:
            async with aclosing(frames.follow(done.asked(FOUR, after))) as chunks:
                return b"".join([chunk async for chunk in chunks])

        together = await asyncio.gather(*(raw(place) for place in places))
        for place, data in zip(places, together, strict=True):
            start = [sent.id for sent in alone].index(place) + 1 if place else 0
            assert frames_of(data) == (alone[start:] or alone[-1:])


async def test_who_comes_when_the_thread_is_gone_gets_nothing_of_a_reading_that_is_left(
    tmp_path: Path,
) -> None:
    """The one who reads alone has not heard of it yet."""
    async with log(tmp_path) as found:
        done = await long_run(found)
        frames, asked = done.frames(), done.asked(FOUR)
        async with aclosing(frames.follow(asked)) as alone:
            await anext(alone)
            assert b"0 long" in await anext(alone)
            assert await found.storage.threads.delete("local", "t") is not None
            async with asyncio.timeout(20), aclosing(frames.follow(asked)) as late:
                assert b"long" not in b"".join([chunk async for chunk in late])
