"""A run survives kill -9 at any moment: nothing is lost or done twice, the thread goes on."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from deerflow.errors import ConflictError
from deerflow.runtime.request import RunRequest
from deerflow.storage.protocol import ThreadRow
from deerflow.wiring.harness import Harness
from fakes.autopsy import events_of, examine, messages_of, recorded, repeated
from fakes.killer import (
    ANSWER,
    SECOND,
    Child,
    Order,
    World,
    Zygote,
    killer_harness,
    read_ledger,
    zygote,
)


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


@pytest.fixture(scope="module")
def born() -> Iterator[Zygote]:
    with zygote() as running:
        yield running


@dataclass
class Ward:
    """One home, the processes that live and die in it, and a living harness that looks on."""

    zygote: Zygote
    home: Path
    harness: Harness
    dead: set[int] = field(default_factory=set[int])
    kills: int = 0
    unknown: int = 0
    lasted: float = 0.0
    complaints: list[str] = field(default_factory=list[str])

    def order(self, *threads: str, **more: Any) -> Order:
        return Order(str(self.home), list(threads), **more)

    async def die(self, order: Order, seconds: float | None = None) -> bool:
        """Let a child obey until it dies (or so many seconds). False when it ended before."""
        child = self.zygote.start(order)
        if order.announce:
            await asyncio.to_thread((self.home / "ready").read_text)
        began = time.monotonic()
        if seconds is not None:
            await asyncio.sleep(seconds)  # the moment of the kill, no synchronisation
            child.kill()
        killed = self.bury(child)
        self.lasted = time.monotonic() - began
        return killed

    def bury(self, child: Child) -> bool:
        killed = child.wait()
        self.dead.add(child.pid)
        self.kills += killed
        return killed

    async def close(self, *threads: str) -> None:
        """The next message must work, and everything must be in order."""
        await self.die(self.order(*threads, story="second"))
        for thread in threads:
            messages, _ = await messages_of(self.harness, thread)
            said = [m.text for m in messages if m.type == "ai" and not m.tool_calls]
            if said != [ANSWER, SECOND]:
                self.complaints.append(f"{thread} answered {said}")
            found = await examine(self.harness, self.home, thread)
            self.complaints += [f"{thread}: {problem}" for problem in found.problems]
            if set(found.statuses) != {"success"}:
                self.complaints.append(f"{thread}: runs ended {found.statuses}")
            self.unknown += found.unknown

    async def survive(self, thread: str, *deaths: tuple[dict[str, Any], float | None]) -> None:
        """Start, die as told, resume, die as told …, then come to the end."""
        before: list[Any] = []
        started = False
        for how, seconds in deaths:
            order = self.order(thread, story="" if started else "first", **how)
            if not await self.die(order, seconds):
                break
            found = await recorded(self.harness, self.home, thread)
            before.append((found, set(self.dead)))
            events = await events_of(self.harness, thread)
            started = started or bool(events)
            if events and events[-1].type == "run_ended":
                break
        else:
            await self.die(self.order(thread, story="" if started else "first"))
        for found, dead in before:
            self.complaints += repeated(self.home, thread, found, dead)
        await self.close(thread)


@pytest.fixture
async def ward(born: Zygote, tmp_path: Path) -> AsyncIterator[Ward]:
    for name in ("ready", "go"):
        os.mkfifo(tmp_path / name)
    async with killer_harness(World(Order(str(tmp_path), []))) as harness:
        yield Ward(born, tmp_path, harness)


async def test_kills_at_random_moments(ward: Ward, scale: Scale) -> None:
    dice = random.Random(20)
    await ward.die(ward.order("warm", story="first", announce=True))
    await ward.die(ward.order("whole", story="first", announce=True))
    whole = ward.lasted
    number = 0
    while ward.kills < scale(12, 200):
        number += 1
        deaths: list[tuple[dict[str, Any], float | None]] = []
        for _ in range(dice.randint(1, 3)):
            announce = dice.random() < 0.8  # the others also die while they open the harness
            deaths.append(({"seed": number, "announce": announce}, dice.uniform(0, whole)))
        await ward.survive(f"t{number}", *deaths)
        assert ward.complaints == []
    print(f"{ward.kills} kills, {number} runs, {ward.unknown} outcomes unknown")


async def test_a_kill_after_each_event(ward: Ward, scale: Scale) -> None:
    step = scale(12, 1)
    for event in range(1, 100, step):
        kills = ward.kills
        await ward.survive(f"t{event}", ({"die_at_event": event}, None))
        assert ward.complaints == []
        if ward.kills == kills:
            break
    assert ward.kills > 36 // step


async def test_a_kill_at_each_touch_of_the_outside(ward: Ward, scale: Scale) -> None:
    step = scale(12, 1)
    for touch in range(1, 200, step):
        kills = ward.kills
        await ward.survive(f"t{touch}", ({"die_at_touch": touch}, None))
        assert ward.complaints == []
        if ward.kills == kills:
            break
    assert ward.kills > 36 // step


async def test_a_kill_between_the_run_row_and_the_first_checkpoint(ward: Ward) -> None:
    await ward.survive("t", ({"die_at_event": 1}, None))
    events = [e.type for e in await events_of(ward.harness, "t")]
    assert (ward.complaints, ward.kills) == ([], 1)
    # the input is logged on its way to the checkpoint: before the kill or after it, but once
    assert events[0] == "run_started"
    assert sorted(events[:3]) == ["message", "run_started", "run_started"]


async def test_kills_during_the_resume(ward: Ward) -> None:
    again = [({"die_at_event": n}, None) for n in (1, 1, 2, 3)]
    await ward.survive("t", ({"die_at_touch": 12}, None), *again)
    assert (ward.complaints, ward.kills) == ([], 5)


async def test_two_threads_of_one_process_die_together(ward: Ward, scale: Scale) -> None:
    for touch in range(3, 80, scale(26, 5)):
        pair = (f"a{touch}", f"b{touch}")
        await ward.die(ward.order(*pair, story="first", die_at_touch=touch))
        before = [(t, await recorded(ward.harness, ward.home, t), set(ward.dead)) for t in pair]
        await ward.die(ward.order(*pair))
        for thread, found, dead in before:
            ward.complaints += repeated(ward.home, thread, found, dead)
        await ward.close(*pair)
        assert ward.complaints == []
    assert ward.kills > 2


async def test_processes_share_a_home(ward: Ward, scale: Scale) -> None:
    for number in range(scale(1, 10)):
        threads = [f"t{number}-{each}" for each in range(4)]
        born = [ward.zygote.start(ward.order(t, story="first", seed=number)) for t in threads]
        for child in born:
            assert not ward.bury(child)
        ends = read_ledger(ward.home, "ends")[-4:]
        assert {end["thread"]: end["status"] for end in ends} == dict.fromkeys(threads, "success")
        await ward.close(*threads)
    assert (ward.complaints, ward.unknown) == ([], 0)


async def test_a_new_task_closes_the_run_of_a_dead_process(ward: Ward, scale: Scale) -> None:
    # until the last tools have ended: what follows is mostly over before the watcher hears of it
    events = range(1, 54, scale(12, 1))
    for number, event in enumerate([*events] * scale(1, 3)):
        thread = await _dead_at_work(ward, event, number)
        thread_id = thread.thread_id
        assert not await ward.die(ward.order(thread_id, story="second"))
        runs = await ward.harness.storage.threads.runs(thread.thread_key)
        assert [run.status for run in runs] == ["success", "error"]
        assert runs[1].error is not None
        assert runs[1].error["code"] == "process_died"
        found = await examine(ward.harness, ward.home, thread_id)
        assert found.problems == []
        messages, _ = await messages_of(ward.harness, thread_id)
        assert messages[-1].text == SECOND


async def _dead_at_work(ward: Ward, event: int, seed: int) -> ThreadRow:
    """A thread whose process died behind an event; another one when the run was quicker."""
    storage = ward.harness.storage
    for attempt in range(20):
        order = ward.order(f"t{seed}-{attempt}", story="first", die_at_event=event, seed=seed)
        await ward.die(order)
        thread = await storage.threads.get("local", order.threads[0])
        assert thread is not None
        if thread.status == "busy":
            return thread
        runs = await storage.threads.runs(thread.thread_key)
        assert [run.status for run in runs] == ["success"]
    raise AssertionError(f"no process died behind event {event}")


async def test_a_living_process_keeps_its_run(ward: Ward) -> None:
    child = ward.zygote.start(ward.order("t", story="first", announce=True, wait=True))
    await asyncio.to_thread((ward.home / "ready").read_text)
    thread = await ward.harness.storage.threads.ensure("local", "t")
    async for event in ward.harness.storage.events.follow(thread.thread_key):
        if event.type == "tool_started":
            break
    runs = ward.harness.runs
    for request in (
        RunRequest(task="script:second Thread t, do it.", thread_id="t"),
        RunRequest(thread_id="t", resume=True),
    ):
        with pytest.raises(ConflictError):
            await runs.start(request)
    with pytest.raises(ConflictError):
        await runs.delete_thread("local", "t")
    await asyncio.to_thread((ward.home / "go").write_text, "1")
    assert not ward.bury(child)
    await ward.close("t")
    events = await events_of(ward.harness, "t")
    assert (ward.complaints, [e.type for e in events].count("run_started")) == ([], 2)
