"""Runs under workers that are killed all the time, readers that come and go, and what must hold."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from deerflow.events import Event
from deerflow.runtime.request import RunRequest
from deerflow.storage.protocol import RunRow, Storage
from deerflow.wiring.runtime import Runtime
from fakes.servers import PrivateServer
from fakes.serving import Site, WorkerProcess, WorkerZygote, open_site

UNKNOWN = "Outcome unknown"
USERS = ("anna", "ben", "carl")


@dataclass
class Chaos:
    """Workers, a process that only hands runs on, and the readers of all runs.

    Attributes:
        site: where everything is.
        zygote: forks workers.
        runtime: of the process that hands runs on.
        workers: processes that live and may be killed; those that serve the API are among them.
        kills: moments of the kills, UTC seconds.
        readers: of each run.
        runs: in the order in which they were handed in.
        peace: held by who kills or takes the database away; nothing opens without a database.
    """

    site: Site
    zygote: WorkerZygote
    runtime: Runtime
    workers: list[WorkerProcess]
    dice: random.Random
    kills: list[float] = field(default_factory=list[float])
    readers: dict[str, asyncio.Task[list[Any]]] = field(
        default_factory=dict[str, "asyncio.Task[list[Any]]"]
    )
    runs: list[RunRow] = field(default_factory=list[RunRow])
    peace: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def storage(self) -> Storage:
        return self.runtime.harness.storage

    def thread_of(self, number: int) -> str:
        """Thread id of a run; tests may share a database."""
        return f"{Path(self.site.home).name}-{number}"

    async def submit(self, number: int) -> None:
        """Hand in a run and read along from another connection, which breaks off now and then."""
        user = USERS[number % len(USERS)]
        request = RunRequest(task=f"Run {number}", thread_id=self.thread_of(number), user_id=user)
        run = (await self.runtime.submissions.submit(request)).run
        self.runs.append(run)
        reader = _read_along(self.storage, run, random.Random(number))
        self.readers[run.run_id] = asyncio.create_task(reader)

    def misread(self, run: RunRow, log: list[Event]) -> list[str]:
        """What is wrong with what the run's reader has read."""
        seen = [event.seq for event in self.readers[run.run_id].result()]
        return [] if seen == [event.seq for event in log] else [f"its reader saw {seen}"]

    async def kill(self) -> None:
        """Kill one worker that is at work, and start another in its place."""
        async with self.peace:
            place = self.dice.randrange(len(self.workers))
            worker = self.workers[place]
            await self._ready({worker.pid})
            code = await asyncio.to_thread(worker.kill)
            assert code == -signal.SIGKILL, f"a worker ended by itself with {code}"
            self.kills.append(time.time())
            self.workers[place] = await asyncio.to_thread(worker.again)

    async def restart(self, server: PrivateServer) -> None:
        """Stop the database's server in the middle of the work of all, and start it again."""
        async with self.peace:
            await self._ready({worker.pid for worker in self.workers})
            await asyncio.to_thread(server.stop)
            await asyncio.sleep(1)  # as long as the server is away, no synchronisation
            await asyncio.to_thread(server.start)

    async def _ready(self, pids: set[int]) -> None:
        await until(lambda: pids <= {line["pid"] for line in self.site.read("ready")})

    async def storm(self, waves: int, runs: int, seconds: float) -> None:
        """Hand in waves of runs, and kill a worker in the middle of each.

        Args:
            waves: and kills.
            runs: in each.
            seconds: between two kills at most; the moment is left to chance.
        """
        for wave in range(waves):
            for number in range(wave * runs, (wave + 1) * runs):
                await self.submit(number)
            await asyncio.sleep(self.dice.uniform(0.1, seconds))  # no synchronisation: the moment
            await self.kill()

    async def siege(self, runs: int, seconds: float, rounds: int) -> None:
        """Hand in runs, and kill a worker at a steady beat until all have ended; again and again.

        Args:
            runs: in each round.
            seconds: between two kills.
            rounds: how often.
        """
        over = asyncio.Event()
        killing = asyncio.create_task(self._kill_steadily(seconds, over))
        try:
            for turn in range(rounds):
                for number in range(turn * runs, (turn + 1) * runs):
                    await self.submit(number)
                ending = asyncio.gather(*self.readers.values())
                await asyncio.wait(
                    {ending, killing}, timeout=600, return_when=asyncio.FIRST_COMPLETED
                )
                if killing.done():
                    await killing
                assert ending.done(), "runs do not end"
        finally:
            over.set()
            await asyncio.wait({killing})

    async def _kill_steadily(self, seconds: float, over: asyncio.Event) -> None:
        while not over.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await over.wait()
            except TimeoutError:
                await self.kill()

    async def ended(self, seconds: float) -> list[RunRow]:
        """All runs, once every reader has read its end."""
        async with asyncio.timeout(seconds):
            await asyncio.gather(*self.readers.values())
        rows = [await self.storage.threads.run(run.run_id) for run in self.runs]
        return [row for row in rows if row is not None]


@asynccontextmanager
async def chaos(site: Site, zygote: WorkerZygote, number: int) -> AsyncGenerator[Chaos]:
    """So many workers, the first of them ready."""
    workers = [await asyncio.to_thread(zygote.start, site) for _ in range(number)]
    async with among(site, workers, partial(Chaos, site, zygote)) as one:
        yield one


Made = TypeVar("Made", bound=Chaos)


@asynccontextmanager
async def among(
    site: Site,
    workers: list[WorkerProcess],
    make: Callable[[Runtime, list[WorkerProcess], random.Random], Made],
) -> AsyncGenerator[Made]:
    """Running processes, the first of them ready; killed at the end, and the readers stopped."""
    one: Made | None = None
    try:
        await until(lambda: bool(site.read("ready")))
        async with open_site(site, execute=False) as runtime:
            one = make(runtime, workers, random.Random(7))
            yield one
            for reader in one.readers.values():
                reader.cancel()
            await asyncio.gather(*one.readers.values(), return_exceptions=True)
    finally:
        living = workers if one is None else one.workers
        codes = [await asyncio.to_thread(worker.kill) for worker in living]
    assert set(codes) == {-signal.SIGKILL}, f"some ended by themselves: {codes}"


async def until(done: Callable[[], bool]) -> None:
    """Look until something that another process does is done."""
    async with asyncio.timeout(120):
        while not done():  # noqa: ASYNC110  # of another process
            await asyncio.sleep(0.05)


async def _read_along(storage: Storage, run: RunRow, dice: random.Random) -> list[Event]:
    """All events of a run, read by a client whose connection breaks all the time."""
    seen: list[Event] = []
    while not seen or seen[-1].type != "run_ended":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(dice.uniform(0.2, 0.6)):
                after = seen[-1].seq if seen else 0
                async for event in storage.events.follow(run.thread_key, after=after):
                    seen.append(event)
                    if event.type == "run_ended":
                        break
    return seen


async def examine(one: Chaos, rows: list[RunRow]) -> list[str]:
    """What is wrong after all runs have ended, [] when nothing is."""
    wrong: list[str] = []
    site = one.site
    effects = Counter((line["run"], line["place"]) for line in site.read("effects"))
    reads = Counter((line["run"], line["place"]) for line in site.read("reads"))
    requests: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in site.read("requests"):
        requests[line["task"]].append(line)
    wrong += [f"effect {key} happened {n} times" for key, n in effects.items() if n > 1]
    for row in rows:
        log = await one.storage.events.read(row.thread_key, limit=10_000)
        problems = _log(site, row, log, len(one.kills)) + one.misread(row, log)
        wrong += [f"{row.run_id}: {problem}" for problem in problems]
        unknown = _unknown(log)
        for place in map(str, range(site.rounds)):
            if effects[row.run_id, place] == 0 and ("effect", place) not in unknown:
                wrong.append(f"{row.run_id}: effect {place} never happened and nobody said so")
            if reads[row.run_id, place] == 0 or ("peek", place) in unknown:
                wrong.append(f"{row.run_id}: read {place} never happened, or nobody knows")
        wrong += _requests(requests[row.input["task"]], row, log)
    return wrong


def _unknown(log: list[Event]) -> set[tuple[str, str]]:
    """Name and place of the calls whose outcome nobody knows."""
    messages = [event.payload["message"] for event in log if event.type == "message"]
    calls = {call["id"]: call for message in messages for call in message.get("tool_calls", ())}
    unsure = [
        calls[message["tool_call_id"]]
        for message in messages
        if message["type"] == "tool" and UNKNOWN in str(message["content"])
    ]
    return {(call["name"], call["args"]["place"]) for call in unsure}


def _log(site: Site, row: RunRow, log: list[Event], kills: int) -> list[str]:
    found: list[str] = []
    if row.status != "success":
        found.append(f"ended {row.status} ({row.error})")
    if [event.seq for event in log] != list(range(1, len(log) + 1)):
        found.append(f"seq has gaps: {[event.seq for event in log]}")
    types = Counter(event.type for event in log)
    if types["run_ended"] != 1 or log[-1].type != "run_ended":
        found.append(f"ends with {log[-1].type}, {types['run_ended']} ends")
    messages = [event.payload["message"] for event in log if event.type == "message"]
    ids = Counter(message["id"] for message in messages)
    found += [f"message {ident} stands {n} times in the log" for ident, n in ids.items() if n > 1]
    if not any(site.answer in str(message["content"]) for message in messages):
        found.append("gave no answer")
    calls = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    results = {message["tool_call_id"] for message in messages if message["type"] == "tool"}
    if calls != results:
        found.append(f"calls without a result: {calls ^ results}")
    unknown = sum(UNKNOWN in str(message["content"]) for message in messages)
    if unknown > min(kills, row.attempt - 1):
        found.append(f"{unknown} outcomes are unknown after {row.attempt - 1} deaths of its worker")
    return found


def _requests(requests: list[dict[str, Any]], row: RunRow, log: list[Event]) -> list[str]:
    """Replies that were recorded and asked for once more."""
    replies = [
        event.created_at
        for event in log
        if event.type == "message" and event.payload["message"]["type"] == "ai"
    ]
    return [
        f"reply {line['answered'] + 1} of {row.input['task']} was asked for again"
        for line in requests
        if line["answered"] < len(replies) and line["at"] > replies[line["answered"]]
    ]
