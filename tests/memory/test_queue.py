"""The queue of exchanges: when they are due, what a failure costs, what a stop leaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.agents import MemoryBackendConfig
from deerflow.config.schema import DatabaseConfig
from deerflow.errors import LimitError, StorageError
from deerflow.memory.deermem.queue import (
    LONG_WAIT,
    PARALLEL,
    WAITS,
    MemoryUpdateQueue,
    entry_id_of,
)
from deerflow.memory.deermem.updater import MemoryUpdater
from deerflow.memory.inmemory import InMemoryStorage
from deerflow.memory.protocol import Exchange, MemoryDocument, Mutate
from deerflow.storage.inmemory import InMemoryStorage as Stores
from deerflow.storage.protocol import QueuedExchange, Storage
from deerflow.storage.sql.open import open_storage
from fakes.extractor import Extractor

FAR = 60.0
"""Seconds that no flush here takes."""


@dataclass
class Bench:
    """A queue on real stores with a clock that the test turns."""

    stores: Storage
    model: Extractor = field(default_factory=Extractor)
    memory: InMemoryStorage = field(default_factory=InMemoryStorage)
    now: float = 1_000.0
    keys: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    made: list[MemoryUpdateQueue] = field(default_factory=list[MemoryUpdateQueue])

    def queue(self, **config: Any) -> MemoryUpdateQueue:
        made = MemoryUpdateQueue(
            self.stores.memory_queue,
            MemoryUpdater(self.model),
            self.memory,
            MemoryBackendConfig(**config),
            clock=lambda: self.now,
        )
        self.made.append(made)
        return made

    async def say(
        self,
        queue: MemoryUpdateQueue,
        text: str,
        *,
        user: str = "ann",
        thread: str = "t",
        id: str = "",
    ) -> str:
        if (user, thread) not in self.keys:
            row = await self.stores.threads.ensure(user, thread)
            self.keys[user, thread] = row.thread_key
        exchange = Exchange(f"remember: {text};", "Noted.", id or f"m-{text}", self.now, thread)
        return await queue.put(user, self.keys[user, thread], exchange)

    async def facts(self, user: str = "ann") -> list[str]:
        return [fact.content for fact in (await self.memory.load(user)).current]


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    sqlite = request.param == "sqlite"
    stores: Storage = await open_storage(DatabaseConfig(), tmp_path) if sqlite else Stores()
    bench = Bench(stores)
    yield bench
    for queue in bench.made:
        await queue.close()
    await stores.close()


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for what a task in the background brings about."""
    async with asyncio.timeout(FAR):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.005)


async def due(bench: Bench, queue: MemoryUpdateQueue, seconds: float) -> int:
    """Turn the clock and work off what is due then; how many entries."""
    await bench.stores.flush()
    bench.now += seconds
    return (await queue.flush(seconds=FAR, force=False)).done


async def test_an_exchange_becomes_facts_that_say_where_they_came_from(bench: Bench) -> None:
    queue = bench.queue()
    entry = await bench.say(queue, "lives in Oslo")
    assert entry == entry_id_of(bench.keys["ann", "t"], "m-lives in Oslo")
    await bench.stores.flush()
    report = await queue.flush(seconds=FAR)
    assert (report.done, report.left, report.timed_out) == (1, 0, False)
    (fact,) = (await bench.memory.load("ann")).current
    assert (fact.source.thread, fact.source.message) == ("t", "m-lives in Oslo")
    assert fact.created_at == 1_000.0


async def test_chit_chat_is_not_queued(bench: Bench) -> None:
    queue = bench.queue()
    key = (await bench.stores.threads.ensure("ann", "t")).thread_key
    assert await queue.put("ann", key, Exchange("Thank you!", "You are welcome.", "m")) == ""
    assert await queue.pending("ann") == 0


async def test_the_same_message_is_queued_once(bench: Bench) -> None:
    queue = bench.queue()
    first = await bench.say(queue, "a", id="m")
    assert await bench.say(queue, "a", id="m") == first
    await bench.stores.flush()
    assert await queue.pending() == 1


async def test_exchanges_wait_for_thirty_quiet_seconds_and_go_together(bench: Bench) -> None:
    queue = bench.queue()
    await bench.say(queue, "a")
    assert await due(bench, queue, 29) == 0
    await bench.say(queue, "b")
    assert await due(bench, queue, 29) == 0, "the second one has put both off"
    assert await due(bench, queue, 1) == 2
    assert len(bench.model.prompts) == 1
    assert await bench.facts() == ["a", "b"]


async def test_steady_traffic_cannot_put_it_off_for_more_than_two_minutes(bench: Bench) -> None:
    queue = bench.queue()
    done: list[int] = []
    for number in range(13):
        await bench.say(queue, f"f{number}")
        done.append(await due(bench, queue, 10))
    assert done[:11] == [0] * 11
    assert done[11] == 12
    assert len(bench.model.prompts) == 1


async def test_the_configuration_sets_both_times(bench: Bench) -> None:
    queue = bench.queue(debounce_seconds=5, max_wait_seconds=6)
    await bench.say(queue, "a")
    assert await due(bench, queue, 4) == 0
    await bench.say(queue, "b")
    assert await due(bench, queue, 2) == 2


async def test_a_flush_by_force_skips_the_debounce_of_its_user_alone(bench: Bench) -> None:
    queue = bench.queue()
    for thread in ("t1", "t2"):
        await bench.say(queue, f"ann in {thread}", thread=thread)
        await bench.say(queue, f"bob in {thread}", user="bob", thread=thread)
    await bench.stores.flush()
    report = await queue.flush(user_id="ann", seconds=FAR)
    assert (report.done, report.left) == (2, 0)
    assert await bench.facts() == ["ann in t1", "ann in t2"]
    assert await bench.facts("bob") == []
    assert await queue.pending("bob") == 2
    assert {user for user, _ in bench.model.prompts} == {"ann"}


async def test_users_are_worked_off_side_by_side_but_bounded(bench: Bench) -> None:
    queue = bench.queue()
    for number in range(10):
        await bench.say(queue, "a", user=f"u{number}")
        await bench.say(queue, "b", user=f"u{number}", thread="t2")
    await bench.stores.flush()
    bench.model.gate = asyncio.Event()
    flush = asyncio.create_task(queue.flush(seconds=FAR))
    await until(lambda: bench.model.running == PARALLEL)
    bench.model.gate.set()
    assert (await flush).done == 20
    assert bench.model.most == PARALLEL
    for number in range(10):
        assert sorted(await bench.facts(f"u{number}")) == ["a", "b"]


async def test_many_long_exchanges_of_a_thread_take_several_calls(bench: Bench) -> None:
    queue = bench.queue()
    for number in range(8):
        await bench.say(queue, f"f{number}" + " x" * 3_500, id=f"m{number}")
    await bench.stores.flush()
    assert (await queue.flush(seconds=FAR)).done == 8
    assert len(bench.model.prompts) == 3


async def test_a_failure_waits_longer_each_time_and_drops_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    queue = bench.queue()
    await bench.say(queue, "a")
    bench.model.fail(7)
    waits = [30.0, *WAITS, LONG_WAIT, LONG_WAIT]
    for number, wait in enumerate(waits, 1):
        assert await due(bench, queue, wait - 1) == 0
        assert len(bench.model.prompts) == number - 1
        assert await due(bench, queue, 1) == 0
        assert len(bench.model.prompts) == number
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING"] * 4 + ["ERROR"] * 3
    assert await queue.pending() == 1
    bench.model.errors.clear()
    assert await due(bench, queue, LONG_WAIT) == 1
    assert await bench.facts() == ["a"]


async def test_a_reply_without_json_is_a_failure_like_any_other(bench: Bench) -> None:
    bench.model = Extractor(lambda _: "I would rather talk.")
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    report = await queue.flush(seconds=FAR)
    assert (report.done, report.left, report.timed_out) == (0, 1, False)
    assert len(bench.model.prompts) == 1, "a flush tries once"


async def test_a_budget_that_is_used_up_is_waited_for(bench: Bench) -> None:
    bench.model.errors.append(LimitError("no budget", rule="user_day", used=2, limit=1))
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    assert (await queue.flush(seconds=FAR)).left == 1
    assert await due(bench, queue, WAITS[0]) == 1


async def test_a_thread_that_fails_does_not_hold_up_the_user_s_others(bench: Bench) -> None:
    def reply(value: dict[str, Any]) -> str:
        text = value["exchanges"][0]["user"]
        return "?" if "bad" in text else '{"facts": [{"content": "good", "confidence": 1}]}'

    bench.model = Extractor(reply)
    queue = bench.queue()
    await bench.say(queue, "bad", thread="t1")
    bench.now += 1
    await bench.say(queue, "good", thread="t2")
    await bench.stores.flush()
    report = await queue.flush(user_id="ann", seconds=FAR)
    assert (report.done, report.left) == (1, 1)
    assert await bench.facts() == ["good"]
    assert len(bench.model.prompts) == 2
    assert await bench.stores.memory_queue.next_due("ann") == bench.now + WAITS[0]


async def test_what_has_failed_five_times_is_left_to_its_time_by_force_too(bench: Bench) -> None:
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    bench.model.fail(5)
    for _ in range(5):
        await queue.flush(seconds=FAR)
    calls = len(bench.model.prompts)
    when = await bench.stores.memory_queue.next_due()
    for _ in range(3):
        bench.now += 60
        assert (await queue.flush(seconds=FAR)).left == 1
    assert len(bench.model.prompts) == calls
    assert await bench.stores.memory_queue.next_due() == when
    bench.now = when or 0
    assert (await queue.flush(seconds=FAR)).done == 1


async def test_a_damaged_memory_keeps_its_exchanges(bench: Bench) -> None:
    class Damaged(InMemoryStorage):
        async def load(self, user_id: str) -> MemoryDocument:
            raise StorageError("cut in half")

    bench.memory = Damaged()
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    assert (await queue.flush(seconds=FAR)).left == 1
    assert bench.model.prompts == [], "nothing is paid for"
    bench.memory = InMemoryStorage()
    assert await due(bench, bench.queue(), WAITS[0]) == 1
    assert await bench.facts() == ["a"]


async def test_a_crash_between_the_facts_and_the_queue_doubles_nothing(bench: Bench) -> None:
    class Dies(InMemoryStorage):
        """Stores, then breaks as if the process had died."""

        broken = True

        async def update(self, user_id: str, mutate: Mutate) -> MemoryDocument:
            stored = await super().update(user_id, mutate)
            if self.broken:
                self.broken = False
                raise StorageError("died here")
            return stored

    bench.memory = Dies()
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    assert (await queue.flush(seconds=FAR)).left == 1
    assert await bench.facts() == ["a"]
    assert (await queue.flush(seconds=FAR)).done == 1
    document = await bench.memory.load("ann")
    assert [fact.content for fact in document.facts] == ["a"]
    assert document.revision == 1
    assert len(bench.model.prompts) == 1, "what is taken in is not paid for again"


async def test_the_model_is_asked_outside_of_the_lock(bench: Bench) -> None:
    gate = asyncio.Event()
    bench.model = Extractor(gate=gate)
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    flush = asyncio.create_task(queue.flush(seconds=FAR))
    await bench.model.entered.wait()
    other = bench.queue()
    bench.model.gate = None
    assert (await other.flush(user_id="bob", seconds=FAR)).left == 0
    await bench.memory.update("ann", lambda d: (d.with_(updated_at=1.0), "by hand"))
    gate.set()
    assert (await flush).done == 1
    assert [change.what for change in await bench.memory.changes("ann")] == [
        "added 1 fact from thread t", "by hand",
    ]  # fmt: skip


async def test_p14_a_call_of_sixty_seconds_at_shutdown_is_cut_and_continued(bench: Bench) -> None:
    bench.model = Extractor(gate=asyncio.Event())
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    report = await queue.flush(seconds=0.05)
    assert (report.done, report.left, report.timed_out) == (0, 1, True)
    assert bench.model.running == 0, "the call was cut off"
    await queue.close()
    bench.model = Extractor()
    assert (await bench.queue().flush(seconds=FAR)).done == 1
    assert await bench.facts() == ["a"]


async def test_a_flush_that_is_cancelled_leaves_nothing_claimed(bench: Bench) -> None:
    bench.model = Extractor(gate=asyncio.Event())
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    flush = asyncio.create_task(queue.flush(seconds=FAR))
    await bench.model.entered.wait()
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert bench.model.running == 0
    bench.model.gate = None
    assert (await queue.flush(seconds=FAR)).done == 1


async def test_a_flush_without_time_does_nothing(bench: Bench) -> None:
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    report = await queue.flush(seconds=0)
    assert (report.done, report.left, report.timed_out) == (0, 1, True)


# ---- the worker ----


async def remembered(bench: Bench, *contents: str, user: str = "ann") -> None:
    async def there() -> bool:
        return sorted(await bench.facts(user)) == sorted(contents)

    await until(there)


async def test_the_worker_takes_what_is_due_and_wakes_on_a_put(bench: Bench) -> None:
    queue = bench.queue(debounce_seconds=0)
    await queue.start()
    await queue.start()
    await bench.say(queue, "a")
    await remembered(bench, "a")
    await bench.say(queue, "b", thread="t2")
    await bench.say(queue, "c", user="bob")
    await remembered(bench, "a", "b")
    await remembered(bench, "c", user="bob")


async def test_the_worker_outlives_a_model_that_is_down(bench: Bench) -> None:
    queue = bench.queue(debounce_seconds=0)
    bench.model.fail(1)
    await queue.start()
    await bench.say(queue, "a")
    await bench.say(queue, "b", user="bob")

    async def one_waits() -> bool:
        return await queue.pending() == 1

    await until(one_waits)
    bench.now += WAITS[0]
    await bench.say(queue, "c", user="cid")
    await remembered(bench, "c", user="cid")
    await remembered(bench, "a")


async def test_close_stops_at_once_and_gives_back(bench: Bench) -> None:
    bench.model = Extractor(gate=asyncio.Event())
    queue = bench.queue(debounce_seconds=0)
    await queue.start()
    await bench.say(queue, "a")
    await bench.model.entered.wait()
    await queue.close()
    await queue.close()
    assert bench.model.running == 0
    assert await queue.pending() == 1
    bench.model.gate = None
    assert (await queue.flush(seconds=FAR)).done == 1


async def test_a_flush_waits_for_what_the_worker_has_under_way(bench: Bench) -> None:
    bench.model = Extractor(gate=(gate := asyncio.Event()))
    queue = bench.queue(debounce_seconds=0)
    await queue.start()
    await bench.say(queue, "a")
    await bench.model.entered.wait()
    flush = asyncio.create_task(queue.flush(seconds=FAR))
    await asyncio.sleep(0)
    gate.set()
    assert (await flush).left == 0
    assert await bench.facts() == ["a"]


async def test_discard_drops_what_waits_of_a_user(bench: Bench) -> None:
    gate = asyncio.Event()
    bench.model = Extractor(gate=gate)
    queue = bench.queue(debounce_seconds=0)
    await queue.start()
    await bench.say(queue, "a")
    await bench.model.entered.wait()
    await bench.say(queue, "b", thread="t2")
    await bench.say(queue, "c", user="bob")
    await bench.stores.flush()
    assert await queue.discard("ann") == 2
    gate.set()  # the worker may be inside with bob's already
    await queue.flush(seconds=FAR)
    assert await bench.facts() == []
    assert await bench.facts("bob") == ["c"]


async def test_a_deleted_thread_takes_its_exchanges_along(bench: Bench) -> None:
    queue = bench.queue()
    await bench.say(queue, "a")
    await bench.stores.flush()
    await bench.stores.threads.delete("ann", "t")
    assert (await queue.flush(seconds=FAR)).left == 0
    assert await bench.facts() == []


async def test_entries_that_cannot_be_given_back_are_owed(bench: Bench) -> None:
    real = bench.stores.memory_queue
    broken = True

    class Stubborn:
        """The queue, but a full disk at the moment of giving back."""

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        async def release(self, entry_ids: Sequence[str], *, due_at: float) -> None:
            if broken:
                raise StorageError("disk full")
            await real.release(entry_ids, due_at=due_at)

    queue = MemoryUpdateQueue(
        Stubborn(),  # type: ignore[arg-type]
        MemoryUpdater(bench.model),
        bench.memory,
        MemoryBackendConfig(),
        clock=lambda: bench.now,
    )
    bench.model.fail(1)
    await bench.say(queue, "a")
    await bench.stores.flush()
    assert (await queue.flush(seconds=FAR)).left == 1
    with pytest.raises(StorageError):
        await queue.flush(seconds=FAR)
    broken = False
    assert (await queue.flush(seconds=FAR)).done == 1


async def test_an_entry_that_holds_nothing_is_done_without_a_call(bench: Bench) -> None:
    key = (await bench.stores.threads.ensure("ann", "t")).thread_key
    entry = QueuedExchange("e", "ann", "t", key, {"answer": "x"}, queued_at=1.0)
    await bench.stores.memory_queue.enqueue(entry, debounce=0, ceiling=0)
    assert (await bench.queue().flush(seconds=FAR)).done == 1
    assert bench.model.prompts == []
