"""Runs of this process: started, followed, cancelled, and removed with their thread."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator

from deerflow.agent.record import THINKING
from deerflow.errors import ConflictError, UsageError
from deerflow.events import Event
from deerflow.runtime.admission import Admission
from deerflow.runtime.driving import Driver
from deerflow.runtime.parts import Folders, RunParts
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.storage.owner import is_alive
from deerflow.storage.protocol import Delta, Storage, ThreadRow


class RunHandle:
    """A started run: follow it, wait for it, stop it."""

    def __init__(self, storage: Storage, thread: ThreadRow, run_id: str, first: int) -> None:
        self.run_id = run_id
        self.thread_id = thread.thread_id
        self._storage = storage
        self._key = thread.thread_key
        self._first = first
        self._task: asyncio.Task[RunResult] | None = None

    def attach(self, task: asyncio.Task[RunResult]) -> None:
        """Tie the task that executes the run to its handle."""
        self._task = task

    async def events(self) -> AsyncIterator[Event]:
        """Committed events of this run in order, ending with `run_ended`.

        They end without it when the run's end could not be written; `result` then raises.
        """
        follower = aiter(self._storage.events.follow(self._key, after=self._first))
        seen = self._first
        while True:
            coming = asyncio.ensure_future(anext(follower))
            try:
                await asyncio.wait({coming, self._execution()}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                over = not coming.done()
                if over:
                    coming.cancel()
            if over:
                break
            event = coming.result()
            seen = event.seq
            if event.run_id == self.run_id:
                yield event
                if event.type == "run_ended":
                    return
        for event in await self._storage.events.read(self._key, after=seen):
            if event.run_id == self.run_id:
                yield event

    async def deltas(self) -> AsyncIterator[Delta]:
        """Pieces of answers as they are committed; endless, to be cancelled by the reader."""
        async for delta in self._storage.deltas.follow(self._key):
            if delta.run_id == self.run_id and not delta.message_id.endswith(THINKING):
                yield delta

    async def result(self) -> RunResult:
        """The end of the run. Cancelling the waiter does not cancel the run."""
        return await asyncio.shield(self._execution())

    def _execution(self) -> asyncio.Task[RunResult]:
        if self._task is None:
            raise UsageError("The run has not been started.")
        return self._task

    def cancel(self) -> None:
        """Stop: model stream, tools and sandbox end; everything so far is saved."""
        if self._task is not None:
            self._task.cancel()


class Runs:
    """Starts and finishes runs inside this process."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._admission = Admission(parts)
        self._driver = Driver(parts)
        self._active: dict[str, asyncio.Task[RunResult]] = {}

    async def start(self, request: RunRequest) -> RunHandle:
        """Admit a run; it executes in the background.

        Raises:
            UsageError: empty task, bad upload, nothing to resume.
            NotFoundError: unknown thread (with resume) or model.
            ConflictError: the thread has an active run.
            StorageError: the database cannot be written.
        """
        admission = self._admission
        job = await (admission.resume(request) if request.resume else admission.admit(request))
        handle = RunHandle(self._parts.storage, job.thread, job.context.run_id, job.first)
        task = asyncio.create_task(self._driver.execute(job), name=f"run {handle.run_id}")
        key = job.thread.thread_key
        self._active[key] = task
        task.add_done_callback(lambda _: self._active.pop(key, None))
        handle.attach(task)
        await asyncio.sleep(0)  # the task is inside its `try` before anybody can cancel it
        return handle

    async def close(self) -> None:
        """Cancel what still runs and wait for its end."""
        tasks = list(self._active.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def delete_thread(self, user_id: str, thread_id: str) -> bool:
        """Remove a thread with everything of it. False when there is none.

        Raises:
            ConflictError: a run of it is active.
        """
        parts = self._parts
        return await remove_thread(parts.storage, parts.folders, user_id, thread_id)


async def remove_thread(storage: Storage, folders: Folders, user_id: str, thread_id: str) -> bool:
    """Remove rows, checkpoints, blobs and folders of a thread; False when there is none.

    Raises:
        ConflictError: a living process executes a run of it.
    """
    thread = await storage.threads.get(user_id, thread_id)
    if thread is None:
        return False
    active = await storage.threads.active_run(thread.thread_key)
    if active is not None and is_alive(active.owner):
        raise ConflictError("The thread has an active run.", cure="Stop it first.")
    key = await storage.threads.delete(user_id, thread_id)
    if key is not None:
        await asyncio.to_thread(shutil.rmtree, folders(user_id, key).root.parent, True)
    return key is not None
