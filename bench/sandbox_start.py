"""Prints how fast a sandbox starts, and a command in a live shell, at each level of this machine.

    python bench/sandbox_start.py            # 60 starts, 300 commands
    python bench/sandbox_start.py 10 50      # fewer

A start is `acquire` and the first command (`true`): control group, folders, uid, namespaces, shell.
The line `/bin/true` says what starting any process costs here and now; on a busy machine it and all
others grow.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from deerflow.config.schema import SandboxConfig
from deerflow.errors import SandboxUnavailableError
from deerflow.sandbox.local import LocalProvider
from deerflow.sandbox.protocol import Level, ThreadFolders

LEVELS: tuple[Level, ...] = ("bwrap", "landlock")
PAUSE = 0.05
"""Seconds between starts: a server makes the next control group meanwhile."""
TARGETS = {"start_ms": 15.0, "command_ms": 2.0}


async def timed(times: int, work: Callable[[int], Awaitable[object]]) -> list[float]:
    """Milliseconds of each round."""
    found: list[float] = []
    for number in range(times):
        begun = time.perf_counter()
        await work(number)
        found.append((time.perf_counter() - begun) * 1000)
    return found


async def measure(level: Level, home: Path, starts: int, commands: int) -> dict[str, float]:
    """Medians of one level.

    Raises:
        SandboxUnavailableError: the machine does not offer it.
    """
    provider = LocalProvider(SandboxConfig(), state=home / "sandbox", level=level)
    try:
        begun = time.perf_counter()
        await provider.probe()
        probed = (time.perf_counter() - begun) * 1000
        threads = [ThreadFolders(home / level / str(n) / "user-data") for n in range(starts)]
        live = await provider.acquire("live", ThreadFolders(home / level / "live" / "user-data"))
        ends: list[float] = []

        async def start(number: int) -> None:
            sandbox = await provider.acquire(f"k{number}", threads[number])
            await sandbox.run("true")

        async def end(number: int) -> None:
            await provider.release(f"k{number}")

        first: list[float] = []
        for number in range(starts):
            await asyncio.sleep(PAUSE)
            first += await timed(1, lambda _, n=number: start(n))
            ends += await timed(1, lambda _, n=number: end(n))
        await live.run("true")
        short = await timed(commands, lambda _: live.run("true"))
        forks = await timed(commands // 4, lambda _: live.run("true", alone=False))
        return {
            "probe_ms": probed,
            "start_ms": statistics.median(first),
            "start_best_ms": min(first),
            "command_ms": statistics.median(short),
            "fork_ms": statistics.median(forks),
            "release_ms": statistics.median(ends),
        }
    finally:
        await provider.close()


async def bare(times: int) -> float:
    """Median milliseconds of starting /bin/true."""

    async def spawn(_: int) -> None:
        process = await asyncio.create_subprocess_exec("/bin/true")
        await process.wait()

    return statistics.median(await timed(times, spawn))


async def main(starts: int = 60, commands: int = 300) -> dict[str, dict[str, float]]:
    """Measure and print; returns {level: {figure: milliseconds}}."""
    results: dict[str, dict[str, float]] = {"none": {"start_ms": await bare(starts)}}
    print(f"/bin/true, nothing isolated: {results['none']['start_ms']:.2f} ms")
    with tempfile.TemporaryDirectory(prefix="deerflow-bench-") as folder:
        for level in LEVELS:
            try:
                found = await measure(level, Path(folder), starts, commands)
            except SandboxUnavailableError as error:
                print(f"{level}: {error}")
                continue
            results[level] = found
            print(
                f"{level}: start {found['start_ms']:.1f} ms (target {TARGETS['start_ms']:.0f}), "
                f"best {found['start_best_ms']:.1f} · command in a live shell p50 "
                f"{found['command_ms']:.2f} ms (target {TARGETS['command_ms']:.0f}) · "
                f"fork {found['fork_ms']:.2f} ms · release {found['release_ms']:.1f} ms · "
                f"probe {found['probe_ms']:.0f} ms"
            )
    target = Path(__file__).parent / "results"
    target.mkdir(exist_ok=True)
    text = json.dumps(results, indent=1)
    await asyncio.to_thread((target / "sandbox_start.json").write_text, text, encoding="utf-8")
    return results


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
