"""Storage.listen: every commit of this process is told once, in order."""

import asyncio
from collections.abc import Sequence

from langgraph.checkpoint.base import empty_checkpoint

from deerflow.events import Event
from deerflow.storage.protocol import Storage


class Heard:
    """A listener."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sizes: list[int] = []

    def __call__(self, events: Sequence[Event], checkpoint_bytes: int) -> None:
        self.events += events
        self.sizes.append(checkpoint_bytes)


async def test_events_of_all_threads_are_told_in_the_order_of_each(
    storage: Storage, key: str
) -> None:
    first, second = Heard(), Heard()
    storage.listen(first)
    storage.listen(second)
    other = (await storage.threads.ensure("bob", "t2")).thread_key
    for number in range(20):
        storage.events.append((key, other)[number % 2], "r", "notice", {"n": number})
    await storage.flush()
    await asyncio.sleep(0)

    assert len(first.events) == 20
    for thread in ("t1", "t2"):
        told = [event.payload["n"] for event in first.events if event.thread_id == thread]
        assert told == sorted(told)
    assert second.events == first.events


async def test_a_checkpoint_is_told_with_its_size(storage: Storage, key: str) -> None:
    heard = Heard()
    storage.listen(heard)
    config = {"configurable": {"thread_id": key, "checkpoint_ns": ""}}
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"title": "".join(map(str, range(3000)))}
    checkpoint["channel_versions"] = {"title": 1}
    await storage.saver.aput(config, checkpoint, {}, {"title": 1})  # type: ignore[arg-type, typeddict-item]
    await storage.flush()
    await asyncio.sleep(0)

    sizes = [size for size in heard.sizes if size]
    if storage.kind == "memory":
        assert sizes == []
    else:
        assert len(sizes) == 1
        assert sizes[0] > 1000


async def test_a_listener_that_fails_stops_no_write(storage: Storage, key: str) -> None:
    loop, failures = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: failures.append(str(context["exception"])))

    def broken(events: Sequence[Event], checkpoint_bytes: int) -> None:
        raise RuntimeError("no")

    storage.listen(broken)
    await storage.events.append(key, "r", "notice", {})
    event = await storage.events.append(key, "r", "notice", {})
    await asyncio.sleep(0)

    assert event.seq == 2
    assert set(failures) == {"no"}
