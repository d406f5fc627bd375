"""Opens the stores alone, and says where the files of users and threads lie."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path

from deerflow.config.load import LoadedConfig
from deerflow.errors import StorageError
from deerflow.runtime.parts import Folders
from deerflow.runtime.runs import remove_thread
from deerflow.sandbox.files import FileTree
from deerflow.sandbox.protocol import ThreadFolders
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.open import database_file, open_storage

MOST_USERS = 1000
"""Users whose paths are remembered; joining them costs as much as a small query."""


@asynccontextmanager
async def open_stores(loaded: LoadedConfig) -> AsyncGenerator[Storage]:
    """The stores alone, for commands that start no run.

    Raises:
        StorageError: home cannot be made or written, the database is damaged or of a newer version.
    """
    try:
        loaded.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The home {loaded.home} cannot be made ({error.strerror}).",
            cure="Set DEER_FLOW_HOME to a folder that can be written.",
        ) from error
    storage = await open_storage(loaded.config.database, loaded.home, loaded.config.stream_bridge)
    try:
        yield storage
    finally:
        await storage.close()


def has_stores(loaded: LoadedConfig) -> bool:
    """Whether this home has a database; asking makes nothing."""
    database = loaded.config.database
    return database.backend != "sqlite" or database_file(database, loaded.home).exists()


def memory_stores() -> Storage:
    """Stores that last as long as the process, for runners that bring their own persistence."""
    return InMemoryStorage()


async def delete_thread(loaded: LoadedConfig, user_id: str, thread_id: str) -> bool:
    """Remove a thread with everything of it; False when there is none.

    Raises:
        ConflictError: a living process executes a run of it.
    """
    async with open_stores(loaded) as storage:
        return await remove_thread(storage, thread_folders(loaded), user_id, thread_id)


def thread_files(folders: ThreadFolders) -> FileTree:
    """The files of a thread by their virtual paths, without a sandbox; no link leads outside."""
    return FileTree(folders)


def user_folder(loaded: LoadedConfig, user_id: str) -> Path:
    """The folder of a user: threads, own skills, custom agents."""
    name = urllib.parse.quote(user_id, safe="").replace(".", "%2E")
    return loaded.home / "users" / name


def thread_folders(loaded: LoadedConfig) -> Folders:
    """Where the files of (user_id, thread_key) lie: `users/{uid}/threads/{key}/user-data`."""
    public = Path(loaded.config.skills.path or loaded.home / "skills") / "public"
    shown = public if public.is_dir() else None

    @lru_cache(MOST_USERS)
    def own(user_id: str) -> tuple[Path, Path]:
        user = user_folder(loaded, user_id)
        return user / "threads", user / "skills"

    def folders(user_id: str, thread_key: str) -> ThreadFolders:
        threads, custom = own(user_id)
        return ThreadFolders(
            threads.joinpath(thread_key, "user-data"),
            shown,
            custom if custom.is_dir() else None,
        )

    return folders
