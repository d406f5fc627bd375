"""Threads and their files, for a caller in code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deerflow.errors import NotFoundError
from deerflow.events import Event
from deerflow.runtime.checks import no_thread
from deerflow.runtime.intake import check_uploads, copy_uploads
from deerflow.runtime.outcome import scan_outputs
from deerflow.runtime.request import Artifact
from deerflow.sandbox.protocol import OUTPUTS, UPLOADS, ThreadFolders
from deerflow.storage.protocol import ThreadRow
from deerflow.wiring.harness import Harness
from deerflow.wiring.stores import thread_files


class Desk:
    """What the parts of a client share: the open harness and whose things it shows."""

    def __init__(self, harness: Harness, user_id: str) -> None:
        self.harness = harness
        self.user_id = user_id

    async def thread(self, thread_id: str) -> ThreadRow:
        """A thread of the user.

        Raises:
            NotFoundError: unknown, or someone else's.
        """
        row = await self.harness.storage.threads.get(self.user_id, thread_id)
        if row is None:
            raise no_thread(thread_id)
        return row

    async def folders(self, thread_id: str) -> ThreadFolders:
        """Host folders of a thread. Raises NotFoundError."""
        row = await self.thread(thread_id)
        return self.harness.folders(self.user_id, row.thread_key)


class Threads:
    """Conversations of the user."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, thread_id: str, metadata: dict[str, Any] | None = None) -> ThreadRow:
        """A thread, new or as it is."""
        storage = self._desk.harness.storage
        return await storage.threads.ensure(self._desk.user_id, thread_id, metadata)

    async def list(
        self, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[ThreadRow]:
        """Newest first; `before` = (updated_at, thread_key) of the last row of the page before."""
        storage = self._desk.harness.storage
        return await storage.threads.list(self._desk.user_id, limit=limit, before=before)

    async def get(self, thread_id: str) -> ThreadRow:
        """One thread. Raises NotFoundError."""
        return await self._desk.thread(thread_id)

    async def rename(self, thread_id: str, title: str) -> ThreadRow:
        """Give a thread a title. Raises NotFoundError."""
        row = await self._desk.thread(thread_id)
        await self._desk.harness.storage.threads.update(row.thread_key, title=title)
        return await self._desk.thread(thread_id)

    async def delete(self, thread_id: str) -> None:
        """Remove a thread with its history, files and pending work.

        Raises:
            NotFoundError: unknown.
            ConflictError: a run of it is active.
        """
        if not await self._desk.harness.runs.delete_thread(self._desk.user_id, thread_id):
            raise no_thread(thread_id)

    async def events(self, thread_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Events with seq > after. Raises NotFoundError."""
        row = await self._desk.thread(thread_id)
        log = self._desk.harness.storage.events
        return await log.read(row.thread_key, after=after, limit=limit)

    async def messages(self, thread_id: str) -> list[dict[str, Any]]:
        """The finished messages of the conversation in order. Raises NotFoundError."""
        found: list[dict[str, Any]] = []
        after = 0
        while events := await self.events(thread_id, after=after):
            found += [event.payload["message"] for event in events if event.type == "message"]
            after = events[-1].seq
        return found


class Uploads:
    """Files that the user gave to a thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def add(self, thread_id: str, files: Sequence[Path | str]) -> list[str]:
        """Copy files into a thread, which is made when it is new; their virtual paths.

        Raises:
            UsageError: a file that is missing, too large, or one too many; none is copied then.
        """
        harness, paths = self._desk.harness, tuple(Path(file) for file in files)
        await asyncio.to_thread(check_uploads, paths, harness.loaded.config.uploads)
        row = await harness.storage.threads.ensure(self._desk.user_id, thread_id)
        folder = harness.folders(self._desk.user_id, row.thread_key).uploads
        return [
            f"{UPLOADS}/{name}" for name in await asyncio.to_thread(copy_uploads, paths, folder)
        ]

    async def list(self, thread_id: str) -> list[Artifact]:
        """What is there, by name. Raises NotFoundError."""
        folder = (await self._desk.folders(thread_id)).uploads
        return await _listed(folder, UPLOADS)


class Artifacts:
    """Files that the agent delivered in a thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list(self, thread_id: str) -> list[Artifact]:
        """What is there, by name. Raises NotFoundError."""
        return await _listed((await self._desk.folders(thread_id)).outputs, OUTPUTS)

    async def read(self, thread_id: str, path: str) -> bytes:
        """Bytes of a delivered file.

        Args:
            thread_id: its thread.
            path: virtual path, or the name below outputs.

        Raises:
            NotFoundError: no such thread, or no such file in it.
        """
        name = path.removeprefix(OUTPUTS).lstrip("/")
        listed = await self.list(thread_id)
        if not any(artifact.path == f"{OUTPUTS}/{name}" for artifact in listed):
            names = ", ".join(artifact.path.removeprefix(f"{OUTPUTS}/") for artifact in listed)
            raise NotFoundError(
                f"There is no artifact {name!r} here.", cure=f"There is: {names or 'nothing'}."
            )
        folders = await self._desk.folders(thread_id)
        return await thread_files(folders).read(f"{OUTPUTS}/{name}")


async def _listed(folder: Path, root: str) -> list[Artifact]:
    if not await asyncio.to_thread(folder.is_dir):
        return []
    found = await asyncio.to_thread(scan_outputs, folder)
    return [
        Artifact(f"{root}/{name}", folder / name, size) for name, (size, _) in sorted(found.items())
    ]
