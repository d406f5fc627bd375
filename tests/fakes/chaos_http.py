"""Chaos in which clients do everything over HTTP, and servers die like workers do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from deerflow.events import Event
from deerflow.storage.protocol import RunRow
from fakes.chaos import Chaos, among
from fakes.gateway import free_port
from fakes.serving import Site, WorkerZygote
from fakes.stream_clients import MODES, StreamClient, ask, misread


@dataclass
class HttpChaos(Chaos):
    """Runs are handed in at servers, and read there.

    Attributes:
        urls: of the servers.
        clients: readers by run.
    """

    urls: list[str] = field(default_factory=list[str])
    clients: dict[str, StreamClient] = field(default_factory=dict[str, StreamClient])

    async def submit(self, number: int) -> None:
        """Hand in a run at any server; asked again with the same key when the answer is lost."""
        thread, dice = self.thread_of(number), random.Random(number)
        answer = await ask(
            self.urls,
            dice,
            "POST",
            f"/api/threads/{thread}/runs",
            json={"input": {"messages": [{"role": "user", "content": f"Run {number}"}]}},
            headers={"Idempotency-Key": thread},
        )
        assert answer.status_code == 200, answer.text
        run = await self.storage.threads.run(answer.json()["run_id"])
        assert run is not None
        self.runs.append(run)
        path = f"/api/threads/{thread}/runs/{run.run_id}"
        client = StreamClient(self.urls, path, MODES[number % len(MODES)], dice)
        self.clients[run.run_id] = client
        self.readers[run.run_id] = asyncio.create_task(client.follow())

    def misread(self, run: RunRow, log: list[Event]) -> list[str]:
        """What is wrong with what the run's client has read."""
        return misread(self.clients[run.run_id], log)


@asynccontextmanager
async def http_chaos(
    site: Site, zygote: WorkerZygote, workers: int, servers: int
) -> AsyncGenerator[HttpChaos]:
    """So many workers and servers; without workers the servers execute runs themselves."""
    ports = [free_port() for _ in range(servers)]
    processes = [await asyncio.to_thread(zygote.start, site) for _ in range(workers)]
    for port in ports:
        start = partial(zygote.start_api, site, port, execute=not workers)
        processes.append(await asyncio.to_thread(start))
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    async with among(site, processes, partial(HttpChaos, site, zygote)) as one:
        one.urls = urls
        yield one
