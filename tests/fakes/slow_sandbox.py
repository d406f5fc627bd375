"""A sandbox provider that takes 90 seconds to start one, as a cold cluster does."""

from __future__ import annotations

import asyncio

from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import Sandbox, ThreadFolders

SECONDS = 90.0


class SlowProvider(InMemoryProvider):
    """`sandbox.use: fakes.slow_sandbox:SlowProvider`."""

    async def acquire(self, key: str, folders: ThreadFolders, *, cwd: str = "") -> Sandbox:
        await asyncio.sleep(SECONDS)
        return await super().acquire(key, folders, cwd=cwd)
