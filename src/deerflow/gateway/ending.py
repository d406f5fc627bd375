"""How a process that executes runs ends: in bounded time, with nothing lost."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from deerflow.errors import DeerFlowError

if TYPE_CHECKING:
    from deerflow.wiring.runtime import Runtime

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 10.0
"""What runs get to end or to reach a step border, where they are put back for another worker."""
FLUSH_SECONDS = 30.0
"""What the memory gets to take in what waits; `memory.shutdown_flush_timeout_seconds` if less."""
ALL_SECONDS = 42.0
"""After that the process ends as it stands: the database holds everything."""
_FAILED, _STOPPED = 1, 130


async def wind_down(runtime: Runtime) -> None:
    """End or hand over what runs, then take into the memory what waits. Raises nothing."""
    try:
        await runtime.engine.drain(DRAIN_SECONDS)
        memory = runtime.harness.memory
        if memory is None:
            return
        seconds = runtime.harness.loaded.config.memory.shutdown_flush_timeout_seconds
        left = (await memory.flush(seconds=min(seconds, FLUSH_SECONDS))).left
        if left:
            logger.info("%d exchanges wait to be remembered; the next start goes on", left)
    except DeerFlowError as error:
        logger.warning("the end was not orderly: %s", error)


def end_in_time(seconds: float = ALL_SECONDS) -> None:
    """End the process after so many seconds, whatever still hangs."""
    watch = threading.Timer(seconds, os._exit, (_FAILED,))
    watch.daemon = True
    watch.start()


def on_signals(first: Callable[[], object]) -> None:
    """Call `first` at SIGINT or SIGTERM; a second one ends the process at once.

    From the first on the process has `ALL_SECONDS` to end.
    """
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def act() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, _second)
        end_in_time()
        first()

    for number in numbers:
        loop.add_signal_handler(number, act)


def _second(number: int, frame: FrameType | None) -> None:
    os._exit(_STOPPED)
