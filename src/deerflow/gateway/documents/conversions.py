"""Conversions of uploads: what waits, who works on it, and what became of it.

A conversion is a file in `DEER_FLOW_HOME/documents` while it waits or is carried out, locked by
the process that carries it out: when that process dies, the next look of any other takes it up.
What became of it is a file beside the thread's folders, where no sandbox reaches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from deerflow.errors import DeerFlowError
from deerflow.gateway.deps import Gateway
from deerflow.gateway.documents.convert import Bounds, Converted, can_convert, to_markdown
from deerflow.runtime.incoming import Incoming, open_folder
from deerflow.runtime.parts import Folders
from deerflow.sandbox.openat import Opener
from deerflow.sandbox.paths import VirtualPaths
from deerflow.sandbox.protocol import UPLOADS, ThreadFolders
from deerflow.storage.protocol import ThreadRow

logger = logging.getLogger(__name__)

FOLDER = "documents"
AT_ONCE = 2
"""Children at a time."""
TRIES = 3
"""Processes that may die over a document."""
BOUNDS = Bounds()
"""Of a conversion."""
LOOK_SECONDS = 30.0
"""How long a document of a process that died waits at most."""

_KEYS = ("user_id", "thread_key", "name", "converter", "tries")

State = Literal["pending", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Conversion:
    """One document.

    Attributes:
        source: name of the upload.
        state: pending, done or failed.
        markdown: name of the Markdown file beside it, "" unless done.
        error: why it failed, "" unless it did.
        at: UTC seconds of the last change.
    """

    source: str
    state: State = "pending"
    markdown: str = ""
    error: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Claim:
    """A waiting document that is this process's to carry out: its file, locked, and what it says.

    Attributes:
        path: the file.
        lock: its descriptor.
        job: its _KEYS.
    """

    path: Path
    lock: int
    job: dict[str, Any]


class Conversions:
    """Documents that are converted in the background.

    Args:
        home: DEER_FLOW_HOME, which processes share.
        folders: host folders of threads.
        bounds: of one conversion.
    """

    def __init__(self, home: Path, folders: Folders, bounds: Bounds = BOUNDS) -> None:
        self._waiting = home / FOLDER
        self._folders = folders
        self._bounds = bounds
        self._wake = asyncio.Event()

    async def submit(self, thread: ThreadRow, names: Iterable[str], converter: str) -> None:
        """Have uploads converted, as far as they are documents."""
        documents = [name for name in names if can_convert(name)]
        if documents:
            await asyncio.to_thread(self._submit, thread, documents, converter)
            self._wake.set()

    async def of(self, thread: ThreadRow) -> dict[str, Conversion]:
        """What is known of the thread's documents, by name of the upload."""
        return await asyncio.to_thread(self._read_all, thread)

    async def forget(self, thread: ThreadRow, name: str) -> None:
        """The upload is gone."""
        folder = self._states(thread.user_id, thread.thread_key)
        await asyncio.to_thread((folder / _file_of(name)).unlink, True)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            claim = await asyncio.to_thread(self._claim)
            if claim is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._wake.wait()
                continue
            try:
                await self._carry(claim)
            finally:
                os.close(claim.lock)

    async def _carry(self, claim: _Claim) -> None:
        job = claim.job
        name, folders = job["name"], self._folders(job["user_id"], job["thread_key"])
        try:
            document = await asyncio.to_thread(_open, folders, name)
            try:
                if job["tries"] > TRIES:
                    made = Converted(b"", "the server ended over it several times")
                else:
                    made = await to_markdown(document, name, job["converter"], self._bounds)
            finally:
                os.close(document)
            await asyncio.to_thread(self._finish, job, made)
        except DeerFlowError as error:
            await asyncio.to_thread(self._fail, job, error.message)
        except OSError as error:  # upload or thread is gone, or the disk is full
            await asyncio.to_thread(self._fail, job, error.strerror or "it cannot be read")
        await asyncio.to_thread(claim.path.unlink, True)

    # the rest blocks and runs in threads

    def _states(self, user_id: str, thread_key: str) -> Path:
        return self._folders(user_id, thread_key).root.parent / FOLDER

    def _submit(self, thread: ThreadRow, names: list[str], converter: str) -> None:
        self._waiting.mkdir(parents=True, exist_ok=True)
        for name in names:
            self._note(thread.user_id, thread.thread_key, Conversion(name))
            job = {
                "user_id": thread.user_id,
                "thread_key": thread.thread_key,
                "name": name,
                "converter": converter,
                "tries": 0,
            }
            number = f"{time.time_ns():020}-{secrets.token_hex(4)}.json"
            _write(self._waiting / number, job)

    def _read_all(self, thread: ThreadRow) -> dict[str, Conversion]:
        folder = self._states(thread.user_id, thread.thread_key)
        if not folder.is_dir():
            return {}
        found = [_read(path) for path in folder.glob("*.json")]
        return {each["source"]: Conversion(**each) for each in found if each is not None}

    def _claim(self) -> _Claim | None:
        if not self._waiting.is_dir():
            return None
        for path in sorted(self._waiting.glob("[0-9]*.json")):
            try:
                lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            claim = _locked(path, lock)
            if claim is not None:
                return claim
            os.close(lock)
        return None

    def _finish(self, job: dict[str, Any], made: Converted) -> None:
        if made.error:
            self._fail(job, made.error)
            return
        uploads = self._folders(job["user_id"], job["thread_key"]).uploads
        if not uploads.is_dir():
            return  # the thread was deleted meanwhile
        with open_folder(uploads) as folder, Incoming(self._waiting) as file:
            file.write(made.text)
            markdown = file.place(folder, os.path.splitext(job["name"])[0] + ".md")
        self._note(
            job["user_id"], job["thread_key"], Conversion(job["name"], "done", markdown=markdown)
        )

    def _fail(self, job: dict[str, Any], error: str) -> None:
        with contextlib.suppress(OSError):
            conversion = Conversion(job["name"], "failed", error=error)
            self._note(job["user_id"], job["thread_key"], conversion)

    def _note(self, user_id: str, thread_key: str, conversion: Conversion) -> None:
        """Raises FileNotFoundError when the thread is gone: its folder is not made again."""
        folder = self._states(user_id, thread_key)
        folder.mkdir(exist_ok=True)
        _write(folder / _file_of(conversion.source), asdict(replace(conversion, at=time.time())))


@asynccontextmanager
async def converting(gateway: Gateway) -> AsyncGenerator[None]:
    """Carry conversions out while a process is open; what is not done waits for the next."""
    harness = gateway.runtime.harness
    conversions = Conversions(harness.loaded.home, harness.folders)
    gateway.extra[Conversions] = conversions
    task = asyncio.create_task(conversions.run(), name="conversions")
    try:
        yield
    finally:
        task.cancel()
        failed = (await asyncio.gather(task, return_exceptions=True))[0]
        if failed is not None and not isinstance(failed, asyncio.CancelledError):
            logger.error("conversions had stopped", exc_info=failed)


def _open(folders: ThreadFolders, name: str) -> int:
    place = VirtualPaths(folders).resolve(f"{UPLOADS}/{name}")
    with Opener(folders).opened(place) as fd:
        return os.dup(fd)


def _locked(path: Path, lock: int) -> _Claim | None:
    """The claim of a file that nobody else works on; its tries are counted in it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink == 0:
            return None
        job: dict[str, Any] = orjson.loads(os.pread(lock, 1 << 16, 0))
        job = {key: job[key] for key in _KEYS}
        job["tries"] += 1
        _write_to(lock, job)
    except BlockingIOError:
        return None
    except (orjson.JSONDecodeError, KeyError, TypeError):
        path.unlink(missing_ok=True)  # cut off by a kill: nothing can be made of it
        return None
    return _Claim(path, lock, job)


def _file_of(name: str) -> str:
    return f"{name}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None


def _write(path: Path, data: dict[str, Any]) -> None:
    """Replace a file at once."""
    trial = path.with_name(f".{secrets.token_hex(8)}")
    trial.write_bytes(orjson.dumps(data))
    trial.replace(path)


def _write_to(fd: int, data: dict[str, Any]) -> None:
    text = orjson.dumps(data)
    os.pwrite(fd, text, 0)
    os.ftruncate(fd, len(text))
