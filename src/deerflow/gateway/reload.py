"""Reading the configuration again: by a request, or by SIGHUP."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from deerflow.config.load import LoadedConfig, read_environ

if TYPE_CHECKING:
    from deerflow.wiring.harness import Harness

logger = logging.getLogger(__name__)


async def reload(harness: Harness) -> tuple[bool, LoadedConfig]:
    """Read the files and `.env` again; whether anything changed, and what is in force."""
    from deerflow.wiring.reloading import reload_harness  # noqa: PLC0415  (loaded by now)

    before = harness.loaded
    environ = await asyncio.to_thread(read_environ, cwd=before.cwd, config=before.path)
    fresh = await reload_harness(harness, environ)
    if fresh.reload_problems:
        logger.warning("configuration not read again: %s", "; ".join(fresh.reload_problems))
        return False, fresh
    changed = fresh.config != before.config or fresh.extensions != before.extensions
    if changed:
        logger.info("configuration read again: %s", fresh.source_sha256[:12])
    return changed, fresh


def on_hang_up(harness: Callable[[], Harness | None], *then: Callable[[], object]) -> None:
    """From now on SIGHUP reads the configuration again, and calls `then`.

    Args:
        harness: gives it once it is open.
        then: further things to do, e.g. tell child processes.
    """
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[object]] = set()

    def act() -> None:
        found = harness()
        if found is None:
            return
        task: asyncio.Task[object] = asyncio.ensure_future(reload(found))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        for further in then:
            further()

    loop.add_signal_handler(signal.SIGHUP, act)
