"""Signals that find a run which does not stop by itself."""

from __future__ import annotations

import subprocess
import sys

from fakes.terminal import environment

STUBBORN = """
import asyncio, os, signal, time
from deerflow.cli.stop import Stop

async def main():
    stop = Stop()
    stop.listen()
    stop.attach("t", lambda: None)
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(0)
    while not stop.requested:
        await asyncio.sleep(0.01)
    {then}

asyncio.run(main())
"""


def ended(then: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", STUBBORN.format(then=then)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_run_that_does_not_stop_is_left_with_the_way_to_go_on() -> None:
    code, err = ended("time.sleep(3600)")  # the loop itself is stuck
    assert code == 130
    assert "deerflow run --thread t --resume" in err


def test_the_second_signal_ends_the_process_at_once() -> None:
    code, err = ended("os.kill(os.getpid(), signal.SIGINT); time.sleep(3600)")
    assert (code, err) == (130, "")
