"""The gateway under the same scripts as the library: wall time, CPU, memory, streams, takeover.

`deerflow serve` with sign-in and the durable engine on, SQLite, everything switched on, reached
with an API token; the model is the peers' mock server. Client, model and server share the machine,
so wall figures mean something on a quiet one only; CPU is the serving process's alone. Raw results
go to bench/results/.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gateway_processes import HERE, Served, body_of, mock_server, serve, worker

Figures = dict[str, float]

TARGETS: dict[str, tuple[str, str]] = {
    "health_ms": ("start to /health, ms", "≤ 1,700"),
    "ready_ms": ("start to /ready, ms", "≤ 3,300"),
    "idle_mib": ("memory, idle, MiB", "≤ 125"),
    "text_ms": ("TEXT 20, wall ms", "≤ 15"),
    "tools_ms": ("TOOLS 10, wall ms", "≤ 60"),
    "par_ms": ("PAR 10, wall ms", "≤ 25"),
    "runs_per_s": ("50 × TOOLS 5 at 50 ms, runs/s", "≥ 30"),
    "cpu_per_run": ("CPU ms/run there", "≤ 28"),
    "first_token_ms": ("first token over the model, ms", "≤ 10"),
    "prompt_bytes": ("bytes of the first prompt", "≤ 8,000"),
    "mib_per_100": ("MiB / 100 conversations", "≤ 5"),
    "after_mib": ("memory after 100 conversations, MiB", "≤ 130"),
    "crowd_mib": ("memory after 3 × 50 runs at once, MiB", ""),
    "listing_ms": ("page 1 of 5,000 threads, ms", "≤ 50"),
    "frames_per_cpu_s": ("SSE frames/s and core from the log, 100 clients", "≥ 60,000"),
    "idle_clients_mib": ("1,000 idle SSE clients, MiB more", ""),
    "busy_runs_per_s": ("50 × TOOLS 5 streamed beside them, runs/s", ""),
    "busy_first_ms": ("first frame of a stream beside them, median ms", ""),
    "cancel_ms": ("cancel until everything has stopped, ms", "≤ 2,000"),
    "takeover_s": ("takeover after kill -9 of a worker, s", "≤ 12"),
    "frozen_s": ("takeover from a worker that stands still, s", "≤ 12"),
}
"""Figure → name and target, in the order of the table."""


def task(command: str, ident: str = "") -> str:
    """The words that the mock server understands."""
    return f"{command} id={ident or uuid.uuid4().hex[:12]} tool=bench_add"


async def single(served: Served, n: int) -> Figures:
    """One run after the other, each in a new conversation."""
    found: Figures = {}
    for _ in range(3):
        await served.run(task("TOOLS 2"))
    for name, command in {"text": "TEXT 20", "tools": "TOOLS 10", "par": "PAR 10"}.items():
        before = served.cpu_ms
        walls = [await served.run(task(command)) for _ in range(n)]
        found[f"{name}_ms"] = statistics.median(walls)
        found[f"{name}_cpu_ms"] = (served.cpu_ms - before) / n
    ident = uuid.uuid4().hex[:12]
    await served.run(task("TEXT 20", ident))
    found["prompt_bytes"] = (await served.calls(ident))[0]["bytes"]
    return found


async def crowd(served: Served, n: int) -> Figures:
    """Runs at once with a model that takes 50 ms; the median of three rounds."""
    rounds: list[tuple[float, float]] = []
    for _ in range(3):
        cpu, begun = served.cpu_ms, time.perf_counter()
        await asyncio.gather(*(served.run(task("TOOLS 5"), "slow") for _ in range(n)))
        rounds.append((n / (time.perf_counter() - begun), (served.cpu_ms - cpu) / n))
    runs, cpu = sorted(rounds)[1]
    return {"runs_per_s": runs, "cpu_per_run": cpu, "crowd_mib": served.rss}


async def first_token(served: Served, n: int) -> Figures:
    """From the request to the first piece of text, less what the model took."""
    over: list[float] = []
    for _ in range(n):
        ident = uuid.uuid4().hex[:12]
        body = body_of(task("TEXT 30", ident), "spoken", stream_mode=["messages-tuple"])
        begun, seen = time.monotonic(), 0.0
        url = f"{served.url}/api/threads/{uuid.uuid4()}/runs/stream"
        async with served.http.post(url, json=body) as answer:
            async for line in answer.content:
                if (
                    not seen
                    and line.startswith(b"data:")
                    and b"lorem" in line
                    and b'"ai' in line.lower()
                ):
                    seen = time.monotonic()
        call = (await served.calls(ident))[0]
        over.append((seen - begun - (call["t_first"] - call["t_in"])) * 1e3)
    return {"first_token_ms": statistics.median(over)}


async def conversations(served: Served, n: int) -> Figures:
    """Resident memory that conversations of two turns leave behind.

    Goes first: where 50 runs at once were before, their space is used again and nothing is seen.
    """

    async def one() -> None:
        thread = str(uuid.uuid4())
        await served.run(task("TOOLS 3"), thread=thread)
        await served.run(task("TEXT 20"), thread=thread)

    for _ in range(5):
        await one()
    before = served.rss
    for _ in range(n):
        await one()
    return {"mib_per_100": (served.rss - before) * 100 / n, "after_mib": served.rss}


async def listing(served: Served, n: int) -> Figures:
    """The first page of many threads."""
    for begin in range(0, n, 50):
        await asyncio.gather(
            *(
                served.post("/api/threads", {"thread_id": f"many-{number}"})
                for number in range(begin, min(begin + 50, n))
            )
        )
    walls: list[float] = []
    for _ in range(20):
        begun = time.perf_counter()
        page = await served.post("/api/threads/search", {"limit": 10})
        walls.append((time.perf_counter() - begun) * 1e3)
        assert len(page) == 10
    return {"listing_ms": statistics.median(walls)}


async def opened(served: Served, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection that reads a stream: a client that costs as little as possible."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**22)
    lines = (
        f"GET {path} HTTP/1.1", f"Host: {host}:{port}", f"Authorization: Bearer {served.token}",
        "Accept: text/event-stream", "Last-Event-ID: 0", "Connection: close", "", "",
    )  # fmt: skip
    writer.write("\r\n".join(lines).encode())
    return reader, writer


async def frames(served: Served, clients: int) -> Figures:
    """A finished run's log to many clients: frames by CPU seconds of the server."""
    thread = str(uuid.uuid4())
    await served.run(task("TOOLS 60"), thread=thread)
    async with served.http.get(f"{served.url}/api/threads/{thread}/runs") as answer:
        run_id = (await answer.json())[0]["run_id"]
    modes = "&".join(f"stream_mode={mode}" for mode in ("messages-tuple", "updates", "custom"))
    path = f"/api/threads/{thread}/runs/{run_id}/stream?{modes}"

    async def read() -> int:
        reader, writer = await opened(served, path)
        count = 0
        while chunk := await reader.read(2**18):
            count += chunk.count(b"\nevent: ")
        writer.close()
        return count

    one = await read()
    assert one > 50, one
    cpu = served.cpu_ms
    total = sum(await asyncio.gather(*(read() for _ in range(clients))))
    return {"frames_per_cpu_s": total / (served.cpu_ms - cpu) * 1e3, "frames_of_run": one}


async def idle(served: Served, clients: int, active: int) -> Figures:
    """Many clients that read silent threads, and runs beside them."""
    before = served.rss
    held: list[asyncio.StreamWriter] = []
    for begin in range(0, clients, 100):
        some = range(begin, min(begin + 100, clients))
        paths = [f"/api/threads/many-{number}/stream" for number in some]
        for reader, writer in await asyncio.gather(*(opened(served, path) for path in paths)):
            assert b" 200 " in await reader.readline()
            held.append(writer)
    more = served.rss - before
    firsts: list[float] = []

    async def one() -> None:
        body = body_of(task("TOOLS 5"), "slow", stream_mode=["messages-tuple"])
        begun = time.perf_counter()
        url = f"{served.url}/api/threads/{uuid.uuid4()}/runs/stream"
        async with served.http.post(url, json=body) as answer:
            async for _ in answer.content:
                firsts.append((time.perf_counter() - begun) * 1e3)
                break
            await answer.read()

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(active)))
    rate = active / (time.perf_counter() - begun)
    for writer in held:
        writer.close()
    return {
        "idle_clients_mib": more,
        "busy_runs_per_s": rate,
        "busy_first_ms": statistics.median(firsts),
    }


async def cancel(served: Served, n: int) -> Figures:
    """A run whose model is silent, stopped."""
    walls: list[float] = []
    for _ in range(n):
        ident, thread = uuid.uuid4().hex[:12], uuid.uuid4()
        body = body_of(task("TEXT 5", ident), "silent")
        run = await served.post(f"/api/threads/{thread}/runs", body)
        await _calls_after(served, ident, 0.0)
        begun = time.perf_counter()
        url = f"{served.url}/api/threads/{thread}/runs/{run['run_id']}/cancel?wait=1"
        async with served.http.post(url) as answer:
            assert answer.status < 300, await answer.text()
        walls.append((time.perf_counter() - begun) * 1e3)
    return {"cancel_ms": statistics.median(walls)}


async def takeover(home: Path, mock: str, how: signal.Signals) -> float:
    """Two workers of one database; the one that executes ends in the middle: seconds until the
    other has asked the model.

    One that is killed is seen at the next look at processes of this machine, every second at most.
    One that stands still keeps its process, as one of another machine does whose end nobody sees:
    its lease of 10 s has to run out.
    """
    async with serve(home, mock, "gateway", "--no-worker") as served:
        async with worker(home, mock) as first:
            ident, thread = uuid.uuid4().hex[:12], str(uuid.uuid4())
            body = body_of(task("TOOLS 40", ident), "second")
            run = await served.post(f"/api/threads/{thread}/runs", body)
            await _calls_after(served, ident, 0.0)
            async with worker(home, mock):
                first.send_signal(how)
                ended = time.monotonic()
                called = await _calls_after(served, ident, ended)
                stop = f"/api/threads/{thread}/runs/{run['run_id']}/cancel?wait=1"
                await served.post(stop, {})
    return called - ended


async def _calls_after(served: Served, ident: str, since: float) -> float:
    """When the model was asked for the first time since then; the server tells nobody."""
    async with asyncio.timeout(60):
        while True:
            found = [call["t_in"] for call in await served.calls(ident) if call["t_in"] > since]
            if found:
                return found[0]
            await asyncio.sleep(0.01)


Measure = Callable[[Served], Awaitable[Figures]]


def measures(n: int, *, short: bool) -> dict[str, Measure]:
    """What is measured on one serving process, in order."""
    many, clients = (200, 50) if short else (5_000, 1_000)
    return {
        "conversations": lambda served: conversations(served, 10 if short else 100),
        "single": lambda served: single(served, n),
        "first token": lambda served: first_token(served, n),
        "crowd": lambda served: crowd(served, 10 if short else 50),
        "listing": lambda served: listing(served, many),
        "frames": lambda served: frames(served, 10 if short else 100),
        "idle": lambda served: idle(served, clients, 10 if short else 50),
        "cancel": lambda served: cancel(served, 3),
    }


async def measure(folder: Path, n: int, *, short: bool) -> Figures:
    """One round of everything."""
    found: Figures = {}
    async with mock_server(folder) as mock:
        with tempfile.TemporaryDirectory() as home:
            async with serve(Path(home), mock) as served:
                await served.run(task("TEXT 20"))  # leaves bytecode of all that is loaded
        with tempfile.TemporaryDirectory() as home:
            async with serve(Path(home), mock) as served:
                await asyncio.sleep(1)
                found["idle_mib"] = served.rss
                found |= {"health_ms": served.health_ms, "ready_ms": served.ready_ms}
                for name, each in measures(n, short=short).items():
                    found |= await each(served)
                    print(f"  {name} done", flush=True)
        for name, how in {"takeover_s": signal.SIGKILL, "frozen_s": signal.SIGSTOP}.items():
            with tempfile.TemporaryDirectory() as home:
                found[name] = await takeover(Path(home), mock, how)
    return found


def print_table(found: Figures) -> None:
    """Ours beside the targets."""
    print("| gateway | ours | target |\n|---|---|---|")
    for name, (title, target) in TARGETS.items():
        value = found.get(name)
        shown = "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        print(f"| {title} | {shown} | {target or '–'} |")


def main() -> None:
    """Parse, measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=15, help="runs per measure")
    parser.add_argument("--smoke", action="store_true", help="one short round: does it run")
    parser.add_argument("--peers", type=Path, default=HERE.parent.parent / "shared" / "bench")
    options = parser.parse_args()
    if not (options.peers / "server.py").exists():
        print("No model server: the gateway's table is left out (--peers DIR).")
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    load = os.getloadavg()[0]
    n = 3 if options.smoke else options.n
    found = asyncio.run(measure(options.peers, n, short=options.smoke))
    print_table(found)
    print(f"Load of the machine before: {load:.1f} on {os.cpu_count()} cores.")
    target = HERE / "results"
    target.mkdir(exist_ok=True)
    results: dict[str, Any] = {"at": int(time.time()), "load": load, "gateway": found}
    (target / f"gateway-{results['at']}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
