from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from deerflow.config.load import load_config
from deerflow.gateway.reload import on_hang_up
from fakes.gateway import gateway, until, write_config


async def test_a_hang_up_reads_the_configuration_again(tmp_path: Path) -> None:
    memory = {"backend": "memory"}
    loaded = load_config(write_config(tmp_path, ["old"], database=memory), environ={}, cwd=tmp_path)
    told: list[str] = []
    async with gateway(tmp_path, config=loaded) as served:
        on_hang_up(lambda: served.harness, lambda: told.append("children"))
        try:
            write_config(tmp_path, ["new"], database=memory, max_turns=7)
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: served.harness.loaded.config.max_turns == 7)
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    assert told == ["children"]


async def test_a_hang_up_before_everything_is_open_changes_nothing() -> None:
    told: list[str] = []
    asked = asyncio.Event()
    on_hang_up(asked.set, lambda: told.append("children"))
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await asked.wait()
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    assert told == []
